"""Pseudoinverses of matrices that have none."""

from __future__ import annotations

import numpy as np
import pytest

import oplib


@pytest.mark.parametrize("item", [np.inf, np.nan])
def test_an_item_that_is_not_finite_makes_its_own_matrix_nan(item: float) -> None:
    matrices = oplib.ones(2, 3, 2)
    matrices[0, 0, 0] = item
    for given in (matrices, matrices.mT):
        broken, whole = oplib.linalg.pinv(given)
        assert broken.isnan().all()
        np.testing.assert_allclose(whole.numpy(), 1 / 6, rtol=1e-5)
    solution = oplib.linalg.lstsq(matrices, oplib.ones(2, 3, 1)).solution
    assert solution[0].isnan().all()
    np.testing.assert_allclose(solution[1].numpy(), 0.5, rtol=1e-5)


def test_a_hermitian_pseudoinverse_reads_one_triangle_and_the_real_diagonal() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    array = (rng.normal(size=(5, 5)) + 1j * rng.normal(size=(5, 5))).astype(np.complex64)
    expected = torch.linalg.pinv(torch.tensor(array), hermitian=True).numpy()
    found = oplib.linalg.pinv(oplib.tensor(array), hermitian=True).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
