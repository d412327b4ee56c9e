"""Images of outputs: what is not shown is counted, and invalid data breaks no result."""

from __future__ import annotations

import asyncio
import base64
import io

import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness import ToolHarness
from tk_ai_extension.tools.output_presentation import MAX_IMAGES, MAX_SIDE, for_model


def encoded(kind: str, side: int) -> bytes:
    file = io.BytesIO()
    noise = PIL.Image.effect_noise((side, 40), 50)
    noise.save(file, kind)
    return file.getvalue()


LARGE = {kind: encoded(kind, MAX_SIDE + 100) for kind in ("PNG", "JPEG", "GIF")}


@pytest.mark.proves("out:structured")
@settings(deadline=None, max_examples=150)
@given(data=st.data(), kind=st.sampled_from(sorted(LARGE)))
def test_broken_data_is_left_out(data: st.DataObject, kind: str) -> None:
    raw = bytearray(LARGE[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1) | st.integers(0, 100))
        raw[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    text = base64.b64encode(raw).decode()
    images = asyncio.run(for_model([(f"image/{kind.lower()}", text)]))
    assert len(images) <= 1


@pytest.mark.proves("out:structured")
async def test_images_that_are_not_shown_are_counted(harness: ToolHarness) -> None:
    png = base64.b64encode(encoded("PNG", 2)).decode()
    code = (
        f"from IPython.display import display\nfor _ in range({MAX_IMAGES + 5}): "
        f"display({{'image/png': {png!r}}}, raw=True)"
    )
    harness.write("n.ipynb", code)
    result = await harness.call("execute_cell", notebook="n.ipynb", cell=0)
    assert len(result.images) == MAX_IMAGES
    assert f"[5 of {MAX_IMAGES + 5} images are not shown]" in result.full_text()
