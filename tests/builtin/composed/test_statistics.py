"""Choices of items are those of itertools, in its order."""

import itertools

import pytest

import oplib


@pytest.mark.parametrize("with_replacement", [False, True])
@pytest.mark.parametrize("r", [1, 2, 3, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 6])
def test_combinations_are_those_of_itertools(count, r, with_replacement):
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    found = oplib.combinations(oplib.arange(count), r, with_replacement)
    assert found.tolist() == [list(row) for row in choose(range(count), r)]
    assert found.shape[1] == r
