"""Overloads, packets and namespaces: lookup, names, comparison, copies and pickling."""

from __future__ import annotations

import copy
import inspect
import pickle

import jax
import jax.numpy as jnp
import pytest

from oplib.errors import ArgumentError, RegistrationError, UnknownOperatorError
from oplib.library import Library, OpOverload, OpOverloadPacket, Tag, ops
from oplib.library.op_records.qualname import name_nearest
from tests.library.sample_kernels import add_one

X = jnp.zeros(2)


def count_up(x):
    return x + 1


@pytest.fixture
def lib():
    library = Library("look", "FRAGMENT")
    library.define("f(Tensor x) -> Tensor", tags=Tag.pointwise)
    library.impl("f", add_one, "default")
    library.define("f.number(int x) -> int")
    library.impl("f.number", count_up, "default")
    library.define("single(Tensor x) -> Tensor")
    library.impl("single", add_one, "default")
    yield library
    library._destroy()


@pytest.fixture
def overload(lib):
    return ops.look.f.default


class TestOverload:
    def test_it_knows_its_names(self, lib, overload):
        assert overload.name() == "look::f"
        assert ops.look.f.number.name() == "look::f.number"
        assert overload.namespace == "look"
        assert overload.__name__ == "f.default"
        assert str(overload) == "look.f.default"
        assert repr(overload) == (
            "<OpOverload(op='look.f', overload='default', schema='look::f(Tensor x) -> Tensor')>"
        )
        assert "overload='number', schema='look::f.number(" in repr(ops.look.f.number)

    def test_it_shows_its_schema_and_tags(self, overload):
        assert str(overload._schema) == "look::f(Tensor x) -> Tensor"
        assert overload.tags == [Tag.pointwise]

    def test_it_is_always_the_same_object(self, overload):
        assert ops.look.f.default is overload

    def test_it_is_the_same_object_after_a_new_definition(self, lib, overload):
        lib._destroy()
        again = Library("look", "FRAGMENT")
        again.define("f(Tensor x) -> Tensor")
        assert ops.look.f.default is overload

    def test_it_can_be_a_key(self, lib, overload):
        assert {overload: 1, ops.look.f.number: 2}[ops.look.f.default] == 1

    @pytest.mark.parametrize(
        "duplicate", [copy.copy, copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))]
    )
    def test_its_copies_are_itself(self, overload, duplicate):
        assert duplicate(overload) is overload

    def test_unpickling_an_op_that_is_not_defined_names_it(self, lib, overload):
        data = pickle.dumps(overload)
        lib._destroy()
        with pytest.raises(UnknownOperatorError, match="operator look::f does not exist"):
            pickle.loads(data)

    def test_an_argument_called_self_can_be_given_by_keyword(self, lib):
        lib.define("g(int self) -> int")
        lib.impl("g", lambda *given, **named: 1, "default")
        assert ops.look.g(self=1) == ops.look.g.default(self=1) == 1


class TestPacket:
    def test_it_knows_its_names(self, lib):
        packet = ops.look.f
        assert isinstance(packet, OpOverloadPacket)
        assert str(packet) == "look.f"
        assert repr(packet).startswith(
            f"<OpOverloadPacket(op='look.f', overloads={packet.overloads()}, schema='"
        )
        assert all(str(getattr(packet, name)._schema) in repr(packet) for name in packet.overloads())
        assert packet.__name__ == "f"
        assert packet._qualified_op_name == "look::f"

    def test_it_lists_its_overloads_in_the_order_of_definition(self, lib):
        assert ops.look.f.overloads() == list(ops.look.f) == ["default", "number"]

    def test_its_overloads_are_its_attributes(self, lib):
        assert isinstance(ops.look.f.number, OpOverload)

    def test_an_unknown_overload_names_those_there_are(self, lib):
        with pytest.raises(
            AttributeError,
            match=r"look\.f: it has no overload name 'numbr'.* default, number\. .*nearest name is number",
        ):
            _ = ops.look.f.numbr

    def test_a_call_takes_the_first_overload_that_fits(self, lib):
        assert ops.look.f(X)[0] == 1
        assert ops.look.f(4) == 5

    def test_a_call_that_fits_none_tells_why_for_each(self, lib):
        text = r"(?s)look\.f: .* failed to match any schema.*look::f\(Tensor x\).*look::f\.number\(int x\)"
        with pytest.raises(ArgumentError, match=text):
            ops.look.f("text")

    def test_an_error_inside_a_kernel_does_not_try_the_next_overload(self, lib):
        def broken(x: jax.Array) -> jax.Array:
            raise ArgumentError("from inside")

        lib.define("h.a(Tensor x) -> Tensor")
        lib.define("h.b(Tensor x) -> Tensor")
        lib.impl("h.a", broken, "default")
        lib.impl("h.b", add_one, "default")
        with pytest.raises(ArgumentError, match="from inside"):
            ops.look.h(X)

    def test_a_packet_of_one_overload_calls_it(self, lib):
        assert ops.look.single(X)[0] == 1

    def test_an_overload_defined_later_is_found_by_an_old_packet(self, lib):
        packet = ops.look.single
        lib.define("single.other(int x) -> int")
        lib.impl("single.other", count_up, "default")
        assert packet.other(1) == packet(1) == 2

    def test_an_overload_goes_with_its_library_and_the_others_stay(self, lib):
        other = Library("look", "FRAGMENT")
        other.define("f.third(str x) -> str")
        assert ops.look.f.overloads() == ["default", "number", "third"]
        other._destroy()
        assert ops.look.f.overloads() == ["default", "number"]
        assert not hasattr(ops.look.f, "third")

    @pytest.mark.parametrize(
        "duplicate", [copy.copy, copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))]
    )
    def test_its_copies_are_itself(self, lib, duplicate):
        assert duplicate(ops.look.f) is ops.look.f


