"""Each caller has notebooks, names and a current notebook of their own; kernels are shared."""

from __future__ import annotations

import pytest

from tk_ai_extension.model.callers import Caller
from tk_ai_extension.model.errors import InvalidArguments, LimitReached, NotebookNotFound
from tk_ai_extension.notebooks.notebook import Notebooks
from tk_ai_extension.workspace.workspace import ManagedNotebook, NotebookManager

A = Caller("ada", "session-a")
B = Caller("ada", "session-b")
BOB = Caller("bob", "session-a")
NO_KEY = Caller("ada")


def names(manager: NotebookManager, caller: Caller) -> list[str]:
    return [notebook.name for notebook in manager.list(caller)]


@pytest.mark.proves("ext:notebook-manager")
def test_a_connected_notebook_is_found_by_name_and_path_and_is_the_current_one() -> None:
    manager = NotebookManager()
    added = manager.add(A, "eda", "x/analysis.ipynb", "kernel-1")
    assert added == ManagedNotebook(A.identity, "eda", "x/analysis.ipynb", "kernel-1", current=True)
    assert manager.current(A) == added
    for notebook in ("eda", "x/analysis.ipynb", None):
        assert manager.resolve(A, notebook) == added
    assert manager.resolve(A, "analysis") is None


@pytest.mark.proves("ext:notebook-manager")
def test_several_notebooks_at_once_and_one_of_them_is_current() -> None:
    manager = NotebookManager()
    for number in (1, 2, 3):
        manager.add(A, f"n{number}", f"n{number}.ipynb", f"kernel-{number}")
    assert [(n.name, n.current) for n in manager.list(A)] == [
        ("n1", False), ("n2", False), ("n3", True),
    ]  # fmt: skip
    assert manager.add(A, None, "n2.ipynb", "kernel-2").name == "n2"
    current = manager.current(A)
    assert current is not None
    assert current.path == "n2.ipynb"


@pytest.mark.proves("ext:notebook-manager", "ext:multi-user")
@pytest.mark.parametrize("other", [B, BOB, NO_KEY])
def test_connections_and_names_of_one_caller_do_not_touch_another(other: Caller) -> None:
    manager = NotebookManager()
    manager.add(A, "n", "a.ipynb", "kernel-1")
    assert manager.current(other) is None
    assert manager.list(other) == []
    assert manager.resolve(other, "n") is None
    assert manager.resolve(other, "a.ipynb") is None
    manager.add(other, "n", "b.ipynb", "kernel-2")
    resolved = manager.resolve(A, "n")
    assert resolved is not None
    assert resolved.path == "a.ipynb"
    manager.remove(other, "b.ipynb")
    assert names(manager, A) == ["n"]
    assert manager.resolve(A, None) == resolved


@pytest.mark.proves("ext:notebook-manager")
def test_doing_it_twice_changes_nothing() -> None:
    manager = NotebookManager()
    first = manager.add(A, "n", "a.ipynb", "kernel-1")
    assert manager.add(A, "n", "a.ipynb", "kernel-1") == first
    assert manager.add(A, None, "a.ipynb", "kernel-1") == first
    assert manager.list(A) == [first]


def test_another_name_for_a_connected_notebook_replaces_the_first_in_its_place() -> None:
    manager = NotebookManager()
    manager.add(A, "first", "a.ipynb", "kernel-1")
    manager.add(A, "second", "b.ipynb", "kernel-2")
    manager.add(A, "renamed", "a.ipynb", "kernel-1")
    assert names(manager, A) == ["renamed", "second"]
    assert manager.resolve(A, "first") is None


def test_a_name_that_is_taken_or_reads_like_a_path_is_refused() -> None:
    manager = NotebookManager()
    manager.add(A, "n", "a.ipynb", "kernel-1")
    for name in ("n", "a.ipynb", "c.ipynb", "folder/b"):
        with pytest.raises(InvalidArguments):
            manager.add(A, name, "b.ipynb", "kernel-2")
    assert manager.list(A) == [manager.current(A)]
    assert manager.add(A, "b.ipynb", "b.ipynb", "kernel-2").name == "b.ipynb"


