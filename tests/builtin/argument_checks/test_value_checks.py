"""Indices and classes out of range raise eagerly, and are clamped or dropped under a trace."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.builtin.argument_checks.value_checks import check_index_range
from oplib.errors import DimensionError, LinAlgError
from oplib.nn import functional

X = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
LOGITS = [[1.0, 2.0, 3.0]]


def places(*numbers: int) -> Any:
    return oplib.tensor([list(numbers)])


BAD: dict[str, Any] = {
    "gather": lambda x: x.gather(1, places(0, 3)),
    "gather from the end": lambda x: x.gather(1, places(-1)),
    "index_select": lambda x: x.index_select(0, oplib.tensor([2])),
    "scatter": lambda x: x.scatter(1, places(3), 1.5),
    "scatter_add": lambda x: x.scatter_add(1, places(-1), oplib.ones(1, 1)),
    "scatter_reduce": lambda x: x.scatter_reduce(1, places(3), oplib.ones(1, 1), "sum"),
    "index_add": lambda x: x.index_add(0, oplib.tensor([2]), oplib.ones(1, 3)),
    "index_copy": lambda x: x.index_copy(0, oplib.tensor([-1]), oplib.ones(1, 3)),
    "index_fill": lambda x: x.index_fill(0, oplib.tensor([-3]), 1.5),
    "take": lambda x: x.take(oplib.tensor([6])),
    "put": lambda x: x.put(oplib.tensor([6]), oplib.ones(1)),
    "take_along_dim": lambda x: x.take_along_dim(places(9), 1),
    "cross_entropy": lambda x: functional.cross_entropy(x, oplib.tensor([0, 3])),
    "nll_loss": lambda x: functional.nll_loss(x, oplib.tensor([0, -1])),
}


@pytest.mark.parametrize("name", BAD)
def test_a_place_that_is_not_there_raises_and_names_it(name: str) -> None:
    with pytest.raises(DimensionError, match=r"index -?\d is out of bounds for a dimension of size \d"):
        BAD[name](oplib.tensor(X))


def test_places_from_the_end_count_where_torch_counts_them() -> None:
    x = oplib.tensor(X)
    assert x.take(oplib.tensor([-1, 0])).tolist() == [6.0, 1.0]
    assert x.take_along_dim(places(-1), 1).tolist() == [[3.0], [6.0]]
    assert x.index_fill(0, oplib.tensor([-1]), 0.0).tolist() == [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]


def test_the_class_that_is_ignored_need_not_be_there() -> None:
    loss = functional.cross_entropy(oplib.tensor(LOGITS * 2), oplib.tensor([2, -1]), ignore_index=-1)
    assert loss.item() == pytest.approx(
        functional.cross_entropy(oplib.tensor(LOGITS), oplib.tensor([2])).item()
    )


def test_under_a_trace_places_are_clamped() -> None:
    taken = jax.jit(lambda x, i: oplib.index_select(x, 1, i))(jnp.asarray(X), jnp.asarray([7]))
    assert taken.tolist() == [[3.0], [6.0]]


def test_sort_takes_its_dim_by_position_and_names_its_results() -> None:
    found = oplib.tensor(X).sort(0, True)
    assert found.values.tolist() == [[4.0, 5.0, 6.0], [1.0, 2.0, 3.0]]
    assert found.indices.tolist() == [[1, 1, 1], [0, 0, 0]]


def test_interpolate_takes_numbers_for_all_axes() -> None:
    image = oplib.ones(1, 1, 2, 2)
    assert functional.interpolate(image, scale_factor=2).shape == (1, 1, 4, 4)
    assert functional.interpolate(image, size=3).shape == (1, 1, 3, 3)


def test_a_function_with_a_fast_path_checks_places_and_results_at_each_call():
    x = oplib.ones(2, 3)
    for _ in range(3):
        assert oplib.gather(x, 1, oplib.tensor([[0, 2]])).tolist() == [[1.0, 1.0]]
        with pytest.raises(DimensionError, match="index 5 is out of bounds"):
            oplib.gather(x, 1, oplib.tensor([[0, 5]]))
        with pytest.raises(LinAlgError, match="singular"):
            oplib.linalg.inv(oplib.zeros(2, 2))
        assert oplib.linalg.inv(oplib.eye(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_singular_matrix_gives_no_finite_number_under_a_trace():
    assert not jnp.isfinite(jax.jit(oplib.linalg.inv)(jnp.zeros((2, 2)))).any()
    assert jnp.isnan(jax.jit(oplib.linalg.cholesky)(-jnp.eye(2))).any()


def test_nan_that_was_there_before_raises_nothing():
    assert oplib.linalg.inv(oplib.tensor([[float("nan"), 1.0], [1.0, 1.0]])).isnan().any()


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "uint8", "uint16", "uint32"])
@pytest.mark.parametrize("length", [1, 100, 200, 70_000])
def test_each_integer_dtype_is_checked_for_tables_of_any_length(kind: str, length: int) -> None:
    limits = np.iinfo(kind)
    for number in {0, -1, limits.min, limits.max, length - 1, length, min(length, limits.max)}:
        if not limits.min <= number <= limits.max:
            continue
        index = oplib.from_numpy(np.array([[0, number]], kind))
        if 0 <= number < length:
            check_index_range(index, length)
        else:
            with pytest.raises(DimensionError, match=f"index {number} is out of bounds"):
                check_index_range(index, length)
