"""Sharding rules that are refused."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from oplib.errors import RegistrationValueError
from oplib.library import custom_op, define, register_sharding

from .shards import W, X


class TestRefusals:
    @pytest.mark.parametrize(
        ("rule", "told"),
        [
            ("i j", "it has 0 arrows"),
            ("i -> j -> k", "it has 2 arrows"),
            ("i j -> i j", r"it has 1 entries for arguments, and the op has 2: x, ys"),
            ("i j, j, k -> i", r"it has 3 entries for arguments"),
            ("i j, j -> i, j", r"it has 2 entries for results, and the op has 1"),
            ("i (j k), j -> i", r"axis 1 of argument 0 \('x'\) is written '\(j'"),
            ("i ..., j -> i", r"axis 1 of argument 0 \('x'\) is written '...'"),
            ("i j, j 2k -> i", r"axis 1 of argument 1 \('ys'\) is written '2k'"),
            ("i i, j -> i", r"axis 1 of argument 0 \('x'\) is called 'i', like an axis before it"),
            ("i j, j -> i i", r"axis 1 of result 0 is called 'i'"),
            (
                "i j, j -> i reduction={i}",
                "axis 'i' is named a reduction, and is not one that only arguments",
            ),
            ("i j, j -> i reduction={l}", "axis 'l' is named a reduction"),
            ("i j, j -> i need_replication={l}", "axis 'l' is to be kept whole, and no array has it"),
            ("i j, j -> i permutation={j}", "there is no kind of axis called 'permutation'"),
        ],
    )
    def test_a_text_that_does_not_fit_the_schema_is_refused_with_the_position(
        self, rule: str, told: str
    ) -> None:
        define("shard::schema", "(Tensor x, Tensor[] ys, float z) -> Tensor")
        with pytest.raises(RegistrationValueError, match=rf"shard::schema: the sharding rule .*{told}"):
            register_sharding("shard::schema", rule)

    @pytest.mark.spec("D.61")
    @pytest.mark.parametrize("rule", [3, None, lambda x: (x, x)], ids=["number", "None", "function"])
    def test_a_rule_that_is_no_text_is_a_type_error_with_an_example(self, rule: Any) -> None:
        define("shard::schema", "(Tensor x) -> Tensor")
        told = (
            rf"rule is no text. Got {type(rule).__name__}. Write a name per axis, such as 'i j, j k -> i k'"
        )
        with pytest.raises(TypeError, match=rf"register_sharding\(shard::schema\): the {told}"):
            register_sharding("shard::schema", rule)

    @pytest.mark.parametrize(
        ("rule", "told"),
        [
            ("i, j k -> i k", r"argument 0 \('x'\) has 2 axes, f32\[8,4\], and its entry names 1"),
            ("i j, j k l -> i k", r"argument 1 \('w'\) has 2 axes, f32\[4,3\], and its entry names 3"),
            ("i j, j k -> i", r"result 0 has 2 axes, f32\[8,3\], and its entry names 1"),
            ("i j, i k -> i k", r"axis 0 of argument 1 \('w'\) is 'i' and 4 long, where another is 8"),
            ("i j, j k -> i j", r"axis 1 of result 0 is 'j' and 3 long, where another is 4"),
        ],
    )
    def test_a_rule_that_does_not_fit_the_ranks_is_refused_at_the_call(self, rule: str, told: str) -> None:
        @custom_op("shard::ranks")
        def ranks(x: jax.Array, w: jax.Array) -> jax.Array:
            return x @ w

        ranks.register_sharding(rule)
        for run in (ranks, jax.jit(ranks)):
            with pytest.raises(RegistrationValueError, match=rf"shard::ranks: the sharding rule .*{told}"):
                run(X, W)
        ranks.register_sharding("i j, j k -> i k")
        np.testing.assert_allclose(ranks(X, W), X @ W, rtol=1e-5)

    def test_leading_axes_may_be_left_open(self) -> None:
        @custom_op("shard::open")
        def product(x: jax.Array, w: jax.Array) -> jax.Array:
            return x @ w

        product.register_sharding("... i j, j k -> ... i k")
        np.testing.assert_allclose(product(X, W), X @ W, rtol=1e-5)
        np.testing.assert_allclose(product(X[None, None], W)[0, 0], X @ W, rtol=1e-5)
