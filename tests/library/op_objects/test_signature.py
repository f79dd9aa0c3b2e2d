"""The signature and the help of an op, as Python's tools show them."""

from __future__ import annotations

import inspect
import pydoc

import jax
import pytest

import oplib
from oplib.library import OpOverload, custom_op
from oplib.library.op_objects.signature import make_signature
from oplib.library.schema import parse_schema


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("demo::f(Tensor x, float by=1.) -> Tensor", "(x: 'Tensor', by: 'float' = 1.0) -> 'Tensor'"),
        ("demo::f(*, Tensor? y=None) -> ()", "(*, y: 'Tensor?' = None) -> '()'"),
        ("demo::f(int[] from=[1]) -> (Tensor a, Tensor b)", "(from_: 'int[]' = [1]) -> '(Tensor, Tensor)'"),
    ],
)
def test_a_signature_equals_the_schema(schema, text):
    assert str(make_signature(parse_schema(schema))) == text


def test_inspect_and_help_read_overloads_and_packets():
    @custom_op("signed::scale")
    def scale(x: jax.Array, by: float = 2.0) -> jax.Array:
        """Scales, and says so."""
        return x * by

    packet = oplib.ops.signed.scale
    assert str(inspect.signature(packet.default)) == "(x: 'Tensor', by: 'float' = 2.0) -> 'Tensor'"
    assert inspect.signature(packet) == inspect.signature(packet.default)
    assert list(inspect.signature(scale).parameters) == ["x", "by"]
    for op in (scale, packet, packet.default):
        told = pydoc.render_doc(op, renderer=pydoc.plaintext)
        assert "Scales, and says so.\n" in told
        assert "\n        signed::scale(x: 'Tensor', by: 'float' = 2.0) -> 'Tensor'\n" in told
        assert "signed::scale(Tensor x, float by=2.) -> Tensor" in told
        assert "\n        backward      –  no formula is registered\n" in told
        assert "test_signature.py" in told


def test_the_help_of_an_op_follows_its_rules():
    op = custom_op("signed::ruled", lambda x: x, schema="(Tensor x) -> Tensor")
    assert "backward      –" in op.__doc__
    op.register_autograd(lambda ctx, grad: grad)
    assert "backward      ●" in op.__doc__


def test_the_help_of_an_op_with_several_overloads_has_all_schemas():
    told = pydoc.render_doc(oplib.ops.oplib.add, renderer=pydoc.plaintext)
    assert [name for name in oplib.ops.oplib.add.overloads() if f"add.{name}(" not in told] == []
    assert OpOverload.__doc__.startswith("An op under its qualified name")


def test_the_text_of_a_schema_is_its_repr():
    schema = oplib.ops.oplib.exp.default._schema
    assert repr(schema) == str(schema) == "oplib::exp(Tensor self) -> Tensor"
    assert repr([schema]) == f"[{schema}]"


def test_of_several_overloads_the_arguments_choose_one_and_so_any_are_taken():
    assert str(inspect.signature(oplib.ops.oplib.add)) == "(*args, **kwargs)"
    for name in oplib.ops.oplib.add.overloads():
        assert "self" in inspect.signature(getattr(oplib.ops.oplib.add, name)).parameters


def test_an_op_that_is_defined_anew_has_the_new_signature():
    op = custom_op("signed::anew", lambda x: x, schema="(Tensor x) -> Tensor")._opoverload
    assert list(inspect.signature(op).parameters) == ["x"]
    custom_op("signed::anew", lambda y, n: y, schema="(Tensor y, int n) -> Tensor")
    assert list(inspect.signature(op).parameters) == ["y", "n"]


def test_the_class_of_ops_has_a_signature_of_its_own():
    assert list(inspect.signature(OpOverload).parameters) == ["qualname"]
