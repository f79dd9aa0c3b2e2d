"""Checks of in-place forms and of ``out=``: their writes, and the calls that they refuse without writing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.builtin.public_functions.registry import FUNCTIONS, IN_PLACE, TAKING_OUT
from oplib.tensor import Tensor
from tests.builtin.samples.drawing import Sample

from .calls import FIRST_ROWS, ROW_OF, Call, assert_near, to_vector
from .check import Check, has_in_place_form, is_smooth_in_place
from .checks_derivatives import differentiate, to_numpy
from .differences import differ

KINDS = "biufc"
OTHER_ARGUMENTS = frozenset({"tensordot", "polygamma"})  # of their functions, or another order of them


def holds(tensor: Tensor, result: Tensor) -> bool:
    """Tells whether a tensor can hold a result: the same shape, and a dtype of no lower category."""
    return tensor.shape == result.shape and has_capacity(tensor, result)


def has_capacity(tensor: Tensor, result: Tensor) -> bool:
    kinds = [one.dtype.kind.replace("u", "i") for one in (tensor, result)]
    return KINDS.index(kinds[0]) >= KINDS.index(kinds[1])


@contextmanager
def refuses(*untouched: Tensor) -> Iterator[None]:
    """Expects a RuntimeError that leaves the tensors unchanged."""
    before = [(np.asarray(tensor.detach().array), tensor._version) for tensor in untouched]
    with pytest.raises(RuntimeError):
        yield
    for tensor, (value, version) in zip(untouched, before, strict=True):
        np.testing.assert_array_equal(np.asarray(tensor.detach().array), value)
        assert tensor._version == version


def write(call: Call, tensors: list[Tensor]) -> Any:
    """Calls the in-place form."""
    args, kwargs = call.arguments(tensors)
    return IN_PLACE[f"{call.row.op}_"](*args, **kwargs)


def check_in_place(call: Call) -> None:
    tensors = call.make_tensors()
    (expected,) = call.run(*tensors)
    written = tensors[0]
    if not holds(written, expected):
        with refuses(written):
            write(call, tensors)
        return
    version = written._version
    assert write(call, tensors) is written
    assert written._version == version + 1
    np.testing.assert_allclose(written.array, expected.to(written.dtype).array, rtol=1e-12)


def check_in_place_gradient(call: Call) -> None:
    """Checks that the gradient passes the write, to the overwritten items and the other arguments."""
    leaves = call.make_tensors(requires_grad=True)
    tensors = [leaves[0].clone(), *leaves[1:]]
    (expected,) = call.run(*tensors)
    if not holds(tensors[0], expected):
        with refuses(tensors[0]):
            write(call, tensors)
        return
    result = write(call, tensors)
    found = differentiate(call, [result], [leaves[place] for place in call.places])
    assert_near(to_vector(to_numpy(found)), differ(call).gradient, 1e-6)


def check_in_place_leaf(call: Call) -> None:
    tensors = call.make_tensors(requires_grad=True)
    with refuses(tensors[0]):
        write(call, tensors)


def check_in_place_dtype(call: Call) -> None:
    """Checks that integers refuse a floating result, and accept an integral one."""
    integers = np.nan_to_num(call.arrays[0].real, posinf=1.0, neginf=1.0).astype(np.int64)
    tensors = [Tensor.from_array(jnp.asarray(integers)), *call.make_tensors()[1:]]
    try:
        (expected,) = call.run(*tensors)
    except RuntimeError:
        expected = None
    if expected is None or not holds(tensors[0], expected):
        with refuses(tensors[0]):
            write(call, tensors)
        return
    write(call, tensors)
    np.testing.assert_array_equal(tensors[0].array, expected.to(oplib.int64).array)


def takes_out(name: str, sample: Sample) -> bool:
    op = ROW_OF[name].op
    return op in TAKING_OUT and op in FUNCTIONS and op not in OTHER_ARGUMENTS


def takes_out_of_its_dtype(name: str, sample: Sample) -> bool:
    """Tells whether an op asks for a dtype of ``out``. Sums and products are computed in that of ``out``."""
    return takes_out(name, sample) and ROW_OF[name].op not in {"sum", "prod", "cumsum", "cumprod"}


def call_with_out(call: Call, tensors: list[Tensor], outs: list[Tensor]) -> Any:
    args, kwargs = call.arguments(tensors)
    return FUNCTIONS[call.row.op](*args, **kwargs, out=outs[0] if len(outs) == 1 else tuple(outs))


def make_outs(results: Any, shape: tuple[int, ...] | None = None, dtype: Any = None) -> list[Tensor]:
    """Returns tensors of the shapes and dtypes of the results, or of others."""
    return [
        Tensor.from_array(
            jnp.ones(tuple(result.shape) if shape is None else shape, dtype or result.array.dtype)
        )
        for result in results
    ]


def check_out(call: Call) -> None:
    tensors = call.make_tensors()
    expected = call.run(*tensors)
    for shape in (None, (0,)):
        outs = make_outs(expected, shape)
        versions = [out._version for out in outs]
        returned = call_with_out(call, tensors, outs)
        assert all(
            one is out for one, out in zip(returned if len(outs) > 1 else [returned], outs, strict=True)
        )
        assert [out._version for out in outs] == [version + 1 for version in versions]
        assert_same(outs, expected)


def assert_same(outs: Any, expected: Any) -> None:
    for out, result in zip(outs, expected, strict=True):
        assert (out.shape, out.dtype) == (result.shape, result.dtype)
        np.testing.assert_array_equal(np.asarray(out.array), np.asarray(result.array))


def check_out_shape(call: Call) -> None:
    """Checks that a tensor with items gets the other shape with a warning."""
    tensors = call.make_tensors()
    expected = call.run(*tensors)
    outs = make_outs(expected, (7, 1))
    with pytest.warns(UserWarning, match="resized"):
        call_with_out(call, tensors, outs)
    assert_same(outs, expected)


def check_out_gradient(call: Call) -> None:
    tensors = call.make_tensors(requires_grad=True)
    expected = call.run(*call.make_tensors())
    outs = make_outs(expected)
    recorded = call.run(*tensors)
    results = recorded if isinstance(recorded, (tuple, list)) else [recorded]
    if call.places and any(one.requires_grad for one in results):  # a result without a gradient loses none
        with refuses(*outs):
            call_with_out(call, tensors, outs)
    for out in outs:
        if out.dtype.kind in "fc":
            out.requires_grad_()
    if any(out.requires_grad for out in outs):
        with refuses(*outs):
            call_with_out(call, call.make_tensors(), outs)


def check_out_dtype(call: Call) -> None:
    """Checks that a dtype of a lower category is refused, and a higher one accepted unless the op says no."""
    tensors = call.make_tensors()
    expected = call.run(*tensors)
    for dtype in (np.bool_, np.int64, np.float32, np.complex128):
        outs = make_outs(expected, dtype=dtype)
        if FIRST_ROWS[call.row.op].exact_out and any(
            out.dtype != one.dtype for out, one in zip(outs, expected, strict=True)
        ):
            with refuses(*outs):
                call_with_out(call, tensors, outs)
        elif all(map(has_capacity, outs, expected)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # numpy's of an infinity that becomes an integer
                call_with_out(call, tensors, outs)
            for out, result in zip(outs, expected, strict=True):
                np.testing.assert_array_equal(out.array, np.asarray(result.array).astype(dtype))
        else:
            with refuses(outs[0] if not has_capacity(outs[0], expected[0]) else outs[-1]):
                call_with_out(call, tensors, outs)


FORMS = (
    Check("in place", check_in_place, has_in_place_form, share=0.15),
    Check("in place, gradient", check_in_place_gradient, is_smooth_in_place, share=0.15),
    Check("in place, leaf", check_in_place_leaf, is_smooth_in_place, share=0.1),
    Check("in place, dtype", check_in_place_dtype, has_in_place_form, share=0.1),
    Check("out", check_out, takes_out, share=0.1),
    Check("out, shape", check_out_shape, takes_out, share=0.05),
    Check("out, gradient", check_out_gradient, takes_out, share=0.05),
    Check("out, dtype", check_out_dtype, takes_out_of_its_dtype, share=0.05),
)
