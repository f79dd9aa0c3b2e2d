"""What XLA is told before the tests changes nothing that a test may look at."""

import jax
import jax.numpy as jnp

from tests.xla_flags import add_flags

AS_EVERY_DAY = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_parallel_codegen_split_count": 32,
}


def test_options_of_the_environment_come_last():
    assert add_flags("--of_mine=1").split()[-1] == "--of_mine=1"


def test_quick_machine_code_leaves_the_optimised_program_as_it_is():
    def loss(x, w):
        return jnp.sum(jax.nn.softmax(jnp.tanh(x @ w) @ w.T) ** 2)

    lowered = jax.jit(jax.grad(loss, (0, 1))).lower(jnp.ones((4, 4)), jnp.ones((4, 4)))
    programs = [lowered.compile(options).as_text() for options in (None, AS_EVERY_DAY)]
    assert programs[0] == programs[1]
    assert "fusion" in programs[0]
