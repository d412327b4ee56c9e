"""Which outputs count as equal."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

import PIL.Image
import pytest

from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.verification.output_comparison import (
    ComparisonRules,
    Sanitizer,
    compare_outputs,
)

pytestmark = pytest.mark.proves("verify:run")


def stream(text: Any, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def display(**data: Any) -> dict[str, Any]:
    named = {name.replace("_", "/", 1).replace("__", "+"): value for name, value in data.items()}
    return {"output_type": "display_data", "data": named, "metadata": {}}


def result(text: str, count: int = 1) -> dict[str, Any]:
    data = {"text/plain": text}
    return {"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}}


def error(value: str, *frames: str, name: str = "ValueError") -> dict[str, Any]:
    return {"output_type": "error", "ename": name, "evalue": value, "traceback": list(frames)}


def image(
    *pixels: tuple[int, int, int], size: tuple[int, int] = (40, 40), kind: str = "PNG"
) -> str:
    picture = PIL.Image.new("RGB", size, "white")
    for at, colour in enumerate(pixels):
        picture.putpixel((at % size[0], at // size[0]), colour)
    file = io.BytesIO()
    picture.save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


def animation(*colours: str) -> str:
    first, *others = (PIL.Image.new("RGB", (8, 8), colour) for colour in colours)
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=others)
    return base64.b64encode(file.getvalue()).decode()


def _headed(width: int, height: int) -> str:
    """A PNG with only a valid header: its size is known before it is decoded."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    data = b"IDAT" + zlib.compress(b"")
    pixels = struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk + pixels).decode()


LARGE = _headed(10_000, 6_000)


def table(*rows: tuple[object, ...], style: str = "") -> str:
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div><table border='1' id='{style}'>{body}</table></div>"


SAME: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "nothing": ([], []),
    "parts of a stream": ([stream("a"), stream("b\n")], [stream("ab\n")]),
    "lines of a stream": ([stream(["a\n", "b\n"])], [stream("a\nb\n")]),
    "streams in another order": (
        [stream("a"), stream("x", "stderr"), stream("b")],
        [stream("ab"), stream("x", "stderr")],
    ),
    "an address": ([result("<f at 0x7f1234>")], [result("<f at 0x7fabcd>")]),
    "an execution count": ([result("1", 4)], [result("1", 9)]),
    "a file of a cell": (
        [stream("/tmp/ipykernel_12/345.py:1: Warning: w\n", "stderr")],
        [stream("/var/x/ipykernel_99/1.py:1: Warning: w\n", "stderr")],
    ),
    "what a carriage return overwrote": ([stream("10%\r20%")], [stream("20%")]),
    "colours": ([stream("\x1b[31mred\x1b[0m")], [stream("red")]),
    "the id of a styled table": (
        [display(text_html=table((0, 1), style="T_abcde"))],
        [display(text_html=table((0, 1), style="T_12345"))],
    ),
    "the name of an object that is shown as an image": (
        [display(image_png=image(), text_plain="<matplotlib.figure.Figure at 0x7f1234>")],
        [display(image_png=image(), text_plain="<Figure size 640x480 with 1 Axes>")],
    ),
    "the name of an object next to its HTML": (
        [display(text_html="<b>a</b>", text_plain="<IPython.core.display.HTML at 0x7f1234>")],
        [display(text_html="<b>a</b>", text_plain="<IPython.core.display.HTML object>")],
    ),
    "the name of an object on one side": (
        [display(image_png=image())],
        [display(image_png=image(), text_plain="<Figure size 640x480 with 1 Axes>")],
    ),
    "the id of a display": (
        [result("<DisplayHandle display_id=07fc47b2ef652ccb70addeee3eb0981a>")],
        [result("<DisplayHandle display_id=c99f325d80c32bae5c74a1c208532047>")],
    ),
    "white space at the ends of lines of HTML": (
        [display(text_html="<pre> a \n\n  b</pre>")],
        [display(text_html="<pre> a\n \n  b</pre>\n\n")],
    ),
    "the end of LaTeX": ([display(text_latex="$x$")], [display(text_latex="$x$\n")]),
    "a widget": (
        [display(**{"application_vnd.jupyter.widget-view__json": {"model_id": "1"}})],
        [display(**{"application_vnd.jupyter.widget-view__json": {"model_id": "2"}})],
    ),
    "an image": (
        [display(image_png=image())],
        [display(image_png="\n".join([image(kind="PNG"), ""]))],
    ),
    "shades of an image": (
        [display(image_png=image(*[(255, 255, 255)] * 400))],
        [display(image_png=image(*[(250, 250, 250)] * 400))],
    ),
    "the path in an exception": (
        [error("no file /home/ada/data.csv")],
        [error("no file /srv/data.csv")],
    ),
    "another traceback": (
        [error("x", "Cell In[3], line 2\n", "File /a/b.py:10, in f()")],
        [error("x", "Cell In[7], line 4\n", "File /c/b.py:44, in f()")],
    ),
}

UNSEEN = "the images differ; one is animated, too large or damaged, so no pixels are compared"

