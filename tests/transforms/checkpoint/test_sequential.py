"""Checkpoints of a sequence in segments, and names around checkpoints that are kept for parity."""

from __future__ import annotations

import pytest

import oplib
from oplib.errors import ArgumentValueError, AutogradError
from oplib.utils.checkpoint import (
    DefaultDeviceType,
    checkpoint_sequential,
    detach_variable,
    get_device_states,
    set_device_states,
)

from .regions import BOTH, find_gradients


@BOTH
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_a_sequence_in_segments_gives_the_gradients_of_the_sequence(x, segments, reentrant):
    steps = [oplib.Tensor.sin, oplib.Tensor.exp, oplib.Tensor.sin, oplib.Tensor.exp]

    class Module:
        def children(self):
            return iter(steps)

    checkpoint_sequential(Module(), segments, x, use_reentrant=reentrant).sum().backward()
    assert x.grad.tolist() == pytest.approx(find_gradients(lambda x: x.sin().exp().sin().exp(), x)[0])


def test_a_sequence_takes_no_other_keywords(x):
    with pytest.raises(ArgumentValueError, match="Unexpected keyword arguments: scale"):
        checkpoint_sequential([oplib.Tensor.sin], 1, x, use_reentrant=False, scale=2)


def test_detached_variables_are_new_leaves(x):
    y = x * 2
    first, number, second = detach_variable((y, 3, x.detach()))
    assert (first.is_leaf, first.requires_grad, number, second.requires_grad) == (True, True, 3, False)
    with pytest.raises(AutogradError, match="Only tuple of tensors is supported"):
        detach_variable([y])


def test_devices_have_no_random_state_of_their_own(x):
    devices, states = get_device_states(x)
    set_device_states(devices, states)
    assert (devices, states) == ([], [])
    DefaultDeviceType.set_device_type("tpu")
    assert DefaultDeviceType.get_device_type() == "tpu"
    DefaultDeviceType.set_device_type("cuda")


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(("steps", "segments"), [(1, 1), (4, 1), (5, 2), (6, 3), (4, 4), (7, 3)])
def test_a_step_runs_as_often_as_in_torch(steps, segments, reentrant, without_warnings):
    torch = pytest.importorskip("torch")
    from torch.utils.checkpoint import checkpoint_sequential as of_torch

    def count(library, run):
        calls = [0] * steps

        def make(number):
            def step(x):
                calls[number] += 1
                return library.sin(x)

            return step

        x = library.ones(3, requires_grad=True)
        result = run([make(number) for number in range(steps)], segments, x, use_reentrant=reentrant)
        before = list(calls)
        result.sum().backward()
        return before, calls, x.grad.tolist()

    before, calls, gradient = count(oplib, checkpoint_sequential)
    due = count(torch, of_torch)
    assert (before, calls) == due[:2]
    assert gradient == pytest.approx(due[2], rel=1e-5)
