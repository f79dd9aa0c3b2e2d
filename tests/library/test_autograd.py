"""make_autograd_impl and formulas of registered ops.

Each behaviour is tested for a compiled op (``jax.Array``) and an eager op (``Tensor``) if both have it.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib import Tensor
from oplib.errors import ArgumentError, AutogradError, MissingRuleError
from oplib.library import _scoped_library, ops
from oplib.library.autograd import Info, make_autograd_impl
from tests.autograd.functions import Double

from .rule_ops import make_scale, make_sum, register_with

# make_autograd_impl -----------------------------------------------------------------------------------------


@pytest.mark.spec("003.1", "003.2")
def test_info_has_two_required_fields() -> None:
    with pytest.raises(TypeError, match="missing 2 required positional arguments"):
        Info()  # type: ignore[call-arg]


@pytest.mark.spec("003.2", "003.3")
def test_info_is_consulted_at_call_time_even_after_the_forward() -> None:
    make_scale(Tensor)
    info = Info(lambda ctx, grad: (grad * 2, None), None)
    impl = make_autograd_impl(ops.rule.scale.default, info)
    x = oplib.tensor([1.0], requires_grad=True)
    result = impl(x, 2.0)
    info._backward_fn = lambda ctx, grad: (grad * 100, None)
    result.sum().backward()
    assert x.grad.item() == 100.0


@pytest.mark.spec("003.7")
def test_without_a_formula_the_forward_works_and_the_backward_raises() -> None:
    make_scale(Tensor)
    impl = make_autograd_impl(ops.rule.scale.default, Info(None, None))
    result = impl(oplib.tensor([1.0], requires_grad=True), 3.0)
    assert result.tolist() == [3.0]
    with pytest.raises(MissingRuleError, match=r"no autograd formula.*register_autograd"):
        result.sum().backward()


@pytest.mark.spec("003.6", "003.18")
def test_setup_gets_inputs_completed_with_defaults_by_keyword(jax_hint: Any) -> None:
    seen: list[Any] = []
    scale = make_scale(jax_hint)

    def setup(*, ctx, inputs, output):
        seen.append((len(inputs), inputs[1], type(inputs)))
        ctx.k = inputs[1]

    scale.register_autograd(lambda ctx, grad: (grad * ctx.k, None), setup_context=setup)
    x = oplib.tensor([1.0], requires_grad=True)
    scale(x).sum().backward()
    assert seen == [(2, 2.0, tuple)]
    assert x.grad.item() == 2.0


@pytest.mark.spec("003.6")
def test_keyword_only_inputs_come_as_a_dictionary(jax_hint: Any) -> None:
    seen: list[Any] = []

    def shift(x, *, by=1.0, times=2):
        return x * times + by

    op = register_with(
        "rule::shift", shift, hints={"x": jax_hint, "by": float, "times": int, "return": jax_hint}
    )

    def setup(ctx, inputs, keyword_only_inputs, output):
        seen.append((len(inputs), keyword_only_inputs))
        ctx.times = keyword_only_inputs["times"]

    op.register_autograd(lambda ctx, grad: grad * ctx.times, setup_context=setup)
    x = oplib.tensor([1.0], requires_grad=True)
    op(x, times=5).sum().backward()
    assert seen == [(1, {"by": 1.0, "times": 5})]
    assert x.grad.item() == 5.0


@pytest.mark.spec("003.6")
def test_a_setup_without_keyword_only_inputs_is_refused(jax_hint: Any) -> None:
    def shift(x, *, by=1.0):
        return x + by

    op = register_with("rule::shift1", shift, hints={"x": jax_hint, "by": float, "return": jax_hint})
    with pytest.raises(TypeError, match="keyword_only_inputs"):
        op.register_autograd(lambda ctx, grad: grad, setup_context=lambda ctx, inputs, output: None)


@pytest.mark.spec("003.7", "003.4", "D.15")
def test_needs_input_grad_has_one_place_per_schema_argument(jax_hint: Any) -> None:
    seen: list[Any] = []
    scale = make_scale(jax_hint)

    def backward(ctx, grad):
        seen.append(ctx.needs_input_grad)
        return grad

    scale.register_autograd(backward)
    scale(oplib.tensor([1.0], requires_grad=True)).sum().backward()
    scale(oplib.tensor([1.0], requires_grad=True), 3.0).sum().backward()
    assert seen[0] == (True, False)
    assert seen[-1] == (True, False)


@pytest.mark.spec("003.7", "D.15")
@pytest.mark.parametrize("extra", [(), (None,)], ids=["trailing None left out", "full length"])
def test_trailing_nones_may_be_left_out(jax_hint: Any, extra: tuple[None, ...]) -> None:
    scale = make_scale(jax_hint)
    scale.register_autograd(lambda ctx, grad: (grad, *extra))
    x = oplib.tensor([1.0], requires_grad=True)
    scale(x).sum().backward()
    assert x.grad.item() == 1.0


@pytest.mark.spec("003.7")
def test_too_few_gradients_raise(jax_hint: Any) -> None:
    op = make_sum(jax_hint)
    op.register_autograd(lambda ctx, grad: grad)
    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        op(x, x).sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    "gives", [lambda g: g, lambda g: (g, g), lambda g: (g, g, None)], ids=["1", "2", "3"]
)
def test_the_error_says_that_arguments_by_keyword_only_may_be_left_out(gives: Any) -> None:
    @oplib.custom_op("counted::keyed")
    def keyed(x: jax.Array, y: jax.Array, *, times: float = 1.0) -> jax.Array:
        return x * y * times

    keyed.register_autograd(lambda ctx, grad: gives(grad))
    x = oplib.tensor([1.0], requires_grad=True)
    if isinstance(gives(0.0), tuple):
        keyed(x, x).sum().backward()
        return
    with pytest.raises(RuntimeError, match=r"number of gradients\. Expected 2 or 3, got 1"):
        keyed(x, x).sum().backward()


@pytest.mark.spec("003.7")
def test_a_list_instead_of_a_tuple_counts_as_one_gradient(jax_hint: Any) -> None:
    op = make_sum(jax_hint)
    op.register_autograd(lambda ctx, grad: [grad, grad])
    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="an incorrect number of gradients"):
        op(x, x).sum().backward()


@pytest.mark.spec("003.7")
def test_a_gradient_for_an_argument_that_is_no_tensor_raises(jax_hint: Any) -> None:
    scale = make_scale(jax_hint)
    scale.register_autograd(lambda ctx, grad: (grad, grad))
    with pytest.raises(RuntimeError, match="gradient different than None at position"):
        scale(oplib.tensor([1.0], requires_grad=True)).sum().backward()


@pytest.mark.parametrize("value", [1.0, (1.0,), "g"], ids=repr)
def test_a_gradient_that_is_no_tensor_raises(jax_hint: Any, value: Any) -> None:
    op = register_with(
        "rule::id", lambda x: x * 1, hints={"x": jax_hint, "return": jax_hint}, schema="(Tensor x) -> Tensor"
    )
    op.register_autograd(lambda ctx, grad: (value,))
    with pytest.raises(RuntimeError, match="expected Variable or None"):
        op(oplib.tensor([1.0], requires_grad=True)).sum().backward()


def test_a_gradient_of_a_shape_that_cannot_be_summed_raises(jax_hint: Any) -> None:
    def backward(ctx, grad):
        return jnp.ones(7) if jax_hint is jax.Array else oplib.ones(7)

    op = register_with(
        "rule::shape",
        lambda x: x * 1,
        hints={"x": jax_hint, "return": jax_hint},
        schema="(Tensor x) -> Tensor",
    )
    op.register_autograd(backward)
    with pytest.raises(RuntimeError, match=r"invalid gradient at index 0.*shape"):
        op(oplib.tensor([1.0, 2.0], requires_grad=True)).sum().backward()


def make_cast(jax_hint: Any, shape: tuple[int, ...]) -> Any:
    def backward(ctx, grad):
        ones = jnp.ones if jax_hint is jax.Array else oplib.ones
        return ones(shape, dtype=jnp.float16)

    op = register_with(
        "rule::cast",
        lambda x: x * 1,
        hints={"x": jax_hint, "return": jax_hint},
        schema="(Tensor x) -> Tensor",
    )
    op.register_autograd(backward)
    return op


@pytest.mark.spec("E.4")
def test_gradients_are_cast_to_the_dtype_of_the_input(jax_hint: Any) -> None:
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    make_cast(jax_hint, (2,))(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert x.grad.dtype == oplib.float32


@pytest.mark.parametrize("shape", [(4, 2), (1,), (2, 1), (1, 2), ()], ids=str)
def test_a_gradient_of_another_shape_than_its_input_is_refused(jax_hint: Any, shape: Any) -> None:
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    result = make_cast(jax_hint, shape)(x).sum()
    advice = "Sum it over the axes" if shape in ((4, 2), (1, 2)) else "do not broadcast"
    with pytest.raises(
        RuntimeError, match=rf"rule::cast: .*invalid gradient at index 0: .*f32\[2\].*{advice}"
    ):
        result.backward()


def test_a_gradient_of_another_shape_is_refused_on_arrays_too() -> None:
    op = make_cast(jax.Array, (4, 2))
    with pytest.raises(RuntimeError, match=r"rule::cast: .*invalid gradient at index 0"):
        jax.grad(lambda x: op(x).sum())(jnp.ones(2))


def test_none_leaves_grad_none(jax_hint: Any) -> None:
    op = register_with(
        "rule::none",
        lambda x: x * 1,
        hints={"x": jax_hint, "return": jax_hint},
        schema="(Tensor x) -> Tensor",
    )
    op.register_autograd(lambda ctx, grad: None)
    x = oplib.tensor([1.0], requires_grad=True)
    op(x).sum().backward()
    assert x.grad is None


@pytest.mark.spec("003.8")
def test_the_generated_class_names_the_node(jax_hint: Any) -> None:
    scale = make_scale(jax_hint)
    scale.register_autograd(lambda ctx, grad: grad)
    result = scale(oplib.tensor([1.0], requires_grad=True))
    assert result.grad_fn.name() == "GeneratedBackwardFor_rule_scale_defaultBackward"


@pytest.mark.spec("003.9", "003.5")
def test_nothing_is_recorded_without_grad_mode_or_need(jax_hint: Any) -> None:
    scale = make_scale(jax_hint)
    scale.register_autograd(lambda ctx, grad: grad)
    assert scale(oplib.tensor([1.0])).grad_fn is None
    with oplib.no_grad():
        assert scale(oplib.tensor([1.0], requires_grad=True)).grad_fn is None


@pytest.mark.spec("D.16")
def test_a_formula_registered_anew_serves_graphs_recorded_before(jax_hint: Any) -> None:
    scale = make_scale(jax_hint)
    scale.register_autograd(lambda ctx, grad: grad)
    x = oplib.tensor([1.0], requires_grad=True)
    result = scale(x)
    scale.register_autograd(lambda ctx, grad: grad * 50)
    result.sum().backward()
    assert x.grad.item() == 50.0


@pytest.mark.spec("D.16")
def test_the_last_record_survives_its_library() -> None:
    x = oplib.tensor([1.0], requires_grad=True)
    with _scoped_library("rule_gone", "FRAGMENT") as library:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x * 3, "CPU")
        oplib.library.register_autograd("rule_gone::f", lambda ctx, grad: grad * 3, lib=library)
        result = ops.rule_gone.f(x)
    result.sum().backward()
    assert x.grad.item() == 3.0


def test_errors_name_op_argument_and_declaration() -> None:
    make_scale(jax.Array)
    with pytest.raises(ArgumentError, match=r"rule::scale: argument 'x'.*Tensor"):
        ops.rule.scale("text")


def test_a_user_function_and_an_op_share_one_graph(jax_hint: Any) -> None:
    scale = make_scale(jax_hint)
    scale.register_autograd(
        lambda ctx, grad: (grad * ctx.k, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1]),
    )
    x = oplib.tensor([1.0], requires_grad=True)
    Double.apply(scale(Double.apply(x), 5.0)).sum().backward()
    assert x.grad.item() == 20.0


def test_an_error_in_the_formula_leaves_grad_as_it_was(jax_hint: Any) -> None:
    scale = make_scale(jax_hint)
    scale.register_autograd(lambda ctx, grad: 1 / 0)
    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(ZeroDivisionError):
        scale(x).sum().backward()
    assert x.grad is None
    assert oplib.is_grad_enabled()


def test_autograd_error_is_a_runtime_error() -> None:
    assert issubclass(AutogradError, RuntimeError)


# The Function of any node ------------------------------------------------------------------------


def test_a_function_is_found_from_a_node_of_a_built_in_op():
    x, y = oplib.tensor([1.0, 3.0], requires_grad=True), oplib.tensor([2.0, 5.0])
    function = type((x * y).grad_fn)._forward_cls
    assert function is type((x * y).grad_fn)._forward_cls
    assert issubclass(function, oplib.autograd.Function)
    ctx = SimpleNamespace()
    assert function.forward(ctx, x, y).tolist() == [2.0, 15.0]
    by_x, by_y = function.backward(ctx, oplib.tensor([1.0, 10.0]))
    assert (by_x.tolist(), by_y) == ([2.0, 50.0], None)
    assert function.apply(x, y).grad_fn.name() == "MulBackward0"


@pytest.mark.parametrize("annotation", [jax.Array, oplib.Tensor])
def test_a_function_is_found_from_a_node_of_any_kind_of_kernel(annotation):
    def both(x, scale=2.0):
        return x * scale, x * x

    both.__annotations__ = {"x": annotation, "scale": float, "return": tuple[annotation, annotation]}
    op = oplib.custom_op(both)
    op.register_autograd(lambda ctx, g, h: (g * 10 + h * 100, None))
    x = oplib.tensor([1.0, 3.0], requires_grad=True)
    function = type(op(x)[0].grad_fn)._forward_cls
    assert issubclass(function, oplib.autograd.Function)
    ctx = object.__new__(function._backward_cls)
    ctx.needs_input_grad = (True, False)
    assert [value.tolist() for value in function.forward(ctx, x, 3.0)] == [[3.0, 9.0], [1.0, 9.0]]
    assert function.backward(ctx, oplib.ones(2), oplib.zeros(2))[0].tolist() == [10.0, 10.0]
    assert function.backward(ctx, oplib.zeros(2), oplib.ones(2))[0].tolist() == [100.0, 100.0]


@pytest.mark.spec("D.45")
@pytest.mark.parametrize("rule", ["setup_context", "forward", "neither"])
def test_keyword_only_arguments_have_no_flag(jax_hint: Any, rule: str) -> None:
    def scale(x, *, factor=2.0):
        return x * factor

    scale.__annotations__ = {"x": jax_hint, "factor": float, "return": jax_hint}
    seen: list[Any] = []

    def backward(ctx, grad):
        seen.append(ctx.needs_input_grad)
        return grad

    rules = {
        "setup_context": {"setup_context": lambda ctx, inputs, keyword_only_inputs, output: None},
        "forward": {"forward": lambda ctx, x, *, factor: x * factor},
        "neither": {},
    }
    op = oplib.custom_op(scale)
    op.register_autograd(backward, **rules[rule])
    op(oplib.tensor([1.0], requires_grad=True), factor=3.0).sum().backward()
    assert seen == [(True,)]


@pytest.mark.parametrize("hint", [jax.Array, np.ndarray, oplib.Tensor])
def test_the_rules_of_make_autograd_impl_get_what_the_kernel_gets(hint: Any) -> None:
    def scale(x, factor=2.0):
        return x * factor

    scale.__annotations__ = {"x": hint, "factor": float, "return": hint}
    op = oplib.custom_op(scale)
    given = jax.Array if hint is np.ndarray else hint

    def setup(ctx, inputs, output):
        assert isinstance(inputs[0], given)
        ctx.save_for_backward(inputs[0], output, inputs[0] * 5)
        ctx.factor = inputs[1]

    def backward(ctx, grad):
        x, output, kept = ctx.saved_tensors
        assert isinstance(grad, given)
        return grad * ctx.factor * 10 + x + output + kept, None

    impl = make_autograd_impl(op._opoverload, Info(backward, setup))
    x = oplib.tensor([1.0, 3.0], requires_grad=True)
    y = impl(x, 3.0)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([3.0, 9.0], [39.0, 57.0])
    assert not impl(x.detach()).requires_grad
    if hint is not oplib.Tensor:
        (slope,) = oplib.autograd.grad(impl(x).sum(), x, create_graph=True)
        (second,) = oplib.autograd.grad(slope.sum(), x)
        assert second.tolist() == [34.0, 50.0]  # 1 and 5 by x, and 20 + 8 x by the result
