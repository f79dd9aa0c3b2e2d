"""What is compared of one of torch's samples: results, gradients and their histories, kinds of errors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import oplib
from oplib.errors import OplibError

from .entries import Entry, list_tensors, to_oplib

RTOL, ATOL = 1e-6, 1e-8


def check_sample(entry: Entry, way: str, sample: Any, *, shapes_only: bool = False) -> str | None:
    """Runs a sample on both; returns what differs, and None if nothing does.

    Raises:
        NotConvertibleError: if oplib cannot be given the arguments.
    """
    own = [to_oplib(part) for part in (sample.input, sample.args, sample.kwargs)]
    theirs = _run(lambda: _call(entry, torch, way, sample.input, sample.args, sample.kwargs))
    ours = _run(lambda: _call(entry, oplib, way, *own))
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        return _compare_errors(theirs, ours)
    if not shapes_only:
        theirs, ours = _process(sample, theirs), _process(sample, ours)
    leaves = [list_tensors((sample.input, sample.args, sample.kwargs)), list_tensors(own)]
    # cov sums weights of float32 in float32 there, and in the dtype of its input here.
    is_single = any(_is_single(_to_numpy(one).dtype) for one in leaves[0])
    found = compare(theirs, ours, values=not shapes_only, is_single=is_single)
    if found or shapes_only or not entry.info.supports_autograd:
        return found
    return _compare_gradients((theirs, ours), leaves, is_single=is_single)


def check_error(entry: Entry, way: str, error_input: Any) -> str | None:
    """Gives both what torch refuses; None if oplib raises an error of its own of this kind."""
    sample = error_input.sample_input
    own = [to_oplib(part) for part in (sample.input, sample.args, sample.kwargs)]
    theirs = _run(lambda: _call(entry, torch, way, sample.input, sample.args, sample.kwargs))
    if not isinstance(theirs, Exception):
        return None
    return _compare_errors(theirs, _run(lambda: _call(entry, oplib, way, *own)))


def check_history(entry: Entry, way: str, sample: Any) -> str | None:
    """Differentiates a sample on both under ``create_graph``; returns which gradient alone requires grad.

    That of torch may do so if its derivative is zero: some formulas of torch take an input for its shape.
    What raises an error is left to :func:`check_sample`.

    Raises:
        NotConvertibleError: if oplib cannot be given the arguments.
    """
    given = (sample.input, sample.args, sample.kwargs)
    own = tuple(map(to_oplib, given))

    def differentiate(lib: Any, parts: Any) -> list[Any]:
        result = _process(sample, _call(entry, lib, way, *parts))
        return _differentiate(result, list_tensors(parts), create_graph=True)

    theirs, ours = _run(lambda: differentiate(torch, given)), _run(lambda: differentiate(oplib, own))
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        return None
    for place, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        have = tuple(grad is not None and grad.requires_grad for grad in (one, other))
        if have == (False, True):
            return f"gradient {place}: that of oplib alone requires grad"
        if have == (True, False) and _has_derivative(one, list_tensors(given)):
            return f"gradient {place}: that of torch alone requires grad"
    return None


def _has_derivative(grad: Any, tensors: list[Any]) -> bool:
    seconds = _run(lambda: _differentiate(grad, tensors))
    if isinstance(seconds, Exception):  # torch has no formula for it
        return False
    return any(one is not None and bool((one.abs() > ATOL).any()) for one in seconds)


def _call(entry: Entry, lib: Any, way: str, first: Any, args: Any, kwargs: Any) -> Any:
    function = entry.find(lib, way)
    assert function is not None
    if way == "in place":
        first = first.clone()
    return function(first, *args, **kwargs)


def _run(program: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return program()
        except Exception as error:  # noqa: BLE001  it is compared with the error of the other
            return error


def _process(sample: Any, result: Any) -> Any:
    """Takes the part of a result that is unique, as torch's own tests do."""
    try:
        return sample.output_process_fn_grad(result)
    except (AttributeError, TypeError):
        return result


def _compare_errors(theirs: Any, ours: Any) -> str | None:
    if not isinstance(ours, Exception):
        return f"torch raised {_tell(theirs)}; oplib raised nothing"
    if not isinstance(theirs, Exception):
        return f"torch raised nothing; oplib raised {_tell(ours)}"
    if not isinstance(ours, OplibError):
        return f"torch raised {_tell(theirs)}; oplib raised the raw {_tell(ours)}"
    kind = next(kind for kind in type(theirs).__mro__ if kind.__module__ == "builtins")
    if not isinstance(ours, kind):
        return f"torch raised {_tell(theirs)}; oplib raised {_tell(ours)}"
    return None


