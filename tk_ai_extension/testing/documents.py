"""The conformance suite of documents: what `notebooks.base.NotebookDocument` promises.

A test module runs it by a subclass and a fixture ``bench``::

    class TestMyDocument(DocumentConformance):
        @pytest.fixture
        def bench(self) -> DocumentBench: ...
"""

from __future__ import annotations

from tk_ai_extension.testing.document_editing import EditingConformance, ReadingConformance
from tk_ai_extension.testing.document_faults import FaultConformance
from tk_ai_extension.testing.document_outputs import OutputsConformance
from tk_ai_extension.testing.document_sharing import SharingConformance
from tk_ai_extension.testing.document_text import TextConformance


class DocumentConformance(
    ReadingConformance,
    EditingConformance,
    TextConformance,
    OutputsConformance,
    SharingConformance,
    FaultConformance,
):
    """The whole suite."""
