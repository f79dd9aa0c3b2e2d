"""custom_op: names, schemas, kinds, options, tags, new definitions, and the object it gives."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import (
    RegistrationError,
    RegistrationTypeError,
    RegistrationValueError,
    SchemaError,
    SchemaInferenceError,
    UnknownOperatorError,
)
from oplib.library import CustomOpDef, Library, Tag, custom_op, define, ops, register_fake, register_vmap
from oplib.tensor import Tensor

X = jnp.zeros(2)


def add_one(x: jax.Array) -> jax.Array:
    """Adds one."""
    return x + 1


def add_two(x: jax.Array) -> jax.Array:
    return x + 2


def eager(x: Tensor) -> Tensor:
    return x


def host(x: np.ndarray) -> np.ndarray:
    return x + 1


def schema_of(op: Any) -> str:
    return str(op._schema)


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
        assert repr(op) == "<CustomOpDef(cop::f.out)>"
        assert ops.cop.f.overloads() == ["out"]

    @pytest.mark.parametrize("name", ["f", "a::b::c", "::".join("abcd")])
    def test_a_name_that_is_not_qualified_is_refused(self, name):
        with pytest.raises(ValueError, match=r"custom_op: a qualified name .* parts unpack"):
            custom_op(name, add_one)

    @pytest.mark.parametrize(
        "name", ["cop::", "cop::a-b", "cop::1x", "cop::x.y.z", "cop::f.default", "cop::f.__x__"]
    )
    def test_a_name_that_the_schema_parser_does_not_know_is_refused(self, name):
        with pytest.raises(SchemaError):
            custom_op(name, add_one)
        with pytest.raises(RuntimeError):
            custom_op(name, add_one, schema="(Tensor x) -> Tensor")

    @pytest.mark.parametrize("namespace", ["prim", "oplib"])
    def test_a_reserved_namespace_is_refused(self, namespace):
        with pytest.raises(ValueError, match=f"{namespace} is a reserved namespace"):
            custom_op(f"{namespace}::f", add_one)

    def test_name_and_function_are_positional_only(self):
        with pytest.raises(TypeError):
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
    def test_what_cannot_be_called_is_refused_at_once(self, schema):
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
        with pytest.raises(AttributeError, match=r"'schema' is written without a name. Got 'f\(Tensor x\)"):
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
        with pytest.raises(TypeError):
            custom_op("cop::f", add_one, ())
        assert not custom_op("cop::f", add_one)._schema.is_mutable

    @pytest.mark.parametrize("names", [(), ("y",), ("x", "y"), "unknown"])
    def test_a_schema_that_writes_other_arguments_than_are_said_is_refused(self, names):
        with pytest.raises(ValueError, match=r"'schema' and 'mutates_args' disagree.* op mutates \['x'\]"):
            custom_op(
                "cop::f", lambda x, y: None, schema="(Tensor(a!) x, Tensor y) -> ()", mutates_args=names
            )

    def test_none_is_no_iterable_of_names(self):
        with pytest.raises(TypeError):
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
        def pick(x: jax.Array, mode: "Literal['a', 'b']" = "a") -> jax.Array: ...  # noqa: UP037

        from typing import Literal

        pick.__annotations__["mode"] = Literal["a", "b"]
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
        compiled = [custom_op("cop::f", fn)._opoverload.record for fn in (add_one, host, eager)]
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

    def test_another_word_for_autograd_is_refused(self):
        with pytest.raises(ValueError, match=r"""'autograd' is "derive" or left out\. Got 'auto'"""):
            custom_op("cop::f", add_one, autograd="auto")

    def test_an_op_that_writes_has_no_derivative(self):
        with pytest.raises(RuntimeError, match="non-functional"):
            custom_op("cop::f", step, mutates_args=("p",), autograd="derive")
        assert not hasattr(ops.cop, "f")


class TestDevices:
    @pytest.mark.parametrize(
        ("given", "kernels"),
        [
            (None, {"default"}),
            ("cpu", {"cpu"}),
            (["cpu", "cuda"], {"cpu", "cuda"}),
            (("gpu", "gpu", "rocm"), {"gpu", "rocm"}),
            ([], set()),
        ],
    )
    def test_device_types_tell_where_it_runs(self, given, kernels):
        assert set(custom_op("cop::f", add_one, device_types=given)._opoverload.record.kernels) == kernels

    def test_an_unknown_device_is_refused(self):
        with pytest.raises(RuntimeError, match="no device type or dispatch key 'blub'"):
            custom_op("cop::f", add_one, device_types="blub")
        assert not hasattr(ops.cop, "f")

    def test_an_op_without_tensors_needs_a_device_argument(self):
        with pytest.raises(
            ValueError,
            match="functions without tensor inputs are required to have a `device: Device` argument",
        ):
            custom_op("cop::f", lambda n: n, schema="(int n) -> Tensor", device_types="cpu")

    @pytest.mark.parametrize(
        "schema",
        ["(Device device) -> Tensor", "(*, Device? device=None) -> Tensor", "(Tensor[] x) -> Tensor"],
    )
    def test_a_device_argument_or_any_tensor_will_do(self, schema):
        op = custom_op("cop::f", lambda *_, device=None: None, schema=schema, device_types="cpu")
        assert schema_of(op) == f"cop::f{schema}"


class TestTags:
    def test_the_tag_of_every_custom_op_stands_first_and_once(self):
        op = custom_op("cop::f", add_one, tags=[Tag.pointwise, Tag.pt2_compliant_tag, Tag.pointwise])
        assert op.tags == ops.cop.f.default.tags == [Tag.pt2_compliant_tag, Tag.pointwise]

    def test_one_tag_needs_no_list(self):
        assert Tag.pointwise in custom_op("cop::f", add_one, tags=Tag.pointwise).tags

    @pytest.mark.parametrize("tags", ["inplace", [3], ["pointwise"]])
    def test_something_else_is_refused(self, tags):
        with pytest.raises(RegistrationTypeError, match=r"'tags' is one oplib\.Tag or several"):
            custom_op("cop::f", add_one, tags=tags)

    def test_inplace_returns_what_it_writes(self):
        def write(x: Tensor) -> Tensor:
            return x

        op = custom_op("cop::f", write, mutates_args=("x",), tags=Tag.inplace)
        assert schema_of(op) == "cop::f(Tensor(a0!) x) -> Tensor(a0!)"

    @pytest.mark.parametrize(
        ("schema", "rule"),
        [
            ("() -> Tensor", "at least one positional argument"),
            ("(*, Tensor(a!) x) -> Tensor(a!)", "at least one positional argument"),
            ("(Tensor x) -> Tensor", "requires the first positional argument to be mutable"),
            ("(Tensor(a!)[] x) -> Tensor", "first positional argument to be a Tensor"),
            ("(Tensor(a!) x) -> ()", "must return the first mutable argument"),
            ("(Tensor(a!) x) -> Tensor", "must return the first mutable argument"),
            ("(Tensor(a!) x) -> Tensor(b!)", "must return the first mutable argument"),
            ("(Tensor(a!) x) -> Tensor(a)", "must return the first mutable argument"),
            ("(Tensor(a!) x) -> (Tensor(a!), Tensor)", "must return the first mutable argument"),
            ("(Tensor(a!) x, Tensor(b!) y) -> Tensor(a!)", "must only mutate the first positional argument"),
        ],
    )
    def test_a_broken_rule_of_inplace_is_named(self, schema, rule):
        self.refuse(schema, Tag.inplace, rule)

    @pytest.mark.parametrize(
        ("schema", "rule"),
        [
            ("(Tensor x) -> Tensor", "at least one mutable argument"),
            ("(Tensor(a!) out) -> Tensor(a!)", "all mutable arguments to be keyword-only"),
            ("(*, Tensor(a!)[] out) -> Tensor", "only supports Tensor mutable arguments"),
            ("(*, Tensor(a!) out) -> ()", "must return all mutable arguments .*return annotation"),
            ("(*, Tensor(a!) out) -> Tensor", "must return all mutable arguments"),
            (
                "(*, Tensor(a!) p, Tensor(b!) q) -> (Tensor(b!), Tensor(a!))",
                "must return all mutable arguments",
            ),
        ],
    )
    def test_a_broken_rule_of_out_is_named(self, schema, rule):
        self.refuse(schema, Tag.out, rule)

    def refuse(self, schema, tag, rule):
        written = re.findall(r"\(\w!\)\S* (\w+)", schema.partition("->")[0])
        with pytest.raises(ValueError, match=rf"cop::f: a schema tagged with Tag\.{tag.name} .*{rule}"):
            custom_op("cop::f", lambda *_, **__: None, schema=schema, mutates_args=written, tags=tag)
        assert not hasattr(ops.cop, "f")

    def test_out_may_have_tensors_only_by_keyword(self):
        schema = "(Tensor x, *, Tensor(a!) p, Tensor(b!) q) -> (Tensor(a!), Tensor(b!))"
        op = custom_op(
            "cop::f", lambda x, *, p, q: (p, q), schema=schema, mutates_args=("p", "q"), tags=Tag.out
        )
        assert schema_of(op) == f"cop::f{schema}"

    def test_inplace_and_out_exclude_each_other(self):
        with pytest.raises(AssertionError, match="mutually exclusive"):
            custom_op(
                "cop::f",
                lambda x: x,
                schema="(Tensor(a!) x) -> Tensor(a!)",
                mutates_args=("x",),
                tags=(Tag.inplace, Tag.out),
            )


class TestNewDefinition:
    def test_it_replaces_kernel_schema_and_rules_without_a_word(self):
        old = custom_op("cop::f", add_one)
        old.register_fake(lambda x: x)
        old.register_vmap(lambda info, in_dims, x: (x, 0))
        old.register_autograd(lambda ctx, g: g)
        old.register_kernel("cpu", lambda x: x + 5)

        def two(x: jax.Array, y: int = 2) -> jax.Array:
            return x + y

        new = custom_op("cop::f", two)
        record = new._opoverload.record
        assert (record.fake, record.vmap, record.derivative.backward) == (None, None, None)
        assert set(record.kernels) == {"default"}
        assert new(X)[0] == 2

    def test_old_handles_call_the_new_op(self):
        handles = [custom_op("cop::f", add_one), ops.cop.f, ops.cop.f.default]
        custom_op("cop::f", add_two)
        assert [handle(X)[0] for handle in handles] == [2, 2, 2]

    def test_it_raises_the_version(self):
        before = custom_op("cop::f", add_one)._opoverload.record.version
        assert custom_op("cop::f", add_one)._opoverload.record.version > before

    def test_what_a_library_registered_stays(self):
        custom_op("cop::f", add_one)
        library = Library("cop", "IMPL")

        def fake(x):
            return x

        register_fake("cop::f", fake, lib=library)
        custom_op("cop::f", add_two)
        assert ops.cop.f.default.record.fake is fake

    def test_rules_attached_by_name_go_with_it(self):
        custom_op("cop::f", add_one)
        register_vmap("cop::f", lambda info, in_dims, x: (x, 0))
        custom_op("cop::f", add_two)
        assert ops.cop.f.default.record.vmap is None

    def test_one_that_fails_leaves_the_old_op(self):
        op = custom_op("cop::f", add_one)
        with pytest.raises(SchemaInferenceError):
            custom_op("cop::f", lambda x: x)
        with pytest.raises(RegistrationValueError):
            custom_op("cop::f", add_two, operand=("x",))
        assert op(X)[0] == 1

    def test_an_op_of_define_is_not_defined_again(self):
        define("cop::f", "(Tensor x) -> Tensor")
        with pytest.raises(
            RuntimeError, match=r"cop::f: .*multiple times.*test_custom_op\.py:\d+.*test_custom_op\.py:\d+"
        ):
            custom_op("cop::f", add_one)

    def test_a_kernel_registered_before_the_op_is_used(self):
        library = Library("cop", "IMPL")
        library.impl("f", add_two, "CPU")
        assert custom_op("cop::f", add_one)(X)[0] == 2


@custom_op("cop::module_level")
def module_level(x: jax.Array) -> jax.Array:
    """Adds one, and says so."""
    return x + 1


class TestObject:
    def test_it_looks_like_its_function(self):
        assert repr(module_level) == "<CustomOpDef(cop::module_level)>"
        assert module_level.__name__ == "module_level"
        assert module_level.__doc__ == "Adds one, and says so."
        assert module_level.__module__ == __name__
        assert list(inspect.signature(module_level).parameters) == ["x"]

    @pytest.mark.parametrize(
        "duplicate", [copy.copy, copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))]
    )
    def test_its_copies_are_itself(self, duplicate):
        assert duplicate(module_level) is module_level

    def test_a_pickle_is_a_name(self):
        assert b"cop::module_level" in pickle.dumps(module_level)
        assert b"x + 1" not in pickle.dumps(module_level)

    def test_unpickling_an_op_that_is_not_defined_names_it(self):
        data = pickle.dumps(custom_op("cop::f", add_one)).replace(b"cop::f", b"cop::g")
        with pytest.raises(UnknownOperatorError, match="operator cop::g does not exist"):
            pickle.loads(data)

    def test_unpickling_what_define_made_tells_who_made_it(self):
        define("cop::g", "(Tensor x) -> Tensor")
        data = pickle.dumps(custom_op("cop::f", add_one)).replace(b"cop::f", b"cop::g")
        with pytest.raises(RegistrationError, match="cop::g was not made by custom_op"):
            pickle.loads(data)

    def test_an_argument_called_self_can_be_given_by_keyword(self):
        assert custom_op("cop::f", lambda self: self + 1, schema="(int self) -> int")(self=1) == 2

    def test_it_can_be_jitted(self):
        assert jax.jit(custom_op("cop::f", add_one))(X)[0] == 1


class TestSwitchingKernels:
    @pytest.fixture
    def op(self):
        op = custom_op("cop::f", add_one)
        op.register_kernel("cpu", add_two)
        return op

    def test_a_disabled_kernel_gives_way_to_the_decorated_function(self, op):
        assert op(X)[0] == 2
        with op.set_kernel_enabled("cpu", enabled=False):
            assert op(X)[0] == 1
        assert op(X)[0] == 2

    def test_an_exception_switches_it_on_again(self, op):
        with pytest.raises(KeyError), op.set_kernel_enabled("cpu", False):
            raise KeyError
        assert op(X)[0] == 2

    def test_it_nests(self, op, caplog):
        with op.set_kernel_enabled("cpu", False):
            with op.set_kernel_enabled("cpu", True):
                assert op(X)[0] == 2
            assert op(X)[0] == 1
            with op.set_kernel_enabled("cpu", False):
                assert op(X)[0] == 1
            assert op(X)[0] == 1
        assert op(X)[0] == 2
        assert "already disabled" in caplog.text

    def test_a_kernel_registered_while_it_is_off_stays_off(self, op):
        with op.set_kernel_enabled("cpu", False):
            op.register_kernel("cpu", lambda x: x + 3)
            assert op(X)[0] == 1
        assert op(X)[0] == 3

    def test_the_default_kernel_can_be_disabled_too(self):
        op = custom_op("cop::f", add_one)
        op.register_kernel(None, add_two)
        assert op(X)[0] == 2
        with op.set_kernel_enabled(None, False):
            assert op(X)[0] == 1

    def test_nothing_to_switch_is_told_to_the_log(self, op, caplog):
        with op.set_kernel_enabled("tpu", False):
            pass
        assert "cop::f: no kernel was registered for device type tpu" in caplog.text

    def test_switching_on_what_is_on_is_told_to_the_log(self, op, caplog):
        with op.set_kernel_enabled("cpu"):
            pass
        assert "cop::f: the kernel for device type cpu was already enabled" in caplog.text

    def test_it_is_seen_by_all_threads(self, op):
        import threading

        seen = []
        with op.set_kernel_enabled("cpu", False):
            thread = threading.Thread(target=lambda: seen.append(float(op(X)[0])))
            thread.start()
            thread.join()
        assert seen == [1.0]
