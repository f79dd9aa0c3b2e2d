"""A selective checkpoint hands back what its policy keeps, runs the rest again; gradients are right."""

from __future__ import annotations

import functools
import weakref

import jax
import pytest

import oplib
from oplib.errors import ArgumentValueError, CheckpointError, RegistrationTypeError
from oplib.library.op_objects.observers import observing
from oplib.utils.checkpoint import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from tests.threads import run_in_threads

SIN, EXP = oplib.ops.oplib.sin.default, oplib.ops.oplib.exp.default


def select(policy):
    return functools.partial(create_selective_checkpoint_contexts, policy)


def run(function, x, policy, **options):
    return checkpoint(function, x, use_reentrant=False, context_fn=select(policy), **options)


class Counting:
    """Makes host ops that count how often their kernels run."""

    def __init__(self, kind):
        self.calls = 0
        if kind == "host":

            def kernel(x: oplib.Tensor) -> oplib.Tensor:
                self.calls += 1
                return x * 3
        else:

            def kernel(x: jax.Array) -> jax.Array:
                self.calls += 1
                return x * 3

        compiled = {} if kind == "host" else {"compile": False}
        self.op = oplib.custom_op(f"policy_test::triple_{kind}", kernel, **compiled)
        self.op.register_autograd(lambda ctx, g: g * 3)
        self.overload = self.op._opoverload


@pytest.fixture(params=["host", "array"])
def counting(request, forget_ops):
    return Counting(request.param)


def test_an_op_that_is_not_selected_runs_again(x, counting):
    run(lambda x: counting.op(x).exp().sin(), x, [SIN]).sum().backward()
    assert counting.calls == 2


def test_an_op_that_is_selected_runs_once_and_gets_its_gradient(x, counting):
    run(lambda x: counting.op(x).exp().sin(), x, [counting.overload]).sum().backward()
    assert counting.calls == 1
    expected = x.detach().requires_grad_()
    (expected * 3).exp().sin().sum().backward()
    assert x.grad.tolist() == pytest.approx(expected.grad.tolist())


def test_results_of_selected_ops_stay_and_others_die(x):
    made = []

    def function(x):
        for step in (oplib.Tensor.sin, oplib.Tensor.exp, oplib.Tensor.sin, oplib.Tensor.exp):
            x = step(x)
            made.append(weakref.ref(x._storage.array))
        return x * x

    result = run(function, x, [SIN])
    assert [reference() is not None for reference in made] == [True, False, True, False]
    result.sum().backward()
    assert not any(reference() is not None for reference in made)


@pytest.mark.parametrize("policy", list(CheckpointPolicy))
def test_whatever_the_policy_the_gradient_is_the_same(x, policy):
    run(lambda x: (x.sin() * x).exp().sin(), x, lambda ctx, op, *args, **kwargs: policy).sum().backward()
    expected = x.detach().requires_grad_()
    (expected.sin() * expected).exp().sin().sum().backward()
    assert x.grad.tolist() == expected.grad.tolist()


def test_a_policy_is_told_the_op_its_arguments_and_its_results(x):
    told = []

    def policy(ctx, op, *args, **kwargs):
        told.append((op, [arg.tolist() for arg in args], kwargs, ctx.is_recompute, ctx.op_output.tolist()))
        return op is SIN

    run(lambda x: x.sin().exp(), x, policy).sum().backward()
    sine = x.detach().sin()
    assert told == [
        (SIN, [x.tolist()], {}, False, sine.tolist()),
        (EXP, [sine.tolist()], {}, False, sine.exp().tolist()),
    ]


def test_ops_that_the_policy_calls_are_neither_seen_nor_recorded(x):
    seen = []

    def policy(ctx, op, *args, **kwargs):
        seen.append(op)
        assert not (x * 2).exp().requires_grad
        return False

    run(lambda x: x.sin(), x, policy)
    assert seen == [SIN]


def test_what_is_offloaded_is_in_the_memory_of_the_host(x):
    result = run(lambda x: x.sin().exp(), x, lambda ctx, op, *args: CheckpointPolicy.MUST_CPU_OFFLOAD)
    result.sum().backward()
    expected = x.detach().requires_grad_()
    expected.sin().exp().sum().backward()
    assert x.grad.tolist() == expected.grad.tolist()


def test_what_is_kept_is_not_changed_by_writing_into_its_tensor(x):
    def function(x):
        sine = x.sin()
        kept = sine * sine
        with oplib.no_grad():
            sine.detach().clone().zero_()
        return kept.exp()

    run(function, x, [SIN]).sum().backward()
    expected = x.detach().requires_grad_()
    (expected.sin() * expected.sin()).exp().sum().backward()
    assert x.grad.tolist() == pytest.approx(expected.grad.tolist())


def test_in_place_ops_write_again(x):
    def function(x):
        y = x * 2
        return y.add_(1.0).sin() * 2

    for policy in ([], [oplib.ops.oplib.add.Scalar], [oplib.ops.oplib.mul.Scalar]):
        x.grad = None
        run(function, x, policy).sum().backward()
        expected = x.detach().requires_grad_()
        ((expected * 2 + 1).sin() * 2).sum().backward()
        assert x.grad.tolist() == pytest.approx(expected.grad.tolist())


def test_a_region_may_be_run_backwards_again(x):
    result = run(lambda x: x.sin().exp(), x, [SIN]).sum()
    result.backward(retain_graph=True)
    once = x.grad.tolist()
    result.backward()
    assert x.grad.tolist() == pytest.approx([2 * entry for entry in once])


