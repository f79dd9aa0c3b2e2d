"""scaled_dot_product_attention beside torch in float64: derivatives of every kind, on each of its paths."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402  torch may be missing

import oplib  # noqa: E402
import oplib.nn.functional as F  # noqa: E402

pytestmark = pytest.mark.usefixtures("with_64_bits")

DRAWN = np.random.default_rng(11)
SEEN = DRAWN.random((1, 3, 5)) > 0.5
SEEN[0, 1] = False  # a query that sees no key
ADDED = np.where(SEEN, DRAWN.standard_normal((2, 3, 5)), -math.inf)
SHORT = ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 6))
CASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "plain": (SHORT, {}, None),
    "fewer queries than keys, causal": (SHORT, {"is_causal": True, "scale": 0.3}, None),
    "more queries than keys, causal": (((2, 1, 5, 4), *[(2, 1, 3, 4)] * 2), {"is_causal": True}, None),
    "a mask of bools": (SHORT, {}, SEEN),
    "a mask of numbers": (SHORT, {}, ADDED),
    "heads that are shared": (((2, 4, 3, 4), *[(2, 2, 5, 4)] * 2), {"enable_gqa": True}, None),
    "batches that are broadcast": (((2, 2, 3, 4), (2, 5, 4), (1, 2, 5, 4)), {}, None),
    "no keys": (((2, 2, 3, 4), *[(2, 2, 0, 4)] * 2), {}, None),
    "no width": (((2, 2, 3, 0), (2, 2, 5, 0), (2, 2, 5, 4)), {}, None),
    "long": (((2, 1, 512, 2), *[(2, 1, 513, 2)] * 2), {"is_causal": True}, None),
    "long, heads that are shared": (((2, 2, 513, 2), *[(2, 1, 512, 2)] * 2), {"enable_gqa": True}, None),
}


def draw(case: str) -> list[np.ndarray]:
    return [np.random.default_rng(seed).standard_normal(one) for seed, one in enumerate(CASES[case][0])]


def differentiate_in_torch(case: str) -> dict[str, Any]:
    _, options, mask = CASES[case]
    attend = torch.nn.functional.scaled_dot_product_attention
    given = None if mask is None else torch.tensor(mask)
    operands = [torch.tensor(one, requires_grad=True) for one in draw(case)]

    with sdpa_kernel(SDPBackend.MATH):  # torch's others have no second derivatives
        result = attend(*operands, given, **options)
        first = torch.autograd.grad((result**2).sum(), operands, create_graph=True)
        # forward mode as the derivative of backward: torch's own takes seconds to be imported
        weight = torch.ones_like(result, requires_grad=True)
        pulled = torch.autograd.grad(result, operands, weight, create_graph=True)
        along = sum((one * at.detach().sin()).sum() for one, at in zip(pulled, operands, strict=True))
        (tangent,) = torch.autograd.grad(along, weight, retain_graph=True)
        second = torch.autograd.grad(sum((one**2).sum() for one in first), operands)
    found = {"result": result, "first": first, "second": second, "tangent": tangent}
    return jax.tree.map(lambda one: one.detach().numpy(), found)


def differentiate_in_jax(case: str) -> dict[str, Any]:
    _, options, mask = CASES[case]

    def run(*arrays: Any) -> Any:
        return F.scaled_dot_product_attention(*arrays, None if mask is None else jnp.asarray(mask), **options)

    def find_first(*arrays: Any) -> Any:
        return jax.grad(lambda *given: (run(*given) ** 2).sum(), (0, 1, 2))(*arrays)

    @jax.jit
    def run_all(*arrays: Any) -> dict[str, Any]:
        second = jax.grad(lambda *given: sum((one**2).sum() for one in find_first(*given)), (0, 1, 2))
        return {
            "result": run(*arrays),
            "first": find_first(*arrays),
            "second": second(*arrays),
            "tangent": jax.jvp(run, arrays, tuple(map(jnp.sin, arrays)))[1],
        }

    return run_all(*map(jnp.asarray, draw(case)))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_values_and_derivatives_of_all_kinds_are_torchs(case: str) -> None:
    mine, its = differentiate_in_jax(case), differentiate_in_torch(case)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-10), mine, its)


@pytest.mark.parametrize(
    "case", ["a mask of numbers", pytest.param("long, heads that are shared", marks=pytest.mark.slow)]
)
def test_second_derivatives_on_the_tape_are_torchs(case: str) -> None:
    _, options, mask = CASES[case]
    operands = [oplib.tensor(one, requires_grad=True) for one in draw(case)]
    given = None if mask is None else oplib.tensor(mask)
    result = F.scaled_dot_product_attention(*operands, given, **options)
    first = oplib.autograd.grad((result * result).sum(), operands, create_graph=True)
    second = oplib.autograd.grad(sum((one * one).sum() for one in first), operands)
    for mine, its in zip(second, differentiate_in_torch(case)["second"], strict=True):
        np.testing.assert_allclose(mine.numpy(), its, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    "case", ["a mask of bools", pytest.param("long, heads that are shared", marks=pytest.mark.slow)]
)
def test_a_map_is_torchs(case: str) -> None:
    """Over the examples of queries and values; the keys are those of one."""
    _, options, mask = CASES[case]
    query, key, value = draw(case)
    given = None if mask is None else mask[0]

    def find_gradients(differentiate: Any, attend: Any, key: Any, mask: Any) -> Any:
        def lose(query: Any, value: Any) -> Any:
            return (attend(query, key, value, mask, **options) ** 2).sum()

        return differentiate(lose, (0, 1))

    mine = jax.jit(
        jax.vmap(find_gradients(jax.grad, F.scaled_dot_product_attention, jnp.asarray(key[0]), given))
    )(query, value)
    attend = torch.nn.functional.scaled_dot_product_attention
    theirs = None if given is None else torch.tensor(given)
    with sdpa_kernel(SDPBackend.MATH):
        its = torch.vmap(find_gradients(torch.func.grad, attend, torch.tensor(key[0]), theirs))(
            torch.tensor(query), torch.tensor(value)
        )
    for one, other in zip(mine, its, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-9, atol=1e-10)


def test_the_gradient_of_a_mask_of_numbers_is_torchs() -> None:
    grads: list[Any] = []
    for lib, functional in ((oplib, F), (torch, torch.nn.functional)):
        operands = [lib.tensor(one) for one in draw("a mask of numbers")]
        mask = lib.tensor(ADDED, requires_grad=True)
        (functional.scaled_dot_product_attention(*operands, mask) ** 2).sum().backward()
        grads.append(mask.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mask", [SEEN, ADDED], ids=["bools", "numbers"])
def test_a_query_that_sees_no_key_gets_zeros_under_dropout_too(mask: np.ndarray) -> None:
    for lib, functional in ((oplib, F), (torch, torch.nn.functional)):
        operands = [lib.tensor(one, requires_grad=True) for one in draw("plain")]
        result = functional.scaled_dot_product_attention(*operands, lib.tensor(mask), dropout_p=0.3)
        result.sum().backward()
        assert not np.asarray(result.detach().numpy())[:, :, 1].any()
        assert all(np.isfinite(one.grad.numpy()).all() for one in operands)
