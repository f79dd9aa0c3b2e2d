"""Each test of opcheck passes an op that is right and fails one that is wrong in its way."""

from __future__ import annotations

import itertools
from typing import Optional

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import Function
from oplib.errors import (
    AutogradError,
    GradcheckError,
    MissingRuleError,
    OpCheckError,
    OpMismatchError,
    RegistrationError,
    RegistrationValueError,
)
from oplib.library import Library, custom_op, opcheck

TORCHS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
DEFAULT = (*TORCHS, "test_gradients", "test_forward_mode", "test_vmap")
_numbers = itertools.count()


@pytest.fixture
def x():
    return oplib.tensor([1.0, 2.0], requires_grad=True)


def save_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def square_formula(ctx, g):
    return g * 2 * ctx.saved_tensors[0]


def wrong_formula(ctx, g):
    return g * 3 * ctx.saved_tensors[0]


def kernel_on_arrays(x: jax.Array) -> jax.Array:
    return x * x


def kernel_on_host(x: np.ndarray) -> np.ndarray:
    return x * x


def kernel_on_tensors(x: oplib.Tensor) -> oplib.Tensor:
    return x * x


def same_shape(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


KERNELS = {"array": kernel_on_arrays, "host": kernel_on_host, "tensor": kernel_on_tensors}


def make(kernel=kernel_on_arrays, formula=square_formula, setup=save_inputs, **options):
    op = custom_op(f"opcheck_test::op{next(_numbers)}", kernel, **options)
    if formula is not None:
        op.register_autograd(formula, setup_context=setup)
    return op


def fails(op, args, test, kind, text, **options):
    """Asserts that this one test fails, in this way."""
    with pytest.raises(OpCheckError, match=f"(?s){test} failed with .*{text}") as caught:
        opcheck(op, args, test_utils=test, **options)
    assert isinstance(caught.value.__cause__, kind)


# The call -------------------------------------------------------------------------------------------------


def test_an_op_all_of_whose_rules_are_right_passes(x):
    assert opcheck(make(), (x,), test_utils="ALL") == dict.fromkeys(
        (*TORCHS[:3], "test_aot_dispatch_static", *DEFAULT[3:], "test_second_gradients"), "SUCCESS"
    )


@pytest.mark.parametrize("kind", ["host", "tensor"])
def test_an_op_with_another_kind_of_kernel_passes(x, kind):
    op = make(KERNELS[kind])
    op.register_fake(same_shape)
    assert opcheck(op, (x,), test_utils=TORCHS)


def test_by_default_torchs_tests_run_and_those_of_the_mathematics():
    small = oplib.tensor([2.0], requires_grad=True)
    results = opcheck(make(formula=wrong_formula), (small,), raise_exception=False)
    assert tuple(results) == DEFAULT
    assert [name for name, result in results.items() if result != "SUCCESS"] == ["test_gradients"]
    assert isinstance(results["test_gradients"], GradcheckError)


def test_the_first_failure_is_raised_with_the_name_of_its_test(x):
    op = make(formula=wrong_formula)
    with pytest.raises(
        OpCheckError, match=r"opcheck\(opcheck_test.op\d+.default, ...\): test_gradients failed"
    ):
        opcheck(op, (x,), test_utils=("test_schema", "test_gradients", "test_vmap"))


@pytest.mark.parametrize("names", ["test_schema", ["test_schema"], ("test_schema",)])
def test_tests_are_named_by_one_name_or_several(x, names):
    assert opcheck(make(), (x,), test_utils=names) == {"test_schema": "SUCCESS"}


def test_no_test_gives_no_result(x):
    assert opcheck(make(), (x,), test_utils=()) == {}


@pytest.mark.parametrize("names", ["test_magic", {"test_schema"}, ["test_schema", "test_magic"], 3])
def test_other_tests_raise(x, names):
    with pytest.raises(RegistrationValueError, match="expected test_utils to be a subset"):
        opcheck(make(), (x,), test_utils=names)


def test_an_op_is_an_overload_what_custom_op_gave_or_a_packet_with_one(x):
    op = make()
    packet = getattr(oplib.ops.opcheck_test, op._opoverload.name().partition("::")[2])
    for given in (op, op._opoverload, packet):
        assert opcheck(given, (x,), test_utils="test_schema") == {"test_schema": "SUCCESS"}
    with pytest.raises(RegistrationError, match="only test operators without overloads"):
        opcheck(oplib.ops.oplib.add, (x, 1.0))


@pytest.mark.parametrize("op", ["opcheck_test::op", kernel_on_arrays, None])
def test_a_name_or_a_function_is_no_op(x, op):
    with pytest.raises(RegistrationValueError, match="must be an instance of OpOverload"):
        opcheck(op, (x,))


def test_one_tolerance_alone_raises_and_zero_counts_as_none(x):
    op = make()
    for tolerance in ({"rtol": 1e-3}, {"atol": 1e-3}, {"rtol": 1e-3, "atol": 0}):
        with pytest.raises(RegistrationValueError, match="you must specify both"):
            opcheck(op, (x,), **tolerance)
    assert opcheck(op, (x,), test_utils="test_schema", rtol=0, atol=0)


def test_a_tolerance_forgives(x):
    op = make(formula=lambda ctx, g: g * 2.1 * ctx.saved_tensors[0])
    fails(op, (x,), "test_gradients", GradcheckError, "Jacobian mismatch")
    assert opcheck(op, (x,), test_utils="test_gradients", rtol=0.1, atol=0.1)


def test_arguments_stay_as_they_are(x):
    def scale_(x: jax.Array, factor: float) -> jax.Array:
        return x * factor

    op = make(scale_, None, mutates_args=("x",), schema="(Tensor(a!) x, float factor) -> ()")
    given = x.detach()
    before = given.array
    opcheck(op, (given,), {"factor": 2.0}, raise_exception=False)
    assert given.array is before
    assert given._version == 0


def test_the_modes_and_settings_are_as_before_a_failure(x):
    opcheck(make(formula=wrong_formula), (x,), test_utils="test_gradients", raise_exception=False)
    assert oplib.is_grad_enabled()
    assert not jax.config.jax_enable_x64


# test_schema ----------------------------------------------------------------------------------------------


def low_level(schema, kernel, key="CompositeExplicitAutograd"):
    library = Library("opcheck_test", "FRAGMENT")
    name = f"low{next(_numbers)}"
    library.define(name + schema)
    library.impl(name, kernel, key)
    return library, getattr(oplib.ops.opcheck_test, name).default


def test_an_undeclared_write_is_caught(x):
    op = make(lambda x: x.add_(1).clone(), None, schema="(Tensor x) -> Tensor")
    fails(op, (x.detach(),), "test_schema", AutogradError, "not defined as mutable but was mutated")


def test_a_returned_argument_is_caught(x):
    op = make(lambda x: x, None, schema="(Tensor x) -> Tensor")
    fails(op, (x.detach(),), "test_schema", RuntimeError, "may not alias an input")


def test_a_result_that_shares_memory_is_caught(x):
    library, op = low_level("(Tensor x) -> Tensor", lambda x: x.detach())
    fails(op, (x.detach(),), "test_schema", RuntimeError, "alias")
    library._destroy()


def test_a_declared_write_that_does_not_happen_passes(x):
    op = make(lambda x: None, None, schema="(Tensor(a!) x) -> ()", mutates_args=("x",))
    assert opcheck(op, (x.detach(),), test_utils="test_schema")


# test_autograd_registration -------------------------------------------------------------------------------


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g * 2 * ctx.saved_tensors[0]


def test_a_function_hidden_in_a_kernel_is_caught(x):
    library, op = low_level("(Tensor x) -> Tensor", lambda x: Square.apply(x * 1) * 1)
    text = "the kernel applies the autograd.Function SquareBackward"
    fails(op, (x,), "test_autograd_registration", OpMismatchError, text)
    assert opcheck(op, (x.detach(),), test_utils="test_autograd_registration")
    library._destroy()


def test_a_function_in_a_composite_kernel_passes(x):
    library, op = low_level("(Tensor x) -> Tensor", Square.apply, "")
    assert opcheck(op, (x,), test_utils=("test_autograd_registration", "test_gradients"))
    library._destroy()


# test_faketensor ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fake", "text"),
    [
        (lambda x: jax.ShapeDtypeStruct((3,), x.dtype), r"Shapes \(3,\) and \(2,\) are not equal"),
        (lambda x: jax.ShapeDtypeStruct((2,), jnp.int32), "Dtypes int32 and float32 are not equal"),
    ],
)
@pytest.mark.parametrize("kind", ["host", "tensor"])
def test_a_wrong_fake_kernel_is_caught(x, kind, fake, text):
    op = make(KERNELS[kind], None)
    op.register_fake(fake)
    fails(op, (x.detach(),), "test_faketensor", OpMismatchError, text)


