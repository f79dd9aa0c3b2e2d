"""custom_op: names, schemas, kinds and options."""

from __future__ import annotations

import functools
import typing
from typing import Literal

import jax
import pytest

from oplib.errors import (
    SchemaError,
    SchemaInferenceError,
)
from oplib.library import CustomOpDef, custom_op, ops
from oplib.tensor import Tensor
from tests.library.sample_kernels import ILLEGAL_NAMES, X, add_one, eager, host, schema_of


class TestForms:
    def test_as_a_decorator_and_as_a_call_it_gives_the_op(self):
        direct = custom_op("cop::f", add_one)
        decorated = custom_op("cop::g")(add_one)
        assert isinstance(direct, CustomOpDef)
        assert isinstance(decorated, CustomOpDef)
        assert direct(X)[0] == decorated(X)[0] == 1

    def test_the_op_is_found_under_its_name(self):
        custom_op("cop::f", add_one)
        assert ops.cop.f(X)[0] == 1

    def test_a_name_may_carry_an_overload(self):
        op = custom_op("cop::f.out", add_one)
        assert repr(op) == "<CustomOpDef(cop::f.out(Tensor x) -> Tensor)>"
        assert ops.cop.f.overloads() == ["out"]

    def test_an_option_of_custom_vjp_is_answered_by_what_takes_its_place(self):
        with pytest.raises(TypeError, match=r"no option 'nondiff_argnums'. .* annotated float, .*is static"):
            custom_op("cop::f", add_one, nondiff_argnums=(1,))
        with pytest.raises(TypeError, match=r"no option 'mutate_args'. Correct the name"):
            custom_op("cop::f", add_one, mutate_args=("x",))

    @pytest.mark.parametrize(
        ("name", "equivalent"),
        [
            ("defvjp", "register_autograd"),
            ("defjvp", "register_jvp"),
            ("defjvps", "register_jvp"),
            ("def_vmap", "register_vmap"),
            ("def_partition", "register_sharding"),
        ],
    )
    def test_a_method_of_custom_vjp_is_answered_by_what_takes_its_place(self, name, equivalent):
        op = custom_op("cop::f", add_one)
        assert not hasattr(op, name)
        for callee in (op, ops.cop.f.default):
            with pytest.raises(AttributeError, match=f"has no attribute .{name}., .* Use {equivalent}"):
                getattr(callee, name)

    def test_residuals_that_are_no_results_are_answered_by_forward(self):
        op = custom_op("cop::f", add_one)
        with pytest.raises(AttributeError, match=r"For other residuals give forward=fwd: fwd\(ctx"):
            op.defvjp(None, None)

    def test_its_annotations_are_those_of_the_function(self):
        def halve(x: jax.Array, by: int = 2) -> jax.Array:
            return x / by

        op = custom_op("cop::f", halve)
        assert typing.get_type_hints(op) == {"x": jax.Array, "by": int, "return": jax.Array}
        assert typing.get_type_hints(custom_op("cop::g", functools.partial(halve, by=1))) == {}

    def test_another_missing_attribute_is_an_ordinary_error(self):
        with pytest.raises(AttributeError, match="'CustomOpDef' object has no attribute 'registr_vmap'"):
            custom_op("cop::f", add_one).registr_vmap  # noqa: B018

    @pytest.mark.parametrize("name", ["f", "a::b::c", "::".join("abcd")])
    def test_a_name_that_is_not_qualified_is_refused(self, name):
        with pytest.raises(ValueError, match=r"custom_op: a qualified name .* `::` and not once"):
            custom_op(name, add_one)

    @pytest.mark.parametrize("name", ILLEGAL_NAMES)
    def test_a_name_that_the_schema_parser_does_not_know_is_refused(self, name):
        with pytest.raises(SchemaError, match=ILLEGAL_NAMES[name]):
            custom_op(f"cop::{name}", add_one)
        with pytest.raises(RuntimeError, match=ILLEGAL_NAMES[name]):
            custom_op(f"cop::{name}", add_one, schema="(Tensor x) -> Tensor")

    @pytest.mark.parametrize("namespace", ["prim", "oplib"])
    def test_a_reserved_namespace_is_refused(self, namespace):
        with pytest.raises(ValueError, match=f"{namespace} is a reserved namespace"):
            custom_op(f"{namespace}::f", add_one)

    def test_name_and_function_are_positional_only(self):
        with pytest.raises(TypeError, match="positional-only argument passed as keyword argument: 'name'"):
            custom_op(name="cop::f", fn=add_one)


