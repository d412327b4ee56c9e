"""Outputs as text for a model: without terminal codes, and shortened with a notice of the omission."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html import unescape
from itertools import groupby
from operator import itemgetter
from typing import Any, cast

from tk_ai_extension.model.html_to_text import html_text
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.output_changes import bundle_of, stream_text, traceback_of

IMAGE_MIMES = ("image/png", "image/jpeg")
_PAGES = ("text/html", "image/svg+xml")
STATUS_MIME = re.compile(r"application/x-[\w.+-]*status\Z")

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
MAX_DEPTH = 100
"""Maximum nesting of a JSON output that is kept as JSON: the reader's parser has a limit too."""
_CODE_OR_REFERENCE = re.compile(r"(?<!`)(`++)[^`\n]++\1|&(?:lt|gt|amp|quot|nbsp|#39);")
_PIECE = 1 << 18
"""Characters that are cleaned at once: `re` holds the GIL while it runs."""
_LONGEST_ESCAPE = 1_000
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f\ud800-\udfff]")


def strip_ansi(text: str) -> str:
    """Return the text without ANSI escape sequences."""
    return _ANSI.sub("", text)


def sanitise(text: str) -> str:
    """Return the text without escape sequences, control characters and lone surrogates.

    A long text is processed in pieces, so that other threads can run.
    """
    if len(text) <= _PIECE:
        return _CONTROL.sub("", strip_ansi(text).replace("\r\n", "\n"))
    return "".join(sanitise(piece) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces that end at line ends if possible, and never in an escape sequence."""
    start = 0
    while len(text) - start > _PIECE:
        end = text.rfind("\n", start, start + _PIECE) + 1
        if not end:
            end = start + _PIECE
            escape = text.rfind("\x1b", end - _LONGEST_ESCAPE, end)
            end = escape if escape > start else end - (text[end - 1] == "\r")
        yield text[start:end]
        start = end
    yield text[start:]


@dataclass
class RenderedOutputs:
    """Outputs for a model.

    Attributes:
        text: The texts of all outputs, in order; tracebacks are shortened.
        images: MIME type and base64 data of each image.
        data: The values of ``application/json`` outputs, as strict JSON.
        placeholders: The line numbers in `text`, from 0, that stand for an image or a value of
            `data`.
        events: MIME type and value of each status display.
        hidden: `text` with whole tracebacks; None if nothing was shortened.
    """

    text: str = ""
    images: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    data: list[Any] = field(default_factory=list[Any])
    placeholders: list[int] = field(default_factory=list[int])
    events: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    hidden: str | None = None


def digest(outputs: Iterable[Json]) -> RenderedOutputs:
    r"""Return the texts, images and data of outputs, in order.

    The text of a display is its text/markdown, else text/plain, else its LaTeX, or converted HTML or SVG.
    These come before a text/plain that only names an object, as ``<Figure size 640x480>`` does. An image
    is named by its type, such as ``[image/png]``.

    >>> digest([{"output_type": "stream", "name": "stdout", "text": "1\n2\n"}]).text
    '1\n2'
    """
    result = RenderedOutputs()
    parts: list[str] = []
    whole: list[str] = []
    shortened = False
    line = 0
    for output in outputs:
        is_placeholder = False
        kind = output.get("output_type")
        if kind == "stream":
            text = sanitise(stream_text(output))
            full = text
        elif kind == "error":
            full = error_text(output)
            text = short_traceback(output)
            shortened = shortened or text != full
        else:
            text, is_placeholder = _display(output, result)
            full = text
        if text:
            parts.append(text.rstrip("\n"))
            following = line + parts[-1].count("\n") + 1
            if is_placeholder:
                result.placeholders += range(line, following)
            line = following
            whole.append(full.rstrip("\n"))
    result.text = "\n".join(parts)
    result.hidden = "\n".join(whole) if shortened else None
    return result


def _display(output: Json, result: RenderedOutputs) -> tuple[str, bool]:
    """Return the text of a display, and whether it is a placeholder for an image or a value."""
    data = bundle_of(output)
    image = next((mime for mime in IMAGE_MIMES if mime in data), None)
    if image is not None:
        result.images.append((image, "".join(_joined(data[image]).split())))
    text: str | None = None
    for mime, value in data.items():
        if STATUS_MIME.match(mime):
            result.events.append((mime, _portable(value)))
            return "", False
        if mime == "application/json":
            result.data.append(_portable(value))
            text = sanitise(_json_text(value))
    if "text/markdown" in data:
        return sanitise(_markdown_text(_joined(data["text/markdown"]))), False
    if image is not None:
        return f"[{image}]", True
    if text is not None:
        return text, True
    plain = _joined(data.get("text/plain", ""))
    if "text/plain" in data and not is_only_name(plain):
        return sanitise(plain), False
    others = f"[{', '.join(data)}]" if data else ""
    return sanitise(_rich_text(data) or plain or others), False


def is_only_name(text: str) -> bool:
    """Return whether the text of a display only names the object that it shows: ``<Figure ...>``."""
    text = text.strip()
    return text.startswith("<") and text.endswith(">")


def _rich_text(data: Json) -> str:
    """Return the LaTeX, or the text of HTML or SVG, or the type of an image; empty without these."""
    if "text/latex" in data:
        return _joined(data["text/latex"])
    pages = (html_text(_joined(data[mime])) for mime in _PAGES if mime in data)
    images = (f"[{mime}]" for mime in data if mime.startswith("image/"))
    return next(filter(None, (*pages, *images)), "")


def _markdown_text(markdown: str) -> str:
    """Return Markdown with its character references resolved, except in code."""
    return _CODE_OR_REFERENCE.sub(
        lambda match: unescape(match[0]) if match[0].startswith("&") else match[0], markdown
    )


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(str(part) for part in cast("list[Any]", value))
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "[JSON nested too deeply]"


def _portable(value: Any, depth: int = 0) -> Any:
    """Return a value as strict JSON.

    NaN and infinity become null, lone surrogates become a replacement character, and values that are
    nested deeper than `MAX_DEPTH` become text.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, (dict, list)):
        return value
    if depth == MAX_DEPTH:
        return _portable(_json_text(value))
    below = depth + 1
    if isinstance(value, list):
        return [_portable(item, below) for item in cast("list[Any]", value)]
    return {_portable(key): _portable(item, below) for key, item in cast("Json", value).items()}


