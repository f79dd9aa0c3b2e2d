"""Whole training steps: op by op beside torch, and as one compiled program beside plain JAX.

The small networks compute little, so they show the overhead of the machinery. Before the timing, both sides
compute the gradients once, and these must agree.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import oplib

from .against_torch import ABSENT
from .network_models import Network, differentiate, make_perceptron, make_transformer, train
from .networks_by_hand import Loss, lose_in_perceptron, make_transformer_loss
from .results import count_cores
from .rounds import Case, Effort, compare
from .table import Row

TITLE = "a step of training: forward, backward and descent"

Step = Callable[[Any, Any], list[Any]]


def measure(effort: Effort) -> Iterator[Row]:
    """Yields the rows beside torch, then those of one compiled program."""
    networks = list_networks()
    found = importlib.util.find_spec("torch") is not None
    torch = importlib.import_module("torch") if found else None  # optional, and slow to import
    for network, _ in networks:
        what, control = f"{network.name}, op by op", "torch eager"
        if torch is None:
            yield Row(what, control, note=ABSENT)
        else:
            torch.set_num_threads(count_cores())
            yield Row(what, control, None, compare(*_pair_with_torch(network, torch), effort))
    for network, lose in networks:
        what = f"{network.name}, in jit"
        yield Row(what, "jax.jit(jax.grad)", None, compare(*_pair_compiled(network, lose), effort))


def list_networks() -> list[tuple[Network, Loss]]:
    """Returns the networks, each with its loss in plain JAX."""
    return [
        (make_perceptron(64, (784, 256, 256, 10)), lose_in_perceptron),
        (make_perceptron(16, (16, 16, 16, 10)), lose_in_perceptron),
        (make_transformer(8, 64, 128, 4), make_transformer_loss(4)),
        (make_transformer(2, 8, 16, 2), make_transformer_loss(2)),
    ]


def _pair_with_torch(network: Network, torch: Any) -> tuple[Case, Case]:
    mine = [oplib.tensor(array, requires_grad=True) for array in network.parameters]
    my_inputs = [oplib.tensor(array) for array in network.inputs]
    its = [torch.tensor(array, requires_grad=True) for array in network.parameters]
    its_inputs = [torch.tensor(array) for array in network.inputs]
    its_inputs = [one.long() if one.dtype == torch.int32 else one for one in its_inputs]  # for torch
    with jax.default_matmul_precision("highest"):  # a GPU multiplies floats of 10 bits by default
        require_equal(
            network,
            _find_gradients(oplib, network, mine, my_inputs),
            _find_gradients(torch, network, its, its_inputs),
        )
    return Case(train, oplib, network, mine, my_inputs), Case(train, torch, network, its, its_inputs)


def _find_gradients(library: Any, network: Network, parameters: Any, inputs: Any) -> list[Any]:
    differentiate(library, network, parameters, inputs)
    gradients = [parameter.grad.numpy() for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    return gradients


def _pair_compiled(network: Network, lose: Loss) -> tuple[Case, Case]:
    mine, by_hand = jax.jit(_make_step(network)), jax.jit(jax.grad(lose))
    parameters, inputs = (list(map(jnp.asarray, arrays)) for arrays in (network.parameters, network.inputs))
    require_equal(network, mine(parameters, inputs), by_hand(parameters, inputs))
    return Case(mine, parameters, inputs), Case(by_hand, parameters, inputs)


def _make_step(network: Network) -> Step:
    """Returns the gradients as a function of arrays; compiled, it contains no Tensors and no tape."""

    def step(parameters: Any, inputs: Any) -> list[Any]:
        leaves = [oplib.Tensor.from_array(array, requires_grad=True) for array in parameters]
        differentiate(oplib, network, leaves, [oplib.Tensor.from_array(array) for array in inputs])
        return [leaf.grad.array for leaf in leaves if leaf.grad is not None]

    return step


def require_equal(network: Network, mine: list[Any], its: list[Any]) -> None:
    """Raises if the gradients differ from those of the control, because the ratio would be meaningless.

    Raises:
        AssertionError: they differ by more than the rounding of single precision.
    """
    for place, (one, other) in enumerate(zip(mine, its, strict=True)):
        np.testing.assert_allclose(
            one, other, rtol=1e-3, atol=1e-5, err_msg=f"{network.name}: gradient {place} differs"
        )
