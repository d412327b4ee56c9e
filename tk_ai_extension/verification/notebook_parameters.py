"""Parameters of a notebook's run, by papermill: values from the command line, and the cell."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from tk_ai_extension.model.cell_operations import Insert, Operation, Replace
from tk_ai_extension.model.cell_tags import tags_of
from tk_ai_extension.model.cells import Cell, CellData, Snapshot
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.python_names import names_of

TAG, INJECTED = "parameters", "injected-parameters"


def values_of(texts: Mapping[str, str], files: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of parameters: those of the texts, and of the files' texts by their names."""
    values: dict[str, Any] = {}
    for name, text in files.items():
        values |= from_file(text, name)
    return values | {name: typed(text, name) for name, text in texts.items()}


def typed(text: str, name: str = "The value") -> Any:
    """Return the value of ``-p name=value``.

    Numbers, ``True``, ``False`` and ``None`` are typed as by papermill's command; quoted texts, lists
    and mappings are YAML. Anything else is text.

    >>> [typed(each) for each in ("3", "inf", "None", "2026-01-02", "[a]", "no")]
    [3, inf, None, '2026-01-02', ['a'], 'no']

    Raises:
        InvalidArguments: It is not YAML, or papermill is missing.
    """
    plain: Mapping[str, Any] = {"True": True, "False": False, "None": None}
    if text in plain:
        return plain[text]
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return _yaml(text, name) if text[:1] in ("[", "{", '"', "'") else text


def from_file(text: str, name: str) -> dict[str, Any]:
    """Return the parameters of a YAML or JSON file; dates are texts, as in papermill.

    Raises:
        InvalidArguments: It is not YAML, or not a mapping with names.
    """
    found = _yaml(text, name)
    if not isinstance(found, dict):
        raise InvalidArguments(
            f"{name} has no parameters.", hint="Give lines such as `alpha: 0.1`."
        )
    return {str(key): value for key, value in cast("dict[Any, Any]", found).items()}


def _yaml(text: str, name: str) -> Any:
    import yaml  # Imported late: most runs have no parameters.

    try:
        return yaml.load(text, _papermill("iorw").NoDatesSafeLoader)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"{name} is not YAML: {error}") from None


def _papermill(module: str) -> Any:
    """Return a module of papermill.

    Raises:
        InvalidArguments: It is not installed.
    """
    try:
        return import_module(f"papermill.{module}")
    except ImportError:
        raise InvalidArguments(
            "Parameters need papermill.", hint="pip install 'tk-ai-extension[papermill]'"
        ) from None


def source_of(parameters: Mapping[str, Any], snapshot: Snapshot, kernel_name: str | None) -> str:
    """Return the source of the cell that sets the parameters, in the notebook's language.

    Raises:
        InvalidArguments: papermill is missing, does not know the language or a value, or a name is invalid.
    """
    if name := next(
        (name for name in parameters if not name.replace(".", "_").isidentifier()), None
    ):
        raise InvalidArguments(f"`{name}` is not the name of a variable.")
    translate = _papermill("translators").translate_parameters
    refused = _papermill("exceptions").PapermillException
    language = {"": "python", "r": "R"}.get(snapshot.language, snapshot.language)
    try:
        source: str = translate(kernel_name, language, dict(parameters), "Parameters")
    except (refused, NotImplementedError, ValueError, RecursionError) as error:
        raise InvalidArguments(f"The parameters cannot be set: {error}") from None
    return source.rstrip("\n")


def injection(snapshot: Snapshot, source: str) -> Operation:
    """Return the operation that inserts the cell into a notebook at papermill's place.

    It replaces the cell of an earlier run, else goes below the cell with the tag ``parameters``, else
    to the top.
    """
    earlier = _tagged(snapshot, INJECTED)
    if earlier is not None:
        return Replace(earlier.key, source)
    content = CellData("code", source, metadata={"tags": [INJECTED]})
    defaults = _tagged(snapshot, TAG)
    return Insert(content, index=0 if defaults is None else snapshot.index(defaults) + 1)


def unknown_parameters(snapshot: Snapshot, parameters: Mapping[str, Any]) -> list[str]:
    """Return the parameters that the cell with the tag ``parameters`` does not set."""
    defaults = _tagged(snapshot, TAG)
    names = None if defaults is None else names_of(defaults.source)
    return [] if names is None else [name for name in parameters if name not in names.defines]


def _tagged(snapshot: Snapshot, tag: str) -> Cell | None:
    return next(
        (cell for cell in snapshot.cells if cell.type == "code" and tag in tags_of(cell)), None
    )
