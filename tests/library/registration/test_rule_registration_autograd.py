"""register_autograd: the declarations of a derivative, and the ops that have none."""

from __future__ import annotations

import warnings

import jax
import pytest

from oplib.errors import (
    RegistrationError,
    RegistrationTypeError,
    RegistrationValueError,
    UnknownOperatorError,
    UnsupportedRegistrationError,
)
from oplib.library import Derivative, Library, Tag, custom_op, define, ops, register_autograd


def double(x: jax.Array) -> jax.Array:
    return 2 * x


def backward(ctx, g):
    return 2 * g


def save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


@pytest.fixture
def op():
    return custom_op("aut::f", double)


def derivative_of(op):
    return op._opoverload.record.derivative


class TestForms:
    def test_before_a_registration_the_derivative_is_empty(self, op):
        assert derivative_of(op) == Derivative()

    def test_a_call_registers_formula_and_setup(self, op):
        op.register_autograd(backward, setup_context=save)
        assert derivative_of(op) == Derivative(backward=backward, setup_context=save)

    def test_as_a_decorator_it_leaves_the_formula_its_name(self, op):
        assert op.register_autograd(backward) is backward
        assert op.register_autograd(setup_context=save)(backward) is backward
        assert derivative_of(op).setup_context is save

    def test_nonlinear_is_kept(self, op):
        op.register_autograd(nonlinear=True)(backward)
        assert derivative_of(op).nonlinear

    def test_derive_asks_for_the_derivative_of_the_kernel(self, op):
        op.register_autograd("derive")
        assert derivative_of(op) == Derivative(derive=True)

    def test_a_complete_derivative_is_taken_as_it_is(self, op):
        derivative = Derivative(backward, save, selects=True)
        assert op.register_autograd(derivative) is backward
        assert derivative_of(op) is derivative

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            (
                {"setup_context": save},
                "setup_context, forward, nonlinear, surrogate and linear belong to a formula",
            ),
            (
                {"nonlinear": True},
                "setup_context, forward, nonlinear, surrogate and linear belong to a formula",
            ),
            ({"constant": "because"}, "expected one of a formula, constant= and missing="),
        ],
    )
    def test_a_complete_derivative_has_no_option_beside_it(self, op, options, text):
        with pytest.raises(RegistrationValueError, match=text):
            op.register_autograd(Derivative(backward), **options)

    def test_constant_and_missing_need_a_reason(self, op):
        op.register_autograd(constant="because it counts")
        assert derivative_of(op) == Derivative(constant="because it counts")
        op.register_autograd(missing="because nobody needed it")
        assert derivative_of(op) == Derivative(missing="because nobody needed it")

    def test_the_last_registration_counts(self, op):
        op.register_autograd("derive")
        op.register_autograd(backward)
        assert derivative_of(op) == Derivative(backward=backward)

    @pytest.mark.parametrize("find", [lambda: "aut::f", lambda: ops.aut.f.default])
    def test_the_op_may_be_named(self, op, find):
        register_autograd(find(), backward, setup_context=save)
        assert derivative_of(op).backward is backward

    def test_the_registration_ends_with_lib(self, op):
        library = Library("aut", "IMPL")
        register_autograd(op, backward, lib=library)
        library._destroy()
        assert derivative_of(op) == Derivative()

    def test_setup_context_is_keyword_only(self, op):
        with pytest.raises(TypeError, match="3 were given"):
            op.register_autograd(backward, save)


