"""Checks against finite differences, in float64 and in complex128."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.tensor import Tensor

from .calls import Call, as_tuple, assert_near, draw_weights_like, from_vector, to_vector
from .check import Check, is_smooth, is_smooth_when_complex, lacks_derivative, may_differentiate
from .differences import differ


def to_numpy(tensors: Any) -> list[np.ndarray]:
    return [np.asarray(tensor.detach().array) for tensor in tensors]


def weigh(results: Any) -> list[Tensor]:
    """Checks first gradients of the floating results, in torch's convention."""
    like = [np.empty(tuple(result.shape), np.dtype(result.array.dtype)) for result in results]
    return [Tensor.from_array(jnp.asarray(weight)) for weight in draw_weights_like(like)]


def list_floating(results: Any) -> list[Tensor]:
    return [result for result in results if result.dtype.kind in "fc"]


def differentiate(
    call: Call, results: list[Tensor], inputs: list[Tensor], *, create_graph: bool = False
) -> list[Tensor]:
    """Checks the gradients of the weighted results by the inputs, on the tape."""
    floating = list_floating(results)
    pairs = [pair for pair in zip(floating, weigh(floating), strict=True) if pair[0].requires_grad]
    if not pairs:
        return [oplib.zeros_like(tensor) for tensor in inputs]
    outputs, weights = zip(*pairs, strict=True)
    return list(
        oplib.autograd.grad(outputs, inputs, weights, create_graph=create_graph, materialize_grads=True)
    )


def check_gradient(call: Call) -> None:
    leaves = call.make_tensors(requires_grad=True)
    results = list(call.run(*leaves))
    if call.op.record.derivative.constant is not None:
        assert not any(result.requires_grad for result in results)
    found = differentiate(call, results, [leaves[place] for place in call.places])
    assert_near(to_vector(to_numpy(found)), differ(call).gradient, 1e-6)


def check_second_gradient(call: Call) -> None:
    leaves = call.make_tensors(requires_grad=True)
    inputs = [leaves[place] for place in call.places]
    first = differentiate(call, list(call.run(*leaves)), inputs, create_graph=True)
    weights = [Tensor.from_array(jnp.asarray(part)) for part in from_vector(call.direction, call.floats)]
    pairs = [pair for pair in zip(first, weights, strict=True) if pair[0].requires_grad]
    found = [oplib.zeros_like(tensor) for tensor in inputs]
    if pairs:
        outputs, weights = zip(*pairs, strict=True)
        found = oplib.autograd.grad(outputs, inputs, weights, materialize_grads=True)
    assert_near(to_vector(to_numpy(found)), differ(call).hessian, 1e-4)


def check_forward_mode(call: Call) -> None:
    """Checks tangents of every floating argument against finite differences."""
    tensors = call.make_tensors()
    tangents = from_vector(call.direction, call.floats)
    with oplib.autograd.forward_ad.dual_level():
        for place, tangent in zip(call.places, tangents, strict=True):
            tangent = Tensor.from_array(jnp.asarray(tangent))
            tensors[place] = oplib.autograd.forward_ad.make_dual(tensors[place], tangent)
        results = list_floating(as_tuple(call.run(*tensors)))
        duals = [oplib.autograd.forward_ad.unpack_dual(result) for result in results]
        found = [oplib.zeros_like(dual.primal) if dual.tangent is None else dual.tangent for dual in duals]
        primals = to_vector(to_numpy([dual.primal for dual in duals]))
    assert_near(primals, differ(call).value, 1e-12)
    assert_near(to_vector(to_numpy(found)), differ(call).tangent, 1e-6)


def check_missing(call: Call) -> None:
    results = call.run(*call.make_tensors(requires_grad=True))
    with pytest.raises(NotImplementedError, match="torch has none either"):
        results[0].sum().backward()


DERIVATIVES = (
    Check("gradient", check_gradient, may_differentiate, share=0.4),
    Check("second gradient", check_second_gradient, is_smooth, share=0.2),
    Check("forward mode", check_forward_mode, may_differentiate, share=0.1),
    Check("missing derivative", check_missing, lacks_derivative, share=1.0, once=True),
    Check("complex gradient", check_gradient, is_smooth_when_complex, share=0.15, is_complex=True),
    Check(
        "complex second gradient", check_second_gradient, is_smooth_when_complex, share=0.08, is_complex=True
    ),
    Check("complex forward mode", check_forward_mode, is_smooth_when_complex, share=0.05, is_complex=True),
)