class Bound:
    def method(self, x: jax.Array) -> jax.Array:
        return x + 1


class Callable:
    def __call__(self, x: jax.Array) -> jax.Array:
        return x + 1


def add(x: jax.Array, y: float) -> jax.Array:
    return x + y


class TestFunctions:
    @pytest.mark.parametrize(
        "fn",
        [add_one, Bound().method, Callable(), functools.partial(add, y=1.0)],
        ids=["def", "method", "object", "partial"],
    )
    def test_anything_with_a_signature_makes_an_op(self, fn):
        assert custom_op("cop::f", fn)(X)[0] == 1

    def test_a_lambda_needs_a_schema(self):
        assert custom_op("cop::f", lambda x: x + 1, schema="(int x) -> int")(1) == 2
        with pytest.raises(SchemaInferenceError, match="x must have a type annotation"):
            custom_op("cop::g", lambda x: x + 1)

    @pytest.mark.parametrize("schema", [None, "(Tensor x) -> Tensor"])
    def test_an_object_that_is_not_callable_is_refused_at_once(self, schema):
        with pytest.raises(
            TypeError, match=r"custom_op\(cop::f\): the function is required to be a callable. Got int"
        ):
            custom_op("cop::f", 3, schema=schema)
        assert not hasattr(ops.cop, "f")


class TestSchema:
    def test_it_is_inferred_from_the_annotations(self):
        def clip(x: jax.Array, limit: float = 1.0, *, soft: bool = True) -> jax.Array:
            return x

        assert (
            schema_of(custom_op("cop::f", clip))
            == "cop::f(Tensor x, float limit=1., *, bool soft=True) -> Tensor"
        )

    def test_a_given_one_is_used_as_it_is(self):
        op = custom_op("cop::f", lambda x: x, schema="(Tensor self, int n=2) -> Tensor")
        assert schema_of(op) == "cop::f(Tensor self, int n=2) -> Tensor"

    def test_a_given_one_has_no_name_in_it(self):
        with pytest.raises(AttributeError, match=r"'schema' must not contain a name. Got 'f\(Tensor x\)"):
            custom_op("cop::f", add_one, schema="f(Tensor x) -> Tensor")

    def test_written_arguments_are_marked(self):
        def write(x: Tensor, y: Tensor) -> None: ...

        assert (
            schema_of(custom_op("cop::f", write, mutates_args=["y"]))
            == "cop::f(Tensor x, Tensor(a1!) y) -> ()"
        )

    @pytest.mark.parametrize("names", [("x",), {"x"}, {"x": 1}, (name for name in "x"), ["x"]])
    def test_mutates_args_is_any_iterable_of_names(self, names):
        def write(x: Tensor) -> None: ...

        assert custom_op("cop::f", write, mutates_args=names)._schema.is_mutable

    def test_unknown_marks_every_tensor(self):
        def write(x: Tensor, n: int, y: Tensor) -> None: ...

        op = custom_op("cop::f", write, mutates_args="unknown")
        assert schema_of(op) == "cop::f(Tensor(a0!) x, int n, Tensor(a2!) y) -> ()"

    def test_mutates_args_is_keyword_only_and_may_be_left_out(self):
        with pytest.raises(TypeError, match="3 were given"):
            custom_op("cop::f", add_one, ())
        assert not custom_op("cop::f", add_one)._schema.is_mutable

    @pytest.mark.parametrize("names", [(), ("y",), ("x", "y"), "unknown"])
    def test_a_schema_that_contradicts_mutates_args_is_refused(self, names):
        with pytest.raises(ValueError, match=r"'schema' and 'mutates_args' disagree.* op mutates \['x'\]"):
            custom_op(
                "cop::f", lambda x, y: None, schema="(Tensor(a!) x, Tensor y) -> ()", mutates_args=names
            )

    def test_none_is_no_iterable_of_names(self):
        with pytest.raises(TypeError, match="'NoneType' object is not iterable"):
            custom_op("cop::f", eager, mutates_args=None)

    def test_a_tensor_only_by_keyword_is_refused(self):
        def keyword(*, x: jax.Array) -> jax.Array: ...

        with pytest.raises(NotImplementedError, match=r"cop::f: custom_op with kwarg-only Tensor args"):
            custom_op("cop::f", keyword)

    @pytest.mark.parametrize("type_", ["Tensor", "Tensor?", "Tensor[]"])
    def test_so_is_an_optional_one_or_a_list(self, type_):
        with pytest.raises(NotImplementedError, match="kwarg-only Tensor args"):
            custom_op("cop::f", lambda *, x: x, schema=f"(*, {type_} x) -> Tensor")

    def test_choices_of_a_literal_are_kept(self):
        def pick(x: jax.Array, mode: Literal["a", "b"] = "a") -> jax.Array: ...

        op = custom_op("cop::f", pick)
        assert op._schema.arguments[1].type.choices == ("a", "b")


