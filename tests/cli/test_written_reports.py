"""A report is written as a whole, wherever its path leads; and a server is started until it is reached."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tk_ai_extension.cli import connecting, launch
from tk_ai_extension.cli.client import write_file
from tk_ai_extension.cli.connecting import NoAnswer, Refused, start_server
from tk_ai_extension.cli.project import Project


def busy(*_: Any, **__: Any) -> None:
    raise OSError(16, "Device or resource busy")


@pytest.mark.skipif(os.name == "nt", reason="a pipe with a name")
def test_a_report_is_written_to_a_pipe_that_has_a_name() -> None:
    reading, writing = os.pipe()
    read: list[bytes] = []

    def read_all() -> None:
        with os.fdopen(reading, "rb") as pipe:
            read.append(pipe.read())

    reader = threading.Thread(target=read_all)
    reader.start()
    write_file(f"/dev/fd/{writing}", "report")
    os.close(writing)
    reader.join()
    assert read == [b"report"]


@pytest.mark.parametrize("way", ["new", "replaced", "linked", "hard link", "folder", "mount"])
def test_a_report_is_whole_and_leaves_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    report, path = tmp_path / "report.xml", tmp_path / "report.xml"
    names = {"report.xml"}
    if way != "new":
        report.write_text("a longer report than the new one")
        report.chmod(0o640)
    if way == "linked":
        path = tmp_path / "link.xml"
        path.symlink_to(report)
    if way == "hard link":
        path = tmp_path / "link.xml"
        path.hardlink_to(report)
    if way == "folder":
        monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    if way == "mount":
        monkeypatch.setattr(os, "replace", busy)
        monkeypatch.setattr(os, "rename", busy)
    write_file(str(path), "report\r\n")
    assert report.read_bytes() == path.read_bytes() == b"report\r\n"
    assert path.is_symlink() is (way == "linked")
    assert way == "new" or report.stat().st_mode & 0o777 == 0o640
    assert {each.name for each in tmp_path.iterdir()} == names | {path.name}


def test_a_full_disk_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "report.xml"
    report.write_text("old")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        write_file(str(report), "new")
    assert report.read_text() == "old"


@pytest.mark.parametrize("stops", [0, 1, 2, 3])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_server_that_stops_before_it_is_reached_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: int, *, is_known: bool
) -> None:
    started: list[Project] = []

    class Server:
        def open(self, _: str) -> str:
            if len(started) <= stops:
                raise NoAnswer("It has ended.")
            return "stream"

    monkeypatch.setattr(launch, "launch", started.append)
    monkeypatch.setattr(connecting, "CommandConnection", lambda stream, own: (stream, own))
    monkeypatch.setattr(
        connecting, "own_server", lambda _: Server() if is_known or len(started) > stops else None
    )
    project = Project(str(tmp_path))
    if stops < connecting.STARTS:
        assert start_server(project, "x") == ("stream", True)
        assert len(started) == stops + 1
    else:
        with pytest.raises(Refused, match=r"host\.log"):
            start_server(project, "x")
        assert len(started) == connecting.STARTS
