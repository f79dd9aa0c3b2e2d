"""Library, define and impl: kinds, names, overriding, lifetimes, and their errors."""

from __future__ import annotations

import gc
import re

import jax
import jax.numpy as jnp
import pytest

from oplib.errors import (
    LibraryDestroyedError,
    RegistrationError,
    RegistrationTypeError,
    RegistrationValueError,
    SchemaError,
    UnknownOperatorError,
    UnsupportedRegistrationError,
)
from oplib.library import Library, Tag, _scoped_library, custom_op, define, fallthrough_kernel, impl, ops
from oplib.tensor import Tensor, box
from tests.library.sample_kernels import ILLEGAL_NAMES, adding
from tests.memory import hide_older

X = jnp.zeros(2)


@pytest.fixture
def lib():
    with _scoped_library("lab", "FRAGMENT") as library:
        yield library


class TestKinds:
    @pytest.mark.parametrize("kind", ["def", "DEFINE", ""])
    def test_another_kind_is_refused(self, kind):
        with pytest.raises(ValueError, match=re.escape(f"Unsupported kind: {kind!r}")):
            Library("lab", kind)

    def test_a_second_def_of_a_namespace_names_the_line_of_the_first(self):
        first = Library("lab", "DEF")
        with pytest.raises(
            RuntimeError, match=r"Only a single DEF library .* lab\. The first was .*test_library\.py:\d+"
        ):
            Library("lab", "DEF")
        del first

    def test_a_new_def_library_may_follow_one_that_is_gone(self):
        Library("lab", "DEF")._destroy()
        another = Library("lab", "DEF")
        assert another.define("f(Tensor x) -> Tensor") == "f"

    def test_a_def_library_may_come_after_fragments_and_custom_ops(self, lib):
        lib.define("f(Tensor x) -> Tensor")
        custom_op("lab::g", adding(1))
        late = Library("lab", "DEF")
        assert late.define("h(Tensor x) -> Tensor") == "h"
        assert [hasattr(ops.lab, name) for name in "fgh"] == [True, True, True]

    @pytest.mark.parametrize("namespace", ["prim", "oplib"])
    @pytest.mark.parametrize("kind", ["DEF", "FRAGMENT"])
    def test_a_reserved_namespace_is_refused(self, namespace, kind):
        with pytest.raises(ValueError, match=f"{namespace} is a reserved namespace"):
            Library(namespace, kind)

    def test_kernels_may_be_registered_in_a_reserved_namespace(self):
        assert Library("oplib", "IMPL").ns == "oplib"

    def test_a_library_of_kind_impl_defines_nothing(self):
        with pytest.raises(RuntimeError, match="Cannot define an operator inside of a library of kind IMPL"):
            Library("lab", "IMPL").define("f(Tensor x) -> Tensor")

    def test_repr_tells_kind_namespace_and_key(self):
        assert repr(Library("lab", "IMPL", "CPU")) == "Library(kind=IMPL, ns=lab, dispatch_key=CPU)"