DIFFERENT: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str]] = {
    "a stream": ([stream("a\n")], [stream("b\n")], "stdout differs"),
    "a stream that is new": ([], [stream("b\n")], "stdout is new"),
    "a stream that is missing": ([stream("w", "stderr")], [], "stderr is missing"),
    "another stream": ([stream("a")], [stream("a", "stderr")], "stdout is missing"),
    "the text next to an image": (
        [display(image_png=image(), text_plain="x**2")],
        [display(image_png=image(), text_plain="x**3")],
        "text/plain differs",
    ),
    "the text next to an image on one side": (
        [display(image_png=image())],
        [display(image_png=image(), text_plain="x**3")],
        "text/plain is new",
    ),
    "the name of an object without an image": (
        [result("<Figure size 640x480>")],
        [result("<Figure size 640x481>")],
        "text/plain differs",
    ),
    "an id of 32 digits": ([result("0" * 32)], [result("1" * 32)], "text/plain differs"),
    "the end of a stream": ([stream("a")], [stream("a\n")], "stdout differs"),
    "an indent in HTML": (
        [display(text_html="<pre>a</pre>")],
        [display(text_html="<pre> a</pre>")],
        "text/html differs",
    ),
    "a space": ([result("a  b")], [result("a b")], "text/plain differs"),
    "a result": ([result("1")], [result("2")], "text/plain differs"),
    "a result that is missing": ([result("1")], [], "text/plain is missing"),
    "a MIME type": (
        [display(text_plain="a", text_html="<b>a</b>")],
        [display(text_plain="a")],
        "text/html is missing",
    ),
    "HTML": (
        [display(text_html="<b>a</b>")],
        [display(text_html="<i>a</i>")],
        "text/html differs",
    ),
    "a cell of a table": (
        [display(text_html=table((0, 1.5), (1, "x")))],
        [display(text_html=table((0, 1.6), (1, "y")))],
        "text/html differs",
    ),
    "a row of a table": (
        [display(text_html=table((0, 1.5)))],
        [display(text_html=table((0, 1.5), (1, 2)))],
        "text/html differs",
    ),
    "JSON": (
        [display(application_json={"a": [1, 2]})],
        [display(application_json={"a": [1, 3]})],
        "application/json differs",
    ),
    "true and one": (
        [display(application_json=True)],
        [display(application_json=1)],
        "application/json differs",
    ),
    "an image": (
        [display(image_png=image())],
        [display(image_png=image(*[(0, 0, 0)] * 160))],
        "image/png: 10% of the pixels differ",
    ),
    "an animated image": (
        [display(image_gif=animation("red", "blue"))],
        [display(image_gif=animation("red", "green"))],
        f"image/gif: {UNSEEN}",
    ),
    "an image that is too large": (
        [display(image_png=image())],
        [display(image_png=LARGE)],
        f"image/png: {UNSEEN}",
    ),
    "the size of an image": (
        [display(image_png=image())],
        [display(image_png=image(size=(40, 41)))],
        "image/png: 40 x 40 pixels are now 40 x 41",
    ),
    "an image that is broken": (
        [display(image_png=image())],
        [display(image_png="AAAA")],
        f"image/png: {UNSEEN}",
    ),
    "an exception": ([error("a")], [error("b")], "the exception differs"),
    "the class of an exception": (
        [error("a")],
        [error("a", name="KeyError")],
        "the exception differs",
    ),
    "an exception in place of a result": ([result("1")], [error("a")], "text/plain is missing"),
}


@pytest.mark.parametrize("name", SAME)
def test_these_outputs_are_the_same(name: str) -> None:
    before, after = SAME[name]
    assert not compare_outputs(before, after, ComparisonRules())
    assert not compare_outputs(after, before, ComparisonRules())


@pytest.mark.parametrize("name", DIFFERENT)
def test_these_outputs_differ(name: str) -> None:
    before, after, message = DIFFERENT[name]
    found = compare_outputs(before, after, ComparisonRules())
    assert found[0].message == message
    assert compare_outputs(after, before, ComparisonRules())


def test_a_difference_has_a_diff_of_what_was_compared() -> None:
    (found,) = compare_outputs(
        [stream("a\nb at 0x12345\n")], [stream("a\nc at 0x99999\n")], ComparisonRules()
    )
    assert found.diff == "@@ -1,2 +1,2 @@\n a\n-b at 0xADDRESS\n+c at 0xADDRESS"


def test_times_are_ignored_on_request_only() -> None:
    before = [stream("2026-01-02 03:04:05 took 12.5 ms ± 3 µs per loop at 10:11:12\n")]
    after = [stream("2027-11-12T13:14:15.123Z took 3 s per loop at 1:02:03\n")]
    assert compare_outputs(before, after, ComparisonRules())
    assert compare_outputs(before, after, ComparisonRules.of(ignore_times=True)) == []


def test_sanitizers_of_nbval_replace_text() -> None:
    text = "[one]\nregex: \\d+ apples\nreplace: APPLES\n\n[two]\nregex: (\\w)at\nreplace: \\1AT\n"
    rules = ComparisonRules.of([text])
    assert rules.text("12 apples, cat") == "APPLES, cAT"
    assert compare_outputs([stream("3 apples")], [stream("4 apples")], rules) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "regex: a\n",
        "regex: (\nreplace: b",
        "regex: a\nreplace: \\1",
    ],
)
def test_an_invalid_sanitizer_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments):
        ComparisonRules.of([text])


def test_a_sanitizer_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tk_ai_extension.verification.output_comparison.SECONDS", 0.05)
    with pytest.raises(InvalidArguments, match="took too long"):
        Sanitizer(r"(a|aa)+$", "").apply("a" * 60 + "b")
