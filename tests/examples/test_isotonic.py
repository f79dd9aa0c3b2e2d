"""One op on the host in Python, numba and C: the three agree with each other and with another solution."""

from __future__ import annotations

from functools import cache

import isotonic_host
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import oplib
from oplib.library import CustomOpDef

FITS = {
    "python": isotonic_host.fit_in_python,
    "numba": isotonic_host.fit_in_numba,
    "c": isotonic_host.fit_in_c,
}
SKIPS = {
    "numba": pytest.mark.skipif(not isotonic_host.has_numba(), reason="needs numba"),
    "c": pytest.mark.skipif(isotonic_host.find_compiler() is None, reason="needs a C compiler"),
}
X = np.asarray(np.random.default_rng(2).normal(size=(4, 5)) + 0.3 * np.arange(5), np.float32)


every_fit = pytest.mark.parametrize(
    "isotonic", [pytest.param(name, marks=SKIPS.get(name, ())) for name in FITS], indirect=True
)


@pytest.fixture
def isotonic(request: pytest.FixtureRequest, forget_ops: None) -> CustomOpDef:
    return isotonic_host.make_op("isotonic::op", FITS[getattr(request, "param", "python")])


def fit_by_definition(x):
    """Returns, per position, the maximum of the minimal means of intervals (Barlow and others, 1972)."""
    columns = x.shape[-1]
    mean = {
        (i, j): x[:, i : j + 1].mean(-1, dtype=np.float64) for i in range(columns) for j in range(i, columns)
    }
    return np.stack(
        [
            np.max([np.min([mean[i, j] for j in range(k, columns)], 0) for i in range(k + 1)], 0)
            for k in range(columns)
        ],
        -1,
    )


@cache
def differentiate_numerically(step=1e-3):
    """Differentiates the weighted sum of the squares of the definition, in float64."""
    grad, x = np.zeros(X.shape), X.astype(np.float64)
    for index in np.ndindex(*X.shape):
        up, down = x.copy(), x.copy()
        up[index] += step
        down[index] -= step
        difference = (fit_by_definition(up) ** 2 - fit_by_definition(down) ** 2) * WEIGHTS
        grad[index] = difference.sum() / (2 * step)
    return grad


WEIGHTS = np.arange(1.0, 6.0, dtype=np.float32)


def weigh(isotonic):
    return lambda x: (isotonic(x) ** 2 * WEIGHTS).sum()


@every_fit
def test_it_is_the_nearest_row_that_never_goes_down(isotonic: CustomOpDef) -> None:
    for run in (isotonic, jax.jit(isotonic), lambda x: isotonic(oplib.Tensor.from_array(x)).array):
        np.testing.assert_allclose(run(jnp.asarray(X)), fit_by_definition(X), rtol=1e-5, atol=1e-6)


@every_fit
def test_its_gradient_is_that_of_finite_differences(isotonic: CustomOpDef) -> None:
    expected = differentiate_numerically()
    x = oplib.Tensor.from_array(jnp.asarray(X), requires_grad=True)
    (isotonic(x) ** 2 * oplib.Tensor.from_array(jnp.asarray(WEIGHTS))).sum().backward()
    for got in (x.grad.numpy(), jax.jit(jax.grad(weigh(isotonic)))(X)):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
    _, tangent = jax.jvp(weigh(isotonic), (jnp.asarray(X),), (jnp.ones_like(X),))
    np.testing.assert_allclose(tangent, expected.sum(), rtol=1e-3)


def test_a_batch_is_one_call(isotonic: CustomOpDef) -> None:
    batch = jnp.asarray(X).reshape(2, 2, 5)
    batched = jax.jit(jax.vmap(isotonic))
    np.testing.assert_allclose(batched(batch).reshape(4, 5), fit_by_definition(X), rtol=1e-5, atol=1e-6)
    assert batched.lower(batch).as_text().count("custom_call") == 1


@pytest.mark.devices(4)
def test_inside_shard_map_each_device_fits_its_rows(isotonic: CustomOpDef) -> None:
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    split = PartitionSpec("rows")
    expected = jax.jit(jax.grad(weigh(isotonic)))(X)
    total = jax.shard_map(
        lambda x: jax.lax.psum(weigh(isotonic)(x), "rows"),
        mesh=mesh,
        in_specs=split,
        out_specs=PartitionSpec(),
    )
    np.testing.assert_allclose(jax.jit(jax.grad(total))(X), expected, rtol=1e-5)
