"""Matrices along a diagonal."""

import jax
import numpy as np
import pytest

import oplib


def test_no_blocks_give_a_matrix_without_columns_as_in_torch():
    torch = pytest.importorskip("torch")
    assert tuple(oplib.block_diag().shape) == tuple(torch.block_diag().shape) == (1, 0)


def test_the_gradient_of_a_block_is_its_slice_in_every_mode():
    sizes = [(2, 3), (0, 2), (1, 1), (3,), ()]
    blocks = [oplib.rand(size, requires_grad=True) for size in sizes]
    matrix = oplib.block_diag(*blocks)
    weights = oplib.rand(matrix.shape)
    (matrix * matrix * weights).sum().backward()
    arrays = [block.detach().array for block in blocks]
    loss = lambda *given: (oplib.block_diag(*given) ** 2 * weights.array).sum()  # noqa: E731
    for block, by_jax in zip(blocks, jax.grad(loss, tuple(range(5)))(*arrays), strict=True):
        np.testing.assert_allclose(block.grad.numpy(), by_jax, rtol=1e-6)
    row, column = 0, 0
    for block in blocks:
        shape = oplib.atleast_2d(block).shape
        own = weights[row : row + shape[0], column : column + shape[1]].numpy()
        expected = 2 * block.detach().numpy() * own.reshape(block.shape)
        np.testing.assert_allclose(block.grad.numpy(), expected, rtol=1e-6)
        row, column = row + shape[0], column + shape[1]
    assert jax.jvp(oplib.block_diag, arrays, arrays)[1].shape == matrix.shape