def _tell(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}"


def compare(theirs: Any, ours: Any, *, values: bool = True, is_single: bool = False) -> str | None:
    """Returns the first difference of two results: of structure, dtype, shape or value.

    Args:
        theirs: the result of torch.
        ours: the result of oplib.
        values: whether values are compared.
        is_single: whether they are compared as float32, whatever their dtype.
    """
    if isinstance(theirs, (list, tuple)):
        if not isinstance(ours, (list, tuple)) or len(ours) != len(theirs):
            return f"torch gave {len(theirs)} results, oplib {ours!r}"[:200]
        pairs = zip(theirs, ours, strict=True)
        found = (compare(one, other, values=values, is_single=is_single) for one, other in pairs)
        return next(filter(None, found), None)
    if not isinstance(theirs, torch.Tensor):
        return None if _is_equal(theirs, ours) else f"torch gave {theirs!r}, oplib {ours!r}"[:200]
    if not isinstance(ours, oplib.Tensor):
        return f"torch gave a Tensor, oplib {type(ours).__name__}"
    return _compare_arrays(_to_numpy(theirs), _to_numpy(ours), values, is_single)


def _to_numpy(tensor: Any) -> np.ndarray:
    if isinstance(tensor, oplib.Tensor):
        return np.asarray(tensor.detach().array)
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return tensor.float().numpy().astype(oplib.bfloat16)
    return tensor.numpy(force=True)


def _is_equal(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, torch.dtype):
        return str(theirs).removeprefix("torch.") == np.dtype(ours).name
    if isinstance(theirs, (float, complex)):
        return bool(np.allclose(theirs, ours, rtol=RTOL, equal_nan=True))
    return isinstance(theirs, (torch.layout, torch.device)) or theirs == ours


def _is_single(dtype: np.dtype) -> bool:
    """Tells whether a dtype is floating or complex, with at most 32 bits a number."""
    return dtype.kind in "fcV" and dtype.itemsize // (2 if dtype.kind == "c" else 1) < 8


def _compare_arrays(theirs: np.ndarray, ours: np.ndarray, values: bool, is_single: bool) -> str | None:
    if (theirs.shape, theirs.dtype) != (ours.shape, ours.dtype):
        return f"torch gave {theirs.dtype}{list(theirs.shape)}, oplib {ours.dtype}{list(ours.shape)}"
    if theirs.dtype == oplib.bfloat16:
        theirs, ours = theirs.astype(np.float32), ours.astype(np.float32)
    scale = 2e2 if theirs.dtype.kind in "fc" and (is_single or _is_single(theirs.dtype)) else 1
    if not values or np.allclose(ours, theirs, rtol=RTOL * scale, atol=ATOL * scale, equal_nan=True):
        return None
    wrong = ~np.isclose(ours, theirs, rtol=RTOL * scale, atol=ATOL * scale, equal_nan=True)
    return (
        f"torch gave {theirs[wrong].flat[0]!r}, oplib {ours[wrong].flat[0]!r} ({wrong.sum()} of {wrong.size})"
    )


def _compare_gradients(results: tuple[Any, Any], leaves: list[list[Any]], *, is_single: bool) -> str | None:
    """Differentiates the sum of all results, each item by its own weight."""
    found = [
        _run(lambda own=own, some=some: _differentiate(own, some))
        for own, some in zip(results, leaves, strict=True)
    ]
    if any(isinstance(one, Exception) for one in found):
        both = _compare_errors(*found)
        return both and f"gradient: {both}"
    theirs, ours = found
    for place, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        if one is None or other is None:
            given = other if one is None else one
            if given is not None and bool((given != 0).any()):
                return (
                    f"gradient {place}: {'oplib' if one is None else 'torch'} alone gave one that is not zero"
                )
        elif different := compare(one, other, is_single=is_single):
            return f"gradient {place}: {different}"
    return None


def _differentiate(result: Any, tensors: list[Any], *, create_graph: bool = False) -> list[Any]:
    outputs = [one for one in list_tensors(result) if one.requires_grad]
    leaves = [one for one in tensors if one.requires_grad]
    if not outputs or not leaves:
        return [None] * len(leaves)
    lib = torch if isinstance(outputs[0], torch.Tensor) else oplib
    weights = [_weigh(lib, one) for one in outputs]
    options = {"allow_unused": True, "create_graph": create_graph}
    return list(lib.autograd.grad(outputs, leaves, weights, **options))


def _weigh(lib: Any, tensor: Any) -> Any:
    items = np.cos(np.arange(math.prod(tensor.shape)) * 0.7).reshape(tuple(tensor.shape))
    return lib.tensor(items).to(tensor.dtype)