class TestNamespace:
    def test_a_namespace_always_exists(self):
        assert list(ops.nobody_defined_anything_here) == []

    def test_a_namespace_lists_its_ops(self, lib):
        assert set(ops.look) == {"f", "single"} == set(dir(ops.look))
        assert repr(ops.look) == "<ops.look: 2 ops>"

    def test_namespaces_without_ops_are_not_listed(self, lib):
        _ = ops.empty
        assert "look" in list(ops)
        assert "empty" not in dir(ops)
        assert "look" in repr(ops)

    def test_an_unknown_op_suggests_the_nearest(self, lib):
        with pytest.raises(
            AttributeError,
            match=r"ops\.look: the operator look::singel does not exist\. The nearest name.* look::single",
        ):
            _ = ops.look.singel

    def test_an_unknown_namespace_suggests_the_nearest_too(self, lib):
        with pytest.raises(UnknownOperatorError, match="look::single"):
            ops.lok.single(X)

    def test_names_that_python_asks_for_are_no_ops(self):
        assert not hasattr(ops, "__path__")
        assert not hasattr(ops.look, "__wrapped__")
        assert inspect.unwrap(ops) is ops

    @pytest.mark.parametrize(
        "name", ["name", "namespace", "overloads", "call", "_private", "__and__", "register"]
    )
    def test_an_op_may_have_any_name(self, lib, name):
        lib.define(f"{name}(Tensor x) -> Tensor")
        lib.impl(name, add_one, "default")
        assert getattr(ops.look, name)(X)[0] == 1

    def test_the_table_of_namespaces_is_pickled_by_name(self):
        assert pickle.loads(pickle.dumps(ops)) is ops


def test_a_dead_op_found_earlier_raises_when_called(lib):
    packet = ops.look.f
    lib._destroy()
    with pytest.raises(RegistrationError, match="not defined any more"):
        packet(X)


class TestNearestName:
    def test_names_of_the_same_namespace_come_first(self):
        known = ["demo::softclip", "other::softclp", "demo::scale"]
        assert name_nearest("demo::softclp", known) == "The nearest name is demo::softclip."

    def test_sharing_a_namespace_alone_is_not_near(self):
        assert name_nearest("demo::abc", ["demo::xyz"]) == "No registered name is near it."

    def test_without_any_name_nothing_is_suggested(self):
        assert name_nearest("demo::abc", []) == "Nothing is registered."


def test_an_overload_may_be_called_like_a_method_of_its_packet(lib):
    lib.define("g.overloads(int x) -> int")
    lib.impl("g.overloads", count_up, "default")
    lib.define("g.b(Tensor x) -> Tensor")
    assert ops.look.g.overloads(1) == 2
    assert list(ops.look.g) == ["overloads", "b"]
    assert ops.look.g(1) == 2


@pytest.mark.parametrize("find", [lambda: ops.look.single, lambda: ops.look.single.default])
def test_arguments_that_fit_no_parameter_are_explained_at_every_call(lib, find):
    for _ in range(3):
        with pytest.raises(ArgumentError, match=r"look::single.*Tensor x"):
            find()(X, X, X)
        with pytest.raises(ArgumentError, match="nonsense"):
            find()(X, nonsense=1)
        find()(X)


def test_a_type_error_of_a_kernel_stays_as_it_is(lib):
    def broken(x: jax.Array) -> jax.Array:
        raise TypeError("of the kernel")

    lib.define("g(Tensor x) -> Tensor")
    lib.impl("g", broken, "default")
    for _ in range(2):
        with pytest.raises(TypeError, match=r"^of the kernel"):
            ops.look.g(X)


def test_a_namespace_is_pickled_by_name(lib):
    assert pickle.loads(pickle.dumps(ops.look)) is ops.look
