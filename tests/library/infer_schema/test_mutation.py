"""Schemas of functions that write: mutates_args, kernels on arrays, and tags."""

# ruff: noqa: UP045  older code spells its hints so, and is to be understood

import enum
from typing import Any, Optional

import jax
import numpy as np
import pytest

from oplib.errors import SchemaInferenceError
from oplib.library.infer_schema import infer_schema
from oplib.tensor import Tensor

from .annotated import annotate


class Tags(enum.Enum):
    inplace = 1
    out = 2
    pointwise = 3


class TestMutation:
    @staticmethod
    def fn(x: Tensor, n: int, y: list[Tensor], z: Optional[Tensor], w: list[Tensor | None]) -> None: ...

    def test_a_written_argument_is_marked_by_its_place(self):
        assert infer_schema(self.fn, mutates_args=("y", "z", "w")) == (
            "(Tensor x, int n, Tensor(a2!)[] y, Tensor(a3!)? z, Tensor(a4!)?[] w) -> ()"
        )

    def test_unknown_marks_every_tensor(self):
        assert infer_schema(self.fn, mutates_args="unknown") == (
            "(Tensor(a0!) x, int n, Tensor(a2!)[] y, Tensor(a3!)? z, Tensor(a4!)?[] w) -> ()"
        )

    def test_nothing_is_written_by_default(self):
        assert "!" not in infer_schema(self.fn)

    @pytest.mark.parametrize("names", [["x"], {"x": 1}, (name for name in "x")])
    def test_any_iterable_of_names_will_do(self, names):
        assert infer_schema(self.fn, mutates_args=names).startswith("(Tensor(a0!) x,")

    def test_only_tensors_can_be_written(self):
        with pytest.raises(SchemaInferenceError, match="Parameter n is in mutates_args, but only Tensors"):
            infer_schema(self.fn, mutates_args=("n",))

    def test_a_name_that_is_not_there_is_refused(self):
        with pytest.raises(SchemaInferenceError, match="not found in the signature: q"):
            infer_schema(self.fn, mutates_args=("q",))

    def test_another_string_is_refused(self):
        with pytest.raises(SchemaInferenceError, match=r"or the string 'unknown'\. Got 'x'"):
            infer_schema(self.fn, mutates_args="x")

    def test_none_is_not_iterable(self):
        with pytest.raises(TypeError, match="'NoneType' object is not iterable"):
            infer_schema(self.fn, mutates_args=None)

    def test_an_optional_list_is_marked_inside(self):
        assert (
            infer_schema(annotate(Optional[list[Tensor]]), mutates_args=["v"]) == "(Tensor(a0!)[]? v) -> ()"
        )


class TestArrayKernelsThatWrite:
    def test_the_new_values_are_no_results(self):
        def step(
            p: list[jax.Array], g: jax.Array, s: jax.Array | None
        ) -> tuple[list[jax.Array], jax.Array | None]: ...

        assert (
            infer_schema(step, mutates_args=("p", "s")) == "(Tensor(a0!)[] p, Tensor g, Tensor(a2!)? s) -> ()"
        )

    def test_the_returns_after_the_new_values_are_results(self):
        def step(p: jax.Array) -> tuple[jax.Array, jax.Array, int]: ...

        assert infer_schema(step, mutates_args=("p",)) == "(Tensor(a0!) p) -> (Tensor, int)"

    def test_one_new_value_stands_alone(self):
        def step(p: jax.Array) -> jax.Array: ...

        assert infer_schema(step, mutates_args=("p",)) == "(Tensor(a0!) p) -> ()"

    @pytest.mark.parametrize(
        "returned", [None, list[jax.Array], tuple[jax.Array], tuple[int, jax.Array], int]
    )
    def test_an_annotation_without_the_new_values_is_refused(self, returned):
        with pytest.raises(SchemaInferenceError, match=r"does not begin with the new values .* v \(Tensor\)"):
            infer_schema(annotate(jax.Array, returned), mutates_args=("v",))

    def test_host_and_tensor_kernels_write_in_place_and_return_results_only(self):
        for hint in (np.ndarray, Tensor):
            assert infer_schema(annotate(hint, hint), mutates_args=("v",)) == "(Tensor(a0!) v) -> Tensor"


class TestTags:
    @pytest.mark.parametrize("hint", [Tensor, jax.Array])
    def test_inplace_returns_its_first_argument(self, hint):
        text = infer_schema(annotate(hint, hint), mutates_args=("v",), tags=(Tags.inplace, Tags.pointwise))
        assert text == "(Tensor(a0!) v) -> Tensor(a0!)"

    def test_one_tag_may_stand_without_a_sequence(self):
        assert infer_schema(annotate(Tensor, Tensor), mutates_args=("v",), tags=Tags.inplace).endswith(
            "Tensor(a0!)"
        )

    def test_out_returns_its_written_arguments_in_order(self):
        def fn(x: Tensor, *, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]: ...

        assert infer_schema(fn, mutates_args=("a", "b"), tags=[Tags.out]) == (
            "(Tensor x, *, Tensor(a1!) a, Tensor(a2!) b) -> (Tensor(a1!), Tensor(a2!))"
        )

    @pytest.mark.parametrize(
        ("source", "written", "message"),
        [
            ("*, x: Tensor) -> Tensor", ["x"], "requires a positional Tensor argument"),
            ("n: int, x: Tensor) -> Tensor", ["x"], "requires the first positional argument to be a Tensor"),
            ("x: Tensor, y: Tensor) -> Tensor", ["x", "y"], "exactly the first positional argument"),
            ("x: Tensor, y: Tensor) -> Tensor", [], "exactly the first positional argument"),
            ("x: Tensor) -> None", ["x"], "requires the return annotation to be a Tensor"),
        ],
    )
    def test_a_broken_rule_of_inplace_is_named(self, source, written, message):
        self.check_refusal(source, written, [Tags.inplace], f"Tag.inplace .*{message}|Tag.inplace {message}")

    @pytest.mark.parametrize(
        ("source", "written", "message"),
        [
            ("x: Tensor) -> Tensor", ["x"], "requires mutable arguments to be keyword-only"),
            ("*, x: list[Tensor]) -> Tensor", ["x"], "only supports mutable keyword-only Tensor arguments"),
            ("*, x: Tensor) -> Tensor", [], "requires at least one mutable keyword-only Tensor argument"),
            ("*, x: Tensor, y: Tensor) -> Tensor", ["x", "y"], "requires the return annotation to match"),
        ],
    )
    def test_a_broken_rule_of_out_is_named(self, source, written, message):
        self.check_refusal(source, written, [Tags.out], f"Tag.out {message}")

    def test_the_tags_exclude_each_other(self):
        self.check_refusal("x: Tensor) -> Tensor", ["x"], [Tags.out, Tags.inplace], "mutually exclusive")

    def check_refusal(self, source, written, tags, message):
        namespace: dict[str, Any] = {"Tensor": Tensor}
        exec(f"def fn({source}: ...", namespace)
        with pytest.raises(SchemaInferenceError, match=message):
            infer_schema(namespace["fn"], mutates_args=written, tags=tags)
