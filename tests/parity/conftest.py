"""Runs one program on torch and on oplib, and compares what comes out."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

import oplib

# Without torch all of it would be collected to be skipped, one by one; tests/conftest.py says so instead.
collect_ignore_glob = [] if find_spec("torch") else ["test_*.py", "writes/test_*.py"]

ERRORS = tuple(
    kind
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, Exception) and kind is not Exception
)


def plain(value: Any) -> Any:
    """Returns tensors as nested lists, nodes by name, and containers of these."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "next_functions"):
        return value.name().replace("torch::", "oplib::")
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value)) if type(value) in (list, tuple) else tuple(map(plain, value))
    return value


def run(program: Callable[[Any], Any], lib: Any) -> Any:
    """Returns what the program gives, or the builtin kinds of the error that it raises."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = plain(program(lib))
        except Exception as error:  # noqa: BLE001  whatever it is, the other must raise it too
            return {kind.__name__ for kind in ERRORS if isinstance(error, kind)}, str(error)
    return result, sorted({one.category.__name__ for one in caught if one.category is FutureWarning})


@pytest.fixture
def assert_agrees() -> Callable[[Callable[[Any], Any]], Any]:
    """Runs a program on both; fails where they differ by more than rounding, or in the kind of error."""
    torch = pytest.importorskip("torch")

    def compare(program: Callable[[Any], Any]) -> Any:
        theirs, ours = run(program, torch), run(program, oplib)
        if isinstance(theirs[0], set):  # error
            assert isinstance(ours[0], set), f"torch raised {theirs}, oplib gave {ours}"
            assert theirs[0] <= ours[0], f"torch raised {theirs}, oplib {ours}"
        else:
            assert not isinstance(ours[0], set), f"torch gave {theirs}, oplib raised {ours}"
            assert_close(ours, theirs)
        return ours[0]

    return compare


def assert_close(ours: Any, theirs: Any) -> None:
    """Compares nested plain values; numbers to six digits."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        for key in theirs:
            assert_close(ours[key], theirs[key])
    elif isinstance(theirs, (list, tuple)):
        assert type(ours) is type(theirs)
        assert len(ours) == len(theirs)
        for mine, its in zip(ours, theirs, strict=True):
            assert_close(mine, its)
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6, nan_ok=True)
    else:
        assert ours == theirs
