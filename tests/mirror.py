"""The tests of a module: ``tests/<path>/test_<module>.py``, and ``test_<module>_<aspect>.py`` beside it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS, PACKAGE = ROOT / "tests", ROOT / "oplib"


def list_tests_of(module: Path, tests: Path = TESTS) -> list[Path]:
    """Returns the test files of a module.

    A module without a file of its own is tested by the files of its package. If the package has none, the
    files of the package above test it.

    Args:
        module: a path inside the package, such as ``autograd/engine/run.py``.
        tests: the folder of all tests.
    """
    own = [
        *(tests / module.parent).glob(f"test_{module.stem}.py"),
        *(tests / module.parent).glob(f"test_{module.stem}_*.py"),
    ]
    if own:
        return sorted(own)
    for folder in module.parents:
        found = sorted((tests / folder).glob("test_*.py"))
        if found:
            return found
    return []
