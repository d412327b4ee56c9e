"""The modules of a kernel, looked at and not imported."""

from dataclasses import replace

import pytest

from tk_ai_extension.model.errors import InvalidArguments, KernelNotFound, ModuleMissing
from tk_ai_extension.tools.registry import Registry


@pytest.fixture
async def harness(harness):
    harness = replace(harness, registry=Registry.load(("default", "introspection")))
    harness.write("n.ipynb", "import json")
    own = harness.root / "own_package"
    own.mkdir()
    (own / "__init__.py").write_text("raise SystemExit('imported')")
    (own / "part.py").write_text('"""A part."""\n\ndef public(a, b): ...\n\nclass Shape: ...\n')
    return harness


async def used(harness):
    await harness.call("use_notebook", notebook="n.ipynb")
    await harness.call(
        "execute_ipython", code="import sys; sys.path.insert(0, '.'); import colorsys"
    )


async def test_modules_are_listed_with_versions(harness):
    await used(harness)
    listed = {module.name: module for module in (await harness.call("list_modules")).modules}
    assert listed["ipykernel"].version
    assert listed["ipykernel"].loaded
    assert "json" not in listed
    found = (await harness.call("list_modules", pattern="colorsy*")).modules
    assert [(m.name, m.standard, m.loaded) for m in found] == [("colorsys", True, True)]


async def test_a_check_imports_nothing(harness):
    await used(harness)
    assert (await harness.call("check_module", name="nbformat.v4")).available
    own = await harness.call("check_module", name="own_package.part")
    assert (own.available, own.loaded) == (True, False)
    assert own.location.endswith("part.py")
    missing = await harness.call("check_module", name="own_package.missing")
    assert (missing.available, missing.found) == (False, "own_package")
    assert not missing.is_error
    assert "No module `own_package.missing`" in missing.as_text()
    code = "import sys; print('own_package' in sys.modules)"
    assert (await harness.call("execute_ipython", code=code)).runs[0].output == "False"


async def test_a_module_is_described_from_itself_or_from_its_source(harness):
    await used(harness)
    loaded = await harness.call("get_module_info", name="colorsys")
    assert "rgb_to_yiq(r, g, b)" in loaded.names
    assert "Conversion functions" in loaded.doc
    part = await harness.call("get_module_info", name="own_package.part")
    assert (part.doc, part.names) == ("A part.", ["public(a, b)", "class Shape"])
    package = await harness.call("get_module_info", name="own_package")
    assert package.submodules == ["part"]
    with pytest.raises(ModuleMissing, match="no_such_module"):
        await harness.call("get_module_info", name="no_such_module")
    for name in ("", "a..b", "a; b"):
        with pytest.raises(InvalidArguments):
            await harness.call("check_module", name=name)


async def test_it_is_the_kernels_environment_so_a_kernel_has_to_run(harness):
    with pytest.raises(KernelNotFound):
        await harness.call("list_modules", notebook="n.ipynb")
