"""A ragged list: the softmax-weighted mean of each sequence of a list whose lengths differ."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import oplib


@oplib.custom_op("first_hour::pool")
def pool(sequences: list[jax.Array], query: jax.Array) -> jax.Array:
    """Returns a row for each sequence: the mean of its rows, weighted by softmax(rows @ query)."""
    return jnp.stack([jax.nn.softmax(rows @ query) @ rows for rows in sequences])


def save(ctx: oplib.library.Context, inputs: Any, output: jax.Array) -> None:
    ctx.sequences, ctx.query = inputs
    ctx.save_for_backward(output)


@pool.register_autograd(setup_context=save)
def differentiate(ctx: oplib.library.Context, grad: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    (output,) = ctx.saved_tensors
    of_rows, of_query = [], jnp.zeros_like(ctx.query)
    for rows, mean, g in zip(ctx.sequences, output, grad, strict=True):
        weights = jax.nn.softmax(rows @ ctx.query)
        of_scores = weights * ((rows - mean) @ g)
        of_rows.append(jnp.outer(weights, g) + jnp.outer(of_scores, ctx.query))
        of_query = of_query + of_scores @ rows
    return of_rows, of_query


def main() -> None:
    keys = jax.random.split(jax.random.key(0), 4)
    sequences = [jax.random.normal(key, (length, 3)) for key, length in zip(keys[:3], (2, 5, 1), strict=True)]
    query = jax.random.normal(keys[3], (3,))

    def plain(sequences: list[jax.Array], query: jax.Array) -> jax.Array:
        return jnp.stack([jax.nn.softmax(rows @ query) @ rows for rows in sequences])

    def derive(call: Any) -> Any:
        return jax.jit(jax.grad(lambda *args: (call(*args) ** 2).sum(), (0, 1)))(sequences, query)

    for ours, theirs in zip(*map(jax.tree.leaves, (derive(pool), derive(plain))), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)

    first, *others = (oplib.Tensor.from_array(rows) for rows in sequences)
    first.requires_grad_()
    (pool([first, *others], oplib.Tensor.from_array(query)) ** 2).sum().backward()
    oplib.testing.assert_close(first.grad, derive(plain)[0][0], rtol=1e-4, atol=1e-5)
    assert [rows.grad for rows in others] == [None, None]


if __name__ == "__main__":
    main()