def test_a_fake_kernel_with_other_lengths_or_numbers_is_caught(x):
    def numbers(x: np.ndarray) -> tuple[np.ndarray, int]:
        return x * 1, 3

    op = make(numbers, None)
    op.register_fake(lambda x: (same_shape(x), 4))
    fails(op, (x.detach(),), "test_faketensor", OpMismatchError, "4 and 3 are not equal")

    def parts(x: np.ndarray) -> list[np.ndarray]:
        return [x * 1, x * 2]

    op = make(parts, None)
    op.register_fake(lambda x: [same_shape(x)])
    fails(op, (x.detach(),), "test_faketensor", OpMismatchError, "It tells of 1 values, and there are 2")


def test_a_fake_kernel_that_is_missing_fails_where_it_is_needed(x):
    fails(make(kernel_on_host, None), (x.detach(),), "test_faketensor", MissingRuleError, "register_fake")
    assert opcheck(make(kernel_on_arrays, None), (x.detach(),), test_utils="test_faketensor")


# test_aot_dispatch_dynamic --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(KERNELS))
def test_a_kernel_with_a_state_is_caught(x, kind):
    count = itertools.count(1)

    def on_arrays(x: jax.Array) -> jax.Array:
        return x * next(count)

    def on_host(x: np.ndarray) -> np.ndarray:
        return x * np.float32(next(count))

    def on_tensors(x: oplib.Tensor) -> oplib.Tensor:
        return x * next(count)

    op = make({"array": on_arrays, "host": on_host, "tensor": on_tensors}[kind], None)
    op.register_fake(same_shape)
    fails(op, (x.detach(),), "test_aot_dispatch_dynamic", OpMismatchError, "the outputs are different")


