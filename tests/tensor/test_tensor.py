"""The box: its storage, its flag, its gradient, its hooks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import AutogradError, GradientTypeError
from oplib.tensor import Tensor, box, tensor, zeros


class FakeNode:
    """Stands for the node of a recorded call."""

    def __init__(self) -> None:
        self.retained: list[Any] = []
        self.hooked: list[Any] = []

    def name(self) -> str:
        return "MulBackward0"

    def retain_grad(self, tensor: Any) -> None:
        self.retained.append(tensor)

    def _register_hook_dict(self, tensor: Any) -> None:
        self.hooked.append(tensor)


def non_leaf() -> tuple[Any, FakeNode]:
    result, node = box(zeros(2).array), FakeNode()
    result._requires_grad, result._grad_fn = True, node  # type: ignore[assignment]
    return result, node


def test_a_box_holds_the_array_itself_and_little_else() -> None:
    array = jnp.ones(3)
    x = box(array)
    assert x.array is array
    assert list(vars(x)) == ["_storage"]
    assert (x.requires_grad, x.is_leaf, x.grad, x.grad_fn, x.output_nr, x._version) == (
        False,
        True,
        None,
        None,
        0,
        0,
    )


def test_from_array_takes_arrays_and_tracers_without_copying() -> None:
    array = jnp.ones(3)
    assert Tensor.from_array(array).array is array
    found = []
    jax.jit(lambda a: (found.append(Tensor.from_array(a).array is a), a)[1])(array)
    assert found == [True]


@pytest.mark.parametrize("data", [np.ones(2), [1.0], 1.0, None])
def test_from_array_takes_nothing_else(data: Any) -> None:
    with pytest.raises(GradientTypeError, match=r"Tensor\.from_array: 'array' is not a jax\.Array\. Got "):
        Tensor.from_array(data)


def test_an_array_is_never_weakly_typed() -> None:
    found = []
    jax.jit(lambda: (found.append(Tensor.from_array(jnp.asarray(1.0)).array.weak_type), 0)[1])()
    assert found == [False]


def test_detach_shares_storage_and_version_but_not_history() -> None:
    x, _ = non_leaf()
    y = x.detach()
    assert (y.requires_grad, y.grad_fn) == (False, None)
    x._storage.write(jnp.ones(2))
    assert y.tolist() == [1.0, 1.0]
    assert x._version == y._version == 1


def test_detach_keeps_trace_scope_and_the_reason_not_to_be_written() -> None:
    x = tensor([1.0])
    x._scope, x._read_only = 3, "view"
    y = x.detach()
    assert (y._trace, y._scope, y._read_only) == (x._trace, 3, "view")


def test_the_flag_of_a_leaf_can_be_set_and_cleared() -> None:
    x = zeros(2)
    assert x.requires_grad_() is x
    assert x.requires_grad
    assert not x.requires_grad_(False).requires_grad


def test_the_flag_of_a_result_cannot_be_cleared() -> None:
    x, _ = non_leaf()
    x.requires_grad = True
    with pytest.raises(AutogradError, match=r"only a leaf's flag can be cleared.*MulBackward0.*detach"):
        x.requires_grad = False


def test_a_gradient_fits_its_tensor() -> None:
    x = zeros(2, requires_grad=True)
    x.grad = zeros(2)
    x.grad = None
    assert x.grad is None
    for bad, message in (
        (zeros(3), r"Got f32\[3\] for f32\[2\]"),
        (zeros(2, dtype="float16"), r"Got f16\[2\] for f32\[2\]"),
        (x, "cannot be its own gradient"),
    ):
        with pytest.raises(AutogradError, match=message):
            x.grad = bad
    with pytest.raises(GradientTypeError, match=r"expected a Tensor or None\. Got list"):
        x.grad = [1.0, 2.0]  # type: ignore[assignment]


def test_retain_grad_asks_the_node_once_and_does_nothing_on_a_leaf() -> None:
    x, node = non_leaf()
    x.retain_grad()
    x.retain_grad()
    assert node.retained == [x]
    assert x.retains_grad
    leaf = zeros(2, requires_grad=True)
    leaf.retain_grad()
    assert not leaf.retains_grad


def test_what_requires_no_grad_has_no_use_for_hooks() -> None:
    x = zeros(2)
    with pytest.raises(AutogradError, match="the tensor does not require grad, so it cannot have one"):
        x.retain_grad()
    with pytest.raises(AutogradError, match="the tensor doesn't require grad, so the hook would never run"):
        x.register_hook(lambda grad: None)
    with pytest.raises(AutogradError, match="only a leaf that requires grad accumulates a gradient"):
        x.register_post_accumulate_grad_hook(lambda x: None)
    with pytest.raises(AutogradError, match="only a leaf that requires grad accumulates a gradient"):
        non_leaf()[0].register_post_accumulate_grad_hook(lambda x: None)


def test_hooks_are_kept_in_order_and_removed_by_their_handles() -> None:
    x, node = non_leaf()
    hooks = [lambda grad: None, lambda grad: None]
    handles = [x.register_hook(hook) for hook in hooks]
    assert node.hooked == [x]
    assert list(x._backward_hooks.values()) == hooks
    handles[0].remove()
    handles[0].remove()
    assert list(x._backward_hooks.values()) == hooks[1:]


def test_post_accumulate_hooks_are_kept_on_a_leaf() -> None:
    x = zeros(2, requires_grad=True)
    with x.register_post_accumulate_grad_hook(lambda x: None):
        assert x._post_accumulate_hooks is not None
        assert len(x._post_accumulate_hooks) == 1
    assert not x._post_accumulate_hooks
