"""Every example lowers for accelerators on a machine without one, with its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rms_norm_ffi
import softmax_triton
import swiglu_pallas
from isotonic_host import isotonic

import oplib
from model import classify, make_params
from oplib import Tensor
from oplib.errors import TracingError
from ops import branches, cross_entropy, linear, rms_norm, sgd_, shift_images
from tests.examples.accelerators import PLATFORMS, TRITON, lower

SQUARE = jnp.linspace(-1.0, 1.0, 16 * 128).reshape(16, 128)
WEIGHT = jnp.linspace(0.5, 1.5, 128 * 128).reshape(128, 128)
LABELS = jnp.arange(16) % 10


def run_step(images: jax.Array, *arrays: jax.Array) -> list[jax.Array]:
    """Runs a training step of the demo on Tensors, and returns the new parameters."""
    names = list(make_params(64, 10, oplib.Generator.from_key(jax.random.key(0))))
    params = {
        name: Tensor.from_array(array, requires_grad=True) for name, array in zip(names, arrays, strict=True)
    }
    leaves = list(params.values())
    loss = cross_entropy(classify(params, Tensor.from_array(images)), Tensor.from_array(LABELS))
    loss.backward()
    with oplib.no_grad():
        sgd_(leaves, [oplib.zeros_like(leaf) for leaf in leaves], [leaf.grad for leaf in leaves], lr=0.1)
    return [leaf.detach().array for leaf in leaves]


def make_step_arguments() -> tuple[jax.Array, ...]:
    params = make_params(64, 10, oplib.Generator().manual_seed(0))
    return jnp.ones((16, 8, 8)), *(param.detach().array for param in params.values())


EXAMPLES: dict[str, tuple[Callable[..., Any], tuple[jax.Array, ...]]] = {
    "swiglu": (swiglu_pallas.swiglu, (SQUARE, SQUARE)),
    "softmax": (softmax_triton.softmax_rows, (SQUARE,)),
    "rms_norm in C++": (lambda x, w: rms_norm_ffi.rms_norm(x, w)[0], (SQUARE, WEIGHT[0])),
    "branches": (lambda x, v, w: branches(x, [v, w])[0], (SQUARE, WEIGHT, WEIGHT)),
    "cross_entropy": (lambda x: cross_entropy(x, LABELS), (SQUARE,)),
    "linear": (lambda x, w, b: linear(x, w, b, activation="relu"), (SQUARE, WEIGHT, WEIGHT[0])),
    "rms_norm": (rms_norm, (SQUARE, WEIGHT[0])),
}
ON_HOST: dict[str, tuple[Callable[..., Any], tuple[jax.Array, ...]]] = {
    "isotonic": (isotonic, (SQUARE,)),
    "shift_images": (shift_images, (jnp.ones((16, 8, 8)), jnp.ones((16, 2), jnp.int32))),
}


def sum_squares(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays: (function(*arrays) ** 2).sum()


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_and_its_gradient_lower(name: str, platform: str) -> None:
    function, arrays = EXAMPLES[name]
    gradient = jax.grad(sum_squares(function), tuple(range(len(arrays))))
    for program in (function, gradient):
        text = lower(lambda *given, program=program: program(*given), arrays, platform)
        assert "callback" not in text  # nothing runs as Python, or in Pallas's interpreter
        if name == "swiglu":
            assert text.count({"cuda": f"@{TRITON}", "tpu": "@tpu_custom_call"}[platform]) > 0


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_training_step_of_the_demo_lowers(platform: str) -> None:
    assert "dot_general" in lower(run_step, make_step_arguments(), platform)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", ON_HOST)
def test_an_example_on_the_host_is_refused_as_jax_refuses_callbacks(name: str, platform: str) -> None:
    function, arrays = ON_HOST[name]
    with pytest.raises(TracingError, match="a host function cannot be exported"):
        lower(lambda *given: function(*given), arrays, platform)

    def call_back(x: jax.Array) -> jax.Array:
        return jax.pure_callback(np.asarray, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    with pytest.raises((NotImplementedError, ValueError)):
        lower(call_back, arrays[:1], platform)