def test_a_missing_formula_is_caught_where_something_requires_grad(x):
    op = make(formula=None)
    fails(op, (x,), "test_aot_dispatch_dynamic", RuntimeError, "formula")
    assert opcheck(op, (x.detach(),), test_utils="test_aot_dispatch_dynamic")
    assert opcheck(op, (jnp.ones(2),), test_utils="test_aot_dispatch_dynamic")


def test_a_formula_that_needs_values_is_caught(x):
    def formula(ctx, g):
        return g * float(ctx.saved_tensors[0].sum())

    op = make(kernel_on_tensors, formula)
    op.register_fake(same_shape)
    fails(op, (x,), "test_aot_dispatch_dynamic", Exception, "")


def test_a_formula_that_is_another_one_under_a_trace_is_caught(x):
    def formula(ctx, g):
        factor = 3 if isinstance(g.array, jax.core.Tracer) else 2
        return g * factor * ctx.saved_tensors[0]

    op = make(kernel_on_tensors, formula)
    op.register_fake(same_shape)
    fails(op, (x,), "test_aot_dispatch_dynamic", OpMismatchError, "the gradients are different in eager mode")


# test_gradients -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(KERNELS))
def test_a_wrong_formula_is_caught(x, kind):
    op = make(KERNELS[kind], wrong_formula)
    fails(
        op, (x,), "test_gradients", GradcheckError, "Jacobian mismatch for output 0 with respect to input 0"
    )


def test_a_wrong_formula_is_caught_for_arrays(x):
    fails(make(formula=wrong_formula), (jnp.ones(2),), "test_gradients", GradcheckError, "Jacobian mismatch")


def test_a_wrong_formula_is_caught_where_there_is_much_to_differentiate_by():
    large = oplib.ones(100, requires_grad=True)
    fails(make(formula=wrong_formula), (large,), "test_gradients", GradcheckError, "Jacobian mismatch")


