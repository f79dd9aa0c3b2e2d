"""Checkpoints give torch's gradients, calls and errors."""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings

import pytest

import oplib
import oplib.utils.checkpoint as ours
from oplib.torch_names import HINTS

from .programs import leaf

torch = pytest.importorskip("torch")
BOTH = pytest.mark.parametrize("reentrant", [False, True])


def checkpoints(lib):
    return importlib.import_module(f"{lib.__name__}.utils.checkpoint")


class Trace:
    """A region that notes when it begins, and after its second op."""

    def __init__(self):
        self.events = []

    def __call__(self, x, w):
        self.events.append("begin")
        y = (x * w).sin()
        self.events.append("middle")
        z = y * y
        self.events.append("end")
        return z


@BOTH
@pytest.mark.parametrize("early", [False, True])
def test_gradients_and_what_runs_again_are_torchs(assert_agrees, reentrant, early):
    def program(lib):
        x, w, region = leaf(lib, 0.5, 1), leaf(lib, 2, 3), Trace()
        result = checkpoints(lib).checkpoint(region, x, w, use_reentrant=reentrant, early_stop=early)
        result.sum().backward(retain_graph=True)
        result.sum().backward()
        return x.grad, w.grad, region.events

    assert_agrees(program)


@BOTH
@pytest.mark.parametrize("reentrant_inside", [False, True])
def test_nested_checkpoints_run_what_torchs_run(assert_agrees, reentrant, reentrant_inside):
    def program(lib):
        checkpoint = checkpoints(lib).checkpoint
        x, w, inner, outer = leaf(lib, 0.5, 1), leaf(lib, 2, 3), Trace(), []

        def function(x, w):
            outer.append("begin")
            result = checkpoint(inner, x.exp(), w, use_reentrant=reentrant_inside).cos()
            outer.append("end")
            return result

        checkpoint(function, x, w, use_reentrant=reentrant).sum().backward()
        return x.grad, w.grad, inner.events, outer

    assert_agrees(program)


@pytest.mark.spec("001.10", "004.15")
@BOTH
@pytest.mark.parametrize("how", ["grad", "inputs", "create_graph"])
def test_other_ways_to_ask_for_gradients_work_or_raise_alike(assert_agrees, reentrant, how):
    def program(lib):
        x, w = leaf(lib, 0.5, 1), leaf(lib, 2, 3)
        total = checkpoints(lib).checkpoint(Trace(), x, w, use_reentrant=reentrant).sum()
        if how == "inputs":
            total.backward(inputs=[x])
            return x.grad, w.grad
        gradients = lib.autograd.grad(total, (x, w), create_graph=how == "create_graph")
        if how == "create_graph":
            gradients += lib.autograd.grad(gradients[0].sum(), (x, w))
        return gradients

    assert_agrees(program)


def steps(*functions):
    rest = list(functions)
    return lambda x: rest.pop(0)(x)


UNSTEADY = {
    "fewer": (lambda x: x.sin().exp(), lambda x: x.sin()),
    "more": (lambda x: x.sin(), lambda x: x.sin().exp()),
    "other shapes": (lambda x: (x * 1).exp().sum(), lambda x: x.sum().exp()),
}


@pytest.mark.parametrize("name", UNSTEADY)
@pytest.mark.parametrize("options", [{}, {"early_stop": False}, {"determinism_check": "none"}])
def test_functions_that_do_not_repeat_themselves_are_caught_alike(assert_agrees, name, options):
    def program(lib):
        x = leaf(lib, 0.5, 1)
        function = steps(*UNSTEADY[name])
        checkpoints(lib).checkpoint(function, x, use_reentrant=False, **options).sum().backward()
        return None if name == "more" else x.grad

    assert_agrees(program)


@BOTH
@pytest.mark.parametrize("preserve", [False, True])
def test_random_numbers_are_kept_or_not_alike(assert_agrees, reentrant, preserve):
    def program(lib):
        drawn = []

        def function(x):
            noise = lib.rand(2)
            drawn.append(noise.tolist())
            return (x * noise).exp()

        lib.manual_seed(0)
        x = leaf(lib, 0.5, 1)
        result = checkpoints(lib).checkpoint(
            function, x, use_reentrant=reentrant, preserve_rng_state=preserve
        )
        result.sum().backward()
        return drawn[0] == drawn[1]

    assert_agrees(program)


