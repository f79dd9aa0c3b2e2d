"""The tensor floor by itself: calls of the floors above are written down."""

from __future__ import annotations

from typing import Any

import pytest

from oplib.builtin.public_functions.operators import WRITTEN
from oplib.tensor import box, upcalls
from oplib.tensor.methods.operators import TensorOperators

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class Recorder(dict[str, Any]):
    """Stands for the table of upcalls: every name is a function that notes its call."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __missing__(self, name: str) -> Any:
        def note(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            return args[0]

        return note


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Lists the calls that go up to ops while the test runs; each returns its first argument."""
    recorder = Recorder()
    for name, method in WRITTEN.items():  # some may have been fused with their ops meanwhile
        monkeypatch.setattr(TensorOperators, name, method)
    for name in list(vars(upcalls)):
        monkeypatch.delitem(vars(upcalls), name)
    monkeypatch.setattr(type(upcalls), "__getattr__", lambda _, name: recorder[name])
    return recorder.calls


@pytest.fixture
def converting(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stands in for the op ``to_dtype``, without gradients, and lists the dtypes asked for."""
    asked: list[Any] = []

    def convert(tensor: Any, dtype: Any) -> Any:
        asked.append(dtype)
        return box(tensor.array.astype(dtype))

    monkeypatch.setitem(vars(upcalls), "to_dtype", convert)
    monkeypatch.setitem(vars(upcalls), "clone", lambda tensor: box(tensor.array))
    return asked