class TestLibraryDefine:
    def test_it_returns_the_name_without_the_overload(self, lib):
        assert lib.define("f(Tensor x) -> Tensor") == "f"
        assert lib.define("f.out(Tensor x) -> Tensor") == "f"
        assert ops.lab.f.overloads() == ["default", "out"]

    @pytest.mark.parametrize("analysis", ["", "FROM_SCHEMA", "CONSERVATIVE"])
    def test_an_alias_analysis_of_torch_is_accepted(self, lib, analysis):
        assert lib.define("f(Tensor x) -> Tensor", analysis) == "f"

    def test_another_alias_analysis_is_refused(self, lib):
        with pytest.raises(RuntimeError, match="Invalid alias_analysis type 'PURE_FUNCTION'"):
            lib.define("f(Tensor x) -> Tensor", "PURE_FUNCTION")

    def test_the_same_name_again_names_both_lines_and_schemas(self, lib):
        lib.define("f(Tensor x) -> Tensor")
        site = r"\S*test_library\.py:\d+"
        first, second = r"lab::f\(Tensor x\) -> Tensor", r"lab::f\(int x\) -> int"
        text = rf"lab::f: .* multiple times\. First .* at {site} as {first}, again at {site} as {second}"
        with pytest.raises(RuntimeError, match=text):
            Library("lab", "FRAGMENT").define("f(int x) -> int")

    def test_another_overload_of_the_same_name_is_another_op(self, lib):
        lib.define("f.a(Tensor x) -> Tensor")
        with pytest.raises(RuntimeError, match=r"lab::f\.a: .*multiple times"):
            lib.define("f.a(Tensor x) -> Tensor")

    def test_its_own_namespace_may_stand_in_the_schema(self, lib):
        assert lib.define("lab::f(Tensor x) -> Tensor") == "f"
        assert ops.lab.f.default.name() == "lab::f"

    def test_a_foreign_namespace_in_the_schema_is_refused(self, lib):
        with pytest.raises(
            RuntimeError, match=r"provided namespace \(other\) does not match namespace of the library"
        ):
            lib.define("other::f(Tensor x) -> Tensor")

    def test_two_colons_in_a_default_are_no_namespace(self, lib):
        lib.define('f(Tensor x, str mode="a::b") -> Tensor')
        assert ops.lab.f.default._schema.arguments[1].default_value == "a::b"

    @pytest.mark.parametrize(
        ("schema", "told"),
        [
            ("f(Tensor x -> Tensor", r"expected ',' or '\)' but found '->'"),
            ("f(Tensorr x) -> Tensor", "unknown type specifier 'Tensorr'"),
            ("a-b(Tensor x) -> Tensor", "found '-'"),
        ],
    )
    def test_a_definition_that_fails_leaves_nothing(self, lib, schema, told):
        with pytest.raises(SchemaError, match=told):
            lib.define(schema)
        assert list(ops.lab) == []

    def test_a_definition_refused_for_its_tag_leaves_nothing(self, lib):
        with pytest.raises(ValueError, match="to be mutable"):
            lib.define("f(Tensor x) -> Tensor", tags=Tag.inplace)
        assert not hasattr(ops.lab, "f")

    def test_tags_are_those_that_were_given(self, lib):
        lib.define("f(Tensor x) -> Tensor", tags=(Tag.pointwise, Tag.pointwise))
        assert ops.lab.f.default.tags == [Tag.pointwise]

    def test_operand_and_donates_stand_in_the_record(self, lib):
        lib.define("f(Tensor(a!)[] p, float lr) -> ()", operand=("lr",), donates=("p",))
        record = ops.lab.f.default.record
        assert record.operand == {"lr"}
        assert record.donates == {"p"}

    def test_the_record_tells_the_line(self, lib):
        lib.define("f(Tensor x) -> Tensor")
        assert re.search(r"test_library\.py:\d+$", ops.lab.f.default.record.where)


