"""Files and tabs keep the document's promises."""

from __future__ import annotations

import pytest

from tests.support.documents import DocumentConformance

pytestmark = pytest.mark.asyncio(loop_scope="module")


class TestDocument(DocumentConformance):
    pass
