"""Images in a terminal that supports them; elsewhere a line of text."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from tk_ai_extension.cli.terminal import TerminalInfo
from tk_ai_extension.tools.context import Image

CHUNK = 4096
"""Maximum characters of base64 in one escape sequence of kitty's graphics protocol."""


def picture(image: Image, terminal: TerminalInfo) -> str:
    """Return what to print for an image: escape sequences of kitty or iTerm2, else a line of text."""
    try:
        picture = base64.b64decode(image.data)
    except ValueError:
        return f"[{image.mime}, not readable]\n"
    # Encode again: base64 from a notebook could contain the end of the sequence and inject escapes.
    data = base64.b64encode(picture).decode()
    if terminal.tty and image.mime == "image/png" and _is_kitty(terminal.env):
        return _kitty(data)
    if terminal.tty and _is_iterm(terminal.env):
        return f"\x1b]1337;File=inline=1;preserveAspectRatio=1:{data}\a\n"
    return f"[{image.mime}, {len(picture):,} bytes]\n"


def _is_kitty(env: Mapping[str, str]) -> bool:
    program = env.get("TERM_PROGRAM", "").lower()
    return "TMUX" not in env and ("KITTY_WINDOW_ID" in env or program in ("ghostty", "wezterm"))


def _is_iterm(env: Mapping[str, str]) -> bool:
    return "TMUX" not in env and env.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm", "vscode")


def _kitty(data: str) -> str:
    parts = [data[i : i + CHUNK] for i in range(0, len(data), CHUNK)]
    sequences: list[str] = []
    for number, part in enumerate(parts):
        more = int(number < len(parts) - 1)
        keys = f"a=T,f=100,m={more}" if number == 0 else f"m={more}"
        sequences.append(f"\x1b_G{keys};{part}\x1b\\")
    return "".join(sequences) + "\n"