@pytest.mark.usefixtures("told_already")
class TestLibraryImpl:
    def test_a_kernel_may_come_before_its_op(self):
        kernels = Library("lab", "IMPL")
        kernels.impl("f", adding(1), "default")
        assert not hasattr(ops.lab, "f")
        owner = Library("lab", "FRAGMENT")
        owner.define("f(Tensor x) -> Tensor")
        assert ops.lab.f(X)[0] == 1

    @pytest.mark.parametrize("name", ["f.out", "lab::f.out"])
    def test_the_name_may_carry_overload_and_namespace(self, lib, name):
        lib.define("f.out(Tensor x) -> Tensor")
        lib.impl(name, adding(1), "default")
        assert ops.lab.f.out(X)[0] == 1

    def test_an_overload_object_is_a_name(self, lib):
        lib.define("f(Tensor x) -> Tensor")
        lib.impl(ops.lab.f.default, adding(1), "default")
        assert ops.lab.f(X)[0] == 1

    def test_another_object_is_no_name(self, lib):
        with pytest.raises(
            RuntimeError, match=r"either a name or an OpOverload object as the first argument\. Got int"
        ):
            lib.impl(3, adding(1), "CPU")

    def test_a_foreign_namespace_is_refused(self, lib):
        with pytest.raises(RuntimeError, match=r"\(other\) does not match namespace"):
            lib.impl("other::f", adding(1), "CPU")

    def test_an_object_that_is_not_callable_is_refused(self, lib):
        with pytest.raises(TypeError, match=r"required to be a callable\. Got int"):
            lib.impl("f", 3)

    @pytest.mark.parametrize(
        ("key", "platform"),
        [
            ("CPU", "cpu"),
            ("cpu", "cpu"),
            ("CUDA", "cuda"),
            ("cuda", "cuda"),
            ("gpu", "gpu"),
            ("tpu", "tpu"),
            ("default", "default"),
            ("CompositeExplicitAutograd", "default"),
        ],
    )
    def test_a_key_names_a_platform(self, lib, key, platform):
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", adding(1), key)
        assert set(ops.lab.f.default.record.kernels) == {platform}

    @pytest.mark.parametrize("key", ["Blah", "xla", "cpu:0"])
    def test_an_unknown_key_is_refused(self, lib, key):
        with pytest.raises(
            RuntimeError, match=f"no device type or dispatch key {key!r}. Expected one of cpu, gpu"
        ):
            lib.impl("f", adding(1), key)

    @pytest.mark.parametrize(("key", "cure"), [("Meta", "register_fake"), ("Autograd", "register_autograd")])
    def test_a_key_for_a_rule_names_the_function_for_it(self, lib, key, cure):
        with pytest.raises(RuntimeError, match=f"Use {cure}"):
            lib.impl("f", adding(1), key)

    def test_the_key_of_the_library_is_the_default(self):
        library = Library("lab", "FRAGMENT", "CPU")
        library.define("f(Tensor x) -> Tensor")
        library.impl("f", adding(1))
        assert set(ops.lab.f.default.record.kernels) == {"cpu"}

    def test_without_any_key_the_kernel_is_composite(self, lib):
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", adding(1))
        assert ops.lab.f.default.record.kind == "composite"
        assert set(ops.lab.f.default.record.kernels) == {"default"}

    def test_an_explicit_kernel_makes_the_op_opaque_and_goes_before_a_composite_one(self, lib):
        explicit = adding(1)
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", adding(2))
        lib.impl("f", explicit, "default")
        assert ops.lab.f.default.record.kind == "array"
        assert ops.lab.f.default.record.kernels["default"] is explicit

    def test_allow_override_refuses_and_names_the_line_of_the_first(self, lib):
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", adding(1), "CPU")
        with pytest.raises(
            RuntimeError,
            match=r"already a kernel registered from python for device type cpu, at .*test_library\.py:\d+",
        ):
            Library("lab", "IMPL").impl("f", adding(2), "CPU", allow_override=False)
        assert ops.lab.f(X)[0] == 1

    def test_allow_override_lets_the_first_kernel_of_a_device_pass(self, lib):
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", adding(1), "CPU", allow_override=False)
        lib.impl("f", adding(2), "default", allow_override=False)
        assert ops.lab.f.default.record.kernels.keys() == {"cpu", "default"}

    def test_kernels_that_run_in_different_ways_are_refused(self, lib):
        def eager(x: Tensor) -> Tensor: ...

        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", adding(1), "CPU")
        with pytest.raises(
            RuntimeError, match=r"lab::f: all kernels .* annotated jax\.Array, this one Tensor"
        ):
            lib.impl("f", eager, "CUDA")

    def test_a_kernel_without_annotations_runs_as_the_others_do(self, lib):
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", adding(1), "CPU")
        lib.impl("f", lambda x: x, "CUDA")
        assert ops.lab.f.default.record.kind == "array"

    def test_key_sets_and_fallthrough_are_refused(self, lib):
        with pytest.raises(UnsupportedRegistrationError, match="with_keyset needs dispatch keys"):
            lib.impl("f", adding(1), "CPU", with_keyset=True)
        with pytest.raises(NotImplementedError, match="fallthrough_kernel needs dispatch keys"):
            lib.impl("f", fallthrough_kernel, "CPU")

    def test_fallback_is_refused(self, lib):
        with pytest.raises(RuntimeError, match="fallback for a dispatch key has no meaning"):
            lib.fallback(adding(1), "CPU")


class TestOverrideWarning:
    def test_only_the_first_override_of_a_process_warns(self, lib, monkeypatch):
        monkeypatch.setattr("oplib.library.registration.library._has_warned", False)
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", adding(1), "CPU")
        with pytest.warns(
            UserWarning, match=r"lab::f: Overriding a previously registered kernel .*test_library\.py:\d+"
        ) as told:
            lib.impl("f", adding(2), "CPU")
        assert told[0].filename == __file__
        lib.impl("f", adding(3), "CPU")

    def test_a_kernel_for_another_device_overrides_nothing(self, lib, monkeypatch):
        monkeypatch.setattr("oplib.library.registration.library._has_warned", False)
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", adding(1), "CPU")
        lib.impl("f", adding(2), "default")  # a warning is an error here
        assert ops.lab.f(X)[0] == 1


