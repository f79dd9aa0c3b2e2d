"""make_autograd_impl and formulas of registered ops.

Each behaviour is shown for a compiled op (``jax.Array``) and an eager one (``Tensor``) where both have it.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib import Tensor
from oplib.autograd import Function
from oplib.errors import ArgumentError, AutogradError, MissingRuleError
from oplib.library import _scoped_library, custom_op, ops
from oplib.library.autograd import Info, make_autograd_impl

pytestmark = pytest.mark.usefixtures("forget_ops")
KINDS = {"compiled": jax.Array, "eager": Tensor}


@pytest.fixture(params=KINDS)
def hint(request: pytest.FixtureRequest) -> Any:
    return KINDS[request.param]


def register(name: str, fn: Any, *, hints: dict[str, Any], **options: Any) -> Any:
    """Registers ``fn`` with these annotations."""
    fn.__annotations__ = hints
    return custom_op(name, fn, **options)


def make_scale(hint: Any, name: str = "rule::scale") -> Any:
    def scale(x, k=2.0):
        return x * k

    return register(name, scale, hints={"x": hint, "k": float, "return": hint})


# make_autograd_impl -----------------------------------------------------------------------------------------


@pytest.mark.spec("003.1", "003.2")
def test_003_2_info_has_two_required_fields() -> None:
    with pytest.raises(TypeError):
        Info()  # type: ignore[call-arg]


@pytest.mark.spec("003.2", "003.3")
def test_003_2_info_is_consulted_at_call_time_even_after_the_forward() -> None:
    make_scale(Tensor)
    info = Info(lambda ctx, grad: (grad * 2, None), None)
    impl = make_autograd_impl(ops.rule.scale.default, info)
    x = oplib.tensor([1.0], requires_grad=True)
    result = impl(x, 2.0)
    info._backward_fn = lambda ctx, grad: (grad * 100, None)
    result.sum().backward()
    assert x.grad.item() == 100.0


@pytest.mark.spec("003.7")
def test_003_7_without_a_formula_the_forward_works_and_the_backward_raises() -> None:
    make_scale(Tensor)
    impl = make_autograd_impl(ops.rule.scale.default, Info(None, None))
    result = impl(oplib.tensor([1.0], requires_grad=True), 3.0)
    assert result.tolist() == [3.0]
    with pytest.raises(MissingRuleError, match=r"no autograd formula.*register_autograd"):
        result.sum().backward()


@pytest.mark.spec("003.6", "003.18")
def test_003_6_setup_gets_inputs_completed_with_defaults_by_keyword(hint: Any) -> None:
    seen: list[Any] = []
    scale = make_scale(hint)

    def setup(*, ctx, inputs, output):
        seen.append((len(inputs), inputs[1], type(inputs)))
        ctx.k = inputs[1]

    scale.register_autograd(lambda ctx, grad: (grad * ctx.k, None), setup_context=setup)
    x = oplib.tensor([1.0], requires_grad=True)
    scale(x).sum().backward()
    assert seen == [(2, 2.0, tuple)]
    assert x.grad.item() == 2.0


@pytest.mark.spec("003.6")
def test_003_6_keyword_only_inputs_come_as_a_dictionary(hint: Any) -> None:
    seen: list[Any] = []

    def shift(x, *, by=1.0, times=2):
        return x * times + by

    op = register("rule::shift", shift, hints={"x": hint, "by": float, "times": int, "return": hint})

    def setup(ctx, inputs, keyword_only_inputs, output):
        seen.append((len(inputs), keyword_only_inputs))
        ctx.times = keyword_only_inputs["times"]

    op.register_autograd(lambda ctx, grad: grad * ctx.times, setup_context=setup)
    x = oplib.tensor([1.0], requires_grad=True)
    op(x, times=5).sum().backward()
    assert seen == [(1, {"by": 1.0, "times": 5})]
    assert x.grad.item() == 5.0


@pytest.mark.spec("003.6")
def test_003_6_a_setup_without_keyword_only_inputs_raises_at_the_call(hint: Any) -> None:
    def shift(x, *, by=1.0):
        return x + by

    op = register("rule::shift1", shift, hints={"x": hint, "by": float, "return": hint})
    op.register_autograd(lambda ctx, grad: grad, setup_context=lambda ctx, inputs, output: None)
    with pytest.raises(TypeError, match="keyword_only_inputs"):
        op(oplib.tensor([1.0], requires_grad=True))


@pytest.mark.spec("003.7", "003.4", "D.15")
def test_003_7_needs_input_grad_has_one_place_per_schema_argument(hint: Any) -> None:
    seen: list[Any] = []
    scale = make_scale(hint)

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
def test_003_7_trailing_nones_may_be_left_out(hint: Any, extra: tuple[None, ...]) -> None:
    scale = make_scale(hint)
    scale.register_autograd(lambda ctx, grad: (grad, *extra))
    x = oplib.tensor([1.0], requires_grad=True)
    scale(x).sum().backward()
    assert x.grad.item() == 1.0


@pytest.mark.spec("003.7")
def test_003_7_too_few_gradients_raise(hint: Any) -> None:
    op = register(
        "rule::add",
        lambda x, y: x + y,
        hints={"x": hint, "y": hint, "return": hint},
        schema="(Tensor x, Tensor y) -> Tensor",
    )
    op.register_autograd(lambda ctx, grad: grad)
    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        op(x, x).sum().backward()
    assert x.grad is None


@pytest.mark.spec("003.7")
def test_003_7_a_list_instead_of_a_tuple_counts_as_one_gradient(hint: Any) -> None:
    op = register(
        "rule::add2",
        lambda x, y: x + y,
        hints={"x": hint, "y": hint, "return": hint},
        schema="(Tensor x, Tensor y) -> Tensor",
    )
    op.register_autograd(lambda ctx, grad: [grad, grad])
    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError):
        op(x, x).sum().backward()


@pytest.mark.spec("003.7")
def test_003_7_a_gradient_for_what_is_no_tensor_raises(hint: Any) -> None:
    scale = make_scale(hint)
    scale.register_autograd(lambda ctx, grad: (grad, grad))
    with pytest.raises(RuntimeError, match="gradient different than None at position"):
        scale(oplib.tensor([1.0], requires_grad=True)).sum().backward()


@pytest.mark.parametrize("value", [1.0, (1.0,), "g"], ids=repr)
def test_library_8_a_gradient_that_is_no_tensor_raises(hint: Any, value: Any) -> None:
    op = register(
        "rule::id", lambda x: x * 1, hints={"x": hint, "return": hint}, schema="(Tensor x) -> Tensor"
    )
    op.register_autograd(lambda ctx, grad: (value,))
    with pytest.raises(RuntimeError, match="expected Variable or None"):
        op(oplib.tensor([1.0], requires_grad=True)).sum().backward()


def test_library_8_a_gradient_of_a_shape_that_cannot_be_summed_raises(hint: Any) -> None:
    def backward(ctx, grad):
        return jnp.ones(7) if hint is jax.Array else oplib.ones(7)

    op = register(
        "rule::shape", lambda x: x * 1, hints={"x": hint, "return": hint}, schema="(Tensor x) -> Tensor"
    )
    op.register_autograd(backward)
    with pytest.raises(RuntimeError, match=r"invalid gradient at index 0.*shape"):
        op(oplib.tensor([1.0, 2.0], requires_grad=True)).sum().backward()


@pytest.mark.spec("E.4")
def test_library_8_broadcast_gradients_are_summed_and_dtypes_cast(hint: Any) -> None:
    def backward(ctx, grad):
        ones = jnp.ones if hint is jax.Array else oplib.ones
        return ones((4, 2), dtype=jnp.float16)

    op = register(
        "rule::cast", lambda x: x * 1, hints={"x": hint, "return": hint}, schema="(Tensor x) -> Tensor"
    )
    op.register_autograd(backward)
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    op(x).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]
    assert x.grad.dtype == oplib.float32


def test_library_8_none_leaves_grad_none(hint: Any) -> None:
    op = register(
        "rule::none", lambda x: x * 1, hints={"x": hint, "return": hint}, schema="(Tensor x) -> Tensor"
    )
    op.register_autograd(lambda ctx, grad: None)
    x = oplib.tensor([1.0], requires_grad=True)
    op(x).sum().backward()
    assert x.grad is None


@pytest.mark.spec("003.8")
def test_003_8_the_generated_class_names_the_node(hint: Any) -> None:
    scale = make_scale(hint)
    scale.register_autograd(lambda ctx, grad: grad)
    result = scale(oplib.tensor([1.0], requires_grad=True))
    assert result.grad_fn.name() == "GeneratedBackwardFor_rule_scale_defaultBackward"


@pytest.mark.spec("003.9", "003.5")
def test_003_9_nothing_is_recorded_without_grad_mode_or_need(hint: Any) -> None:
    scale = make_scale(hint)
    scale.register_autograd(lambda ctx, grad: grad)
    assert scale(oplib.tensor([1.0])).grad_fn is None
    with oplib.no_grad():
        assert scale(oplib.tensor([1.0], requires_grad=True)).grad_fn is None


@pytest.mark.spec("D.16")
def test_d_16_a_formula_registered_anew_serves_graphs_recorded_before(hint: Any) -> None:
    scale = make_scale(hint)
    scale.register_autograd(lambda ctx, grad: grad)
    x = oplib.tensor([1.0], requires_grad=True)
    result = scale(x)
    scale.register_autograd(lambda ctx, grad: grad * 50)
    result.sum().backward()
    assert x.grad.item() == 50.0


@pytest.mark.spec("D.16")
def test_d_16_the_last_record_survives_its_library() -> None:
    x = oplib.tensor([1.0], requires_grad=True)
    with _scoped_library("rule_gone", "FRAGMENT") as library:
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", lambda x: x * 3, "CPU")
        oplib.library.register_autograd("rule_gone::f", lambda ctx, grad: grad * 3, lib=library)
        result = ops.rule_gone.f(x)
    result.sum().backward()
    assert x.grad.item() == 3.0


# Lists and optional arguments -------------------------------------------------------------------------------


def make_total(hint: Any) -> Any:
    def total(xs, y=None, k=1):
        result = xs[0]
        for x in xs[1:]:
            result = result + x
        return result * k if y is None else result * k + y

    hints = {"xs": list[hint], "y": hint | None, "k": int, "return": hint}
    return register("rule::total", total, hints=hints)


@pytest.mark.spec("003.13")
def test_003_13_list_gradients_and_flags(hint: Any) -> None:
    seen: list[Any] = []
    total = make_total(hint)

    def backward(ctx, grad):
        seen.append(ctx.needs_input_grad)
        return [grad, grad * 2], None, None

    total.register_autograd(backward)
    x, y = oplib.tensor([1.0], requires_grad=True), oplib.tensor([2.0])
    total([x, y]).sum().backward()
    assert seen == [([True, False], False, False)]
    assert (x.grad.item(), y.grad) == (1.0, None)


@pytest.mark.spec("003.13")
@pytest.mark.parametrize("returned", ["None", "tuple", "short", "number inside"])
def test_003_13_list_gradients_must_have_the_structure_of_the_inputs(hint: Any, returned: str) -> None:
    total = make_total(hint)

    def backward(ctx, grad):
        first = {"None": None, "tuple": (grad, grad), "short": [grad], "number inside": [grad, 1.0]}[returned]
        return first, None, None

    total.register_autograd(backward)
    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError):
        total([x, x]).sum().backward()
    assert x.grad is None


@pytest.mark.spec("003.13", "003.16")
def test_003_13_members_of_a_list_may_have_no_gradient(hint: Any) -> None:
    total = make_total(hint)
    total.register_autograd(lambda ctx, grad: ([grad, None], None, None))
    x, y = (oplib.tensor([1.0], requires_grad=True) for _ in range(2))
    total([x, y]).sum().backward()
    assert (x.grad.item(), y.grad) == (1.0, None)


@pytest.mark.spec("D.8")
def test_d_8_the_defaults_of_a_list_op_may_be_left_out_of_the_gradients(hint: Any) -> None:
    total = make_total(hint)
    total.register_autograd(lambda ctx, grad: ([grad, grad], None))
    x = oplib.tensor([1.0], requires_grad=True)
    total([x, x]).sum().backward()
    assert x.grad.item() == 2.0


def test_library_8_an_optional_tensor_gets_a_gradient_when_it_is_given(hint: Any) -> None:
    total = make_total(hint)
    total.register_autograd(lambda ctx, grad: ([grad], grad * 3 if ctx.needs_input_grad[1] else None, None))
    x, y = (oplib.tensor([1.0], requires_grad=True) for _ in range(2))
    total([x], y).sum().backward()
    total([x]).sum().backward()
    assert (x.grad.item(), y.grad.item()) == (2.0, 3.0)


def test_library_8_a_gradient_for_an_absent_tensor_raises(hint: Any) -> None:
    total = make_total(hint)
    total.register_autograd(lambda ctx, grad: ([grad], grad, None))
    with pytest.raises(RuntimeError, match="gradient different than None"):
        total([oplib.tensor([1.0], requires_grad=True)]).sum().backward()


def make_split(hint: Any) -> Any:
    def split(x, n):
        return [x * (i + 1) for i in range(n)], x * 10

    return register("rule::split", split, hints={"x": hint, "n": int, "return": tuple[list[hint], hint]})


@pytest.mark.spec("003.13")
def test_003_13_a_list_output_gives_one_list_of_gradients(hint: Any) -> None:
    seen: list[Any] = []
    split = make_split(hint)

    def backward(ctx, grads, last):
        seen.append((type(grads), len(grads)))
        total = last * 10
        for i, grad in enumerate(grads):
            total = total + grad * (i + 1)
        return total, None

    split.register_autograd(backward)
    x = oplib.tensor([1.0], requires_grad=True)
    parts, last = split(x, 3)
    (parts[0] + parts[2]).sum().backward()
    assert x.grad.item() == 4.0
    assert seen == [(list, 3)]
    parts, last = split(x, 2)
    last.sum().backward()
    assert x.grad.item() == 14.0


def test_library_8_an_unused_result_gives_zeros_or_none(hint: Any) -> None:
    seen: list[Any] = []
    split = make_split(hint)

    def setup(ctx, inputs, output):
        ctx.set_materialize_grads(inputs[1] == 1)

    def backward(ctx, grads, last):
        seen.append((grads[0] is None, last is None))
        return last, None

    split.register_autograd(backward, setup_context=setup)
    x = oplib.tensor([1.0], requires_grad=True)
    for n in (1, 2):
        split(x, n)[1].sum().backward()
    assert seen == [(False, False), (True, False)]


def test_library_8_numbers_among_results_pass_and_get_none(hint: Any) -> None:
    seen: list[Any] = []

    def measure(x):
        return x * 2, 3, 4.5

    op = register("rule::measure", measure, hints={"x": hint, "return": tuple[hint, int, float]})

    def backward(ctx, grad, count, size):
        seen.append((count, size))
        return grad * 2

    op.register_autograd(backward)
    x = oplib.tensor([1.0], requires_grad=True)
    y, count, size = op(x)
    assert (count, size) == (3, 4.5)
    y.sum().backward()
    assert seen == [(None, None)]


def test_library_8_save_for_backward_takes_only_tensors_and_none(hint: Any) -> None:
    scale = make_scale(hint)
    scale.register_autograd(
        lambda ctx, grad: grad, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1])
    )
    with pytest.raises(TypeError, match="save_for_backward"):
        scale(oplib.tensor([1.0], requires_grad=True))


def test_library_8_saved_none_comes_back_as_none(hint: Any) -> None:
    seen: list[Any] = []
    scale = make_scale(hint)

    def backward(ctx, grad):
        seen.append([value is None for value in ctx.saved_tensors])
        return grad

    scale.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(None, inputs[0], output)
    )
    scale(oplib.tensor([1.0], requires_grad=True)).sum().backward()
    assert seen == [[True, False, False]]


def test_library_8_mark_non_differentiable(hint: Any) -> None:
    def both(x):
        return x * 2, x * 3

    op = register("rule::both", both, hints={"x": hint, "return": tuple[hint, hint]})
    op.register_autograd(
        lambda ctx, first, second: first * 2,
        setup_context=lambda ctx, inputs, output: ctx.mark_non_differentiable(output[1]),
    )
    first, second = op(oplib.tensor([1.0], requires_grad=True))
    assert (first.requires_grad, second.requires_grad) == (True, False)


def test_library_8_a_second_backward_raises_and_a_retained_one_does_not(hint: Any) -> None:
    scale = make_scale(hint)
    scale.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    result = scale(oplib.tensor([1.0], requires_grad=True)).sum()
    result.backward(retain_graph=True)
    result.backward()
    with pytest.raises(RuntimeError, match="second time"):
        result.backward()


def test_library_8_a_saved_tensor_written_later_raises(hint: Any) -> None:
    scale = make_scale(hint)
    scale.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    x = oplib.tensor([1.0], requires_grad=True)
    result = scale(x).sum()
    with oplib.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


@pytest.mark.spec("003.19")
def test_003_19_a_mutable_schema_cannot_have_a_formula() -> None:
    @custom_op("rule::write", mutates_args=("x",))
    def write(x: Tensor) -> None:
        x.add_(1)

    with pytest.raises(RuntimeError, match="functional"):
        write.register_autograd(lambda ctx, grad: grad)


def test_intermediates_are_linked_again_in_a_double_backward() -> None:
    @custom_op("rule::normalize")
    def normalize(x: jax.Array) -> jax.Array:
        return x / jnp.sqrt((x * x).sum())

    def setup(ctx, inputs, output):
        inverse = 1 / jnp.sqrt((inputs[0] * inputs[0]).sum())
        ctx.save_for_backward(inputs[0], inverse)

    @normalize.register_autograd(setup_context=setup)
    def backward(ctx, grad):
        x, inverse = ctx.saved_tensors
        return grad * inverse - x * inverse**3 * (grad * x).sum()

    value = jnp.array([0.5, -1.0, 2.0])
    plain = lambda x: (x / jnp.sqrt((x * x).sum()) * jnp.arange(3.0)).sum()  # noqa: E731
    x = oplib.Tensor.from_array(value, requires_grad=True)
    (first,) = oplib.autograd.grad((normalize(x) * jnp.arange(3.0)).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad((first * first).sum(), x)
    expected = jax.grad(lambda x: (jax.grad(plain)(x) ** 2).sum())(value)
    assert first.tolist() == pytest.approx(jax.grad(plain)(value).tolist(), rel=1e-5)
    assert second.tolist() == pytest.approx(expected.tolist(), rel=1e-4)


def test_a_saved_output_that_equals_its_input_keeps_its_place_in_the_graph() -> None:
    """An identity-like op: saved input and saved output hold the same numbers but differ in history."""

    @custom_op("rule::reverse")
    def reverse(x: jax.Array) -> jax.Array:
        return x

    reverse.register_autograd(
        lambda ctx, grad: -grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
    )
    x = oplib.tensor([3.0], requires_grad=True)
    (first,) = oplib.autograd.grad(reverse(x).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad(first.sum(), x)
    # d first / dx = -1 * d output / dx, and the op's own rule says d output / dx = -output
    assert (first.item(), second.item()) == (-3.0, 3.0)


def test_errors_name_op_argument_and_declaration() -> None:
    make_scale(jax.Array)
    with pytest.raises(ArgumentError, match=r"rule::scale: argument 'x'.*Tensor"):
        ops.rule.scale("text")


def test_a_user_function_and_an_op_share_one_graph(hint: Any) -> None:
    class Triple(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    scale = make_scale(hint)
    scale.register_autograd(
        lambda ctx, grad: (grad * ctx.k, None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1]),
    )
    x = oplib.tensor([1.0], requires_grad=True)
    Triple.apply(scale(Triple.apply(x), 5.0)).sum().backward()
    assert x.grad.item() == 45.0


def test_an_error_in_the_formula_leaves_grad_as_it_was(hint: Any) -> None:
    scale = make_scale(hint)
    scale.register_autograd(lambda ctx, grad: 1 / 0)
    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(ZeroDivisionError):
        scale(x).sum().backward()
    assert x.grad is None
    assert oplib.is_grad_enabled()


def test_autograd_error_is_a_runtime_error() -> None:
    assert issubclass(AutogradError, RuntimeError)
