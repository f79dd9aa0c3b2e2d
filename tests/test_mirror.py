"""Where a test stands: the folders of the tests are those of the package, as CONTRIBUTING.md says."""

from pathlib import Path

import pytest

from tests.mirror import (
    PACKAGE,
    ROOT,
    TESTS,
    list_importers_of,
    list_own_tests_of,
    list_tests_of,
    list_tests_that_import,
)
from tests.quick import list_tests, plan

OF_NO_PACKAGE = {
    "accelerators",
    "parity",
    "programs",
    "ecosystem",
    "soak",
    "distributed",
    "examples",
    "tools",
    "worlds",
    "library/matrix",
    "parity/writes",
}
FILES = sorted(path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))
MODULES = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"}


def find_misplaced(files: list[Path], modules: set[Path]) -> list[tuple[str, list[str]]]:
    """Returns the tests with the name of a module that stands elsewhere on their floor, and that module."""
    misplaced: list[tuple[str, list[str]]] = []
    for file in files:
        module = file.with_name(file.name.removeprefix("test_"))
        floor = file.parts[: 1 if len(file.parts) > 1 else 0]
        others = [one for one in modules if one.name == module.name and one.parts[: len(floor)] == floor]
        if floor and others and module not in others:
            misplaced.append((file.as_posix(), sorted(one.as_posix() for one in others)))
    return misplaced


@pytest.mark.parametrize("folder", sorted({file.parent.as_posix() for file in FILES} - OF_NO_PACKAGE))
def test_each_folder_of_tests_is_a_package(folder):
    assert (PACKAGE / folder / "__init__.py").exists()


def test_a_test_with_the_name_of_a_module_stands_where_the_module_stands():
    mirrored = [file for file in FILES if file.parent.as_posix() not in OF_NO_PACKAGE]
    assert find_misplaced(mirrored, MODULES) == []


def test_a_misplaced_test_is_found():
    modules = {Path("autograd/engine/run.py"), Path("library/dispatch/dispatcher.py")}
    files = [Path("autograd/test_run.py"), Path("autograd/engine/test_run.py"), Path("test_dispatch.py")]
    assert find_misplaced(files, modules) == [("autograd/test_run.py", ["autograd/engine/run.py"])]


def test_contributing_names_the_folders_of_tests_that_belong_to_no_package():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [folder for folder in OF_NO_PACKAGE if f"`tests/{folder}/`" not in text] == []


def test_a_module_is_tested_by_its_own_files(tmp_path):
    (tmp_path / "autograd" / "engine").mkdir(parents=True)
    for name in ["test_run.py", "test_run_threads.py", "test_running.py", "test_plan.py"]:
        (tmp_path / "autograd" / "engine" / name).touch()
    tests = list_tests_of(Path("autograd/engine/run.py"), tmp_path)
    assert [path.name for path in tests] == ["test_run.py", "test_run_threads.py"]


def test_a_module_without_a_file_is_tested_by_the_files_of_its_package(tmp_path):
    (tmp_path / "autograd" / "nodes").mkdir(parents=True)
    (tmp_path / "autograd" / "test_graph.py").touch()
    assert list_tests_of(Path("autograd/nodes/node.py"), tmp_path) == [
        tmp_path / "autograd" / "test_graph.py"
    ]


def test_every_module_has_tests():
    assert [module for module in MODULES if not list_tests_of(module)] == []


def test_a_quick_check_runs_the_tests_of_changed_modules_and_changed_tests():
    changed = [PACKAGE / "config.py", TESTS / "test_errors.py", TESTS / "mirror.py"]
    assert list_tests(changed) == [TESTS / "test_config.py", TESTS / "test_errors.py"]


def test_a_quick_check_runs_the_tests_of_a_module_before_those_of_its_package():
    tests = list_tests([PACKAGE / "tensor" / "views" / "view_storage.py"])
    folder = TESTS / "tensor" / "views"
    assert tests[0] == folder / "test_view_storage.py"
    assert set(folder.glob("test_*.py")) <= set(tests)


def test_a_quick_check_runs_the_tests_of_modules_that_import_the_changed_one():
    module = Path("autograd/array_functions/residual_function.py")
    importer = Path("transforms/control_flow/scan.py")
    assert importer in list_importers_of(module)
    assert TESTS / "transforms" / "control_flow" / "test_scan.py" in list_tests([PACKAGE / module])


def test_a_quick_check_runs_the_tests_that_import_the_changed_module():
    module = Path("autograd/recording/origins.py")
    test = TESTS / "autograd" / "nodes" / "test_new_kinds.py"
    assert list_tests_that_import(module) == [test]
    assert test in list_tests([PACKAGE / module])


def test_a_module_that_an_untested_one_imports_is_tested_by_the_importers_of_that():
    module, untested = (
        Path("library/batching_and_sharding/sharding_rule.py"),
        Path("library/batching_and_sharding/placement.py"),
    )
    assert (list_own_tests_of(untested), untested in list_importers_of(module)) == ([], True)
    importer = Path("library/kernels/result_types.py")
    assert importer in set(list_importers_of(untested)) - set(list_importers_of(module))
    assert TESTS / "library" / "kernels" / "test_result_types.py" in list_tests([PACKAGE / module])


def test_a_quick_check_runs_the_tests_of_modules_that_the_changed_one_imports():
    tests = list_tests([PACKAGE / "tensor" / "views" / "view_storage.py"])
    assert TESTS / "tensor" / "storage" / "test_fresh.py" in tests


def test_an_import_from_the_package_of_a_module_is_no_import_of_the_module():
    assert Path("autograd/recording/view.py") in list_importers_of(Path("modes.py"))
    assert Path("autograd/recording/view.py") not in list_importers_of(Path("tensor/views/chain.py"))


def test_a_quick_check_types_only_files_of_the_package():
    commands = plan([PACKAGE / "config.py", TESTS / "mirror.py"], [])
    (types,) = [command for command in commands if Path(command[0]).name == "pyright"]
    assert str(PACKAGE / "config.py") in types
    assert str(TESTS / "mirror.py") not in types