def test_a_notebook_that_is_given_no_name_is_called_by_its_path() -> None:
    manager = NotebookManager()
    assert manager.add(A, None, "x/n.ipynb", "kernel-1").name == "x/n.ipynb"


def test_a_name_can_be_checked_before_anything_is_done_for_it() -> None:
    manager = NotebookManager(max_notebooks=1)
    assert manager.checked_name(A, "n", "a.ipynb") == "n"
    assert manager.list(A) == []
    manager.add(A, "n", "a.ipynb", "kernel-1")
    with pytest.raises(InvalidArguments):
        manager.checked_name(A, "n", "b.ipynb")
    with pytest.raises(LimitReached):
        manager.checked_name(A, None, "b.ipynb")


@pytest.mark.proves("ext:notebook-manager")
def test_a_caller_without_a_key_has_no_current_notebook_and_no_names_but_paths() -> None:
    manager = NotebookManager()
    added = manager.add(NO_KEY, "n", "a.ipynb", "kernel-1")
    assert (added.name, added.current) == ("a.ipynb", False)
    assert manager.current(NO_KEY) is None
    assert manager.resolve(NO_KEY, None) is None
    assert manager.resolve(NO_KEY, "n") is None
    # Another client of the same user, who means another notebook by that name.
    manager.add(NO_KEY, "n", "b.ipynb", "kernel-2")
    assert names(manager, NO_KEY) == ["a.ipynb", "b.ipynb"]


@pytest.mark.proves("ext:unuse", "ext:notebook-manager")
def test_releasing_the_current_notebook_leaves_none_current() -> None:
    manager = NotebookManager()
    manager.add(A, "one", "a.ipynb", "kernel-1")
    manager.add(A, "two", "b.ipynb", "kernel-2")
    manager.remove(A, "b.ipynb")
    assert manager.current(A) is None
    assert names(manager, A) == ["one"]
    with pytest.raises(NotebookNotFound, match="two") as error:
        manager.remove(A, "two")
    assert error.value.hint == "Connected: one."
    with pytest.raises(NotebookNotFound):
        manager.remove(B, "one")


@pytest.mark.proves("kernel:shared-live")
def test_a_kernel_that_is_replaced_is_replaced_for_everybody() -> None:
    manager = NotebookManager()
    for caller in (A, B, BOB):
        manager.add(caller, None, "a.ipynb", "old")
    manager.add(A, None, "shared.ipynb", "old")
    manager.add(B, None, "b.ipynb", "another")
    assert {(n.caller, n.path) for n in manager.with_kernel("old")} == {
        (A.identity, "a.ipynb"),
        (A.identity, "shared.ipynb"),
        (B.identity, "a.ipynb"),
        (BOB.identity, "a.ipynb"),
    }
    assert manager.replace_kernel("old", "new") == {A.identity, B.identity, BOB.identity}
    kernels = {each.path: each.kernel_id for each in [*manager.list(A), *manager.list(B)]}
    assert kernels == {"a.ipynb": "new", "shared.ipynb": "new", "b.ipynb": "another"}
    assert manager.with_kernel("old") == []
    manager.replace_kernel("new", None)
    current = manager.current(BOB)
    assert current is not None
    assert current.kernel_id is None


@pytest.mark.proves("kernel:shared-live")
def test_a_later_connection_to_another_kernel_holds_for_everybody() -> None:
    manager = NotebookManager()
    manager.add(A, None, "a.ipynb", "old")
    manager.add(B, None, "a.ipynb", "new")
    current = manager.current(A)
    assert current is not None
    assert current.kernel_id == "new"


