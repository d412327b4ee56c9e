"""Parameters of a notebook's run, as papermill has them: values from the command line, and the cell."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping
from typing import Any, cast

from tk_ai_extension.model.cells import Cell, CellContent, Snapshot
from tk_ai_extension.model.digest import cut
from tk_ai_extension.model.errors import InvalidArguments
from tk_ai_extension.model.names import names_of
from tk_ai_extension.model.operations import Insert, Operation, Replace
from tk_ai_extension.verification.verifying import tags_of

TAG = "parameters"
INJECTED = "injected-parameters"

TYPES = frozenset(("null", "bool", "int", "float", "str", "seq", "map"))
"""Types of YAML's values, as JSON has them."""
MAX_DEPTH = 50
"""Maximum nesting of a value. Python's parser has a limit, too."""
MAX_DIGITS = 4_300
"""Maximum digits of an integer: Python's limit."""
LIMIT = 10**MAX_DIGITS
MAX_SHOWN = 60
"""Maximum characters of a value in an error."""


def typed(text: str, name: str = "The value") -> Any:
    """Return the value of ``-p name=value``.

    Numbers, ``True``, ``False`` and ``None`` are typed as papermill does it; quoted texts, lists and
    mappings as YAML. Anything else is text, also what YAML would take for a date or a truth value
    (``no``).

    >>> [typed(each) for each in ("3", "inf", "None", "[a, 2]", "'3'", "null", "2026-01-02", "a: b")]
    [3, inf, None, ['a', 2], '3', 'null', '2026-01-02', 'a: b']

    Args:
        text: The value.
        name: The parameter's name, for errors.

    Raises:
        InvalidArguments: It is not YAML, or is a number that is too large.
    """
    plain: Mapping[str, Any] = {"True": True, "False": False, "None": None}
    if text in plain:
        return plain[text]
    for read in (int, float):
        try:
            return _exact(read(text), text)
        except OverflowError as error:
            raise InvalidArguments(f"{name}: {error}.") from None
        except ValueError:
            continue
    if text[:1] in ("[", "{", '"', "'"):
        return _yaml(text, name)
    return text


def from_file(text: str, name: str) -> dict[str, Any]:
    """Return the parameters of a YAML or JSON file; dates are texts.

    Raises:
        InvalidArguments: It is not YAML, or not a mapping with names.
    """
    found = _yaml(text, name)
    if not isinstance(found, dict):
        raise InvalidArguments(
            f"{name} has no parameters.", hint="Give lines such as `alpha: 0.1`."
        )
    return {str(key): value for key, value in cast("dict[Any, Any]", found).items()}


def _exact(value: Any, text: str) -> Any:
    """Return a value that was read from a text.

    Raises:
        OverflowError: The text is a number that has more digits than Python prints, or is beyond all
            floats.
    """
    if isinstance(value, int) and abs(value) >= LIMIT:
        raise OverflowError(f"an integer has more than {MAX_DIGITS} digits")
    if isinstance(value, float) and math.isinf(value) and any(map(str.isdecimal, text)):
        raise OverflowError("a number is too large")
    return value


def _yaml(text: str, name: str) -> Any:
    import yaml  # Imported late: most runs have no parameters.

    class Loader(yaml.SafeLoader):
        """YAML of `TYPES` without aliases and dates.

        Every value that it returns can be written as a literal.
        """

        yaml_implicit_resolvers = {  # noqa: RUF012 - the base class's attribute
            first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }
        yaml_constructors = {  # noqa: RUF012 - the base class's attribute
            tag: constructor
            for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
            if tag is None or tag.rpartition(":")[2] in TYPES
        }
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()
            mark = event.start_mark
            if self.check_event(yaml.AliasEvent):
                raise yaml.MarkedYAMLError(problem="aliases are not supported", problem_mark=mark)
            if self.depth > MAX_DEPTH:
                problem = f"more than {MAX_DEPTH} levels"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_scalar(self, node: Any) -> Any:
            # Not the value `=` of a mapping.
            return yaml.constructor.BaseConstructor.construct_scalar(self, node)

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            if not isinstance(node, yaml.ScalarNode):
                return super().construct_object(node, deep)
            kind = str(node.tag).rpartition(":")[2]
            try:
                return _exact(super().construct_object(node, deep), node.value)
            except OverflowError as error:
                problem = str(error)
            except (ValueError, LookupError):
                problem = f"`{cut(node.value, MAX_SHOWN)}` is not of type {kind}"
            mark: Any = node.start_mark
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)

    try:
        return yaml.load(text, Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise InvalidArguments(f"{name} is not YAML: {error}") from None


def source_of(parameters: Mapping[str, Any], language: str) -> str:
    r"""Return the source of the cell that sets the parameters.

    >>> source_of({"alpha": 0.1, "names": ["a", None]}, "python")
    "# Parameters\nalpha = 0.1\nnames = ['a', None]"

    Raises:
        InvalidArguments: A name cannot be assigned, or the notebook is not in Python.
    """
    if language not in ("", "python"):
        raise InvalidArguments(
            f"Parameters can be set in Python notebooks only; this one is in {language}.",
            hint="Pass values in environment variables.",
        )
    for name in parameters:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise InvalidArguments(f"`{name}` is not the name of a variable.")
    return "\n".join(
        ["# Parameters", *(f"{name} = {_literal(value)}" for name, value in parameters.items())]
    )


def _literal(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, cast('list[Any]', value)))}]"
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return f"{{{', '.join(f'{_literal(key)}: {_literal(item)}' for key, item in items)}}}"
    return repr(value)


def injection(snapshot: Snapshot, source: str) -> Operation:
    """Return the operation that puts the cell into a notebook.

    It replaces the cell of an earlier run, else stands below the cell with the tag ``parameters``, else
    at the top.
    """
    earlier = _tagged(snapshot, INJECTED)
    if earlier is not None:
        return Replace(earlier.key, source)
    content = CellContent("code", source, metadata={"tags": [INJECTED]})
    defaults = _tagged(snapshot, TAG)
    return Insert(content, index=0 if defaults is None else defaults.index + 1)


def unknown_parameters(snapshot: Snapshot, parameters: Mapping[str, Any]) -> list[str]:
    """Return the parameters that the cell with the tag ``parameters`` does not set."""
    defaults = _tagged(snapshot, TAG)
    names = None if defaults is None else names_of(defaults.source)
    return [] if names is None else [name for name in parameters if name not in names.defines]


def _tagged(snapshot: Snapshot, tag: str) -> Cell | None:
    return next(
        (cell for cell in snapshot.cells if cell.type == "code" and tag in tags_of(cell)), None
    )
