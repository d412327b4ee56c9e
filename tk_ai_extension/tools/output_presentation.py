"""Prepare outputs for a result: shortened text, an artifact with the whole, scaled images."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from tk_ai_extension.model.digest import Digest, digest, shorten
from tk_ai_extension.model.errors import ToolError
from tk_ai_extension.model.json_values import Json
from tk_ai_extension.model.outputs import summarise
from tk_ai_extension.tools.context import ToolContext
from tk_ai_extension.tools.results import Image

T = TypeVar("T")


MAX_IMAGES = 20
"""Maximum images of a result."""
MAX_IMAGE_DATA = 900_000
"""Maximum characters of the images of a result in base64: clients refuse messages of some megabytes."""
PIECE = 500
"""Characters that the text of one cell may have although that of many others follows, if they are left."""

BRIEF = 120
"""Characters that each text may have: what stands for a longer one is about as long."""


@dataclass(slots=True)
class Allowance:
    """What the outputs of one result may still take, those of all its cells together.

    Attributes:
        text: Characters of text.
        data: Characters of JSON: values and status displays.
        images: The number of images.
        image_data: Characters of base64: each image may take half of what is left.
    """

    text: int
    data: int
    images: int = MAX_IMAGES
    image_data: int = MAX_IMAGE_DATA

    def share(self, cells: int) -> int:
        """Return the characters that the text of the next of these cells may have."""
        return max(self.text // max(cells, 1), min(PIECE, self.text), BRIEF)

    def fitting(self, values: Sequence[T]) -> list[T]:
        """Return the JSON values that fit, in order, and pay for them."""
        found: list[T] = []
        for value in values:
            if self.data <= 0:
                break
            size = len(json.dumps(value))
            if size <= self.data:
                self.data -= size
                found.append(value)
        return found


@dataclass(frozen=True, slots=True)
class Presented:
    """Outputs as a result shows them.

    Attributes:
        text: The text, within the budget.
        artifact: The id of the artifact with the whole text; None if `text` is the whole.
        images: The images, scaled down.
        data: The values of ``application/json`` outputs that fit the budget.
        left_out: The number of images and values that do not fit.
        placeholders: The line numbers in an unshortened `text`, from 0, that stand for an image, a
            value of `data`, or the whole traceback.
        total_lines: The number of lines of the whole text; None if `text` is the whole.
    """

    text: str
    artifact: str | None = None
    images: tuple[Image, ...] = ()
    data: tuple[Any, ...] = ()
    placeholders: tuple[int, ...] = ()
    total_lines: int | None = None
    left_out: int = 0


SMALL = 200_000
"""Characters of outputs that are digested on the event loop; more are digested in a thread."""


async def digested(outputs: Sequence[Json]) -> Digest:
    """Return the `digest` of outputs without blocking the event loop."""
    if summarise(outputs).size <= SMALL:
        return digest(outputs)
    return await asyncio.to_thread(digest, outputs)


async def present(
    context: ToolContext,
    outputs: Sequence[Json],
    *,
    budget: int | None = None,
    allowance: Allowance | None = None,
) -> Presented:
    """Return outputs as a result shows them.

    Args:
        context: The context of the call.
        outputs: The outputs, in nbformat.
        budget: Maximum characters of the text; None for the workspace's default.
        allowance: What this and the other outputs of the result may take; None if there are no others.
    """
    limit = context.workspace.limits.answer_budget if budget is None else budget
    allowance = Allowance(limit, limit) if allowance is None else allowance
    found = await digested(outputs)
    images, reduced = await _for_model(found.images, allowance)
    data = tuple(await asyncio.to_thread(allowance.fitting, found.data) if found.data else ())
    presented = await _with_text(context, found, limit, images, data)
    if reduced:
        presented = replace(presented, text=f"{presented.text}{await _wholes(context, reduced)}")
    allowance.text = max(allowance.text - len(presented.text), 0)
    return presented


async def _with_text(
    context: ToolContext,
    found: Digest,
    limit: int,
    images: tuple[Image, ...],
    data: tuple[Any, ...],
) -> Presented:
    """Return a digest with its text, of about ``limit`` characters, and an artifact with the whole."""
    # If a value is left out, the model must read it in the text.
    lines = tuple(found.placeholders) if len(data) == len(found.data) else ()
    whole = found.hidden or found.text
    counts = {
        "images": (len(found.images) - len(images), len(found.images)),
        "values of `data`": (len(found.data) - len(data), len(found.data)),
    }
    left_out = sum(missing for missing, _ in counts.values())
    note = "".join(
        f"\n[{missing} of {count} {what} are not shown]"
        for what, (missing, count) in counts.items()
        if missing
    )
    if len(found.text) <= limit and found.hidden is None:
        return Presented(found.text + note, None, images, data, lines, left_out=left_out)
    try:
        artifact = await context.workspace.artifacts.write(context.caller.user, whole)
    except ToolError as error:
        # The code has run: return its result even though the whole output cannot be kept.
        short = shorten(found.text, limit, pointer=f"; the whole was not saved: {error.message}")
        return Presented(
            short.text + note,
            images=images,
            data=data,
            total_lines=short.total_lines,
            left_out=left_out,
        )
    short = shorten(found.text, limit, pointer=f"; read_output {artifact.id}")
    text = short.text
    if found.hidden is not None and not short.truncated:
        text = f"{text}\n[whole traceback: read_output {artifact.id}]"
        lines = (*lines, text.count("\n"))
    lines = () if short.truncated else lines
    return Presented(text + note, artifact.id, images, data, lines, whole.count("\n") + 1, left_out)


MAX_SIDE = 1_568
"""Maximum pixels of an image's side. The model's API would scale larger images down anyway."""


async def _for_model(
    images: Sequence[tuple[str, str]], allowance: Allowance
) -> tuple[tuple[Image, ...], list[Image]]:
    """Return the last (MIME type, base64 data) pairs as images that fit, and those that were too large.

    Sides have at most `MAX_SIDE` pixels. Data that is not a valid image is left out. Scaling runs in a
    thread.
    """
    chosen = images[-allowance.images :] if allowance.images > 0 else ()
    shown: list[Image] = []
    reduced: list[Image] = []
    for mime, data in chosen:
        room = allowance.image_data // 2
        image = await asyncio.to_thread(_scaled, mime, data, room)
        if image is not None:
            shown.append(image)
            allowance.images -= 1
            allowance.image_data -= len(image.data)
            if len(data) > room:
                reduced.append(Image(data, mime))
    return tuple(shown), reduced


async def _wholes(context: ToolContext, reduced: Sequence[Image]) -> str:
    """Store whole images; return the lines that say where they are read."""
    lines = ""
    for image in reduced:
        raw = await asyncio.to_thread(base64.b64decode, image.data)
        with suppress(ToolError):  # The code has run, and the notebook may have the image.
            artifact = await context.workspace.artifacts.write(
                context.caller.user, raw, mime=image.mime
            )
            lines += f"\n[{image.mime} reduced; the whole: GET /api/tk-ai/artifacts/{artifact.id}]"
    return lines


def _scaled(mime: str, data: str, room: int) -> Image | None:
    """Return an image of at most ``room`` characters; None for data that is no image or never fits."""
    import PIL.Image  # Imported late: most results have no image.

    try:
        with PIL.Image.open(io.BytesIO(base64.b64decode(data))) as picture:
            if max(picture.size) <= MAX_SIDE and len(data) <= room:
                return Image(data, mime)
            side = min(max(picture.size), MAX_SIDE)
            while side:
                picture.thumbnail((side, side))
                buffer = io.BytesIO()
                picture.save(buffer, "PNG" if mime == "image/png" else "JPEG")
                scaled = base64.b64encode(buffer.getvalue()).decode("ascii")
                if len(scaled) <= room:
                    return Image(scaled, mime)
                side //= 2
    except Exception:  # noqa: BLE001 - of invalid data, decoders raise errors of many kinds
        return None
    return None
