"""The place of a Tensor on the tape: its flag, its gradient, its hooks."""

from __future__ import annotations

import pytest

from oplib.errors import AutogradError, GradientTypeError
from oplib.tensor import zeros
from tests.tensor.nodes import make_result


def test_the_flag_of_a_leaf_can_be_set_and_cleared() -> None:
    x = zeros(2)
    assert x.requires_grad_() is x
    assert x.requires_grad
    assert not x.requires_grad_(False).requires_grad


@pytest.mark.parametrize("flag", [1, "a", None])
def test_the_flag_is_a_bool(flag: object) -> None:
    x = zeros(2, requires_grad=True)
    with pytest.raises(GradientTypeError, match=r"requires_grad: it must be a bool\. Got .*\. Give True"):
        x.requires_grad_(flag)  # type: ignore[arg-type]
    with pytest.raises(GradientTypeError, match="it must be a bool"):
        x.requires_grad = flag  # type: ignore[assignment]
    assert x.requires_grad


def test_the_flag_of_a_result_cannot_be_cleared() -> None:
    x = make_result()
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
    x = make_result()
    node = x.grad_fn
    x.retain_grad()
    x.retain_grad()
    assert node.retained == [x]
    assert x.retains_grad
    leaf = zeros(2, requires_grad=True)
    leaf.retain_grad()
    assert not leaf.retains_grad


def test_the_grad_of_a_non_leaf_warns_as_torch_does_until_it_is_retained() -> None:
    x = make_result()
    for _ in range(2):
        with pytest.warns(
            UserWarning, match=r"Got f32\[2\], a result of MulBackward0\. Call retain_grad"
        ) as told:
            assert x.grad is None
        text = str(told[0].message)
        assert text.startswith(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its"
        )
        assert len(text) <= 400
        assert told[0].filename == __file__
    x.retain_grad()
    assert x.grad is None


def test_a_grad_that_is_there_or_may_come_does_not_warn() -> None:
    """Warnings are errors here."""
    x = make_result()
    x.grad = zeros(2)  # as torch, which warns where there is none
    assert x.grad is not None
    del x.grad
    for leaf in (zeros(2), zeros(2, requires_grad=True), x.detach()):
        assert leaf.grad is None


def test_what_requires_no_grad_has_no_use_for_hooks() -> None:
    x = zeros(2)
    with pytest.raises(AutogradError, match="the tensor does not require grad, so it cannot have one"):
        x.retain_grad()
    with pytest.raises(AutogradError, match="the tensor doesn't require grad, so the hook would never run"):
        x.register_hook(lambda grad: None)
    with pytest.raises(AutogradError, match="only a leaf that requires grad accumulates a gradient"):
        x.register_post_accumulate_grad_hook(lambda x: None)
    with pytest.raises(AutogradError, match="only a leaf that requires grad accumulates a gradient"):
        make_result().register_post_accumulate_grad_hook(lambda x: None)


def test_hooks_are_kept_in_order_and_removed_by_their_handles() -> None:
    x = make_result()
    node = x.grad_fn
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
