"""What looks like a number in texts of others is read as one, or is none: nothing fails at a digit."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tk_ai_extension
from tk_ai_extension.cli import connecting
from tk_ai_extension.kernels.base_connection import SequenceGapDetector
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.notebooks.tabs.protocol import TabRefused
from tk_ai_extension.notebooks.tabs.registry import refusal

_LIKE_NUMBERS = st.text(
    st.sampled_from("0123456789²³¹½①٣-+_. ") | st.characters(categories=["N"]),
    max_size=12,
) | st.integers(0, 10**6).map(lambda size: "1" * (size % 6_000))


def test_no_digit_is_taken_for_a_number_that_int_refuses() -> None:
    """`str.isdigit` and `str.isnumeric` are true for ``²``, which `int` does not read."""
    package = Path(tk_ai_extension.__file__).parent
    wrong = re.compile(r"\.is(digit|numeric)\(")
    found = [
        f"{file.relative_to(package)}: {line.strip()}"
        for file in sorted(package.rglob("*.py"))
        for line in file.read_text("utf-8").splitlines()
        if wrong.search(line)
    ]
    assert found == [], "use str.isdecimal, and a limit of the length"


@given(_LIKE_NUMBERS)
@example("²")
@example("9" * 5_000)
def test_an_error_of_a_tab_with_any_number_is_typed(number: str) -> None:
    error = refusal(TabRefused("save_failed", f"[Errno {number}] Why"), "n.ipynb")
    assert isinstance(error, ToolError)
    assert "n.ipynb" in error.message


def test_an_error_number_of_a_tab_is_understood() -> None:
    error = refusal(TabRefused("save_failed", "[Errno 28] No space left on device"), "n.ipynb")
    assert error.code == "disk_full"


@given(_LIKE_NUMBERS, _LIKE_NUMBERS)
@example("²", "0")
@example("200", "²")
@example("9" * 5_000, "9" * 5_000)
def test_a_response_head_is_read_or_is_no_http(status: str, length: str) -> None:
    head = f"HTTP/1.1 {status} OK\r\nContent-Length: {length}\r\n\r\n"
    here, there = socket.socketpair()
    with here, there:
        here.sendall(head.encode("latin-1", "replace"))
        here.shutdown(socket.SHUT_WR)
        with suppress(OSError):  # It is not HTTP.
            found, body, headers = connecting._head(there)
            assert found >= 0
            assert connecting._message(there, body, headers) == ""


@given(_LIKE_NUMBERS)
@example("²")
@example("9" * 5_000)
def test_a_message_with_any_number_in_its_id_is_counted_or_not(number: str) -> None:
    counted = SequenceGapDetector().count(f"s_1_{number}", begins_request=True)
    assert counted is None or len(number.rpartition("_")[2]) <= 18


@pytest.mark.parametrize("pid", ["²", "9" * 200, "12"])
def test_a_server_with_any_number_in_its_file_is_found(tmp_path: Path, pid: str) -> None:
    entry = '{"root_dir": "/", "url": "http://localhost:1/", "token": ""}'
    (tmp_path / f"jpserver-{pid}.json").write_text(entry)
    (server,) = connecting.running_servers(str(tmp_path))
    assert server.pid == (12 if pid == "12" else 0)