def error_text(output: Json) -> str:
    """Return an error output's whole traceback, or its name and value if it has none."""
    lines = [sanitise(line) for line in traceback_of(output)]
    return "\n".join(lines) if lines else _error_line(output)


def _error_line(output: Json) -> str:
    name, value = str(output.get("ename", "Error")), sanitise(str(output.get("evalue", "")))
    return f"{name}: {value}" if value else name


_CELL_FRAME = re.compile(r"(?:Cell In|Input In|In )\s?\[|<ipython-input|Cell \[")
_FRAME = re.compile(r"(?:File |Cell In|Input In|<ipython-input|~|/)|.*---?> ", re.DOTALL)
_HEADING = re.compile(r"([\w.]+?)\s*Traceback \(most recent call last\)\Z")
_RULE = re.compile(r"-{20,}\Z")
CONTEXT = 2
"""Lines shown before and after the line that raised."""


def short_traceback(output: Json) -> str:
    """Return a traceback without frames, except those of cells and the last one of each exception.

    The errors, their notes, and the links between chained exceptions are kept.
    """
    entries = [sanitise(line).strip("\n") for line in traceback_of(output)]
    groups = [
        (is_frame, [entry for _, entry in group])
        for is_frame, group in groupby(_marked(entries), key=itemgetter(0))
    ]
    if len(entries) < 3 or not any(is_frame for is_frame, _ in groups):
        return error_text(output)
    lines = [
        line for is_frame, group in groups for line in (_short_frames(group) if is_frame else group)
    ]
    if groups[-1][0]:
        lines.append(_error_line(output))
    return "\n".join(lines)


