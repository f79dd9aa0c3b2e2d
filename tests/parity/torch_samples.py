"""A sample of a built-in op on torch and on oplib: what either is called with, and what came of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

import oplib
from tests.builtin.grid.calls import OF_HERMITIAN, ROW_OF, Call

from .conftest import ERRORS
from .counterparts import CONSTANTS, find_oplib, find_torch

Function = Callable[..., Any]


def make(lib: Any, value: Any, leaves: list[Any]) -> Any:
    """Turns the arrays of a sample into tensors, floating ones into leaves."""
    if isinstance(value, np.ndarray):
        own = value.astype(np.int64) if value.dtype == np.int32 else value
        tensor = lib.tensor(own.tolist(), dtype=getattr(lib, own.dtype.name)).reshape(own.shape)
        if own.dtype.kind in "fc":
            tensor = tensor.detach().requires_grad_()
            leaves.append(tensor)
        return tensor
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [make(lib, item, leaves) for item in value]
    if isinstance(value, np.dtype):
        return getattr(lib, value.name)
    return value


def make_arguments(
    lib: Any, call: Call, *, requires_grad: bool = True
) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """Returns arguments, keyword arguments, and the leaves among them."""
    leaves: list[Any] = []
    constants = CONSTANTS.get(call.row.op, ())
    args = [
        make(lib, value, leaves)
        if place not in constants or not isinstance(value, np.ndarray)
        else make(lib, value, []).detach()
        for place, value in enumerate(call.sample.args)
    ]
    kwargs = {name: make(lib, value, leaves) for name, value in call.sample.kwargs.items()}
    for leaf in leaves:
        leaf.requires_grad_(requires_grad)
    return args, kwargs, leaves


def to_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def to_numpy(tensor: Any) -> np.ndarray:
    tensor = tensor.detach()
    return np.asarray(
        tensor.resolve_conj().resolve_neg().numpy(force=True)
        if isinstance(tensor, torch.Tensor)
        else tensor.array
    )


@dataclass
class Outcome:
    """What came of a program.

    Attributes:
        arrays: of results, or gradients; None for none.
        kinds: names of the builtin kinds of the error; empty if there was none.
        text: of the error.
        warned: the categories of warnings.
    """

    arrays: list[np.ndarray | None] = field(default_factory=list)
    kinds: frozenset[str] = frozenset()
    text: str = ""
    warned: frozenset[str] = frozenset()


def watch(program: Callable[[Any], list[Any]], lib: Any) -> Outcome:
    """Runs a program on one of the two."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            arrays = [None if one is None else to_numpy(one) for one in program(lib)]
        except Exception as error:  # noqa: BLE001  whatever it is, the other must raise it too
            kinds = frozenset(kind.__name__ for kind in ERRORS if isinstance(error, kind))
            return Outcome(kinds=kinds, text=f"{type(error).__name__}: {error}")
    resized = [one for one in caught if "resized" in str(one.message)]
    return Outcome(arrays, warned=frozenset(one.category.__name__ for one in resized))


def assert_alike(program: Callable[[Any], list[Any]], tolerance: float = 1e-9) -> None:
    """Runs a program on both, which must agree in numbers, dtypes and shapes, or in the kind of error."""
    theirs, ours = watch(program, torch), watch(program, oplib)
    assert theirs.kinds <= ours.kinds, f"torch raised {theirs.text}; oplib {ours.text or 'nothing'}"
    assert theirs.kinds or not ours.kinds, f"torch raised nothing; oplib {ours.text}"
    assert theirs.warned == ours.warned, f"torch warned {theirs.warned}, oplib {ours.warned}"
    for mine, other in zip(ours.arrays, theirs.arrays, strict=True):
        if mine is None or other is None:
            assert not np.any(other if mine is None else mine), (
                f"nothing came from {'oplib' if mine is None else 'torch'}, from the other what is not zero"
            )
            continue
        assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance)


def function_of(lib: Any, name: str) -> Function:
    """Returns what to call on either for an overload that has a counterpart."""
    found = find_torch(name) if lib is torch else find_oplib(name)
    assert found is not None
    if ROW_OF[name].op not in OF_HERMITIAN:
        return found
    return lambda x, *args, **kwargs: found(0.5 * (x + x.mH), *args, **kwargs)