def test_threads_may_run_one_region_backwards_at_a_time(x):
    result = run(lambda x: x.sin().exp().sin().exp(), x, [SIN]).sum()
    (expected,) = oplib.autograd.grad(result, x, retain_graph=True)

    def differentiate(_):
        return [oplib.autograd.grad(result, x, retain_graph=True)[0].tolist() for _ in range(5)]

    assert run_in_threads(differentiate) == [[expected.tolist()] * 5] * 4


def test_selective_checkpoints_nest(x):
    def inner(x):
        return x.sin().exp()

    run(lambda x: run(inner, x.exp(), [SIN]).sin(), x, [EXP]).sum().backward()
    expected = x.detach().requires_grad_()
    expected.exp().sin().exp().sin().sum().backward()
    assert x.grad.tolist() == pytest.approx(expected.grad.tolist())


def test_a_repetition_that_calls_an_op_more_often_raises(x):
    steps = [lambda x: x.sin().exp().exp(), lambda x: x.sin().sin()]
    with pytest.raises(
        CheckpointError, match=r"sin\.default was called 2 times in the repetition and 1 times"
    ):
        run(lambda x: steps.pop(0)(x), x, [SIN], early_stop=False).sum().backward()


def test_a_list_takes_overloads_only():
    with pytest.raises(ArgumentValueError, match="Expected op in the list to be an OpOverload"):
        create_selective_checkpoint_contexts([oplib.ops.oplib.sin])


def test_a_policy_is_a_function_or_a_list_and_gives_a_policy(x):
    with pytest.raises(RegistrationTypeError, match="either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)
    with pytest.raises(RegistrationTypeError, match="It is no CheckpointPolicy"):
        run(lambda x: x.sin(), x, lambda ctx, op, *args: "save")


def test_a_policy_is_asked_about_every_op():
    assert set() == SAC_IGNORED_OPS
    assert SelectiveCheckpointContext(is_recompute=False).op_output is None


def test_a_policy_is_not_asked_about_ignored_ops_and_they_run_again(x, monkeypatch):
    asked = []

    def policy(ctx, op, *args):
        asked.append(op)
        return CheckpointPolicy.MUST_SAVE

    monkeypatch.setattr("oplib.transforms.checkpoint.policy.SAC_IGNORED_OPS", {SIN})
    y = run(lambda x: x.sin().exp(), x, policy)
    assert SIN not in asked
    assert len(asked) == 1
    y.sum().backward()
    assert x.grad.tolist() == pytest.approx((x.detach().cos() * x.detach().sin().exp()).tolist(), rel=1e-6)


# Observers, on which this stands --------------------------------------------------------------------------


def test_observers_see_calls_from_the_inside_out_and_may_answer_them(x):
    seen = []

    def make(name, answer=None):
        def observe(call):
            seen.append((name, str(call.overload)))
            return call.run() if answer is None else answer

        return observe

    with observing(make("outer")), observing(make("inner")):
        x.detach().sin()
    assert seen == [("inner", "oplib.sin.default"), ("outer", "oplib.sin.default")]
    kept = []
    with observing(lambda call: kept.append(call.run()) or kept[0]):
        first = x.detach().sin()
    with observing(lambda call: kept[0]):
        second = oplib.tensor([7.0, 8.0]).sin()
    assert second.tolist() == first.tolist()


def test_calls_inside_a_kernel_are_not_seen_apart_and_those_of_a_composite_are(x, forget_ops):
    lib = oplib.library.Library("policy_test", "FRAGMENT")
    lib.define("whole(Tensor x) -> Tensor")
    lib.impl("whole", lambda x: x.sin().exp(), "CompositeExplicitAutograd")
    lib.define("parts(Tensor x) -> Tensor")
    lib.impl("parts", lambda x: x.sin().exp())
    seen = []

    def observe(call):
        seen.append(call.overload._schema.name)
        return call.run()

    with observing(observe):
        oplib.ops.policy_test.whole(x.detach())
        oplib.ops.policy_test.parts(x.detach())
    assert seen == ["policy_test::whole", "oplib::sin", "oplib::exp"]
    lib._destroy()


def test_an_observer_that_raises_leaves_everything_as_it_was(x):
    def observe(call):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"), observing(observe):
        x.sin()
    assert x.sin().requires_grad


@pytest.mark.spec("D.60")
def test_kept_results_go_through_the_hooks_around_the_call_if_they_are_to_be_respected(x, counting):
    packed = []

    def pack(tensor):
        packed.append(tensor.tolist())
        return tensor.numpy(force=True)

    expected = x.detach().requires_grad_()
    (expected * 3).exp().sin().sum().backward()
    kept = (x.detach() * 3).exp().sin().tolist()
    for respects in (None, False, True):
        packed.clear()
        x.grad = None
        with oplib.autograd.graph.saved_tensors_hooks(pack, oplib.tensor):
            block = run(lambda x: counting.op(x).exp().sin(), x, [SIN], respect_saved_tensors_hooks=respects)
        assert (kept in packed) == bool(respects)
        block.sum().backward()
        assert x.grad.tolist() == pytest.approx(expected.grad.tolist())
    with pytest.raises(ArgumentValueError, match="`respect_saved_tensors_hooks` is only supported when"):
        checkpoint(lambda x: x, x, use_reentrant=True, respect_saved_tensors_hooks=True)
