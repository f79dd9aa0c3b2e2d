"""Calls that numpy makes: for ``np.sum(x, axis=0)`` it calls ``x.sum(axis=0, dtype=None, out=None)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from oplib.errors import ArgumentTypeError, describe

_NAMES = {"axis": "dim", "keepdims": "keepdim", "dtype": "dtype", "ddof": "correction"}
_REDUCTIONS = frozenset(("all", "any", "max", "mean", "min", "prod", "std", "sum", "var"))


def is_of_numpy(op: str, named: Mapping[str, Any]) -> bool:
    """Whether numpy has called a method of a Tensor: it always passes ``out``, which no method has."""
    return "out" in named and op in _REDUCTIONS


def answer_numpy(op: str, function: Callable[..., Any], tensor: Any, named: Mapping[str, Any]) -> Any:
    """Returns what numpy's function of this name would, as a Tensor that is recorded.

    ``max`` and ``min`` return values without indices, and ``std`` and ``var`` do not correct their bias.

    Args:
        op: the name of the function.
        function: the one of oplib with the same name.
        tensor: the first argument.
        named: the keywords of numpy's call.

    Raises:
        ArgumentTypeError: ``out`` is given, or an option that the function of oplib does not have.
    """
    given = {name: value for name, value in named.items() if value is not None}
    if unknown := given.keys() - _NAMES:
        name = min(unknown)
        raise ArgumentTypeError(
            f"numpy.{op}: of a Tensor it takes no {name!r}. Got {describe(given[name])}. Give "
            f"numpy.asarray(tensor) to numpy, or call oplib.{op}."
        )
    options = {_NAMES[name]: value for name, value in given.items()}
    if "dtype" in options:
        options["dtype"] = np.dtype(options["dtype"])
    if op in ("max", "min"):
        return getattr(tensor, f"a{op}")(**{"dim": (), **options})
    if op in ("std", "var") and "dtype" in options:
        tensor = tensor.to(options.pop("dtype"))
    return function(tensor, **options)
