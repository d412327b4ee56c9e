"""Pictures for a model: no larger than it looks at."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
from collections.abc import Iterable

from tk_ai_extension.tools.results import Image

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
