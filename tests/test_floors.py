"""The floors, and the other rules of the project that a machine can check."""

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "oplib").rglob("*.py"))
PACKAGES = [".".join(path.parent.relative_to(ROOT).parts) for path in FILES if path.name == "__init__.py"]
FILE_LIMIT, BODY_LIMIT = 500, 40  # a docstring is as long as what there is to say


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def read_contract() -> list[set[str]]:
    """Returns the floors of the contract from the bottom up, each as the set of its packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return [{name.strip(" ()") for name in layer.split("|")} for layer in reversed(layers)]


def find_functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def find_places(is_wrong: Callable[[ast.AST], bool]) -> list[str]:
    """Returns the lines of the package where a rule is broken."""
    return [
        f"{name_of(path)}:{getattr(node, 'lineno', 1)}"
        for path in FILES
        for node in ast.walk(parse(path))
        if is_wrong(node)
    ]


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


def find_cycles(imports: Mapping[str, Collection[str]]) -> list[set[str]]:
    """Returns the modules that reach themselves, one set for each cycle or knot of cycles."""
    reached = {module: find_reachable(module, imports) for module in imports}
    knots = {frozenset(one for one in reached[module] if module in reached[one]) for module in imports}
    return sorted((set(knot) for knot in knots if knot), key=sorted)


def find_reachable(module: str, imports: Mapping[str, Collection[str]]) -> set[str]:
    """Returns what a module imports, directly or through others."""
    reached: set[str] = set()
    ahead = [module]
    while ahead:
        new = set(imports[ahead.pop()]) - reached
        reached |= new
        ahead += new
    return reached


def test_no_modules_import_each_other_in_a_cycle():
    # Imports under TYPE_CHECKING count too: whoever reads one module of a cycle has to read all of them.
    graph = grimp.build_graph("oplib", exclude_type_checking_imports=False, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 400
    assert find_cycles(imports) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folders_of_a_package_import_each_other_in_a_cycle(package):
    graph = grimp.build_graph("oplib", exclude_type_checking_imports=False, cache_dir=None)
    assert graph.nominate_cycle_breakers(package) == set()


def test_a_cycle_of_modules_is_found():
    imports = {"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": [], "e": ["e"]}
    assert find_cycles(imports) == [{"b", "c"}, {"e"}]


def test_every_folder_and_file_of_the_package_has_its_floor_in_the_contract():
    names = {path.stem for path in (ROOT / "oplib").iterdir() if path.suffix == ".py" or path.is_dir()}
    names = {name for name in names if not name.startswith("__") or name == "__main__"}
    assert names <= set().union(*read_contract())


def test_the_architecture_page_shows_the_floors_of_the_contract():
    page = (ROOT / "docs/inside/architecture.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("errors <"))
    assert [{name.strip() for name in floor.split("|")} for floor in line.split("<")] == read_contract()


@pytest.mark.parametrize("name", ["architecture", "state", "ways_of_a_call"])
def test_every_file_that_a_page_about_the_code_names_exists(name):
    page = (ROOT / f"docs/inside/{name}.md").read_text()
    named = re.findall(r"`((?:oplib/)?[a-z_/]+\.py)`", page)
    exist = [name for name in named if (ROOT / name).exists() or (ROOT / "oplib" / name).exists()]
    exist += [name for name in named if any(path.name == name for path in FILES)]
    missing = set(named) - set(exist)
    assert named
    assert not missing


# One test goes through all files and names the wrong ones: a test for each file costs ten times as much.


def test_no_file_inside_the_package_imports_the_package_root():
    def imports_the_root(node: ast.AST) -> bool:
        if isinstance(node, ast.Import):
            return "oplib" in [alias.name for alias in node.names]
        return isinstance(node, ast.ImportFrom) and not node.level and node.module == "oplib"

    assert find_places(imports_the_root) == []


def test_no_file_uses_private_parts_of_jax():
    assert [name_of(path) for path in FILES if "jax._src" in path.read_text()] == []


def test_one_file_converts_trees_and_does_so_under_a_lock():
    def converts(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr in {"parse", "literal_eval"}

    assert {place.partition(":")[0] for place in find_places(converts)} == {"oplib/generated_code.py"}


def test_only_the_carrier_touches_the_interpreters_of_jax():
    def touches_interpreters(node: ast.AST) -> bool:
        if isinstance(node, ast.Import):
            return any(alias.name.startswith("jax.interpreters") for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            return (node.module or "").startswith("jax.interpreters")
        return isinstance(node, ast.Attribute) and node.attr == "interpreters"

    files = {place.partition(":")[0] for place in find_places(touches_interpreters)}
    assert "oplib/library/jax_primitives/primitive.py" in files
    assert {file for file in files if not file.startswith("oplib/library/jax_primitives/")} == {
        "oplib/library/derivatives/linear_map.py",
        "oplib/library/kernels/host_call.py",
    }


def test_files_and_their_functions_are_short():
    assert [name_of(path) for path in FILES if path.read_text().count("\n") > FILE_LIMIT] == []
    assert [
        f"{name_of(path)}:{function.lineno} {function.name}"
        for path in FILES
        for function in find_functions(parse(path))
        if count_body_lines(function) > BODY_LIMIT
    ] == []


def test_files_are_named_after_the_thing_in_them():
    vague = {"util", "misc", "core", "base", "common", "manager", "helpers"}
    assert [name_of(path) for path in FILES if {path.stem, path.parent.name} & vague] == []


def test_no_two_public_classes_or_functions_share_a_name():
    places: dict[str, list[str]] = {}
    for path in FILES:
        defined = [node for node in parse(path).body if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
        classes = [node for node in ast.walk(parse(path)) if isinstance(node, ast.ClassDef)]
        names = {node.name for node in defined if not node.name.startswith("_")}
        for name in names | {node.name for node in classes}:
            places.setdefault(name, []).append(name_of(path))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_the_rules_about_files_find_violations():
    tree = ast.parse("def long():\n    'What.'\n    def inside():\n        return 1\n    return inside\n")
    assert [count_body_lines(function) for function in find_functions(tree)] == [1, 1]
    assert find_places(lambda node: isinstance(node, ast.FunctionDef) and node.name == "find_carrier")