def ops_of(lib):
    return (
        (torch.ops.aten.sin.default, torch.ops.aten.exp.default)
        if lib is torch
        else (oplib.ops.oplib.sin.default, oplib.ops.oplib.exp.default)
    )


@pytest.mark.parametrize("policy", ["MUST_SAVE", "PREFER_RECOMPUTE", "list", "bool"])
def test_selective_policies_give_the_same_gradients_and_are_asked_alike(assert_agrees, policy):
    def program(lib):
        module = checkpoints(lib)
        sin, exp = ops_of(lib)
        asked = []

        def decide(ctx, op, *args, **kwargs):
            if op in (sin, exp):
                asked.append((("sin", "exp")[op is exp], ctx.is_recompute, ctx.op_output.tolist()))
            return op is sin if policy == "bool" else module.CheckpointPolicy[policy]

        chosen = [sin] if policy == "list" else decide
        contexts = functools.partial(module.create_selective_checkpoint_contexts, chosen)
        x = leaf(lib, 0.5, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = module.checkpoint(
                lambda x: x.sin().exp().sin(), x, use_reentrant=False, context_fn=contexts
            )
            result.sum().backward()
        return x.grad, asked

    assert_agrees(program)


ERRORS = {
    "keywords": lambda lib, x: checkpoints(lib).checkpoint(lambda x: x, x, use_reentrant=True, scale=2),
    "debug": lambda lib, x: checkpoints(lib).checkpoint(lambda x: x, x, use_reentrant=True, debug=True),
    "debug and contexts": lambda lib, x: checkpoints(lib).checkpoint(
        lambda x: x, x, use_reentrant=False, debug=True, context_fn=lambda: None
    ),
    "check": lambda lib, x: checkpoints(lib).checkpoint(
        lambda x: x, x, use_reentrant=False, determinism_check="all"
    ),
    "sequence keywords": lambda lib, x: checkpoints(lib).checkpoint_sequential(
        [lambda x: x], 1, x, use_reentrant=True, scale=2
    ),
    "policy": lambda lib, x: checkpoints(lib).create_selective_checkpoint_contexts(3),
    "ops": lambda lib, x: checkpoints(lib).create_selective_checkpoint_contexts([3]),
    "detach": lambda lib, x: checkpoints(lib).detach_variable([x]),
    "cut": lambda lib, x: (
        checkpoints(lib).checkpoint(lambda x: x.detach() * 2, x, use_reentrant=True).sum().backward()
    ),
    "argument written": lambda lib, x: write_argument(lib, x),
}


def write_argument(lib, x):
    y = x * 1
    result = checkpoints(lib).checkpoint(lambda y: y.sin(), y, use_reentrant=False)
    y.detach().zero_()
    result.sum().backward()


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_torchs_kinds(assert_agrees, name):
    assert_agrees(lambda lib: ERRORS[name](lib, leaf(lib, 0.5, 1)))


@BOTH
@pytest.mark.parametrize("segments", [1, 2, 3, 4])
def test_sequences_run_again_what_torchs_run_again(assert_agrees, segments, reentrant):
    def program(lib):
        calls = []

        def make(name):
            def step(x):
                calls.append(name)
                return x.sin()

            return step

        x = leaf(lib, 0.5, 1)
        functions = [make(name) for name in "abcde"]
        checkpoints(lib).checkpoint_sequential(
            functions, segments, x, use_reentrant=reentrant
        ).sum().backward()
        return x.grad, calls

    assert_agrees(program)


def test_the_module_has_every_name_of_torchs():
    theirs = importlib.import_module("torch.utils.checkpoint")
    refused = set(HINTS["oplib.utils.checkpoint"])
    assert set(theirs.__all__) - refused <= set(ours.__all__)
    assert {policy.name: policy.value for policy in ours.CheckpointPolicy} == {
        policy.name: policy.value for policy in theirs.CheckpointPolicy
    }
    known = set(inspect.signature(ours.checkpoint).parameters)
    assert set(inspect.signature(theirs.checkpoint).parameters) <= known
