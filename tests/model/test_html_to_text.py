"""HTML as text: what a reader sees of it, in time that grows with its length."""

import time

import pytest

from tk_ai_extension.model.html_to_text import html_text


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


@pytest.mark.parametrize(
    "part",
    ["<a ", '<a b="', "<a b='\" ", "</a ", "<", "<!--", "<script>", "<img alt ", "&#1", "<a ="],
)
def test_a_megabyte_of_any_markup_takes_a_moment(part: str) -> None:
    started = time.thread_time()
    html_text(part * (1_000_000 // len(part)))
    assert time.thread_time() - started < 5
