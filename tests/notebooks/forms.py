"""Notebook files in every form that people's programs write."""

from __future__ import annotations

import json

from tests.support.document_bench import code, display, notebook, prose, stream, written
from tk_ai_extension.model.json_values import Json

PLAIN = notebook(
    code(
        "import os\nprint('ü')\n",
        "aaaa1111",
        execution_count=1,
        outputs=[
            {**stream(""), "text": ["ü\n", "\x1b[31mred\x1b[0m\n"]},
            display(text_plain=["<Figure>"], image_png="iVBORw0KGgo=\n"),
        ],
        metadata={"tags": ["keep"], "unknown": {"deep": [1, 2.50, None, True]}},
    ),
    prose("# Title\n\ntext", "bbbb2222", attachments={"a.png": {"image/png": "aGk="}}),
    code("", "cccc3333"),
    {"cell_type": "raw", "id": "dddd4444", "metadata": {}, "source": ["raw"]},
)


def _as_strings(stored: Json) -> Json:
    cells = [{**cell, "source": "".join(cell["source"])} for cell in stored["cells"]]
    return {**stored, "cells": cells}


def _dumped(stored: Json, **how: object) -> bytes:
    return json.dumps(stored, **{"ensure_ascii": False, **how}).encode()  # pyrefly: ignore[bad-argument-type]


def forms() -> dict[str, bytes]:
    """Files by the name of what is particular about them; each has four cells, or none."""
    plain = written(PLAIN)
    reversed_keys = {
        **{key: PLAIN[key] for key in reversed(list(PLAIN))},
        "cells": [dict(reversed(list(cell.items()))) for cell in PLAIN["cells"]],
    }
    return {
        "as nbformat writes it": plain,
        "no newline at the end": plain.rstrip(),
        "blank lines at both ends": b"\n \n" + plain + b"\n\n",
        "carriage returns": plain.replace(b"\n", b"\r\n"),
        "tabs": _dumped(PLAIN, indent="\t"),
        "four spaces": _dumped(PLAIN, indent=4) + b"\n",
        "one line": _dumped(PLAIN),
        "one line without spaces": _dumped(PLAIN, separators=(",", ":")),
        "escaped text": _dumped(PLAIN, indent=1, ensure_ascii=True),
        "sources as strings": written(_as_strings(PLAIN)),
        "keys in another order": _dumped(reversed_keys, indent=2),
        "sources on one line": plain.replace(
            b'"source": [\n    "# Title\\n",\n    "\\n",\n    "text"\n   ]',
            b'"source": ["# Title\\n", "\\n", "text"]',
        ),
        "odd white space": plain.replace(b'"cells": [\n', b'"cells"  :\t[ \n\n').replace(
            b"\n  },\n", b"\n  }\n ,  "
        ),
        "keys twice": plain.replace(b'"id": "aaaa1111"', b'"id": "x", "id": "aaaa1111"').replace(
            b'"source": [\n    "raw"', b'"source": ["old"], "source": [\n    "raw"'
        ),
        "half surrogate pairs": plain.replace(b'"tags"', b'"half": "\\ud83d", "tags"').replace(
            b'"# Title', b'"\\ude00 # Title'
        ),
        "numbers as written": plain.replace(b"2.5", b"2.500e0").replace(
            b"true", b"12345678901234567890123"
        ),
        "no numbers": plain.replace(b"true", b"NaN"),
        "nbformat 4.0": written(
            {
                **PLAIN,
                "nbformat_minor": 0,
                "cells": [{k: v for k, v in c.items() if k != "id"} for c in PLAIN["cells"]],
            }
        ),
        "a version to come": written({**PLAIN, "nbformat_minor": 99, "extra": {"a": 1}}),
        "empty": written(notebook()),
        "empty on one line": _dumped(notebook()),
        "empty with a blank": written(notebook()).replace(b'"cells": []', b'"cells": [ ]'),
    }
