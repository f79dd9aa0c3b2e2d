"""Every built-in op lowers for accelerators, by ``jax.export`` on a machine without one.

A seeded run draws ops, and for each one sample; ``OPLIB_OPS_SAMPLES=all`` takes everything. ``LACKING`` lists
the ops that JAX itself cannot lower, and proves it by JAX's own function.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.library.op_objects.overload import list_overloads
from tests import seed
from tests.builtin.grid.calls import OPS, Call, find_call
from tests.builtin.grid.check import is_smooth
from tests.builtin.samples.drawing import Sample, list_arrays
from tests.builtin.samples.random import SAMPLES as RANDOM_SAMPLES
from tests.builtin.samples.samples import find_samples
from tests.examples.accelerators import PLATFORMS, lower

DRAWN = 50  # ops for each platform; a program takes about 30 ms
NO_GUARANTEE = "custom calls whose targets have no compatibility guarantees"
NO_RULE = "translation rule for primitive 'eig' not found for platform tpu"


@dataclass(frozen=True)
class Lacking:
    """An op that JAX cannot lower for some platforms.

    Attributes:
        plain: JAX's own function, which fails alike.
        because: JAX's reason, by platform.
    """

    plain: Callable[[Any], Any]
    because: dict[str, str]


LACKING = {
    "linalg_eig": Lacking(jnp.linalg.eig, {"cuda": NO_GUARANTEE, "tpu": NO_RULE}),
    "linalg_eigvals": Lacking(jnp.linalg.eigvals, {"cuda": NO_GUARANTEE, "tpu": NO_RULE}),
}
RANDOM_OPS = {
    name: op
    for op in list_overloads()
    if op.namespace == "oplib" and (name := op.name().partition("::")[2]) in RANDOM_SAMPLES
}


def has_results(program: str) -> bool:
    """Tells whether the main function of a program computes something: JAX raises where it cannot lower."""
    return re.search(r"func\.func public @main\(.*\) -> .*(tensor|!)", program) is not None


def pull_back(call: Call) -> Callable[..., Any]:
    """Returns the gradients of the floating results of a call, as a function of its floating arguments."""

    def run(*floats: Any) -> list[Any]:
        results = call.run(*call.with_floats(floats))
        return [result for result in results if jnp.issubdtype(result.dtype, jnp.inexact)]

    def pull(*floats: Any) -> tuple[Any, ...]:
        results, back = jax.vjp(run, *floats)
        return back(results)

    return pull


def draw_ops(platform: str) -> list[Any]:
    """Returns the ops to lower for a platform, with the numbers of the samples to take."""
    drawn = seed.draw_cases(sorted(OPS), DRAWN, f"lowering for {platform}")
    return [pytest.param(name, platform, id=f"{name}-{platform}") for name in drawn if name not in LACKING]


def draw_samples(name: str, platform: str) -> list[tuple[int, Sample]]:
    return seed.draw_cases(list(enumerate(find_samples(OPS[name]))), 1, f"lowering {name} for {platform}")


@pytest.mark.matrix(3)
@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")
@pytest.mark.parametrize(("name", "platform"), [case for each in PLATFORMS for case in draw_ops(each)])
def test_an_op_and_its_gradient_lower(name: str, platform: str) -> None:
    for number, sample in draw_samples(name, platform):
        asks_for_64 = any(isinstance(value, np.dtype) for value in [*sample.args, *sample.kwargs.values()])
        for has_x64 in (False, True):
            if asks_for_64 and not has_x64:
                continue
            with jax.enable_x64(has_x64):
                call = find_call(name, number)
                assert has_results(lower(call.run, call.arrays, platform))
                if is_smooth(name, sample):
                    assert has_results(lower(pull_back(call), call.floats, platform))


@pytest.mark.matrix(3)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", sorted(RANDOM_OPS))
def test_an_op_that_draws_random_numbers_lowers(name: str, platform: str) -> None:
    for sample in RANDOM_SAMPLES[name]:
        leaves, tree = jax.tree.flatten((sample.args, sample.kwargs))

        def run(key: Any, *arrays: Any, leaves: Any = leaves, tree: Any = tree) -> Any:
            rest = iter(arrays)
            full = [next(rest) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
            args, kwargs = jax.tree.unflatten(tree, full)
            return RANDOM_OPS[name](*args, **kwargs, generator=oplib.Generator.from_key(key))

        assert has_results(lower(run, [jax.random.key(0), *list_arrays(sample)], platform))


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", LACKING)
def test_what_an_op_lacks_is_lacking_in_jax(name: str, platform: str) -> None:
    lacking = LACKING[name]
    because = re.escape(lacking.because[platform])
    call = find_call(name, 0)
    for function, arrays in (
        (lacking.plain, call.arrays),
        (call.run, call.arrays),
        (pull_back(call), call.floats),
    ):
        with pytest.raises((NotImplementedError, ValueError), match=because):
            lower(function, arrays, platform)


def test_jax_lowers_eig_for_cuda_where_no_guarantee_is_asked_for() -> None:
    call = find_call("linalg_eig", 0)
    lowered = jax.jit(call.run).trace(*map(jnp.asarray, call.arrays)).lower(lowering_platforms=("cuda",))
    assert "hybrid_eig" in lowered.as_text()


def test_random_ops_are_those_that_take_a_generator() -> None:
    taking = {op for op in list_overloads() if op.namespace == "oplib" and "Generator" in str(op._schema)}
    assert {op.name().partition("::")[2] for op in taking} - set(RANDOM_OPS) == set()