class TestDestruction:
    def test_a_scoped_library_ends_with_its_block(self):
        with _scoped_library("lab", "FRAGMENT") as library:
            library.define("f(Tensor x) -> Tensor")
            assert hasattr(ops.lab, "f")
        assert not hasattr(ops.lab, "f")

    def test_a_scoped_library_ends_with_an_exception_too(self):
        def define_and_fail():
            with _scoped_library("lab", "FRAGMENT") as library:
                library.define("f(Tensor x) -> Tensor")
                raise KeyError

        with pytest.raises(KeyError):
            define_and_fail()
        assert not hasattr(ops.lab, "f")

    def test_destroying_twice_is_harmless(self, lib):
        lib.define("f(Tensor x) -> Tensor")
        lib._destroy()
        lib._destroy()
        assert not hasattr(ops.lab, "f")

    def test_a_dead_library_takes_no_registrations(self, lib):
        lib._destroy()
        for act in (
            lambda: lib.define("f(Tensor x) -> Tensor"),
            lambda: lib.impl("f", adding(1), "CPU"),
            lambda: define("lab::f", "(Tensor x) -> Tensor", lib=lib),
            lambda: impl("lab::f", "cpu", adding(1), lib=lib),
        ):
            with pytest.raises(AssertionError, match="the Library object has been destroyed"):
                act()
        assert issubclass(LibraryDestroyedError, AssertionError)

    def test_the_name_of_a_dead_op_is_free(self):
        for schema in ("f(Tensor x) -> Tensor", "f(Tensor x, Tensor y) -> Tensor"):
            with _scoped_library("lab", "FRAGMENT") as library:
                library.define(schema)
                assert str(ops.lab.f.default._schema) == f"lab::{schema}"


class TestDefine:
    def test_it_defines_for_ever(self):
        define("lab::f", "(Tensor x) -> Tensor")
        assert ops.lab.f.default.alive

    def test_it_takes_an_overload(self):
        define("lab::f.out", "(Tensor x) -> Tensor")
        assert ops.lab.f.overloads() == ["out"]

    def test_lib_ties_the_op_to_a_library(self, lib):
        define("lab::f", "(Tensor x) -> Tensor", lib=lib)
        lib._destroy()
        assert not hasattr(ops.lab, "f")

    def test_a_library_of_another_namespace_is_refused(self, lib):
        with pytest.raises(RegistrationError, match=r"provided namespace \(other\) does not match"):
            define("other::f", "(Tensor x) -> Tensor", lib=lib)

    @pytest.mark.parametrize(
        "schema", ["(Tensor x)->Tensor", "f(Tensor x) -> Tensor", "Tensor -> Tensor", ""]
    )
    def test_a_schema_of_another_form_is_refused(self, schema):
        with pytest.raises(ValueError, match="expected schema to look like"):
            define("lab::f", schema)

    @pytest.mark.parametrize("name", ["f", "a::b::c", ""])
    def test_a_name_that_is_not_qualified_is_refused(self, name):
        with pytest.raises(ValueError, match='of the form "namespace::name"'):
            define(name, "(Tensor x) -> Tensor")

    def test_a_name_that_is_no_text_is_refused(self):
        with pytest.raises(ValueError, match=r"expected to be a str\. Got int"):
            define(3, "(Tensor x) -> Tensor")

    @pytest.mark.parametrize("name", ILLEGAL_NAMES)
    def test_a_name_that_the_schema_parser_does_not_know_is_refused(self, name):
        with pytest.raises(SchemaError, match=ILLEGAL_NAMES[name]):
            define(f"lab::{name}", "(Tensor x) -> Tensor")

    def test_a_reserved_namespace_is_refused(self):
        with pytest.raises(ValueError, match="prim is a reserved namespace"):
            define("prim::f", "(Tensor x) -> Tensor")

    def test_an_op_of_custom_op_is_not_defined_again(self):
        custom_op("lab::f", adding(1))
        with pytest.raises(RuntimeError, match="multiple times"):
            define("lab::f", "(Tensor x) -> Tensor")

    def test_the_old_form_decorates_a_composite_kernel(self, lib):
        @define(lib, "f(Tensor x) -> Tensor")
        def kernel(x):
            return x

        assert kernel(3) == 3
        assert ops.lab.f.default.record.kind == "composite"


