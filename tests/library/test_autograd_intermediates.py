"""A second derivative through a value that setup_context has computed, or the forward of a Function."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import Function, forward_ad, functional, grad
from oplib.autograd.function import once_differentiable
from oplib.errors import MissingRuleError

HINTS = (oplib.Tensor, jax.Array, np.ndarray)
WAYS = {
    "input": lambda x, y: 3 * x * x,
    "result": lambda x, y: 3 * y / x,
    "both": lambda x, y: x * x + 2 * y / x,
}


def make_cube(hint: Any, way: Any, *, as_attribute: bool = False) -> Any:
    def cube(x: hint) -> hint:
        return x * x * x

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        kept = way(inputs[0], output)
        if as_attribute:
            ctx.slope = kept
        else:
            ctx.save_for_backward(kept)

    op = oplib.library.custom_op(cube)
    if hint is np.ndarray:
        op.register_fake(lambda x: jnp.empty_like(x))
    op.register_autograd(
        lambda ctx, g: g * (ctx.slope if as_attribute else ctx.saved_tensors[0]), setup_context=save
    )
    return op


def derive(function: Any, order: int) -> float:
    x = oplib.tensor([2.0], requires_grad=True)
    value = function(x).sum()
    for _ in range(order):
        value = grad(value, x, create_graph=True)[0].sum()
    return value.item()


@pytest.mark.spec("D.51")
@pytest.mark.parametrize("as_attribute", [False, True], ids=["saved", "attribute"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("hint", HINTS, ids=lambda hint: hint.__name__)
def test_a_kept_intermediate_has_its_part_in_derivatives_of_each_order(hint, way, as_attribute):
    op = make_cube(hint, WAYS[way], as_attribute=as_attribute)
    assert [derive(op, order) for order in (1, 2, 3)] == [12.0, 12.0, 6.0]


@pytest.mark.spec("D.51")
@pytest.mark.parametrize("way", WAYS)
def test_other_ways_to_a_second_derivative_find_it_too(way):
    op = make_cube(oplib.Tensor, WAYS[way])

    def total(x: Any) -> Any:
        return op(x).sum()

    def slope(array: Any) -> Any:
        x = oplib.Tensor.from_array(array).requires_grad_()
        return grad(total(x), x, create_graph=True)[0].sum().array

    x = oplib.tensor([2.0])
    assert functional.hessian(total, x).item() == 12.0
    assert functional.hessian(oplib.jit(total), x).item() == 12.0
    assert oplib.jit(lambda t: functional.hessian(total, t))(x).item() == 12.0
    assert oplib.vmap(lambda t: functional.hessian(total, t))(x[None]).item() == 12.0
    assert jax.grad(slope)(x.array).item() == 12.0
    assert jax.hessian(lambda a: total(oplib.Tensor.from_array(a)).array)(x.array).item() == 12.0


@pytest.mark.spec("D.51")
def test_it_is_found_in_lists_and_trees():
    def cubes(xs: list[oplib.Tensor]) -> list[oplib.Tensor]:
        return [x * x * x for x in xs]

    def named(x: oplib.Tensor) -> dict[str, oplib.Tensor]:
        return {"a": x * 2, "b": x * x * x}

    listed, tree = oplib.library.custom_op(cubes), oplib.library.custom_op(named)
    listed.register_autograd(
        lambda ctx, gs: [g * kept for g, kept in zip(gs, ctx.saved_tensors, strict=True)],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(
            *[3 * y / x for x, y in zip(inputs[0], output, strict=True)]
        ),
    )
    tree.register_autograd(
        lambda ctx, gs: 2 * gs["a"] + gs["b"] * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(3 * output["b"] / inputs[0]),
    )
    assert derive(lambda x: listed([x, 2 * x])[1], 2) == 96.0
    assert derive(lambda x: tree(x)["b"], 2) == 12.0


@pytest.mark.spec("D.51")
def test_a_marked_result_is_a_constant_in_what_is_computed_from_it():
    def two(x: oplib.Tensor) -> tuple[oplib.Tensor, oplib.Tensor]:
        return x * x * x, x * 1.0

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(3 * inputs[0] * output[1])

    op = oplib.library.custom_op(two)
    op.register_autograd(lambda ctx, g, h: g * ctx.saved_tensors[0] + 100 * h, setup_context=save)
    assert derive(lambda x: op(x)[0], 2) == 6.0


@pytest.mark.spec("D.51")
def test_a_mask_is_a_constant_and_neither_raises_nor_warns():
    def positive(x: oplib.Tensor) -> oplib.Tensor:
        return x * x

    op = oplib.library.custom_op(positive)
    op.register_autograd(
        lambda ctx, g: 2 * g * ctx.saved_tensors[0] * ctx.saved_tensors[1],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0], (inputs[0] > 0).float()),
    )
    assert derive(op, 2) == 2.0


@pytest.mark.spec("D.51")
def test_forward_mode_over_a_recorded_call_raises():
    op = make_cube(oplib.Tensor, WAYS["both"])
    with forward_ad.dual_level():
        x = forward_ad.make_dual(oplib.tensor([2.0], requires_grad=True), oplib.ones(1))
        with pytest.raises(MissingRuleError, match="setup_context keeps a value that it computes"):
            op(x)
        dual = forward_ad.make_dual(oplib.tensor([2.0]), oplib.ones(1))
        assert forward_ad.unpack_dual(op(dual)).tangent.item() == 12.0


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any) -> Any:
        ctx.save_for_backward(3 * x * x, weight)
        return x * x * x * weight

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        slope, weight = ctx.saved_tensors
        return g * slope * weight, None


def make_class(base: type = Cube, **methods: Any) -> Any:
    return type("Cube", (base,), {name: staticmethod(method) for name, method in methods.items()})


def count_warnings(function: Any) -> int:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return len(caught)


@pytest.mark.spec("D.51")
def test_a_recorded_backward_of_a_Function_that_keeps_an_intermediate_warns_once():
    cls, weight = make_class(), oplib.ones(1)
    derive(lambda x: cls.apply(x, weight).backward() or x, 0)  # no create_graph, no warning
    with pytest.warns(UserWarning, match=r"CubeBackward: it kept a value.*derivative of Cube\.") as caught:
        derive(lambda x: cls.apply(x, weight), 1)
    assert caught[0].filename == __file__
    assert not count_warnings(lambda: derive(lambda x: cls.apply(x, weight), 1))


def _keep_attribute(ctx: Any, x: Any, weight: Any) -> Any:
    ctx.save_for_backward(x, weight)
    ctx.slope = 3 * x * x
    return x * x * x * weight


def _keep_detached(ctx: Any, x: Any, weight: Any) -> Any:
    ctx.save_for_backward((3 * x * x).detach(), weight)
    return x * x * x * weight


def _keep_inputs_and_result(ctx: Any, x: Any, weight: Any) -> Any:
    y = x * x * x * weight
    ctx.save_for_backward(y, weight)
    ctx.weight, ctx.x = weight, x
    ctx.mask = x > 0
    return y


@pytest.mark.spec("D.51")
@pytest.mark.parametrize(
    ("forward", "count"), [(_keep_attribute, 1), (_keep_detached, 0), (_keep_inputs_and_result, 0)]
)
def test_only_floating_values_of_the_forward_warn(forward, count):
    cls, weight = make_class(forward=forward), oplib.ones(1)
    assert count_warnings(lambda: derive(lambda x: cls.apply(x, weight), 1)) == count


@pytest.mark.spec("D.51")
def test_a_backward_that_is_differentiable_once_does_not_warn():
    cls, weight = make_class(backward=once_differentiable(Cube.backward)), oplib.ones(1)
    assert not count_warnings(lambda: derive(lambda x: cls.apply(x, weight), 1))


@pytest.mark.spec("D.51")
def test_an_op_on_Tensors_with_a_forward_warns_too():
    def cube(x: oplib.Tensor) -> oplib.Tensor:
        return x * x * x

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(3 * x * x)
        return x * x * x

    op = oplib.library.custom_op(cube)
    op.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0], forward=forward)
    assert count_warnings(lambda: derive(op, 1)) == 1


@pytest.mark.spec("D.51")
def test_under_JAX_the_intermediate_of_a_Function_has_its_part():
    weight = jnp.ones(1)
    assert jax.hessian(lambda x: Cube.apply(x, weight).sum())(jnp.array([2.0])).item() == 12.0
