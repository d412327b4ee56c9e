"""HTML as text: what a reader sees of it, in time that grows with its length."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tk_ai_extension.model.htmltext import html_text


@pytest.mark.proves("out:mime")
@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<style>p{}</style><script>evil('<p>')</script><p>a&amp;b</p>", "a&b"),
        (
            "<IMG src='x>y' ALT=\"a > b\"><img alt=chart><img>",
            "[image: a > b][image: chart][image]",
        ),
        ("<h1>Title</h1>a  b\n c<br/>d", "Title\na b c\nd"),
        ("<tr><th>x<th>y</tr>\n<tr><td>1</td><td>2</td></tr>", "x | y\n1 | 2"),
        ("<!-- no <b> --><!DOCTYPE html><?php no ?>yes", "yes"),
        ("1 < 2 & 3 > 2; &lt;b&gt; &#8364; &nosuch; &", "1 < 2 & 3 > 2; <b> € &nosuch; &"),
        ("before <b unclosed", "before <b unclosed"),
        ("a<!-- open", "a"),
        ("<a title='it''s' b=\">c</a>", "c"),
        (f"&#{'9' * 5_000};", f"&#{'9' * 5_000};"),
    ],
)
def test_markup_becomes_what_a_reader_sees(markup: str, text: str) -> None:
    assert html_text(markup) == text


def test_an_empty_row_of_a_table_is_a_line_on_request() -> None:
    rows = ["<tr><td>a</td></tr>", "<tr><td></td></tr>", "<tr></tr>", "<tr><td>b<td>\0</tr>"]
    markup = f"<p>x</p>\n<table>{''.join(rows)}</table>"
    assert html_text(markup, empty_rows=True) == "x\na\n\n\nb | \ufffd"
    assert html_text(markup) == "x\na\nb | \ufffd"


PARTS = [
    "<",
    ">",
    "<a ",
    "</a",
    '="',
    "='",
    "=",
    "<!--",
    "-->",
    "<script>",
    "&#1",
    "&amp",
    "x",
    " ",
]


@given(st.lists(st.sampled_from(PARTS)).map("".join) | st.text())
def test_no_markup_breaks_it(markup: str) -> None:
    assert "\n\n" not in html_text(markup)


@pytest.mark.parametrize(
    "part",
    ["<a ", '<a b="', "<a b='\" ", "</a ", "<", "<!--", "<script>", "<img alt ", "&#1", "<a ="],
)
def test_a_megabyte_of_any_markup_takes_a_moment(part: str) -> None:
    started = time.thread_time()
    html_text(part * (1_000_000 // len(part)))
    assert time.thread_time() - started < 5
