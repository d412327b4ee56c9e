"""Describe the modules of a user's Python kernel (Python 3.6 or later); runs inside the kernel.

It imports only the standard library, and none of the modules that it describes. Its source is sent to
the kernel; this package does not import it.
"""
# pyrefly: ignore-errors[implicit-any, missing-attribute, unannotated-return, unknown-argument-type]
# pyrefly: ignore-errors[unknown-attribute-access, unknown-return-type, unknown-variable-type]

import ast
import fnmatch
import inspect
import json
import pkgutil
import sys

MAX_MODULES = 200
MAX_NAMES = 100
MAX_DOC = 2000
MAX_SOURCE = 2000000


def distributions():
    """Return the distribution and version of each top-level module."""
    try:
        from importlib import metadata
    except ImportError:  # Python before 3.8
        return {}
    found = {}
    for each in metadata.distributions():
        name = each.metadata["Name"]
        tops = (each.read_text("top_level.txt") or "").split()
        if not tops:
            files = [path.parts for path in each.files or () if path.suffix in (".py", ".so")]
            tops = {parts[0].split(".")[0] for parts in files if not parts[0].startswith("..")}
        for top in tops:
            found.setdefault(top, (name, each.version))
    return found


def stdlib():
    """Return the names of the standard library's modules, as far as this Python knows them."""
    return set(getattr(sys, "stdlib_module_names", sys.builtin_module_names))


def listing(pattern):
    """Return the top-level modules; those of the standard library only if a pattern is given."""
    known, standard = distributions(), stdlib()
    names = {module.name for module in pkgutil.iter_modules()} | standard
    shown = sorted(
        name
        for name in names
        if (
            fnmatch.fnmatchcase(name, pattern)
            if pattern
            else name not in standard and not name.startswith("_")
        )
    )
    modules = [
        {
            "name": name,
            "version": known.get(name, (None, None))[1],
            "loaded": name in sys.modules,
            "standard": name in standard,
        }
        for name in shown[:MAX_MODULES]
    ]
    return {"modules": modules, "more": len(shown) - len(modules)}


def spec_of(name):
    """Find a module's spec without importing it or its parents; return it and the parts found."""
    spec, path, found = None, None, []
    for part in name.split("."):
        if spec is not None:
            path = spec.submodule_search_locations
            if path is None:
                return None, found
        full = ".".join([*found, part])
        spec = None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(full, path) if find is not None else None
            if spec is not None:
                break
        if spec is None:
            return None, found
        found.append(part)
    return spec, found


def availability(name):
    """Return whether a module can be imported, and its origin."""
    spec, found = spec_of(name)
    module = sys.modules.get(name)
    if spec is None and module is None:
        return {"available": False, "loaded": False, "found": ".".join(found)}
    distribution, version = distributions().get(name.split(".")[0], (None, None))
    return {
        "available": True,
        "loaded": module is not None,
        "version": version,
        "distribution": distribution,
        "location": getattr(spec, "origin", None)
        or (vars(module).get("__file__") if module else None),
        "standard": name.split(".")[0] in stdlib(),
    }


def description(name):
    """Return the contents of a module, from the loaded module or else from its source."""
    about = availability(name)
    if not about["available"]:
        return about
    spec, _ = spec_of(name)
    module = sys.modules.get(name)
    locations = list(getattr(spec, "submodule_search_locations", None) or ())
    about["submodules"] = sorted(m.name for m in pkgutil.iter_modules(locations))[:MAX_NAMES]
    doc, names = from_module(module) if module is not None else from_source(about["location"])
    about["doc"] = (doc or "")[:MAX_DOC]
    about["names"] = names[:MAX_NAMES]
    about["more"] = max(len(names) - MAX_NAMES, 0)
    return about


def from_module(module):
    """Return the docstring and the public names of a loaded module."""
    content = vars(module)
    public = content.get("__all__")
    if not isinstance(public, (list, tuple)):
        public = [name for name in content if not name.startswith("_")]
    names = [described(name, content[name]) for name in public if name in content]
    doc = content.get("__doc__")
    return doc if isinstance(doc, str) else "", names


def described(name, value):
    """Return a name with the kind or the signature of its value."""
    if inspect.isclass(value):
        return "class " + name
    if inspect.isroutine(value):
        try:
            return name + str(inspect.signature(value))[:200]
        except (TypeError, ValueError):
            return name + "(...)"
    return name if not inspect.ismodule(value) else "module " + name


def from_source(location):
    """Return the docstring and the public definitions of a module that is not loaded."""
    if not location or not location.endswith(".py"):
        return "", []
    try:
        with open(location, "rb") as file:  # noqa: PTH123 - no pathlib: this source is kept short
            tree = ast.parse(file.read(MAX_SOURCE))
    except (OSError, SyntaxError, ValueError):
        return "", []
    names = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if node.name.startswith("_"):
                continue
            if isinstance(node, ast.ClassDef):
                names.append("class " + node.name)
            else:
                arguments = [argument.arg for argument in node.args.args]
                names.append(node.name + "(" + ", ".join(arguments) + ")")
    return ast.get_docstring(tree), names


def answer(_variables, call):
    """Return the answer to a query as JSON. The user's variables are not read."""
    request = json.loads(call)
    if request["query"] == "list":
        return json.dumps(listing(request["pattern"]))
    describe = availability if request["query"] == "check" else description
    return json.dumps(describe(request["name"]))
