"""Describe the modules of a user's Python kernel (Python 3.6 or later); runs inside the kernel.

It imports only the standard library, and none of the modules that it describes. Its source is sent to
the kernel; this package does not import it. Files of packages may be damaged, and finders, members and
entries of `sys.path` may be anything: what fails is left out (`attempt`, `items`), and all others stay.
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


def attempt(function, *arguments):
    """Return the result of a function; None if it fails."""
    try:
        return function(*arguments)
    except Exception:  # noqa: BLE001 - code and files of any package
        return None


def items(function, *arguments):
    """Yield the items of the iterable that a function returns, up to the one that fails."""
    try:
        yield from function(*arguments)
    except Exception:  # noqa: BLE001 - code and files of any package
        return


def text_or_none(value):
    """Return a value if it is text."""
    return value if isinstance(value, str) else None


def folders(path):
    """Return the entries of a search path that imports take into account."""
    return [entry for entry in path if isinstance(entry, str)]


def distributions():
    """Return the distribution and version of each top-level module."""
    try:
        from importlib import metadata
    except ImportError:  # Python before 3.8
        return {}
    found = {}
    for entry in folders(sys.path):
        context = metadata.DistributionFinder.Context(path=[entry])
        for finder in sys.meta_path:
            find = attempt(getattr, finder, "find_distributions", None)
            for each in items(find, context) if find is not None else ():
                about = attempt(name_and_version, each)
                if about is None:
                    continue
                for top in attempt(listed_modules, each) or attempt(recorded_modules, each) or ():
                    found.setdefault(top, about)
    return found


def name_and_version(distribution):
    """Return the name and the version of a distribution; None if it has no name."""
    name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    return (name, text_or_none(version)) if isinstance(name, str) else None


def listed_modules(distribution):
    """Return the top-level modules that a distribution lists."""
    return (distribution.read_text("top_level.txt") or "").split()


def recorded_modules(distribution):
    """Return the top-level modules among the files of a distribution."""
    files = [path.parts for path in distribution.files or () if path.suffix in (".py", ".so")]
    return {parts[0].split(".")[0] for parts in files if not parts[0].startswith("..")}


def modules_in(path, finders=()):
    """Return the names of the modules in the folders of a path, and of those that finders list."""
    found = {m[1] for entry in folders(path) for m in items(pkgutil.iter_modules, [entry])}
    for finder in finders:
        found.update(m[0] for m in items(pkgutil.iter_importer_modules, finder))
    return found


def stdlib():
    """Return the names of the standard library's modules, as far as this Python knows them."""
    return set(getattr(sys, "stdlib_module_names", sys.builtin_module_names))


def listing(pattern):
    """Return the top-level modules; those of the standard library only if a pattern is given."""
    known, standard = distributions(), stdlib()
    names = modules_in(sys.path, sys.meta_path) | standard
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
            path = attempt(getattr, spec, "submodule_search_locations", None)
            if path is None:
                return None, found
        full = ".".join([*found, part])
        spec = None
        for finder in sys.meta_path:
            find = attempt(getattr, finder, "find_spec", None)
            try:
                spec = find(full, path) if find is not None else None
            except Exception:  # noqa: BLE001 - an import ends here, too
                return None, found
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
        "location": text_or_none(getattr(spec, "origin", None))
        or text_or_none(content_of(module).get("__file__")),
        "standard": name.split(".")[0] in stdlib(),
    }


def description(name):
    """Return the contents of a module, from the loaded module or else from its source."""
    about = availability(name)
    if not about["available"]:
        return about
    spec, _ = spec_of(name)
    module = sys.modules.get(name)
    locations = attempt(list, getattr(spec, "submodule_search_locations", None) or ()) or ()
    about["submodules"] = sorted(modules_in(locations))[:MAX_NAMES]
    doc, names = from_module(module) if module is not None else from_source(about["location"])
    about["doc"] = (doc or "")[:MAX_DOC]
    about["names"] = names[:MAX_NAMES]
    about["more"] = max(len(names) - MAX_NAMES, 0)
    return about


def content_of(module):
    """Return the members of a loaded module by name; `sys.modules` may have any object."""
    members = attempt(vars, module) or {}
    return {name: value for name, value in members.items() if isinstance(name, str)}


def from_module(module):
    """Return the docstring and the public names of a loaded module."""
    content = content_of(module)
    public = content.get("__all__")
    public = attempt(list, public) if isinstance(public, (list, tuple)) else None
    if public is None:
        public = [name for name in content if not name.startswith("_")]
    shown = [name for name in public if isinstance(name, str) and name in content]
    names = [attempt(described, name, content[name]) or name for name in shown]
    return text_or_none(content.get("__doc__")), names


def described(name, value):
    """Return a name with the kind or the signature of its value."""
    if inspect.isclass(value):
        return "class " + name
    if inspect.isroutine(value):
        try:
            return name + str(inspect.signature(value))[:200]
        except Exception:  # noqa: BLE001 - a default's `repr`
            return name + "(...)"
    return name if not inspect.ismodule(value) else "module " + name


def from_source(location):
    """Return the docstring and the public definitions of a module that is not loaded."""
    if not location or not location.endswith(".py"):
        return "", []
    try:
        with open(location, "rb") as file:  # noqa: PTH123 - no pathlib: this source is kept short
            tree = ast.parse(file.read(MAX_SOURCE))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
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
