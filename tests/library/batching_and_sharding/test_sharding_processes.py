"""Sharding rules for devices of two processes, which are joined over loopback."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from tests.documents import ROOT

PROGRAM = """
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"localhost:{sys.argv[1]}", num_processes=2, process_id=int(sys.argv[2]))
assert (jax.device_count(), jax.process_count()) == (4, 2)

from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from oplib.library import custom_op

COLLECTIVE = re.compile(r"= \\S+ (all-gather|all-to-all|collective-permute|all-reduce|reduce-scatter)")
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
seen = []


@custom_op("far::sine")
def sine(x: jax.Array) -> jax.Array:
    seen.append(x.shape)
    return jnp.sin(x)


sine.register_autograd(
    lambda ctx, grad: grad * jnp.cos(ctx.saved_tensors[0]),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
)
sine.register_sharding("i j -> i j")


@custom_op("far::product")
def product(x: jax.Array, w: jax.Array) -> jax.Array:
    seen.append(x.shape)
    return x @ w


product.register_sharding("i j, j k -> i k reduction={j}")


def compare(result, due):
    for part in result.addressable_shards:
        np.testing.assert_allclose(part.data, due[part.index], rtol=1e-5, atol=1e-6)


def check(run, x, due, collectives):
    compiled = jax.jit(run).lower(*x).compile()
    assert set(COLLECTIVE.findall(compiled.as_text())) == collectives, compiled.as_text()
    for result, right in zip(compiled(*x), due, strict=True):
        compare(result, right)


for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(kind,))
    with jax.set_mesh(mesh):
        x = jax.make_array_from_callback(X.shape, NamedSharding(mesh, P("i")), lambda at: X[at])
        f = lambda x: (sine(x), jax.grad(lambda x: (sine(x) ** 2).sum() / 2)(x))
        check(f, [x], [np.sin(X), np.sin(X) * np.cos(X)], set())
        assert (2, 4) in seen, seen
        seen.clear()
        y = jax.make_array_from_callback(X.shape, NamedSharding(mesh, P(None, "i")), lambda at: X[at])
        w = jax.make_array_from_callback((4, 8), NamedSharding(mesh, P("i")), lambda at: X.T[at])
        check(lambda y, w: (product(y, w),), [y, w], [X @ X.T], {"all-reduce"})
        assert (8, 1) in seen, seen
        seen.clear()
print("right in process", jax.process_index())
"""


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


@pytest.mark.slow
def test_values_and_gradients_are_right_and_nothing_is_gathered_between_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    port = str(find_free_port())
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, port, str(index)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        answers = [process.communicate(timeout=400) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for index, (told, errors) in enumerate(answers):
        assert f"right in process {index}" in told, errors