@pytest.mark.usefixtures("told_already")
class TestImpl:
    def test_it_registers_and_returns_nothing(self):
        define("lab::f", "(Tensor x) -> Tensor")
        assert impl("lab::f", "cpu", adding(1)) is None
        assert ops.lab.f(X)[0] == 1

    def test_as_a_decorator_it_gives_nothing(self):
        define("lab::f", "(Tensor x) -> Tensor")

        @impl("lab::f", ["cpu", "cuda"])
        def kernel(x: jax.Array) -> jax.Array:
            return x + 1

        assert kernel is None
        assert set(ops.lab.f.default.record.kernels) == {"cpu", "cuda"}

    def test_the_registration_ends_with_lib(self, lib):
        define("lab::f", "(Tensor x) -> Tensor")
        impl("lab::f", "default", adding(1))
        impl("lab::f", "default", adding(2), lib=lib)
        assert ops.lab.f(X)[0] == 2
        lib._destroy()
        assert ops.lab.f(X)[0] == 1

    def test_a_kernel_may_come_before_its_op(self):
        impl("lab::f", "default", adding(1))
        define("lab::f", "(Tensor x) -> Tensor")
        assert ops.lab.f(X)[0] == 1

    def test_an_unknown_device_is_refused_before_the_function_is_seen(self):
        with pytest.raises(RuntimeError, match="device type or dispatch key 'blub'"):
            impl("lab::f", "blub")

    def test_a_name_that_is_not_qualified_is_refused(self):
        with pytest.raises(RegistrationValueError, match='of the form "namespace::name"'):
            impl("f", "cpu", adding(1))

    def test_an_object_that_is_not_callable_is_refused(self):
        with pytest.raises(RegistrationTypeError, match="required to be a callable"):
            impl("lab::f", "cpu", 3)

    def test_the_old_form_gives_the_function(self, lib):
        lib.define("f(Tensor x) -> Tensor")

        @impl(lib, "f", "CPU")
        def kernel(x: jax.Array) -> jax.Array:
            return x + 1

        assert kernel(1) == 2
        assert ops.lab.f(X)[0] == 1

    def test_the_old_form_wants_texts(self, lib):
        with pytest.raises(RegistrationTypeError, match="both are str"):
            impl(lib, 3, "CPU")


def test_an_op_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(UnknownOperatorError):
        _ = ops.lab.nothing


def define_and_destroy(name):
    library = Library("test_forgotten", "FRAGMENT")
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, lambda x: x + 1, "cpu")
    assert getattr(ops.test_forgotten, name)(box(jnp.ones(1))).item() == 2
    library._destroy()
    gc.collect()  # the primitives of an op that is gone are used again


def count_objects():
    for _ in range(3):
        gc.collect()
    return len(gc.get_objects())


def test_a_destroyed_library_keeps_nothing_for_each_new_name():
    hide_older()  # looks only at what is made from here on, which is quick
    for place in range(5):
        define_and_destroy(f"warm{place}")
    before = count_objects()
    for place in range(30):
        define_and_destroy(f"name{place}")
    assert count_objects() - before < 30


def test_an_op_that_somebody_holds_is_the_same_object_when_its_name_is_defined_again():
    library = Library("test_forgotten", "FRAGMENT")
    library.define("held(Tensor x) -> Tensor")
    overload, packet = ops.test_forgotten.held.default, ops.test_forgotten.held
    library._destroy()
    again = Library("test_forgotten", "FRAGMENT")
    again.define("held(Tensor x) -> Tensor")
    assert ops.test_forgotten.held.default is overload
    assert ops.test_forgotten.held is packet
    again._destroy()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((jnp.ones(3), "DEF"), "ns"), ((None, "DEF"), "ns"), (("a", "DEF", 3), "dispatch_key")],
)
def test_a_library_with_a_name_that_is_no_string_is_refused(arguments, name):
    with pytest.raises(RegistrationTypeError, match=f"Library: argument '{name}' is no string"):
        Library(*arguments)


def test_a_library_of_a_kind_that_is_no_string_is_refused():
    with pytest.raises(RegistrationValueError, match=r"Unsupported kind: f32\[3\]"):
        Library("kinds", jnp.ones(3))
