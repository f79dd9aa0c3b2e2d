"""The parts of error samples: a call, and the text of its error."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.builtin.samples.drawing import show


class Refusal:
    """A call that must raise.

    Args:
        op: the path of the function in a library, ``linalg.inv`` or ``Tensor.add_``.
        says: a part of oplib's message.
        args: the arguments; numpy arrays, and lists and tuples of them, become tensors.
        kwargs: the keyword arguments.
    """

    def __init__(self, op: str, says: str, *args: Any, **kwargs: Any) -> None:
        self.op = op
        self.says = says
        self.args = args
        self.kwargs = kwargs

    def __str__(self) -> str:
        given = [*map(show, self.args), *(f"{name}={show(value)}" for name, value in self.kwargs.items())]
        return f"{self.op}({', '.join(given)})"

    def call(self, lib: Any, tensors: list[Any]) -> Any:
        """Makes the call.

        Args:
            lib: torch or oplib.
            tensors: a list to which the tensors of the call are added.
        """
        function = lib
        for name in self.op.split("."):
            function = getattr(function, name)
        args = [_make(lib, value, tensors) for value in self.args]
        return function(*args, **{name: _make(lib, value, tensors) for name, value in self.kwargs.items()})


def each(ops: str, says: str, *args: Any, **kwargs: Any) -> list[Refusal]:
    """Returns the same call of several functions, whose paths are separated by blanks."""
    return [Refusal(op, says, *args, **kwargs) for op in ops.split()]


def functional(names: str) -> str:
    """Returns the paths of functions of ``nn.functional``."""
    return " ".join(f"nn.functional.{name}" for name in names.split())


def _make(lib: Any, value: Any, tensors: list[Any]) -> Any:
    if isinstance(value, np.ndarray):
        tensor = lib.tensor(value.tolist(), dtype=getattr(lib, value.dtype.name)).reshape(value.shape)
        tensors.append(tensor)
        return tensor
    if isinstance(value, np.dtype):
        return getattr(lib, value.name)
    if isinstance(value, (list, tuple)) and any(isinstance(item, np.ndarray) for item in value):
        return type(value)(_make(lib, item, tensors) for item in value)
    return value


def real(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Returns numbers from -2 to 2."""
    return np.linspace(-2, 2, int(np.prod(shape))).reshape(shape).astype(dtype)


def whole() -> np.ndarray:
    """Returns an integer without axes."""
    return np.asarray(0)


def at(*places: Any, dtype: str = "int64") -> np.ndarray:
    """Returns indices, or other integers."""
    return np.array(places, dtype)


def mask(*shape: int) -> np.ndarray:
    """Returns every other item."""
    return (np.arange(int(np.prod(shape))) % 2 == 0).reshape(shape)


X = real(2, 3)
