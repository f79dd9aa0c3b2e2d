"""Calls of opcheck: its tests by name, its tolerances, and arguments of all kinds."""

from __future__ import annotations

import itertools
from typing import Optional

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import (
    ArgumentTypeError,
    GradcheckError,
    OpCheckError,
    RegistrationError,
    RegistrationValueError,
)
from oplib.library import opcheck

from .checked_ops import (
    KERNELS,
    assert_fails,
    kernel_on_arrays,
    make_op,
    same_shape,
    wrong_formula,
)

TORCHS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
DEFAULT = (*TORCHS, "test_gradients", "test_forward_mode", "test_vmap", "test_second_gradients")


def test_an_op_all_of_whose_rules_are_right_passes(x):
    assert opcheck(make_op(), (x,), test_utils="ALL") == dict.fromkeys(
        (*TORCHS[:3], "test_aot_dispatch_static", *DEFAULT[3:]), "SUCCESS"
    )


@pytest.mark.parametrize("kind", ["host", "tensor"])
def test_an_op_with_another_kind_of_kernel_passes(x, kind):
    op = make_op(KERNELS[kind])
    op.register_fake(same_shape)
    assert opcheck(op, (x,), test_utils=TORCHS)


def test_by_default_torchs_tests_run_and_those_of_the_mathematics():
    small = oplib.tensor([2.0], requires_grad=True)
    results = opcheck(make_op(formula=wrong_formula), (small,), raise_exception=False)
    assert tuple(results) == DEFAULT
    assert [name for name, result in results.items() if result != "SUCCESS"] == ["test_gradients"]
    assert isinstance(results["test_gradients"], GradcheckError)


def test_the_first_failure_is_raised_with_the_name_of_its_test(x):
    op = make_op(formula=wrong_formula)
    with pytest.raises(
        OpCheckError, match=r"opcheck\(opcheck_test.op\d+.default, ...\): test_gradients failed"
    ):
        opcheck(op, (x,), test_utils=("test_schema", "test_gradients", "test_vmap"))


@pytest.mark.parametrize("names", ["test_schema", ["test_schema"], ("test_schema",)])
def test_tests_are_named_by_one_name_or_several(x, names):
    assert opcheck(make_op(), (x,), test_utils=names) == {"test_schema": "SUCCESS"}


def test_no_test_gives_no_result(x):
    assert opcheck(make_op(), (x,), test_utils=()) == {}


@pytest.mark.parametrize("names", ["test_magic", {"test_schema"}, ["test_schema", "test_magic"], 3])
def test_other_tests_raise(x, names):
    with pytest.raises(RegistrationValueError, match="expected test_utils to be a subset"):
        opcheck(make_op(), (x,), test_utils=names)


def test_an_op_is_an_overload_a_custom_op_or_a_packet_with_one_overload(x):
    op = make_op()
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
    op = make_op()
    for tolerance in ({"rtol": 1e-3}, {"atol": 1e-3}, {"rtol": 1e-3, "atol": 0}):
        with pytest.raises(RegistrationValueError, match="you must specify both"):
            opcheck(op, (x,), **tolerance)
    assert opcheck(op, (x,), test_utils="test_schema", rtol=0, atol=0)


def test_a_tolerance_forgives(x):
    op = make_op(formula=lambda ctx, g: g * 2.1 * ctx.saved_tensors[0])
    assert_fails(op, (x,), "test_gradients", GradcheckError, "Jacobian mismatch")
    assert opcheck(op, (x,), test_utils="test_gradients", rtol=0.1, atol=0.1)


def test_arguments_stay_as_they_are(x):
    def scale_(x: jax.Array, factor: float) -> jax.Array:
        return x * factor

    op = make_op(scale_, None, mutates_args=("x",), schema="(Tensor(a!) x, float factor) -> ()")
    given = x.detach()
    before = given.array
    opcheck(op, (given,), {"factor": 2.0}, raise_exception=False)
    assert given.array is before
    assert given._version == 0


def test_the_modes_and_settings_are_as_before_a_failure(x):
    opcheck(make_op(formula=wrong_formula), (x,), test_utils="test_gradients", raise_exception=False)
    assert oplib.is_grad_enabled()
    assert not jax.config.jax_enable_x64


# Arguments of all kinds -----------------------------------------------------------------------------------


def test_lists_options_and_keywords_are_taken(x):
    def weighted(xs: list[jax.Array], bias: Optional[jax.Array] = None, *, scale: float = 1.0) -> jax.Array:  # noqa: UP045
        total = sum(xs) * scale
        return total if bias is None else total + bias

    op = make_op(weighted, None)

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

    op = make_op(gather, None, operand=("factor",))

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

    assert opcheck(make_op(count, None), (3,))


def test_built_in_ops_pass(x):
    assert opcheck(oplib.ops.oplib.sin.default, (x,), test_utils=(*TORCHS, "test_forward_mode"))


@pytest.mark.parametrize("given", [oplib.ones(2), jnp.ones(2), 3, "x", None], ids=type)
def test_arguments_that_are_no_tuple_are_refused(given):
    with pytest.raises(
        ArgumentTypeError,
        match=r"opcheck\(oplib\.sin\.default, .*'args' is the tuple .*, of type .*opcheck\(op, \(x,\)\)",
    ):
        opcheck(oplib.ops.oplib.sin.default, given)


def test_keyword_arguments_that_are_no_dictionary_are_refused(x):
    with pytest.raises(ArgumentTypeError, match=r"'kwargs' is the dictionary .* of type list"):
        opcheck(oplib.ops.oplib.sin.default, (x,), [1])


def test_the_results_print_each_test_with_at_most_three_lines_of_its_error(x):
    results = opcheck(make_op(formula=wrong_formula), (x,), raise_exception=False)
    lines = str(results).splitlines()
    starts = [number for number, line in enumerate(lines) if line[0] != " "]
    assert len(starts) == len(results)
    assert lines[0].split() == ["test_schema", "SUCCESS"]
    (at,) = (number for number in starts if "SUCCESS" not in lines[number])
    found = [lines[at], *itertools.takewhile(lambda line: line[0] == " ", lines[at + 1 :])]
    assert len(found) == 3
    assert found[0].startswith("test_gradients")
    assert "GradcheckError: " in found[0]
    assert found[-1].endswith(" …")
    assert max(map(len, lines)) <= 110
    columns = {len(line) - len(line.split(maxsplit=line[0] != " ")[-1]) for line in lines}
    assert len(columns) == 1  # the second column is aligned


def test_the_details_of_results_are_the_whole_errors_with_their_tracebacks(x):
    results = opcheck(make_op(formula=wrong_formula), (x,), raise_exception=False)
    assert results.details.startswith("Traceback (most recent call last):")
    assert str(results["test_gradients"]) in results.details
    assert opcheck(make_op(), (x,)).details == ""


def test_no_result_prints_nothing(x):
    assert str(opcheck(make_op(), (x,), test_utils=())) == ""
