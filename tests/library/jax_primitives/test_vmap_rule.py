"""Batching rules under nested maps, of arrays and of Tensors.

The arguments and results of a rule are compared with torch in ``tests/parity/test_vmap.py``.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import grad
from oplib.errors import DimensionError, ResultError
from tests.library.sample_kernels import KINDS

ROWS = np.arange(6.0, dtype=np.float32).reshape(2, 3)


class Doubling:
    """An op that doubles; its rule returns ten times the result, its formula is scaled by seven."""

    def __init__(self, kind, rule=None):
        def double(x):
            return x * 2

        double.__annotations__ = {"x": KINDS[kind], "return": KINDS[kind]}
        self.op = oplib.custom_op(f"register_vmap::{kind}", double)
        self.op.register_fake(lambda x: jnp.zeros(x.shape, x.dtype))
        self.op.register_autograd(lambda ctx, g: g * 7)
        self.told = []
        if rule is not False:
            self.op.register_vmap(rule or self._rule)

    def _rule(self, info, in_dims, x):
        self.told.append((info.batch_size, info.randomness, in_dims, tuple(x.shape)))
        return self.op(x) * 10, in_dims[0]


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def test_a_rule_that_runs_the_op_again_is_called_at_each_level(kind):
    doubling = Doubling(kind)
    levels = [(3, (0,), (3,)), (2, (0,), (2, 3))]
    found = oplib.vmap(oplib.vmap(doubling.op, randomness="same"), randomness="different")(oplib.tensor(ROWS))
    assert found.tolist() == (200 * ROWS).tolist()
    assert [one[0:1] + one[2:] for one in doubling.told] == levels
    assert [one[1] for one in doubling.told] == ["same", "different"]

    doubling.told.clear()
    assert jax.vmap(jax.vmap(doubling.op))(jnp.asarray(ROWS)).tolist() == (200 * ROWS).tolist()
    assert [one[0:1] + one[2:] for one in doubling.told] == levels
    assert {one[1] for one in doubling.told} == {"error"}


@pytest.mark.parametrize(
    ("result", "given"),
    [
        (lambda x: {"a": x * 2}, lambda x: {"b": x * 2}),
        (lambda x: [x * 2, x], lambda x: [x * 2]),
    ],
)
@pytest.mark.parametrize("run", [jax.vmap, jax.jit])
def test_a_rule_that_returns_another_structure_than_the_kernel_is_refused(result, given, run):
    def kernel(x: jax.Array):
        return result(x)

    kernel.__annotations__["return"] = type(result(1))
    op = oplib.custom_op("register_vmap::arranged", kernel)
    op.register_vmap(lambda info, in_dims, x: (given(x), 0))
    with pytest.raises(ResultError, match=r"the vmap rule at .* results of different structures"):
        run(jax.vmap(op))(jnp.ones((2, 3, 4)))
    op.register_vmap(lambda info, in_dims, x: (result(x), 0))
    assert jax.tree.leaves(jax.vmap(op)(jnp.ones(2)))[0].tolist() == [2, 2]


def test_the_formula_differentiates_the_batched_call(kind):
    doubling = Doubling(kind)
    x = oplib.tensor(ROWS, requires_grad=True)
    y = oplib.vmap(doubling.op)(x)
    assert y.tolist() == (20 * ROWS).tolist()
    assert grad(y.sum(), x)[0].tolist() == [[7.0] * 3] * 2
    inside = oplib.vmap(lambda a: grad(doubling.op(a).sum(), a)[0])(x)
    assert inside.tolist() == [[7.0] * 3] * 2


def test_without_a_rule_kernel_and_formula_are_mapped(kind):
    op = Doubling(kind, rule=False).op
    x = oplib.tensor(ROWS, requires_grad=True)
    y = oplib.vmap(oplib.vmap(op), in_dims=1)(x)
    assert y.tolist() == (2 * ROWS.T).tolist()
    assert grad(y.sum(), x)[0].tolist() == [[7.0] * 3] * 2


def test_a_rule_is_skipped_where_nothing_is_batched_at_its_level(kind):
    doubling = Doubling(kind)
    fixed = oplib.ones(3)
    oplib.vmap(lambda a: a * doubling.op(fixed))(oplib.tensor(ROWS))
    assert doubling.told == []
    oplib.vmap(lambda a: oplib.vmap(lambda b: b * doubling.op(a).sum())(fixed))(oplib.tensor(ROWS))
    assert [told[0] for told in doubling.told] == [2]


BAD = {
    "no pair": (lambda info, dims, x: x * 2, ResultError, "two returns"),
    "no such dim": (lambda info, dims, x: (x * 2, 5), DimensionError, "out of range. Got 5"),
    "a bool": (lambda info, dims, x: (x * 2, True), ResultError, "Got True .* is no position"),
    "a bool of one result": (lambda info, dims, x: (x * 2, (True,)), ResultError, "Got \\(True,\\)"),
    "another size": (lambda info, dims, x: (x[:1] * 2, 0), ResultError, "another batch size"),
}


@pytest.mark.parametrize("title", BAD)
def test_errors_of_a_rule_are_raised_in_a_map_of_tensors_too(kind, title):
    rule, error, text = BAD[title]
    op = Doubling(kind, rule).op
    with pytest.raises(error, match=rf"register_vmap::{kind}: .*{text}"):
        oplib.vmap(op)(oplib.tensor(ROWS))
