"""Forms for CPUs: which one runs where, and which one is differentiated."""

import jax
import jax.export
import jax.numpy as jnp
import pytest

from oplib.builtin.shared_kernels.cpu_forms import compute_on_cpu

both = compute_on_cpu(jnp.sin, by=lambda x: jnp.cosh(x) + 3)  # two functions, so that a test tells them apart


def test_a_cpu_runs_its_own_form_and_differentiates_the_other_one():
    x = jax.device_put(jnp.array([0.5, 2.0]), jax.devices("cpu")[0])
    values, pushed = jax.jvp(both, (x,), (jnp.ones_like(x),))
    assert values.tolist() == both(x).tolist() == (jnp.cosh(x) + 3).tolist()
    assert pushed.tolist() == jnp.cos(x).tolist()
    assert jax.vmap(jax.grad(both))(x).tolist() == jnp.cos(x).tolist()
    assert jax.vmap(jax.grad(jax.grad(both)))(x).tolist() == (-jnp.sin(x)).tolist()


@pytest.mark.parametrize(("platform", "has_own"), [("cpu", True), ("cuda", False), ("tpu", False)])
def test_a_program_of_another_platform_has_the_first_form_alone(platform, has_own):
    program = jax.export.export(jax.jit(both), platforms=[platform])(jnp.ones(2)).mlir_module()
    assert ("cosh" in program) == has_own
    assert ("stablehlo.sine" in program) == (not has_own)
