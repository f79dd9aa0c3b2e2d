"""Random programs with writes in place, in forward mode: against ``jax.jvp`` of the same on arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, reject, settings, strategies as st

import oplib
from oplib.autograd.forward_ad import dual_level, make_dual, unpack_dual
from oplib.errors import SavedTensorError

START = [jnp.asarray(values) for values in ([0.5, -1.0], [1.5, 0.25], [-0.75, 2.0])]
TANGENTS = [jnp.asarray(values) for values in ([1.0, 2.0], [-3.0, 0.5])]  # the third register starts constant

# One step on tensors, which may write, and the same on arrays, which gives the new value of the target.
Step = tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]
STEPS: dict[str, Step] = {
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sin": (lambda a, b: b.sin(), lambda a, b: jnp.sin(b)),
    "tanh": (lambda a, b: b.tanh(), lambda a, b: jnp.tanh(b)),
    "detach": (lambda a, b: b.detach() * 1, lambda a, b: jax.lax.stop_gradient(b)),
    "sum": (lambda a, b: a * b.sum(), lambda a, b: a * b.sum()),
    "mul_": (lambda a, b: a.mul_(b), lambda a, b: a * b),
    "add_": (lambda a, b: a.add_(b), lambda a, b: a + b),
    "tanh_": (lambda a, b: a.tanh_(), lambda a, b: jnp.tanh(a)),
    "copy_": (lambda a, b: a.copy_(b), lambda a, b: b),
    "zero_": (lambda a, b: a.zero_(), lambda a, b: jnp.zeros_like(a)),
}
STEPS |= {  # through views
    "part": (lambda a, b: (b[:1] * b[1:]).expand(2) * 1, lambda a, b: b[:1] * b[1:] * jnp.ones(2)),
    "part.mul_": (lambda a, b: _written(a, a[0].mul_(b[1])), lambda a, b: a.at[0].mul(b[1])),
    "part.copy_": (lambda a, b: _written(a, a[:1].copy_(b[1:])), lambda a, b: a.at[:1].set(b[1:])),
    "setitem": (lambda a, b: _written(a, a.__setitem__(1, b[0] * 2)), lambda a, b: a.at[1].set(b[0] * 2)),
}


def _written(whole: Any, _: Any) -> Any:
    return whole


programs = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=8
)


def run_on_arrays(program: Any, registers: list[Any]) -> list[Any]:
    for name, target, source in program:
        registers[target] = STEPS[name][1](registers[target], registers[source])
    return registers


def run_on_tensors(program: Any, registers: list[Any]) -> list[Any]:
    for name, target, source in program:
        registers[target] = STEPS[name][0](registers[target], registers[source])
    return registers


def push_by_jax(program: Any) -> list[Any]:
    return jax.jvp(lambda a, b: run_on_arrays(program, [a, b, START[2]]), tuple(START[:2]), tuple(TANGENTS))[
        1
    ]


@given(programs)
@settings(max_examples=60)
def test_tangents_of_random_programs_are_those_of_jax(program: Any) -> None:
    box = oplib.Tensor.from_array
    with dual_level():
        duals = [make_dual(box(at), box(t)) for at, t in zip(START[:2], TANGENTS, strict=True)]
        results = run_on_tensors(program, [*duals, box(START[2])])
        tangents = [unpack_dual(result).tangent for result in results]
    for found, expected in zip(tangents, push_by_jax(program), strict=True):
        values = np.zeros(2) if found is None else found.numpy()
        np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)


@contextmanager
def reject_overwritten() -> Iterator[None]:
    """Passes over programs that write what a gradient still reads: these are refused, as they should be."""
    try:
        yield
    except SavedTensorError:
        reject()


@pytest.mark.slow
@given(programs)
@settings(max_examples=15)
def test_gradients_of_tangents_and_tangents_of_gradients_are_one_hessian_product(program: Any) -> None:
    def loss(a: Any, b: Any) -> Any:
        return sum(register.sum() for register in run_on_arrays(program, [a, b, START[2]]))

    gradient = jax.grad(loss, argnums=(0, 1))
    expected = jax.jvp(gradient, tuple(START[:2]), tuple(TANGENTS))[1]
    leaves = [oplib.Tensor.from_array(array, requires_grad=True) for array in START[:2]]
    with dual_level(), reject_overwritten():
        pairs = zip(leaves, TANGENTS, strict=True)
        duals = [make_dual(leaf, oplib.Tensor.from_array(t)) * 1 for leaf, t in pairs]
        results = run_on_tensors(program, [*duals, oplib.Tensor.from_array(START[2])])
        total = sum((result.sum() for result in results), oplib.zeros(()))
        tangent = unpack_dual(total).tangent
        ways = [[None, None], [None, None]]
        if total.requires_grad:
            found = oplib.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)
            ways[0] = [None if one is None else unpack_dual(one).tangent for one in found]
        if tangent is not None and tangent.requires_grad:
            ways[1] = list(oplib.autograd.grad(tangent, leaves, allow_unused=True))
        values = [[np.zeros(2) if one is None else one.numpy() for one in way] for way in ways]
    for way in values:
        for one, its in zip(way, expected, strict=True):
            np.testing.assert_allclose(one, its, rtol=1e-3, atol=1e-4)
