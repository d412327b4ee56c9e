"""The conformance suite of documents: what `notebooks.document.NotebookDocument` promises.

A test module runs it by a subclass and a fixture ``bench``::

    class TestMyDocument(DocumentConformance):
        @pytest.fixture
        def bench(self) -> DocumentBench: ...
"""

from __future__ import annotations

from tests.support.document_editing import EditingConformance, ReadingConformance
from tests.support.document_faults import FaultConformance
from tests.support.document_outputs import OutputsConformance
from tests.support.document_sharing import SharingConformance
from tests.support.document_text import TextConformance


class DocumentConformance(
    ReadingConformance,
    EditingConformance,
    TextConformance,
    OutputsConformance,
    SharingConformance,
    FaultConformance,
):
    """The whole suite."""
