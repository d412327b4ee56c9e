"""Compare the stored outputs of a cell with new ones."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

import regex

from tk_ai_extension.kernels.output_collector import TerminalText
from tk_ai_extension.model.diffs import unified
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_changes import bundle_of, stream_text
from tk_ai_extension.model.output_text import cut, is_only_name, sanitise

SECONDS = 5.0
"""Maximum seconds of one replacement: patterns come from other people's files."""
MAX_DIFF_LINES = 100
"""Maximum lines of the diff of one output."""
MAX_LINE = 200
"""Maximum characters of one line of a diff, and of a MIME type."""
MAX_PIXELS = 50_000_000
"""Maximum pixels of an image that is decoded."""
VISIBLE = 24
"""Difference in one channel, of 255, from which a pixel counts as different."""
TOLERANCE = 0.001
"""Share of an image's pixels that may differ visibly."""

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp")
WIDGET = "application/vnd.jupyter.widget-view+json"
"""The MIME type that names an object of a kernel; only its presence is compared."""
_MARKUP = ("text/html", "image/svg+xml", "application/javascript")
_FOLDERS = re.compile(r"""(?:[A-Za-z]:)?(?:[\\/][^\s\\/'":<>|]+)+[\\/]([^\s\\/'":<>|]+)""")
_PAIR = re.compile(r"^regex:[ ]?(.*)\n^replace:[ ]?(.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Sanitizer:
    r"""A pattern and its replacement, in the syntax of ``re.sub``.

    >>> Sanitizer(r"\d+ ms", "TIME").apply("took 12 ms")
    'took TIME'
    """

    pattern: str
    replacement: str

    def apply(self, text: str) -> str:
        """Return the text with all matches replaced.

        Raises:
            InvalidArguments: The pattern or the replacement is invalid, or it took too long.
        """
        try:
            return regex.sub(self.pattern, self.replacement, text, timeout=SECONDS, concurrent=True)
        except (regex.error, IndexError, TimeoutError) as error:
            is_slow = isinstance(error, TimeoutError)
            problem = "took too long" if is_slow else f"is not valid: {error}"
            raise InvalidArguments(f"The sanitizer `{self.pattern}` {problem}.") from None


ADDRESSES: Final = Sanitizer(r"\b0x[0-9a-fA-F]{4,}\b", "0xADDRESS")
"""Addresses in memory, as in ``<object at 0x7f0c2a10>``."""

_ALWAYS: Final = (
    ADDRESSES,
    # The files that ipykernel and IPython name for a cell.
    Sanitizer(r"""[^\s'"<>]*ipykernel_\d+[/\\]\d+\.py(?::\d+)?""", "CELL"),
    Sanitizer(r"<ipython-input-\d+-[0-9a-f]+>", "CELL"),
    Sanitizer(r"\bdisplay_id=[0-9a-f]{32}\b", "display_id=ID"),
)
_IDS: Final = (
    Sanitizer(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", "ID"),
    Sanitizer(r"\b[0-9a-f]{32}\b", "ID"),
    # Tables of pandas' Styler, and dates and ids in SVG files of Matplotlib.
    Sanitizer(r"\bT_[0-9a-f]{5}", "T_ID"),
    Sanitizer(r"<dc:date>[^<]*</dc:date>", ""),
    Sanitizer(r"""(?<=id="|href="#|url\(#)[mp][0-9a-f]{10}""", "ID"),
)
_DIGITS = r"\d+(?:\.\d+)?(?:e[-+]?\d+)?"
_UNIT = r"(?:ns|us|µs|μs|ms|s|sec(?:onds?)?|min(?:utes?)?|h(?:ours?)?)\b"
_TIMES: Final = (
    Sanitizer(
        r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "DATE"
    ),
    Sanitizer(r"\b\d\d?:\d\d:\d\d(?:[.,]\d+)?\b", "TIME"),
    Sanitizer(rf"\b{_DIGITS} ?{_UNIT}(?: ?(?:±|\+-) ?{_DIGITS} ?{_UNIT})?", "DURATION"),
)


@dataclass(frozen=True, slots=True)
class ComparisonRules:
    """Rules of a comparison.

    Attributes:
        sanitizers: Replacements of the caller, applied before the built-in ones.
        lax: Whether only cells that ask for it are compared (``nbval-check-output``).
    """

    sanitizers: tuple[Sanitizer, ...] = ()
    lax: bool = False

    @classmethod
    def of(
        cls, files: Iterable[str] = (), *, ignore_times: bool = False, lax: bool = False
    ) -> ComparisonRules:
        r"""Return the rules of the options of `nb verify`.

        >>> ComparisonRules.of(["[dates]\nregex: \\d{4}-\\d\\d\nreplace: MONTH\n"]).text("in 2026-01")
        'in MONTH'

        Args:
            files: Texts of files in nbval's format: sections with ``regex`` and ``replace``.
            ignore_times: Whether dates, times of day and durations are ignored.
            lax: See the attribute.

        Raises:
            InvalidArguments: A file has no sanitizer, or a pattern is invalid.
        """
        sanitizers = [each for text in files for each in _sanitizers_in(text)]
        return cls((*sanitizers, *(_TIMES if ignore_times else ())), lax)

    def text(self, text: str, *, ids: bool = False) -> str:
        """Return a text in the form that is compared; with ``ids``, generated ids are replaced as well."""
        for sanitizer in (*self.sanitizers, *_ALWAYS, *(_IDS if ids else ())):
            text = sanitizer.apply(text)
        return text


def _sanitizers_in(text: str) -> Iterator[Sanitizer]:
    found = _PAIR.findall(text.replace("\r\n", "\n"))
    if not found:
        raise InvalidArguments(
            "A file of sanitizers has none.",
            hint="Each one is a line `regex: PATTERN`, followed by a line `replace: TEXT`.",
        )
    for pattern, replacement in found:
        # The replacement is parsed at the first match.
        Sanitizer(f"(?:{pattern})|", replacement).apply("")
        yield Sanitizer(pattern, replacement)


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """One output that differs.

    Attributes:
        message: The kind of difference, in one line.
        diff: A unified diff without its header, shortened; empty where there are no texts.
    """

    message: str
    diff: str = ""


def compare_outputs(
    stored: Sequence[Json], new: Sequence[Json], rules: ComparisonRules
) -> list[OutputDifference]:
    r"""Return the differences between the stored and the new outputs of a cell.

    The parts of a stream are joined, wherever other outputs stand between them; displays and errors are
    compared in order. Execution counts and metadata are ignored.

    >>> before = [{"output_type": "stream", "name": "stdout", "text": "a at 0x7f3200\n"}]
    >>> after = [{"output_type": "stream", "name": "stdout", "text": "a at 0x7f9900\n"}]
    >>> compare_outputs(before, after, ComparisonRules())
    []

    Args:
        stored: The outputs in the notebook, as nbformat dicts.
        new: The outputs of the new run.
        rules: The differences to ignore.
    """
    found: list[OutputDifference] = []
    streams = _streams(stored), _streams(new)
    for name in dict.fromkeys((*streams[0], *streams[1])):
        found += _texts(name, *(rules.text(each.get(name, "")) for each in streams))
    for before, after in zip_longest(displays(stored), displays(new), fillvalue={}):
        found += _bundles(bundle_of(before), bundle_of(after), rules)
        found += _texts("the exception", *(_exception(each, rules) for each in (before, after)))
    return found


def _streams(outputs: Sequence[Json]) -> dict[str, str]:
    """Return the text of each stream as a terminal shows it."""
    screens: dict[str, TerminalText] = {}
    for output in outputs:
        if output.get("output_type") == "stream":
            name = str(output.get("name", "stdout"))
            screens.setdefault(name, TerminalText()).write(stream_text(output))
    return {name: sanitise(screen.value) for name, screen in screens.items()}


def displays(outputs: Sequence[Json]) -> list[Json]:
    """Return the displays, results and exceptions among the outputs."""
    return [output for output in outputs if output.get("output_type") != "stream"]


def is_error(output: Json) -> bool:
    """Return whether an output is an exception."""
    return output.get("output_type") == "error"


def error_line(output: Json) -> str:
    """Return the name and the message of an exception."""
    return f"{output.get('ename', '')}: {sanitise(str(output.get('evalue', '')))}"


def _texts(what: str, stored: str | None, new: str | None) -> Iterator[OutputDifference]:
    """Yield the difference of two texts; an empty one, or None, means no output."""
    if stored == new:
        return
    how = "is new" if not stored else "is missing" if not new else "differs"
    before, after = (stored or "").splitlines(), (new or "").splitlines()
    lines = [cut(line, MAX_LINE) for line in unified(before, after)]
    if before == after:
        lines = ["(only the end of the last line differs)"]
    if more := len(lines) - MAX_DIFF_LINES:
        lines[MAX_DIFF_LINES:] = [f"[{more} more lines]"] if more > 0 else []
    yield OutputDifference(f"{cut(what, MAX_LINE)} {how}", "\n".join(lines))


def _exception(output: Json, rules: ComparisonRules) -> str | None:
    """Return the line of an exception without folders and execution counts; None for a display."""
    if not is_error(output):
        return None
    line = _FOLDERS.sub(r"\1", rules.text(error_line(output)))
    return re.sub(r"\bCell In\[\d+\]", "Cell", line)


def _bundles(stored: Json, new: Json, rules: ComparisonRules) -> Iterator[OutputDifference]:
    both = {mime for mime in stored if mime in new}
    # Next to a picture or HTML, a text may only be the name of an object.
    names = [_joined(each["text/plain"]) for each in (stored, new) if "text/plain" in each]
    is_shown = WIDGET in both or (bool(both - {"text/plain"}) and all(map(is_only_name, names)))
    for mime in sorted({**stored, **new}, key=lambda each: (each == "text/plain", each)):
        if (mime == "text/plain" and is_shown) or (mime == WIDGET and WIDGET in both):
            continue
        if mime in both:
            yield from _values(mime, stored[mime], new[mime], rules)
        else:
            texts = (_one_sided(mime, each) for each in (stored, new))
            yield from _texts(mime, *texts)


def _one_sided(mime: str, bundle: Json) -> str | None:
    """Return the text for a MIME type that the other bundle lacks."""
    if mime not in bundle:
        return None
    return f"[{mime}]" if mime in IMAGES else sanitise(_joined(bundle[mime])) or mime


def _values(mime: str, stored: Any, new: Any, rules: ComparisonRules) -> Iterator[OutputDifference]:
    """Yield the difference of two values of one MIME type."""
    if mime in IMAGES:
        before, after = ("".join(_joined(each).split()) for each in (stored, new))
        if before != after and (how := _image_difference(before, after)):
            yield OutputDifference(f"{mime}: {how}")
        return
    is_json = mime == "application/json" or mime.endswith("+json")
    # A display's JSON has generated ids, as its HTML has.
    ids = mime.startswith("application/vnd.") if is_json else mime in _MARKUP
    texts = [
        rules.text(
            json.dumps(each, indent=1, sort_keys=True) if is_json else sanitise(_joined(each)),
            ids=ids,
        )
        for each in (stored, new)
    ]
    if mime in (*_MARKUP, "text/latex"):
        # White space at the end of a line is invisible.
        texts = ["\n".join(map(str.rstrip, each.splitlines())).rstrip() for each in texts]
    yield from _texts(mime, *texts)


def _joined(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _image_difference(stored: str, new: str) -> str:
    """Return how two images in base64 differ; empty if they are the same within the tolerance."""
    from PIL import ImageChops  # Imported late: most notebooks need no decoding.

    first, second = _decoded(stored), _decoded(new)
    if first is None or second is None:
        return "the images differ; one is animated, too large or damaged, so no pixels are compared"
    if first.size != second.size:
        sizes = [f"{each.size[0]} x {each.size[1]}" for each in (first, second)]
        return f"{sizes[0]} pixels are now {sizes[1]}"
    channels = ImageChops.difference(first, second).split()
    largest = channels[0]
    for channel in channels[1:]:
        largest = ImageChops.lighter(largest, channel)
    share = sum(largest.histogram()[VISIBLE:]) / (first.size[0] * first.size[1])
    return "" if share <= TOLERANCE else f"{100 * share:.2g}% of the pixels differ"


def _decoded(data: str) -> Any:
    """Return an image in base64; None for one without pixels to compare."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(base64.b64decode(data))) as picture:
            is_large = picture.size[0] * picture.size[1] > MAX_PIXELS
            if is_large or getattr(picture, "is_animated", False):
                return None
            return picture.convert("RGBA")
    except (Image.DecompressionBombError, ValueError, OSError, SyntaxError):
        return None
