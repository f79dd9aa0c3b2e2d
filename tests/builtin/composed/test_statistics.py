"""Choices of items are those of itertools, in its order; slices need a dim."""

import itertools

import pytest

import oplib
from oplib.errors import DimensionError


@pytest.mark.parametrize("with_replacement", [False, True])
@pytest.mark.parametrize("r", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 6])
def test_combinations_are_those_of_itertools(count, r, with_replacement):
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    found = oplib.combinations(oplib.arange(count), r, with_replacement)
    assert found.tolist() == [list(row) for row in choose(range(count), r)]
    assert found.shape[1] == r


@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("dim", [0, -1, 1])
def test_a_tensor_without_dims_has_no_slices(name, dim):
    with pytest.raises(DimensionError, match=f"dimension specified as {dim} but tensor has no dimensions"):
        getattr(oplib, name)(oplib.tensor(3.0), dim=dim)
    assert getattr(oplib, name)(oplib.tensor(3.0)).tolist() == [3.0]
