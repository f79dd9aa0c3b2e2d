"""Batching rules: the same rule under ``torch.vmap`` and under ``jax.vmap``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from .worlds import World

pytestmark = [pytest.mark.usefixtures("forget_ops"), pytest.mark.parametrize("kind", ["custom", "compiled"])]

EXAMPLES = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


class Batch:
    """An op with a batching rule, mapped over two batches of three examples."""

    def __init__(self, lib, kind):
        self.world = World(lib, kind)
        self.seen = []

    def op(self, schema, kernel, rule):
        made = self.world.op(schema, kernel)
        if rule is not None:
            made.register_vmap(rule)
        return made

    def array(self, values):
        return jnp.array(values) if self.world.is_oplib else self.world.lib.tensor(values)

    def see(self, *values):
        """Remembers what a rule was told, once: JAX may trace it several times."""
        if not self.seen or not self.world.is_oplib:
            self.seen.append([list(value.shape) if hasattr(value, "shape") else value for value in values])

    def map(self, function, in_dims=0):
        x, y = self.array(EXAMPLES), self.array(EXAMPLES) * 10
        if self.world.is_oplib:
            return self.seen, jax.vmap(function, in_axes=in_dims)(x, y)
        return self.seen, self.world.lib.vmap(function, in_dims=in_dims)(x, y)


def test_a_rule_is_told_size_and_randomness_and_gets_all_arguments(assert_agrees, kind):
    def program(lib):
        batch = Batch(lib, kind)

        def rule(info, in_dims, x, k, *, m):
            batch.see(info.batch_size, info.randomness, in_dims, x, k, m)
            return x * k * m, in_dims[0]

        op = batch.op("(Tensor x, float k, *, int m=1) -> Tensor", lambda x, k, *, m: x * k * m, rule)
        return batch.map(lambda x, y: op(x, 3.0, m=2))

    assert_agrees(program)


def test_what_is_not_batched_has_none(assert_agrees, kind):
    def program(lib):
        batch = Batch(lib, kind)

        def rule(info, in_dims, xs, y, n, maybe):
            batch.see(in_dims, xs[0], xs[1], y)
            return (xs[0] + xs[1]) * y * n, 0

        schema = "(Tensor[] xs, Tensor y, int n, Tensor? maybe) -> Tensor"
        op = batch.op(schema, lambda xs, y, n, maybe: (xs[0] + xs[1]) * y * n, rule)
        fixed = batch.array([1.0, 2.0])
        return batch.map(lambda x, y: op([x, fixed], fixed, 3, None))

    assert_agrees(program)


def test_a_rule_is_skipped_where_nothing_is_batched(assert_agrees, kind):
    def program(lib):
        batch = Batch(lib, kind)

        def rule(info, in_dims, x):
            raise RuntimeError("the rule ran")

        op = batch.op("(Tensor x) -> Tensor", lambda x: x * 1, rule)
        fixed = batch.array([1.0, 2.0])
        return op(fixed), batch.map(lambda x, y: x * op(fixed))

    assert_agrees(program)


@pytest.mark.parametrize("dim", [1, -1])
def test_any_axis_may_be_mapped(assert_agrees, kind, dim):
    def program(lib):
        batch = Batch(lib, kind)
        op = batch.op("(Tensor x) -> Tensor", lambda x: x * 1, lambda info, in_dims, x: (x * 2, in_dims[0]))
        return batch.map(lambda x, y: op(x), (dim, None))

    assert_agrees(program)


PAIR = "(Tensor x) -> (Tensor, Tensor)"
LIST = "(Tensor x) -> Tensor[]"
BOTH = "(Tensor x) -> (Tensor[], Tensor)"
ONE = "(Tensor x) -> Tensor"
ANSWERS = {
    "one place": (ONE, lambda x: (x * 2, 0)),
    "another place": (ONE, lambda x: (x.T, 1)),
    "a place from the end": (ONE, lambda x: (x.T, -1)),
    "not batched": (ONE, lambda x: (x.sum(), None)),
    "one place for both": (PAIR, lambda x: ((x * 1, x * 2), 0)),
    "a place for each": (PAIR, lambda x: ((x * 1, x.sum()), (0, None))),
    "places as a list": (PAIR, lambda x: ((x * 1, x * 2), [0, 0])),
    "too many places": (PAIR, lambda x: ((x * 1, x * 2), (0, 0, 0))),
    "a tuple for one": (ONE, lambda x: (x * 1, (0,))),
    "out of range": (ONE, lambda x: (x * 1, 5)),
    "one for a list": (LIST, lambda x: ([x * 1, x * 2], 0)),
    "a list for a list": (LIST, lambda x: ([x * 1, x * 2], [0, 0])),
    "a short list": (LIST, lambda x: ([x * 1, x * 2], [0])),
    "a list and one": (BOTH, lambda x: (([x * 1], x * 2), ([0], 0))),
    "no pair": (ONE, lambda x: x * 1),
    "three": (ONE, lambda x: (x * 1, 0, 0)),
    "a list of two": (ONE, lambda x: [x * 1, 0]),
}


@pytest.mark.parametrize("title", ANSWERS)
def test_a_rule_tells_where_its_results_are_batched(assert_agrees, kind, title):
    schema, answer = ANSWERS[title]

    def program(lib):
        batch = Batch(lib, kind)
        results = {ONE: lambda x: x * 1, PAIR: lambda x: (x * 1, x * 2), LIST: lambda x: [x * 1, x * 2]}
        kernel = results.get(schema, lambda x: ([x * 1], x * 2))
        op = batch.op(schema, kernel, lambda info, in_dims, x: answer(x))
        return batch.map(lambda x, y: op(x))

    assert_agrees(program)


def test_a_number_among_the_results_is_not_batched(assert_agrees, kind):
    def program(lib):
        batch = Batch(lib, kind)
        op = batch.op(
            "(Tensor x) -> (Tensor, int)",
            lambda x: (x * 1, 3),
            lambda info, in_dims, x: ((x * 2, 3), (0, None)),
        )
        return batch.map(lambda x, y: op(x)[0])

    assert_agrees(program)


def test_without_a_rule_examples_are_mapped_one_by_one(assert_agrees, kind):
    def program(lib, in_dims):
        batch = Batch(lib, kind)
        op = batch.op("(Tensor x, Tensor y) -> Tensor", lambda x, y: x * y.sum(), None)
        return batch.map(lambda x, y: op(x, y), in_dims)

    assert_agrees(lambda lib: program(lib, (0, 0)))
    assert_agrees(lambda lib: program(lib, (0, None)))


def test_nested_maps_call_the_rule_for_one_level_and_map_the_other(assert_agrees, kind):
    def program(lib):
        batch = Batch(lib, kind)
        op = batch.op(
            "(Tensor x, Tensor y) -> Tensor",
            lambda x, y: x + y * 10,
            lambda info, in_dims, x, y: (x + y * 10, 0),
        )
        x, y = batch.array([1.0, 2.0]), batch.array([3.0, 4.0])
        vmap = jax.vmap if batch.world.is_oplib else lib.vmap
        axes = "in_axes" if batch.world.is_oplib else "in_dims"
        inner = vmap(lambda x, y: op(x.reshape(1), y.reshape(1)), **{axes: (None, 0)})
        return vmap(inner, **{axes: (0, None)})(x, y)

    assert_agrees(program)


def test_an_op_that_writes_is_not_mapped(assert_agrees, kind):
    def program(lib):
        batch = Batch(lib, kind)
        op = batch.world.custom("(Tensor(a!) x) -> ()", lambda x: x, writes=("x",))
        return batch.map(lambda x, y: op(x))

    assert_agrees(program)


def test_the_last_rule_counts_and_a_keyword_only_tensor_takes_none(assert_agrees, kind):
    def replaced(lib):
        batch = Batch(lib, kind)
        op = batch.op(ONE, lambda x: x * 1, lambda info, in_dims, x: (x * 2, 0))
        op.register_vmap(lambda info, in_dims, x: (x * 3, 0))
        return batch.map(lambda x, y: op(x))

    def refused(lib):
        world = World(lib)
        op = world.low("(*, Tensor x) -> Tensor", lambda *, x: x * 1)
        lib.library.register_vmap(op.default, lambda info, in_dims, *, x: (x, 0))

    assert_agrees(replaced)
    assert_agrees(refused)
