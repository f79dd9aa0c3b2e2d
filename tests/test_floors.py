"""The floors, and the other rules of the house that a machine can check."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "oplib").rglob("*.py"))
ROOMS = [".".join(path.parent.relative_to(ROOT).parts) for path in FILES if path.name == "__init__.py"]
FILE_LIMIT, BODY_LIMIT = 500, 40  # a docstring is as long as what there is to say


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def read_contract() -> list[set[str]]:
    """Returns the floors of the contract from the bottom up, each as the set of its rooms."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [{room.strip(" ()") for room in layer.split("|")} for layer in reversed(layers)]


def find_functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def count_body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns the lines below the signature and the docstring; functions inside are counted on their own."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    if not body:
        return 0
    inside = [node for statement in body for node in find_functions(statement)]
    lines = set(range(body[0].lineno, (function.end_lineno or 0) + 1))
    for node in inside:
        lines -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def test_every_import_goes_down_or_stays_on_its_floor():
    command = [Path(sys.executable).parent / "lint-imports", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("package", sorted({"oplib", *ROOMS}))
def test_no_files_of_a_room_import_each_other_in_a_circle(package):
    # Imports for type checkers alone may: a mixin names the class it is mixed into.
    graph = grimp.build_graph("oplib", exclude_type_checking_imports=True, cache_dir=None)
    assert graph.nominate_cycle_breakers(package) == set()


def test_every_room_of_the_package_has_its_floor_in_the_contract():
    rooms = {path.stem for path in (ROOT / "oplib").iterdir() if path.suffix == ".py" or path.is_dir()}
    rooms = {room for room in rooms if not room.startswith("__") or room == "__main__"}
    assert rooms <= set().union(*read_contract())


def test_the_rooms_of_the_tests_are_rooms_of_the_package():
    # matrix/ is of no one room: it puts an op under every transformation of JAX.
    rooms = {path.parent.name for path in (ROOT / "tests/library").rglob("*/test_*.py")} - {
        "library",
        "matrix",
    }
    assert rooms
    assert rooms <= {path.parent.name for path in (ROOT / "oplib/library").glob("*/__init__.py")}


def test_the_architecture_page_shows_the_floors_of_the_contract():
    page = (ROOT / "docs/inside/architecture.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("errors <"))
    assert [{room.strip() for room in floor.split("|")} for floor in line.split("<")] == read_contract()


def test_every_file_that_the_architecture_page_names_exists():
    page = (ROOT / "docs/inside/architecture.md").read_text()
    named = re.findall(r"`((?:oplib/)?[a-z_/]+\.py)`", page)
    exist = [name for name in named if (ROOT / name).exists() or (ROOT / "oplib" / name).exists()]
    exist += [name for name in named if any(path.name == name for path in FILES)]
    missing = set(named) - set(exist)
    assert named
    assert not missing


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_inside_the_package_never_imports_the_package_root(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert "oplib" not in [alias.name for alias in node.names], f"line {node.lineno}"
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module != "oplib", f"line {node.lineno}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_uses_no_private_part_of_jax(path):
    assert "jax._src" not in path.read_text()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_the_carrier_touches_the_interpreters_of_jax(path):
    uses = {
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr == "interpreters")
        or (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jax.interpreters"))
        or (isinstance(node, ast.Import) and any(a.name.startswith("jax.interpreters") for a in node.names))
    }
    assert not uses or path.parent.name == "carrier" or path.name == "host_mark.py"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_and_its_functions_are_short(path):
    text = path.read_text()
    assert text.count("\n") <= FILE_LIMIT
    for function in find_functions(ast.parse(text)):
        where = f"{function.name} (line {function.lineno})"
        assert count_body_lines(function) <= BODY_LIMIT, where


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_is_named_after_the_thing_in_it(path):
    assert not {path.stem, path.parent.name} & {
        "util",
        "misc",
        "core",
        "base",
        "common",
        "manager",
        "helpers",
    }
