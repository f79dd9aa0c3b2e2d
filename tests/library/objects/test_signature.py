"""The signature and the help of an op, as Python's tools show them."""

from __future__ import annotations

import inspect
import pydoc

import jax
import pytest

import oplib
from oplib.library import OpOverload, custom_op
from oplib.library.objects.signature import make_signature
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
    told = pydoc.render_doc(packet.default, renderer=pydoc.plaintext)
    assert "signed::scale(Tensor x, float by=2.) -> Tensor" in told
    assert "Scales, and says so." in told
    assert "test_signature.py" in told


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
