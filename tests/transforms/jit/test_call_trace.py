"""One trace of a function: what is left of it."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import oplib
from oplib.autograd.graph import saved_tensors_hooks
from oplib.transforms.jit.call_trace import FEWEST_PACKED, LARGEST_PACKED


def test_a_trace_leaves_no_traced_value_behind():
    weight = oplib.ones(2, requires_grad=True)
    kept = SimpleNamespace(hidden=oplib.zeros(2))

    @oplib.jit
    def step(x):
        loss = (weight * x).sum()
        loss.backward()
        with oplib.no_grad():
            weight.sub_(weight.grad, alpha=0.5)
        weight.grad = None
        kept.hidden = kept.hidden + x
        return loss.detach(), x[:1], oplib.rand(2)

    with jax.checking_leaks():
        for _ in range(2):
            step(oplib.ones(2))
        oplib.jit(lambda x: (x * weight).sin())(oplib.ones(2)).sum().backward()
    assert (weight.tolist(), kept.hidden.tolist()) == ([0.0, 0.0], [2.0, 2.0])
    assert weight.grad.tolist() == [1.0, 1.0]


def test_four_orders_of_a_compiled_call_are_those_of_jax():
    cube = oplib.jit(lambda x: (x * x).sin() * x)
    x = oplib.tensor(0.5, requires_grad=True)
    found, expected = cube(x), lambda x: jnp.sin(x * x) * x
    for _ in range(4):
        (found,) = oplib.autograd.grad(found, x, create_graph=True)
        expected = jax.grad(expected)
        np.testing.assert_allclose(found.item(), expected(0.5), rtol=1e-5)


def chain(x):
    for _ in range(FEWEST_PACKED + 1):
        x = x.sin()
    return x


def mixed(x):
    half = chain(x.to(oplib.bfloat16)).float()
    return chain(x[0]) + oplib.where(x > 0.4, chain(x), half) + oplib.dropout(x, 0.5) * 0


@pytest.mark.parametrize("size", [2, LARGEST_PACKED // FEWEST_PACKED, LARGEST_PACKED])
def test_many_residuals_that_are_small_together_are_one_array(size):
    x = oplib.linspace(0.1, 1.0, size, requires_grad=True)
    saved = [tuple(one.shape) for one in oplib.jit(chain)(x).grad_fn.saved_tensors]
    is_small = size * FEWEST_PACKED <= LARGEST_PACKED
    assert saved == [(size,), (FEWEST_PACKED * size,)] if is_small else [(size,)] * (FEWEST_PACKED + 1)


@pytest.mark.parametrize("function", [chain, mixed])
def test_gradients_of_packed_residuals_are_those_of_the_uncompiled_run(function):
    found = []
    for call in (function, oplib.jit(function)):
        x = oplib.linspace(0.1, 1.0, 4, requires_grad=True)
        with saved_tensors_hooks(lambda tensor: [tensor], lambda kept: kept[0]):
            result = call(x)
        (first,) = oplib.autograd.grad(call(x).sum(), x, create_graph=True)
        (second,) = oplib.autograd.grad(first.sum(), x)
        result.sum().backward()
        found.append((x.grad, first, second))
    for mine, its in zip(*found, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), its.detach().numpy(), rtol=5e-3)


def test_an_operand_and_a_result_are_not_packed():
    def several(x):
        results = [x]
        for _ in range(FEWEST_PACKED):
            results.append(results[-1].sin())
        return results

    x = oplib.ones(2, requires_grad=True)
    step = oplib.jit(several)
    results = step(x)
    assert {id(one.array) for one in results[-1].grad_fn.saved_tensors} <= {id(one.array) for one in results}
    with oplib.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        results[-1].sum().backward()


@pytest.mark.devices(4)
def test_residuals_on_several_devices_are_not_packed():
    placed = NamedSharding(jax.make_mesh((4,), ("i",)), PartitionSpec("i"))
    x = oplib.Tensor.from_array(jax.device_put(jnp.ones(4), placed)).requires_grad_()
    result = oplib.jit(chain)(x)
    assert len(result.grad_fn.saved_tensors) == FEWEST_PACKED + 1
    assert result.array.sharding.is_equivalent_to(placed, 1)
