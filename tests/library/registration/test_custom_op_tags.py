"""custom_op: the devices of an op, and the promises of its tags."""

from __future__ import annotations

import re

import pytest

from oplib.errors import (
    RegistrationTypeError,
)
from oplib.library import Tag, custom_op, ops
from oplib.tensor import Tensor
from tests.library.sample_kernels import add_one, schema_of


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
        self.assert_is_refused(schema, Tag.inplace, rule)

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
        self.assert_is_refused(schema, Tag.out, rule)

    def assert_is_refused(self, schema, tag, rule):
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