class TestKinds:
    @pytest.mark.parametrize(("fn", "kind"), [(add_one, "array"), (host, "host"), (eager, "tensor")])
    def test_annotations_tell_how_it_runs(self, fn, kind):
        assert custom_op("cop::f", fn)._opoverload.record.kind == kind

    def test_without_annotations_it_is_eager_code(self):
        op = custom_op("cop::f", lambda x: x, schema="(Tensor x) -> Tensor")
        assert op._opoverload.record.kind == "tensor"

    def test_only_kernels_on_arrays_are_compiled(self):
        compiled = [custom_op(fn)._opoverload.record for fn in (add_one, host, eager)]
        assert [record.kind == "array" and record.compiled for record in compiled] == [True, False, False]

    def test_compile_false_keeps_a_kernel_on_arrays_as_python(self):
        record = custom_op("cop::f", add_one, compile=False)._opoverload.record
        assert record.kind == "array"
        assert not record.compiled

    def test_compile_true_makes_a_function_without_annotations_one_on_arrays(self):
        op = custom_op("cop::f", lambda x: x + 1, schema="(Tensor x) -> Tensor", compile=True)
        assert op._opoverload.record.kind == "array"
        assert op._opoverload.record.compiled

    @pytest.mark.parametrize("fn", [host, eager])
    def test_compile_true_is_refused_for_plain_python(self, fn):
        with pytest.raises(ValueError, match=r"cop::f: compile=True is for kernels annotated jax\.Array"):
            custom_op("cop::f", fn, compile=True)

    def test_the_kind_is_fixed_at_the_definition(self):
        op = custom_op("cop::f", add_one)
        with pytest.raises(RuntimeError, match=r"annotated jax\.Array, this one numpy\.ndarray"):
            op.register_kernel("gpu", host)
        op.register_kernel("gpu", lambda x: x)
        assert op._opoverload.record.kind == "array"


def step(p: jax.Array, lr: float, n: int = 1) -> tuple[jax.Array, jax.Array]:
    return p - lr, p


class TestOptions:
    def test_operand_names_number_arguments(self):
        op = custom_op("cop::f", step, mutates_args=("p",), operand=("lr", "n"))
        assert op._opoverload.record.operand == {"lr", "n"}

    @pytest.mark.parametrize(("name", "told"), [("p", r"there it is Tensor"), ("zz", "no such argument")])
    def test_another_argument_is_no_operand(self, name, told):
        with pytest.raises(
            ValueError,
            match=rf"cop::f: 'operand' names '{name}', which must be a float, int or Scalar argument.*{told}",
        ):
            custom_op("cop::f", step, mutates_args=("p",), operand=(name,))

    def test_donates_names_written_arguments(self):
        op = custom_op("cop::f", step, mutates_args=("p",), donates=("p",))
        assert op._opoverload.record.donates == {"p"}

    def test_an_argument_that_is_not_written_cannot_be_donated(self):
        with pytest.raises(ValueError, match="'donates' names 'x', which must be a written argument"):
            custom_op("cop::f", add_one, donates=("x",))

    def test_a_kernel_that_writes_in_place_donates_nothing(self):
        def write(x: Tensor) -> None: ...

        with pytest.raises(
            ValueError, match=r"'donates' is for kernels annotated jax\.Array. Got a tensor kernel"
        ):
            custom_op("cop::f", write, mutates_args=("x",), donates=("x",))

    def test_autograd_derive_stands_in_the_record(self):
        assert custom_op("cop::f", add_one, autograd="derive")._opoverload.record.derivative.derive

    def test_another_value_of_autograd_is_refused(self):
        with pytest.raises(ValueError, match=r"""'autograd' is "derive" or None\. Got 'auto'"""):
            custom_op("cop::f", add_one, autograd="auto")

    def test_an_op_that_writes_has_no_derivative(self):
        with pytest.raises(RuntimeError, match="non-functional"):
            custom_op("cop::f", step, mutates_args=("p",), autograd="derive")
        assert not hasattr(ops.cop, "f")
