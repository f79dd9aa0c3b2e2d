"""Factors L and D and solutions by them, beside SciPy's LAPACK: the same pivots, numbers and status."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.linalg import get_lapack_funcs

import oplib
from oplib.errors import MissingRuleError
from tests.seed import make_random

KINDS = ("symmetric", "complex symmetric", "hermitian")


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def draw_matrix(kind: str, size: int, *, seed: str, has_ties: bool = False) -> np.ndarray:
    """Returns a matrix; a diagonal of zeros, which some have, needs blocks of two."""
    numbers = make_random(f"ldl {kind} {seed}")
    rng = np.random.default_rng(numbers.randrange(2**32))
    matrix = rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size)) * (kind != "symmetric")
    matrix = np.round(2 * matrix) if has_ties else matrix
    matrix = matrix + (matrix.conj().T if kind == "hermitian" else matrix.T)
    if numbers.random() < 0.3:
        np.fill_diagonal(matrix, 0)
    return matrix.real if kind == "symmetric" else matrix


def factor_by_lapack(matrix: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray, int]:
    (routine,) = get_lapack_funcs(("hetrf" if kind == "hermitian" else "sytrf",), (matrix,))
    factors, pivots, info = routine(matrix, lower=1)
    return np.tril(factors), pivots, info


@pytest.mark.matrix(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_factors_are_those_of_lapack(kind: str, seed: int):
    size = 3 + 4 * seed
    matrices = [draw_matrix(kind, size, seed=f"{seed} {number}") for number in range(25)]
    given = oplib.tensor(np.stack(matrices))
    found = oplib.linalg.ldl_factor_ex(given, hermitian=kind == "hermitian")
    for place, matrix in enumerate(matrices):
        factors, pivots, info = factor_by_lapack(matrix, kind)
        np.testing.assert_array_equal(found.pivots[place].numpy(), pivots)
        assert int(found.info[place]) == info
        np.testing.assert_allclose(found.LD[place].numpy(), factors, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_of_equal_pivots_is_that_of_lapack(kind: str):
    # Equal numbers of later steps were divided before, and each library rounds a quotient in its own way.
    for number in range(25):
        matrix = draw_matrix(kind, 7, seed=f"ties {number}", has_ties=True)
        _, pivots, _ = factor_by_lapack(matrix, kind)
        found = oplib.linalg.ldl_factor_ex(oplib.tensor(matrix), hermitian=kind == "hermitian")
        assert int(found.pivots[0]) == pivots[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_solves_the_system(kind: str):
    matrices = np.stack(
        [draw_matrix(kind, 9, seed=f"solve {number}", has_ties=number % 2 == 0) for number in range(20)]
    )
    right = np.random.default_rng(0).normal(size=(20, 9, 2)).astype(matrices.dtype)
    hermitian = kind == "hermitian"
    factors = oplib.linalg.ldl_factor(oplib.tensor(matrices), hermitian=hermitian)
    found = oplib.linalg.ldl_solve(*factors, oplib.tensor(right), hermitian=hermitian).numpy()
    np.testing.assert_allclose(matrices @ found, right, atol=1e-9 * abs(found).max())


def test_the_upper_triangle_is_not_read():
    matrix = draw_matrix("symmetric", 5, seed="triangle")
    spoilt = np.tril(matrix) + np.triu(np.full((5, 5), np.nan), 1)
    found, expected = (oplib.linalg.ldl_factor(oplib.tensor(one)) for one in (spoilt, matrix))
    np.testing.assert_array_equal(found.LD.numpy(), expected.LD.numpy())
    np.testing.assert_array_equal(found.pivots.numpy(), expected.pivots.numpy())


def test_a_zero_in_d_is_named_and_factors_are_given_on_request():
    matrix = oplib.diag(oplib.tensor([1.0, 0.0, 2.0, 0.0]))
    with pytest.raises(oplib.linalg.LinAlgError, match=r"D\[2,2\] is zero or nan, counted from 1"):
        oplib.linalg.ldl_factor(matrix)
    found = oplib.linalg.ldl_factor_ex(matrix)
    assert found.info.item() == 2
    np.testing.assert_array_equal(found.LD.numpy(), matrix.numpy())


def test_the_gradient_of_a_solution_is_that_of_solve():
    matrix = draw_matrix("symmetric", 4, seed="gradient")
    factors = oplib.linalg.ldl_factor(oplib.tensor(matrix))
    sides = [oplib.tensor(np.eye(4, 2) + 0.5, requires_grad=True) for _ in range(2)]
    oplib.linalg.ldl_solve(*factors, sides[0]).square().sum().backward()
    oplib.linalg.solve(oplib.tensor(matrix), sides[1]).square().sum().backward()
    assert sides[0].grad is not None
    assert sides[1].grad is not None
    np.testing.assert_allclose(sides[0].grad.numpy(), sides[1].grad.numpy(), rtol=1e-9)


def test_the_factors_have_no_gradient_as_in_torch():
    given = oplib.tensor([[1.0, 2.0], [2.0, 3.0]], requires_grad=True)
    factors = oplib.linalg.ldl_factor(given)
    with pytest.raises(MissingRuleError, match="torch has none either"):
        factors.LD.sum().backward()