def _marked(entries: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Yield the entries of a traceback, without its headings, each with whether it is a frame."""
    name, has_message = "", False
    for entry in entries:
        if heading := _HEADING.match(entry):
            name, has_message = heading[1], False
        elif entry and not _RULE.match(entry):
            # Below an exception's message are its notes, which may look like frames.
            has_message = has_message or entry.partition(":")[0] == name
            yield not has_message and bool(_FRAME.match(entry.strip())), entry


def _short_frames(frames: Sequence[str]) -> list[str]:
    kept = [frame for frame in frames if _CELL_FRAME.match(frame.strip()) or frame is frames[-1]]
    lines = [_short_frame(frame) for frame in kept]
    if left_out := len(frames) - len(kept):
        lines.insert(-1, f"[{left_out} more frames]")
    return lines


def _short_frame(frame: str) -> str:
    lines = frame.strip("\n").split("\n")
    raised = next((i for i, line in enumerate(lines) if re.match(r"\s*-+>\s", line)), None)
    if raised is None:
        return lines[0]
    body = [line for line in lines[max(raised - CONTEXT, 1) : raised + CONTEXT + 1] if line.strip()]
    return "\n".join([lines[0], *body]) if raised > 0 else "\n".join(body)


@dataclass(frozen=True, slots=True)
class ShortenedText:
    """A text that fits a budget.

    Attributes:
        text: The whole text, or its head, a notice of the omission, and its tail.
        truncated: Whether anything is left out.
        total_lines: The number of lines of the whole.
        total_bytes: The UTF-8 bytes of the whole.
    """

    text: str
    truncated: bool
    total_lines: int
    total_bytes: int


def cut(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters, with three dots in place of a cut end."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def shorten(text: str, budget: int, *, pointer: str = "") -> ShortenedText:
    """Shorten a text to its head and tail, cut at line ends if possible.

    Args:
        text: The text.
        budget: Approximate maximum characters.
        pointer: Text for the notice in the middle that says where the whole can be read.
    """
    total_lines = text.count("\n") + (1 if text and not text.endswith("\n") else 0)
    total_bytes = len(text.encode("utf-8", "surrogatepass"))
    if len(text) <= budget:
        return ShortenedText(text, False, total_lines, total_bytes)
    head = _head(text, budget * 3 // 5)
    tail = _tail(text, budget - len(head))
    left_out = len(text) - len(head) - len(tail)
    lines = total_lines - _lines(head) - _lines(tail)
    notice = (
        f"[… {left_out:,} characters, {max(lines, 0):,} lines left out of {total_lines:,}{pointer}]"
    )
    return ShortenedText(
        f"{head.rstrip()}\n{notice}\n{tail.lstrip(chr(10))}", True, total_lines, total_bytes
    )


def _lines(text: str) -> int:
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def _head(text: str, size: int) -> str:
    cut = text[:size]
    end = cut.rfind("\n")
    return cut[: end + 1] if end > size // 2 else cut


def _tail(text: str, size: int) -> str:
    cut = text[-size:] if size > 0 else ""
    start = cut.find("\n")
    return cut[start + 1 :] if 0 <= start < size // 2 else cut


def few_lines(text: str, head: int = 6, tail: int = 4, width: int = 200) -> str:
    """Return the first and last lines of a text, each cut to ``width`` characters."""
    lines: Sequence[str] = text.split("\n")
    if len(lines) > head + tail + 1:
        omitted = len(lines) - head - tail
        lines = [*lines[:head], f"[… {omitted:,} more lines]", *lines[-tail:]]
    return "\n".join(
        line if len(line) <= width else f"{line[:width]}[… {len(line) - width:,} more]"
        for line in lines
    )
