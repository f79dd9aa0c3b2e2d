"""A Tensor among JAX's trees."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib import pytree
from oplib.errors import AutogradError, TracingError
from oplib.modes import modes
from oplib.tensor import Tensor, tensor
from tests.tensor.nodes import make_result


def test_a_tensor_is_a_leaf_in_our_trees_and_a_node_in_those_of_jax() -> None:
    x = tensor([1.0])
    (ours,) = pytree.tree_leaves([x])
    assert ours is x
    (leaf,) = jax.tree.leaves([x])
    assert leaf is x.array


@pytest.mark.parametrize("requires_grad", [False, True])
def test_mapping_keeps_the_flag_and_makes_a_leaf(requires_grad: bool) -> None:
    x = tensor([1.0, 2.0], requires_grad=requires_grad)
    y = jax.tree.map(lambda a: a * 2, {"w": x})["w"]
    assert (y.tolist(), y.requires_grad, y.is_leaf) == ([2.0, 4.0], requires_grad, True)


def test_the_flag_is_part_of_the_structure() -> None:
    x, y = tensor([1.0], requires_grad=True), tensor([1.0])
    assert jax.tree.structure(x) != jax.tree.structure(y)


def test_a_result_with_a_history_is_refused_with_the_cure() -> None:
    x = make_result()
    for call in (jax.tree.leaves, jnp.sin, jax.jit(lambda t: t)):
        with pytest.raises(AutogradError, match=r"f32\[2\] made by MulBackward0\. Use tensor\.detach"):
            call(x)


@pytest.mark.parametrize("child", [object(), None, jax.ShapeDtypeStruct((2,), jnp.float32), 3])
def test_rebuilding_takes_whatever_jax_puts_in(child: Any) -> None:
    rebuilt = jax.tree.unflatten(jax.tree.structure(tensor([1.0], requires_grad=True)), [child])
    assert rebuilt._storage.array is child
    assert rebuilt.requires_grad


def test_numpy_arrays_that_jax_puts_in_become_arrays_of_jax() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    for rebuilt in (jax.device_get(x), jax.tree.map(np.array, x)):
        assert isinstance(rebuilt.array, jax.Array)
        assert (rebuilt.tolist(), rebuilt.dtype, rebuilt.requires_grad) == ([1.0, 2.0], x.dtype, True)


def test_jit_and_grad_work_over_parameters() -> None:
    w = tensor([1.0, 2.0], requires_grad=True)

    def loss(params: Any, x: Any) -> Any:
        return (params["w"].array * x).sum()

    value, grads = jax.jit(jax.value_and_grad(loss))({"w": w}, jnp.array([3.0, 4.0]))
    assert value == 11.0
    assert isinstance(grads["w"], Tensor)
    np.testing.assert_array_equal(grads["w"].detach().numpy(), [3.0, 4.0])
    stepped = jax.tree.map(lambda p, g: p - 0.5 * g, {"w": w}, grads)["w"]
    assert stepped.requires_grad
    assert stepped.tolist() == [-0.5, 0.0]


def test_shapes_can_be_asked_for() -> None:
    made = jax.eval_shape(lambda t: t, tensor([1.0], requires_grad=True))
    assert isinstance(made, Tensor)
    assert made.shape == (1,)
    assert made.device.type == "abstract"
    assert repr(made) == "tensor(f32[1], abstract, requires_grad=True)"


def test_a_tensor_made_in_a_trace_belongs_to_it() -> None:
    outside, inside = tensor(1.0), []
    jax.jit(lambda t: (inside.append(t), t.array)[1])(outside)
    assert inside[0]._trace != outside._trace


def test_taking_a_tensor_from_outside_apart_while_a_kernel_is_traced_raises() -> None:
    outside = tensor(1.0)
    modes.tracing, modes.tracing_scope = "demo::op: the kernel", modes.tracing_scope + 1
    try:
        with pytest.raises(TracingError, match=r"demo::op: the kernel reads a Tensor from outside"):
            jnp.sin(outside)
    finally:
        modes.tracing = None