def test_exchanged_gradients_are_caught(x):
    def product(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y

    op = make(product, lambda ctx, g: (g * ctx.saved_tensors[0], g * ctx.saved_tensors[1]))
    y = oplib.tensor([3.0, 4.0], requires_grad=True)
    fails(op, (x, y), "test_gradients", GradcheckError, "Jacobian mismatch")


def test_a_forgotten_conjugate_is_caught():
    z = oplib.tensor([1 + 2j], requires_grad=True)
    right = make(formula=lambda ctx, g: g * 2 * ctx.saved_tensors[0].conj())
    assert opcheck(
        right, (z,), test_utils=("test_gradients", "test_aot_dispatch_dynamic", "test_forward_mode")
    )
    fails(make(), (z,), "test_gradients", GradcheckError, "imaginary part")


def test_a_kernel_that_knows_single_precision_only_is_checked_in_that(x):
    def single(x: np.ndarray) -> np.ndarray:
        if x.dtype != np.float32:
            raise TypeError("f32 only")
        return x * x

    right, wrong = make(single), make(single, wrong_formula)
    assert opcheck(right, (x,), test_utils="test_gradients")
    fails(wrong, (x,), "test_gradients", GradcheckError, "Jacobian mismatch")


def test_derivatives_that_are_declared_to_be_others_pass(x):
    def step(x: jax.Array) -> jax.Array:
        return jnp.where(x > 0, x, 0.5 * x)

    constant = make(step, None)
    constant.register_autograd(constant="a surrogate is learnt elsewhere")
    clipped = make(step, None)
    clipped.register_autograd(
        lambda ctx, g: jnp.clip(g, -0.1, 0.1), setup_context=save_inputs, nonlinear=True
    )
    for op in (constant, clipped):
        assert opcheck(op, (x,), test_utils=("test_gradients", "test_forward_mode"))


# test_forward_mode ----------------------------------------------------------------------------------------


def test_a_jvp_rule_that_contradicts_the_formula_is_caught(x):
    op = make()
    op.register_jvp(lambda primals, tangents: (primals[0] ** 2, 3 * primals[0] * tangents[0]))
    fails(
        op, (x,), "test_forward_mode", OpMismatchError, "forward mode and the backward contradict each other"
    )


def test_a_wrong_jvp_rule_without_a_formula_is_caught():
    op = make(formula=None)
    op.register_jvp(lambda primals, tangents: (primals[0] ** 2, 3 * primals[0] * tangents[0]))
    fails(op, (jnp.ones(2),), "test_forward_mode", OpMismatchError, "the jvp rule is wrong")
    op = make(formula=None)
    op.register_jvp(lambda primals, tangents: (primals[0] ** 2, 2 * primals[0] * tangents[0]))
    assert opcheck(op, (jnp.ones(2),), test_utils="test_forward_mode")


# test_vmap ------------------------------------------------------------------------------------------------


def test_a_wrong_batching_rule_is_caught(x):
    op = make(formula=None)
    op.register_vmap(lambda info, in_dims, x: (x * x * 2, 0))
    fails(op, (x.detach(),), "test_vmap", OpMismatchError, "the outputs are different under vmap over x")


def test_a_batching_rule_that_mixes_its_members_is_caught(x):
    op = make(formula=None)
    op.register_vmap(lambda info, in_dims, x: (x[::-1] ** 2, 0))
    fails(op, (x.detach(),), "test_vmap", OpMismatchError, "the outputs are different under vmap over x")


def test_a_batching_rule_that_is_wrong_for_one_argument_alone_is_caught(x):
    def product(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y

    op = make(product, None)

    def rule(info, in_dims, x, y):
        return (x * y if in_dims == (0, 0) else x * y + 1), 0

    op.register_vmap(rule)
    fails(op, (x.detach(), x.detach()), "test_vmap", OpMismatchError, "under vmap over (x|y) and one by one")


def test_gradients_that_are_wrong_in_a_batch_are_caught(x):
    doubled = make(lambda g: g * 2, None, schema="(Tensor g) -> Tensor", compile=True)
    doubled.register_vmap(lambda info, in_dims, g: (g * 3, 0))
    op = make(formula=lambda ctx, g: doubled(g) * ctx.saved_tensors[0])
    fails(op, (x,), "test_vmap", OpMismatchError, "the gradients are different under vmap")


# test_second_gradients ------------------------------------------------------------------------------------


def test_a_formula_whose_derivative_is_wrong_is_caught(x):
    op = make(kernel_on_tensors, lambda ctx, g: g * 2 * ctx.saved_tensors[0].detach())
    assert opcheck(op, (x,), test_utils="test_gradients")
    fails(op, (x,), "test_second_gradients", GradcheckError, "Jacobian mismatch")


# Arguments of all kinds -----------------------------------------------------------------------------------


def test_lists_options_and_keywords_are_taken(x):
    def weighted(xs: list[jax.Array], bias: Optional[jax.Array] = None, *, scale: float = 1.0) -> jax.Array:  # noqa: UP045
        total = sum(xs) * scale
        return total if bias is None else total + bias

    op = make(weighted, None)

    def setup(ctx, inputs, keyword_only_inputs, output):
        ctx.count, ctx.has_bias = len(inputs[0]), inputs[1] is not None
        ctx.scale = keyword_only_inputs["scale"]

    op.register_autograd(
        lambda ctx, g: ([g * ctx.scale] * ctx.count, g if ctx.has_bias else None), setup_context=setup
    )
    args = ([x, x.detach()], x.detach().requires_grad_())
    assert opcheck(op, args, {"scale": 2.0}, test_utils=("test_aot_dispatch_dynamic", "test_gradients"))


def test_integers_and_operands_are_taken(x):
    def gather(x: jax.Array, index: jax.Array, factor: float) -> tuple[jax.Array, jax.Array]:
        return x[index] * factor, index + 1

    op = make(gather, None, operand=("factor",))

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[1])
        ctx.size, ctx.factor = inputs[0].shape[0], inputs[2]

    def formula(ctx, g, _):
        (index,) = ctx.saved_tensors
        return jnp.zeros(ctx.size, g.dtype).at[index].add(g * ctx.factor), None, None

    op.register_autograd(formula, setup_context=setup)
    assert opcheck(op, (x, oplib.tensor([1, 0]), 0.5), test_utils=(*TORCHS, "test_gradients"))


def test_ops_without_tensors_are_taken():
    def count(size: int) -> jax.Array:
        return jnp.arange(size)

    assert opcheck(make(count, None), (3,))


def test_built_in_ops_pass(x):
    assert opcheck(oplib.ops.oplib.sin.default, (x,), test_utils=(*TORCHS, "test_forward_mode"))
