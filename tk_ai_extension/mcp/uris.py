"""URIs of resources."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

NOTEBOOK_TEMPLATE = "notebook://{+path}"
CELL_TEMPLATE = "notebook://{+path}/cells/{id}"
OUTPUT_TEMPLATE = "notebook://{+path}/cells/{id}/outputs/{n}"
ARTIFACT_TEMPLATE = "artifact://{id}"

_NOTEBOOK = re.compile(
    r"notebook://(?P<path>.+?\.ipynb)(?:/cells/(?P<cell>[^/]+)(?:/outputs/(?P<output>\d{1,9}))?)?"
)
_ARTIFACT = re.compile(r"artifact://(?P<id>[^/]+)")


@dataclass(frozen=True, slots=True)
class NotebookUri:
    """URI of a notebook, one of its cells, or one output of a cell.

    Attributes:
        path: Relative to the server's root, with forward slashes.
        cell: Address of the cell; None for the notebook.
        output: Index of the output, from 0; None for the cell.
    """

    path: str
    cell: str | None = None
    output: int | None = None

    @property
    def uri(self) -> str:
        """Return the URI.

        >>> NotebookUri("my plots/fig 1.ipynb", "318a", 0).uri
        'notebook://my%20plots/fig%201.ipynb/cells/318a/outputs/0'
        """
        uri = f"notebook://{quote(self.path)}"
        if self.cell is not None:
            uri += f"/cells/{quote(self.cell, safe='')}"
        return uri if self.output is None else f"{uri}/outputs/{self.output}"


@dataclass(frozen=True, slots=True)
class ArtifactUri:
    """URI of an output that was too long to show."""

    id: str

    @property
    def uri(self) -> str:
        """Return the URI."""
        return f"artifact://{quote(self.id, safe='')}"


Place = NotebookUri | ArtifactUri


def parse(uri: str) -> Place | None:
    """Parse a URI; None if it is not one of ours. The resource need not exist.

    >>> parse("notebook://../secret.ipynb")  # the workspace refuses it, like any path
    NotebookUri(path='../secret.ipynb', cell=None, output=None)
    >>> parse("notebook://a%20b.ipynb/cells/cell-3/outputs/1")
    NotebookUri(path='a b.ipynb', cell='cell-3', output=1)
    >>> parse("artifact://x1")
    ArtifactUri(id='x1')
    >>> parse("file:///etc/passwd")
    """
    if found := _NOTEBOOK.fullmatch(uri):
        cell, output = found["cell"], found["output"]
        return NotebookUri(
            unquote(found["path"]),
            None if cell is None else unquote(cell),
            None if output is None else int(output),
        )
    if found := _ARTIFACT.fullmatch(uri):
        return ArtifactUri(unquote(found["id"]))
    return None