@pytest.mark.proves("kernel:shared-live")
def test_a_renamed_notebook_keeps_its_name_its_kernel_and_its_being_current() -> None:
    notebooks = Notebooks()
    manager = NotebookManager(notebooks)
    manager.add(B, "x/n.ipynb", "x/n.ipynb", "kernel-1")
    manager.add(A, "other", "xy/n.ipynb", "kernel-2")
    manager.add(A, "eda", "x/n.ipynb", "kernel-1")
    notebooks.rename("x", "y")
    assert manager.resolve(A, "eda") == ManagedNotebook(
        A.identity, "eda", "y/n.ipynb", "kernel-1", current=True
    )
    assert manager.resolve(B, None) == ManagedNotebook(
        B.identity, "y/n.ipynb", "y/n.ipynb", "kernel-1", current=True
    )
    assert manager.resolve(A, "xy/n.ipynb") is not None
    assert manager.resolve(A, "x/n.ipynb") is None


def test_a_notebook_renamed_over_another_one_brings_its_kernel() -> None:
    for order in (("a.ipynb", "b.ipynb"), ("b.ipynb", "a.ipynb")):
        notebooks = Notebooks()
        manager = NotebookManager(notebooks)
        for path in order:
            manager.add(A, None, path, f"kernel of {path}")
        notebooks.rename("a.ipynb", "b.ipynb")
        assert [each.kernel_id for each in manager.list(A)] == ["kernel of a.ipynb"]


def test_a_deleted_notebook_leads_to_its_kernel_until_another_is_connected_there() -> None:
    notebooks = Notebooks()
    manager = NotebookManager(notebooks)
    manager.add(A, "eda", "n.ipynb", "kernel-1")
    notebooks.delete("n.ipynb")
    assert manager.list(A) == []
    assert manager.current(A) is manager.resolve(A, "eda") is None
    left = ManagedNotebook(A.identity, "n.ipynb", "n.ipynb", "kernel-1")
    assert manager.resolve(A, "n.ipynb") == left
    manager.add(A, None, "n.ipynb", "kernel-2")
    assert [each.kernel_id for each in manager.list(A)] == ["kernel-2"]
    manager.remove(A, "n.ipynb")
    assert manager.resolve(A, "n.ipynb") is None


def test_the_users_of_a_notebook_are_known() -> None:
    manager = NotebookManager()
    manager.add(A, None, "a.ipynb", "kernel-1")
    manager.add(BOB, None, "a.ipynb", "kernel-1")
    assert manager.users_of("a.ipynb") == {A.identity, BOB.identity}
    manager.forget(A)
    assert manager.users_of("a.ipynb") == {BOB.identity}
    manager.forget(BOB)
    assert manager.users_of("a.ipynb") == set()


@pytest.mark.proves("threat:exhaustion")
def test_at_the_bound_the_oldest_notebook_without_a_kernel_makes_room() -> None:
    manager = NotebookManager(max_notebooks=3)
    for name, kernel in (("a", "kernel-1"), ("b", None), ("c", "kernel-2")):
        manager.add(A, None, f"{name}.ipynb", kernel)
    manager.add(A, None, "d.ipynb", "kernel-3")
    assert names(manager, A) == ["a.ipynb", "c.ipynb", "d.ipynb"]
    with pytest.raises(LimitReached, match="3 notebooks"):
        manager.add(A, None, "e.ipynb", None)
    manager.replace_kernel("kernel-2", None)
    manager.add(A, None, "e.ipynb", None)
    assert names(manager, A) == ["a.ipynb", "d.ipynb", "e.ipynb"]


@pytest.mark.proves("threat:exhaustion")
def test_over_the_bound_the_caller_who_acted_least_recently_is_forgotten() -> None:
    manager = NotebookManager(max_callers=2)
    manager.add(A, None, "a.ipynb", "kernel-1")
    manager.add(B, None, "b.ipynb", "kernel-2")
    assert manager.current(A) is not None
    manager.add(BOB, None, "c.ipynb", "kernel-3")
    assert manager.current(B) is None
    assert manager.current(A) is not None