class TestRefusals:
    @pytest.mark.parametrize("formula", [3, "auto"])
    def test_a_formula_can_be_called(self, op, formula):
        with pytest.raises(
            RegistrationTypeError,
            match=r"register_autograd\(aut::f\): the formula is required to be a callable",
        ):
            op.register_autograd(formula)

    def test_so_can_setup_context(self, op):
        with pytest.raises(RegistrationTypeError, match="setup_context is required to be a callable"):
            op.register_autograd(backward, setup_context=3)

    @pytest.mark.parametrize(
        "setup",
        [lambda ctx, inputs: None, lambda inputs, output: None, lambda ctx, inputs, output, more: None],
    )
    def test_a_setup_context_with_other_parameters_is_refused(self, op, setup):
        with pytest.raises(
            RegistrationTypeError,
            match=r"aut::f: setup_context does not accept .* expected \(ctx, inputs, output\) by name",
        ):
            op.register_autograd(backward, setup_context=setup)
        assert derivative_of(op) == Derivative()

    @pytest.mark.parametrize("formula", [lambda g: g, lambda ctx: None, lambda ctx, g, more: g])
    def test_a_formula_with_other_parameters_is_refused(self, op, formula):
        with pytest.raises(
            RegistrationTypeError, match=r"aut::f: the backward formula does not .* expected \(ctx, grad\)"
        ):
            op.register_autograd(formula)

    @pytest.mark.parametrize(
        "said",
        [{"constant": "because", "missing": "because"}, {"backward": backward, "constant": "because"}],
    )
    def test_two_things_at_once_are_refused(self, op, said):
        formula = [said["backward"]] if "backward" in said else []
        rest = {name: value for name, value in said.items() if name != "backward"}
        with pytest.raises(
            RegistrationValueError, match=r"expected one of a formula, constant= and missing=.* and "
        ):
            op.register_autograd(*formula, **rest)

    @pytest.mark.parametrize("reason", ["", "  ", True])
    def test_a_reason_is_in_words(self, op, reason):
        with pytest.raises(RegistrationValueError, match="'constant' is the reason, in words"):
            op.register_autograd(constant=reason)

    @pytest.mark.parametrize("options", [{"setup_context": save}, {"forward": save}, {"nonlinear": True}])
    def test_options_of_a_formula_need_one(self, op, options):
        told = "setup_context, forward, nonlinear, surrogate and linear belong"
        with pytest.raises(RegistrationValueError, match=told):
            op.register_autograd("derive", **options)

    def test_an_op_that_writes_has_no_formula(self):
        op = custom_op("aut::g", lambda x: None, schema="(Tensor(a!) x) -> ()", mutates_args=("x",))
        for formula in (backward, "derive"):
            with pytest.raises(
                RuntimeError, match="aut::g: Cannot register autograd formula for non-functional operator"
            ):
                op.register_autograd(formula)
        op.register_autograd(constant="because it only counts")

    def test_neither_has_an_op_tagged_inplace(self):
        op = custom_op(
            "aut::g",
            lambda x: x,
            schema="(Tensor(a!) x) -> Tensor(a!)",
            mutates_args=("x",),
            tags=Tag.inplace,
        )
        with pytest.raises(RuntimeError, match="non-functional"):
            op.register_autograd(backward)

    def test_an_op_tagged_out_supports_none(self):
        op = custom_op(
            "aut::g",
            lambda x, *, out: out,
            schema="(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
            mutates_args=("out",),
            tags=Tag.out,
        )
        with pytest.raises(RuntimeError, match="Out variants do not support autograd"):
            op.register_autograd(backward)

    def test_an_op_with_a_tensor_only_by_keyword_has_no_formula(self):
        define("aut::g", "(*, Tensor x) -> Tensor")
        with pytest.raises(
            UnsupportedRegistrationError, match="aut::g: register_autograd with kwarg-only Tensor args"
        ):
            register_autograd("aut::g", backward)
        with pytest.raises(NotImplementedError, match="kwarg-only"):
            register_autograd("aut::g", backward)

    def test_an_op_that_does_not_exist_is_an_attribute_error(self):
        with pytest.raises(
            AttributeError, match="register_autograd: the operator aut::nothing does not exist"
        ):
            register_autograd("aut::nothing", backward)
        assert issubclass(UnknownOperatorError, AttributeError)

    def test_a_refused_registration_leaves_the_old_one(self, op):
        op.register_autograd(backward)
        with pytest.raises(RegistrationError, match="required to be a callable"):
            op.register_autograd(3)
        assert derivative_of(op).backward is backward


def test_a_formula_without_a_return_warns():
    def forgets(ctx, grad):
        grad * 2

    with pytest.warns(
        UserWarning, match=r"the formula .*test_rule_registration_autograd\.py:\d+ returns no value"
    ):
        custom_op(double).register_autograd(forgets)


def sometimes(ctx, grad):
    return grad * 2 if ctx.needs_input_grad[0] else None


def refuses(ctx, grad):
    raise NotImplementedError


@pytest.mark.parametrize("formula", [sometimes, refuses, lambda ctx, grad: None])
def test_a_formula_that_may_return_a_value_does_not_warn(formula):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        op = custom_op(double)
        op.register_autograd(formula)
    assert told == []
    assert derivative_of(op).backward is formula
