"""Compare the stored outputs of a cell with new ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, Literal, NamedTuple, cast

from tk_ai_extension.kernels.terminal import TerminalText
from tk_ai_extension.model.diffs import unified
from tk_ai_extension.model.digest import cut, is_only_name, sanitise
from tk_ai_extension.model.htmltext import html_text
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import bundle_of, stream_text, traceback_of
from tk_ai_extension.verification.rules import Rules
from tk_ai_extension.verification.values import (
    image_difference,
    json_differences,
    table_differences,
)

Kind = Literal["text", "table", "data", "image", "error", "missing", "new", "more"]

MAX_LISTED = 20
"""Maximum values of one output that are named."""
MAX_DIFFERENCES = 100
"""Maximum outputs of one cell that are named; the others are counted."""
MAX_DIFF = 1_000_000
"""Maximum characters of the diffs of one cell."""
MAX_LINE = 2_000
"""Maximum characters of one line of a diff."""
MAX_NAME = 100
"""Maximum characters of a MIME type or of a stream's name."""

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
VIEWS = ("application/vnd.jupyter.widget-view+json",)
"""Outputs that name objects of a kernel; only their presence is compared."""
_MARKUP = ("text/html", "image/svg+xml", "application/javascript")
_SOURCES = (*_MARKUP, "text/latex")
"""Types in which white space at the end of a line is invisible."""
_TABLE = re.compile(r"<table\b", re.IGNORECASE)
_NO_TEXT = re.compile(
    r"<(?:script|img|svg|canvas|iframe|object|embed|video|audio|input|math)\b", re.IGNORECASE
)
"""Elements with content that the text of a table lacks."""
_FRAME = re.compile(r"^Cell In\[\d+\], line (\d+)", re.MULTILINE)
_PLACES = (
    re.compile(r"""(?:[A-Za-z]:)?(?:[\\/][^\s\\/'":<>|]+)+[\\/]([^\s\\/'":<>|]+)"""),
    re.compile(r"\bCell In\[\d+\]"),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One output that differs, or the number of further ones, which are not named.

    Attributes:
        kind: What was compared; ``more`` for further outputs.
        what: The stream, the MIME type, or ``error``.
        message: How it differs, in one line.
        diff: The lines of a unified diff without its header; none where there are no texts.
        left_out: Number of further lines of the diff.
        count: Number of outputs.
    """

    kind: Kind
    what: str
    message: str
    diff: tuple[str, ...] = ()
    left_out: int = 0
    count: int = 1


class _Found(NamedTuple):
    """One output that differs, with its texts."""

    kind: Kind
    what: str
    message: str
    stored: str = ""
    new: str = ""

    def lines(self) -> Iterator[str]:
        if self.kind == "data":
            yield from self.new.splitlines()
        elif self.stored or self.new:
            yield from _diff(self.stored, self.new)

    def rendered(self, room: int) -> Difference:
        """Return it with its diff, which has at most ``room`` characters."""
        lines = self.lines()
        shown: list[str] = []
        left_out = 0
        for line in lines:
            shown.append(cut(line, MAX_LINE))
            room -= len(shown[-1]) + 1
            if room < 0:
                shown.pop()
                left_out = 1 + sum(1 for _ in lines)
                break
        return Difference(self.kind, self.what, self.message, tuple(shown), left_out)


def compare_outputs(
    stored: Sequence[Json], new: Sequence[Json], rules: Rules
) -> tuple[Difference, ...]:
    r"""Return the differences between the stored and the new outputs of a cell.

    The parts of a stream are joined, wherever other outputs stand between them; displays and errors are
    compared in order. Execution counts and metadata are ignored. The last difference counts those beyond
    `MAX_DIFFERENCES`; the texts are dropped, and the diffs bounded.

    >>> before = [{"output_type": "stream", "name": "stdout", "text": "a at 0x7f3200\n"}]
    >>> after = [{"output_type": "stream", "name": "stdout", "text": "a at 0x7f9900\n"}]
    >>> compare_outputs(before, after, Rules())
    ()

    Args:
        stored: The outputs in the notebook, as nbformat dicts.
        new: The outputs of the new run.
        rules: What is ignored.
    """
    differing = _differing(stored, new, rules)
    found: list[Difference] = []
    room = MAX_DIFF
    for each in islice(differing, MAX_DIFFERENCES):
        found.append(each.rendered(room))
        room -= sum(len(line) + 1 for line in found[-1].diff)
    if more := sum(1 for _ in differing):
        found.append(
            Difference(
                "more",
                "",
                (f"{more} more output differs" if more == 1 else f"{more} more outputs differ"),
                count=more,
            )
        )
    return tuple(found)


def _differing(stored: Sequence[Json], new: Sequence[Json], rules: Rules) -> Iterator[_Found]:
    streams = _streams(stored), _streams(new)
    for name in dict.fromkeys((*streams[0], *streams[1])):
        yield from _texts(name, streams[0].get(name, ""), streams[1].get(name, ""), rules)
    for before, after in zip_longest(_displays(stored), _displays(new)):
        yield from _outputs(before, after, rules)


def _streams(outputs: Sequence[Json]) -> dict[str, str]:
    """Return the text of each stream as a terminal shows it."""
    screens: dict[str, TerminalText] = {}
    for output in outputs:
        if output.get("output_type") == "stream":
            name = str(output.get("name", "stdout"))
            screens.setdefault(name, TerminalText()).write(stream_text(output))
    return {name: sanitise(screen.value) for name, screen in screens.items()}


def _displays(outputs: Sequence[Json]) -> list[Json]:
    return [output for output in outputs if output.get("output_type") != "stream"]


def count_displays(outputs: Sequence[Json]) -> int:
    """Return how many displays, results and exceptions there are."""
    return len(_displays(outputs))


def _texts(what: str, stored: str, new: str, rules: Rules) -> Iterator[_Found]:
    before, after = rules.text(stored), rules.text(new)
    if before == after:
        return
    if not before or not after:
        yield _alone(what, before or None, after or None)
        return
    yield _Found("text", what, f"{what[:MAX_NAME]} differs", before, after)


def _alone(what: str, stored: str | None, new: str | None) -> _Found:
    """Return the difference of an output that only one side has."""
    what = what[:MAX_NAME]
    if stored is None:
        return _Found("new", what, f"{what} is new", "", new or "")
    return _Found("missing", what, f"{what} is missing", stored, "")


def _outputs(stored: Json | None, new: Json | None, rules: Rules) -> Iterator[_Found]:
    """Yield the differences of two displays or errors; None where one side has none."""
    if stored is None or new is None:
        output = stored or new or {}
        text = _as_text(output)
        yield _alone(_name(output), None if stored is None else text, None if new is None else text)
    elif is_error(stored) != is_error(new):
        yield _alone(_name(stored), _as_text(stored), None)
        yield _alone(_name(new), None, _as_text(new))
    elif is_error(stored):
        yield from _errors(stored, new, rules)
    else:
        yield from _bundles(bundle_of(stored), bundle_of(new), rules)


def is_error(output: Json) -> bool:
    """Return whether an output is an exception."""
    return output.get("output_type") == "error"


def error_line(output: Json) -> str:
    """Return the name and the message of an exception."""
    return f"{output.get('ename', '')}: {sanitise(str(output.get('evalue', '')))}"


def _name(output: Json) -> str:
    return "error" if is_error(output) else next(iter(_richest_first(bundle_of(output))), "display")


def _richest_first(bundle: Json) -> list[str]:
    return sorted(bundle, key=lambda mime: (mime == "text/plain", mime))


def _as_text(output: Json) -> str:
    if is_error(output):
        return error_line(output)
    bundle = bundle_of(output)
    plain = bundle.get("text/plain", "")
    return sanitise(_joined(plain)) or f"[{', '.join(bundle)}]"


def _errors(stored: Json, new: Json, rules: Rules) -> Iterator[_Found]:
    lines = [_without_places(rules.text(error_line(each))) for each in (stored, new)]
    if lines[0] != lines[1]:
        yield _Found("error", "error", "the exception differs", lines[0], lines[1])
        return
    frames = [_FRAME.findall(sanitise("\n".join(traceback_of(each)))) for each in (stored, new)]
    # Older versions of IPython name the frames in other ways: these are not compared.
    if frames[0] and frames[1] and frames[0] != frames[1]:
        texts = ["\n".join(f"line {line}" for line in each) for each in frames]
        yield _Found("error", "error", "the exception has another place", texts[0], texts[1])


def _without_places(text: str) -> str:
    """Return a text with the folders of paths and the numbers of cells removed."""
    return _PLACES[1].sub("Cell", _PLACES[0].sub(r"\1", text))


def _bundles(stored: Json, new: Json, rules: Rules) -> Iterator[_Found]:
    is_table = False
    for mime in _richest_first({**stored, **new}):
        if mime == "text/plain" and is_table:
            # The same table with other rounding.
            continue
        if mime in VIEWS and mime in stored and mime in new:
            continue
        if mime == "text/plain" and any(view in stored and view in new for view in VIEWS):
            continue
        if mime == "text/plain" and _is_only_named(stored, new):
            continue
        if mime not in stored or mime not in new:
            value = sanitise(_joined(stored.get(mime, new.get(mime))))[:2_000]
            shown = "" if mime in IMAGES else value
            yield _alone(mime, shown if mime in stored else None, shown if mime in new else None)
            continue
        differences = list(_values(mime, stored[mime], new[mime], rules))
        is_table = is_table or (mime == "text/html" and _is_table(stored[mime], new[mime]))
        yield from differences


def _is_only_named(stored: Json, new: Json) -> bool:
    """Whether the text on both sides is the name of an object that they show, as ``<Figure ...>``."""
    texts = [_joined(each["text/plain"]) for each in (stored, new) if "text/plain" in each]
    is_shown = any(mime in new for mime in stored if mime != "text/plain")
    return is_shown and all(map(is_only_name, texts))


def _without_line_ends(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()


def _values(mime: str, stored: Any, new: Any, rules: Rules) -> Iterator[_Found]:
    what = mime[:MAX_NAME]
    if mime in IMAGES:
        pair = ["".join(_joined(each).split()) for each in (stored, new)]
        if (how := image_difference(pair[0], pair[1], rules)) is not None:
            yield _Found("image", what, f"{what}: {how}")
        return
    if mime == "application/json" or mime.endswith("+json"):
        # A display's JSON has generated ids, as its HTML has.
        markup = mime.startswith("application/vnd.")
        differences = json_differences(stored, new, rules, markup=markup)
        found = list(islice(differences, MAX_LISTED + 1))
        if found:
            lines = [line for each in found[:MAX_LISTED] for line in each.lines]
            lines += ["..."] * (len(found) > MAX_LISTED)
            message = f"{what}: {found[0].message}"
            yield _Found("data", what, message, "", "\n".join(lines))
        return
    texts = _joined(stored), _joined(new)
    if mime == "text/html" and _is_table(*texts):
        yield from _tables(texts[0], texts[1], rules)
        return
    markup = mime in _MARKUP
    before, after = (rules.text(sanitise(each), markup=markup) for each in texts)
    if mime in _SOURCES:
        before, after = (_without_line_ends(each) for each in (before, after))
    if before != after:
        yield _Found("text", what, f"{what} differs", before, after)


def _is_table(*values: Any) -> bool:
    texts = [_joined(value) for value in values]
    return all(_TABLE.search(text) and not _NO_TEXT.search(text) for text in texts)


def _tables(stored: str, new: str, rules: Rules) -> Iterator[_Found]:
    texts = (html_text(each, empty_rows=True) for each in (stored, new))
    rows = [rules.text(text).split("\n") for text in texts]
    found = table_differences(rows[0], rows[1], rules)
    if found:
        what, more = "text/html", len(found) - 1
        message = f"{what}: {found[0]} and {more} more" if more else f"{what}: {found[0]}"
        yield _Found("table", "text/html", message, "\n".join(rows[0]), "\n".join(rows[1]))


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(map(str, cast("list[Any]", value)))
    return value if isinstance(value, str) else "" if value is None else str(value)


def _diff(stored: str, new: str) -> Iterator[str]:
    before, after = stored.splitlines(), new.splitlines()
    yield from unified(before, after)
    if before == after and stored != new:
        yield "(only the end of the last line differs)"
