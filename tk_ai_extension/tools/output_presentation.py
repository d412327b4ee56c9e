"""Outputs in an answer: text within a budget, an artifact that holds the whole, pictures scaled down."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tk_ai_extension.model.cells import Json
from tk_ai_extension.model.digest import Digest, digest, shorten
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.outputs import summarise
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.results import Image


@dataclass(frozen=True, slots=True)
class Presented:
    """Outputs as an answer shows them.

    Attributes:
        text: Within the budget.
        artifact: Where the whole text is, if `text` is not the whole.
        images: For a model that sees.
        data: The values of ``application/json`` outputs that fit the budget.
        placeholders: The lines of a whole `text`, from 0, that stand for a picture, a value of
            `data`, or the whole traceback.
        total_lines: Lines of the whole, if `text` is not the whole.
    """

    text: str
    artifact: str | None = None
    images: tuple[Image, ...] = ()
    data: tuple[Any, ...] = ()
    placeholders: tuple[int, ...] = ()
    total_lines: int | None = None


SMALL = 200_000
"""Characters of outputs that are digested at once; more are in a thread, which lets the loop go on."""


async def digested(outputs: Sequence[Json]) -> Digest:
    """What `digest` makes of outputs, without holding the event loop."""
    if summarise(outputs).size <= SMALL:
        return digest(outputs)
    return await asyncio.to_thread(digest, outputs)


async def present(
    context: ToolContext, outputs: Sequence[Json], *, budget: int | None = None
) -> Presented:
    """The text of outputs within a budget of characters (the workspace's own by default)."""
    limit = context.workspace.limits.answer_budget if budget is None else budget
    found = await digested(outputs)
    images = await for_model(found.images)
    data = tuple(value for value in found.data if len(json.dumps(value)) <= limit)
    # A value that is left out is to be read in the text.
    lines = tuple(found.placeholders) if len(data) == len(found.data) else ()
    whole = found.hidden or found.text
    if len(found.text) <= limit and found.hidden is None:
        return Presented(found.text, None, images, data, lines)
    try:
        artifact = await context.workspace.artifacts.write(context.caller.user, whole)
    except ToolError as error:
        # The code has run: its answer must not be lost because the whole of it is not kept.
        short = shorten(found.text, limit, pointer=f"; the whole is not kept: {error.message}")
        return Presented(short.text, None, images, data, total_lines=short.total_lines)
    short = shorten(found.text, limit, pointer=f"; read_output {artifact.id}")
    text = short.text
    if found.hidden is not None and not short.truncated:
        text = f"{text}\n[whole traceback: read_output {artifact.id}]"
        lines = (*lines, text.count("\n"))
    lines = () if short.truncated else lines
    return Presented(text, artifact.id, images, data, lines, whole.count("\n") + 1)


MAX_SIDE = 1_568
"""Pixels; larger pictures are scaled down by the model's side anyway, at the caller's cost."""
MAX_IMAGES = 20


async def for_model(images: Iterable[tuple[str, str]]) -> tuple[Image, ...]:
    """(MIME type, base64 data) pairs as pictures of at most `MAX_SIDE` pixels a side.

    What cannot be read as a picture is left out; scaling runs in a thread.
    """
    chosen = list(images)[-MAX_IMAGES:]
    if not chosen:
        return ()
    scaled = await asyncio.to_thread(lambda: [_scaled(mime, data) for mime, data in chosen])
    return tuple(image for image in scaled if image is not None)


def _scaled(mime: str, data: str) -> Image | None:
    import PIL.Image  # late: most answers have no picture

    try:
        raw = base64.b64decode(data)
        with PIL.Image.open(io.BytesIO(raw)) as picture:
            if max(picture.size) <= MAX_SIDE:
                return Image(data, mime)
            picture.thumbnail((MAX_SIDE, MAX_SIDE))
            buffer = io.BytesIO()
            picture.save(buffer, "PNG" if mime == "image/png" else "JPEG")
    except (binascii.Error, ValueError, OSError, PIL.Image.DecompressionBombError):
        return None
    return Image(base64.b64encode(buffer.getvalue()).decode("ascii"), mime)
