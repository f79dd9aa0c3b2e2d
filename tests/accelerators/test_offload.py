"""Offloading to pinned memory of the host: policies of ``jax.checkpoint``, and arguments that live there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import SingleDeviceSharding

import oplib
from tests.accelerators.device import ACCELERATOR, IS_CPU, needs_accelerator

pytestmark = needs_accelerator
SIZE = 512


@oplib.custom_op("accelerators::mix", autograd="derive")
def mix(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.tanh(checkpoint_name(x @ w, "hidden"))


def model(x: jax.Array, w: jax.Array) -> jax.Array:
    for _ in range(4):
        x = mix(x, w)
    return x.sum()


def make_operands() -> tuple[jax.Array, jax.Array]:
    x, w = (np.random.default_rng(seed).normal(size=(SIZE, SIZE)) / SIZE**0.5 for seed in range(2))
    return jax.device_put(np.float32(x), ACCELERATOR), jax.device_put(np.float32(w), ACCELERATOR)


@pytest.mark.parametrize("name", ["accelerators::mix", "hidden"])
def test_a_policy_moves_results_to_the_host_and_back(name: str) -> None:
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=[name],
        offload_src="device",
        offload_dst="pinned_host",
    )
    operands = make_operands()
    compiled = jax.jit(jax.grad(jax.checkpoint(model, policy=policy), (0, 1))).lower(*operands).compile()
    expected = jax.jit(jax.grad(model, (0, 1)))(*operands)
    for mine, its in zip(compiled(*operands), expected, strict=True):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(its), rtol=1e-4, atol=1e-5)
    if not IS_CPU:  # whose memory is all of one kind
        assert compiled.memory_analysis().host_temp_size_in_bytes >= 3 * SIZE * SIZE * 4


def test_a_parameter_may_live_in_memory_of_the_host() -> None:
    x, w = make_operands()
    at_host = jax.device_put(w, SingleDeviceSharding(ACCELERATOR, memory_kind="pinned_host"))

    @jax.jit
    def run(x, w):
        return mix(x, jax.device_put(w, jax.memory.Space.Device))

    assert at_host.sharding.memory_kind == "pinned_host"
    np.testing.assert_allclose(np.asarray(run(x, at_host)), np.asarray(mix(x, w)), rtol=1e-4, atol=1e-5)
