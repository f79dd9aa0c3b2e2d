"""Public names: each has one home, and is listed where it can be found."""

import __future__

import ast
import importlib
import re
import types
from pathlib import Path

import pytest

import oplib

ROOT = Path(__file__).parent.parent
FACADES = ["oplib", *sorted(f"oplib.{path.parent.name}" for path in (ROOT / "oplib").glob("*/__init__.py"))]


def list_exports(name: str) -> list[str]:
    return list(getattr(importlib.import_module(name), "__all__", []))


def list_public_modules() -> list[str]:
    """Returns the modules that pages of the reference show, and all that modules export, but those of ops."""
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    found = ["oplib", "oplib.transforms", *re.findall(r"automodule:: (\S+)", pages)]
    for name in found:
        found += [
            f"{name}.{item}"
            for item in list_exports(name)
            if isinstance(getattr(importlib.import_module(name), item), types.ModuleType)
        ]
    return sorted(
        name for name in {*found} - {"oplib.ops"} if hasattr(importlib.import_module(name), "__all__")
    )


MODULES = list_public_modules()


def find_definitions() -> dict[str, list[str]]:
    """Returns the files in which each public function and class is defined at the top."""
    homes: dict[str, list[str]] = {}
    for path in sorted((ROOT / "oplib").rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    return homes


def test_the_root_lists_its_public_names():
    assert oplib.__all__


@pytest.mark.parametrize("name", FACADES)
def test_a_facade_lists_each_name_once_and_has_them_all(name):
    module, exports = importlib.import_module(name), list_exports(name)
    assert len(exports) == len(set(exports))
    assert [item for item in exports if not hasattr(module, item)] == []


def test_the_root_shows_nothing_that_it_does_not_list():
    shown = {name for name in vars(oplib) if not name.startswith("_")} - set(__future__.all_feature_names)
    submodules = {name for name in shown if isinstance(getattr(oplib, name), types.ModuleType)}
    assert shown - submodules <= set(oplib.__all__)
    assert {
        name for name in submodules if getattr(oplib, name).__name__.partition(".")[0] != "oplib"
    } == set()


@pytest.mark.parametrize("name", MODULES)
def test_dir_shows_what_a_module_exports_and_its_public_modules_and_no_import(name):
    module = importlib.import_module(name)
    exports, shown = set(list_exports(name)), set(dir(module))
    inner = {item.rpartition(".")[2] for item in MODULES if item.rpartition(".")[0] == name}
    assert {*exports, "__name__", "__doc__"} <= shown
    assert {item for item in shown - exports - inner if not item.startswith("_")} == set()


def test_dir_of_ops_shows_namespaces():
    assert "oplib" in dir(oplib.ops)
    assert {"Any", "annotations", "ops"}.isdisjoint(dir(oplib.ops))


DIFFERENT_IN_LINALG = {
    "cond",
    "diagonal",
    "lu",
    "lu_solve",
    "norm",
    "qr",
    "svd",
    "vander",
}  # from functions of the root


def test_a_name_that_several_facades_list_is_one_thing():
    found: dict[str, list[object]] = {}
    for facade in set(FACADES) - {"oplib.array_api"}:  # its names are the standard's
        for name in list_exports(facade):
            thing = getattr(importlib.import_module(facade), name)
            if callable(thing) and not any(thing is other for other in found.setdefault(name, [])):
                found[name].append(thing)
    # oplib.ops has the ops; those of testing and visual are what tests and tables show of them
    assert {name for name, things in found.items() if len(things) > 1} == {*DIFFERENT_IN_LINALG, "ops"}


def test_each_exported_function_and_class_is_defined_in_one_file():
    exported = {name for facade in FACADES for name in list_exports(facade)}
    homes = find_definitions()
    assert {name: homes[name] for name in exported & set(homes) if len(set(homes[name])) > 1} == {}


@pytest.mark.parametrize("name", FACADES)
def test_an_exported_function_or_class_has_a_docstring(name):
    module = importlib.import_module(name)
    things = {item: getattr(module, item) for item in list_exports(name)}
    code = {item: thing for item, thing in things.items() if isinstance(thing, (types.FunctionType, type))}
    assert [item for item, thing in code.items() if not thing.__doc__] == []
