"""Calls that follow each other, while nobody reads what they write, do what uncompiled calls do."""

import copy
import gc
import pickle
import threading
import weakref

import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError
from oplib.tensor.storage.fresh import FreshStorage, get_array

CALLS = 4
TWO = oplib.tensor([2.0, 1.0])

pytestmark = pytest.mark.spec("J.2", "J.10")


class Model:
    """Two parameters with momenta, and a step that trains them."""

    def __init__(self):
        self.weights = [
            oplib.tensor([1.0, 2.0], requires_grad=True),
            oplib.tensor([3.0, 4.0], requires_grad=True),
        ]
        self.momenta = [oplib.zeros(2), oplib.zeros(2)]
        self.generator = oplib.Generator().manual_seed(3)

    def step(self, x):
        for weight in self.weights:
            weight.grad = None
        first, second = self.weights
        noise = oplib.rand(2, generator=self.generator)
        loss = (first * first * x + first * second * noise).sum()
        loss.backward()
        with oplib.no_grad():
            for weight, momentum in zip(self.weights, self.momenta, strict=True):
                momentum.mul_(0.5).add_(weight.grad)
                weight.sub_(momentum, alpha=0.1)
        return loss.detach()


class CompiledModel(Model):
    """The same, compiled."""

    step = oplib.jit(Model.step)


def list_tensors(model):
    return [*model.weights, *model.momenta, *[weight.grad for weight in model.weights]]


def assert_equal(mine, theirs):
    for one, other in zip(list_tensors(mine), list_tensors(theirs), strict=True):
        assert (one is None) == (other is None)
        if other is not None:
            assert (one._version, one.requires_grad) == (other._version, other.requires_grad)
            np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-5)
    assert mine.generator.get_state()[2] == theirs.generator.get_state()[2]


def train(*models, calls=CALLS):
    for model in models:
        for _ in range(calls):
            model.step(TWO)


def follows(model):
    """Whether all that the model writes is as a call has left it."""
    storages = [one._storage for one in (*model.weights, *model.momenta)]
    return all(type(one) is FreshStorage for one in storages) and all(
        one.outputs.is_whole for one in storages
    )


def swap(model):
    model.weights.reverse()


def share(model):
    model.momenta[0] = model.momenta[0].detach()


def freeze(model):
    model.weights[0] = model.weights[0].detach()
    model.weights[0].requires_grad_()


def halve(model):
    with oplib.no_grad():
        model.weights[1].mul_(0.5)


def add_to_grad(model):
    model.weights[0].grad.add_(1)


def exchange_grads(model):
    first, second = model.weights
    first.grad, second.grad = second.grad, first.grad


def detach(model):
    model.momenta[0] = model.momenta[0].detach().requires_grad_().detach()
    model.weights[0].detach_()
    model.weights[0].requires_grad_()


def hold_and_forget(model):
    refs = [weakref.ref(weight.grad) for weight in model.weights]
    model.weights[0].grad = None
    assert [one() is None for one in refs] == [True, False]


def fail(model):
    if isinstance(model, CompiledModel):  # a plain step that fails has drawn its noise
        with pytest.raises(ArgumentError, match="the sizes of the operands must match"):
            model.step(oplib.ones(3))


def record(model):
    """Gives a parameter a history for a while."""
    before = model.weights[0]
    model.weights[0] = before * 1
    model.weights[0] = before


BETWEEN = {
    "nothing": lambda model: None,
    "read": lambda model: model.weights[0].sum(),
    "swap": swap,
    "share": share,
    "freeze": freeze,
    "halve": halve,
    "replace": lambda model: model.momenta.__setitem__(0, oplib.ones(2)),
    "clear": lambda model: setattr(model.weights[0], "grad", None),
    "delete": lambda model: delattr(model.weights[1], "grad"),
    "give": lambda model: setattr(model.weights[1], "grad", oplib.ones(2)),
    "hook": lambda model: model.weights[0].register_hook(lambda grad: grad * 2),
    "add": add_to_grad,
    "exchange": exchange_grads,
    "data": lambda model: setattr(model.weights[0], "data", oplib.ones(2)),
    "seed": lambda model: model.generator.manual_seed(7),
    "version": lambda model: oplib.autograd.graph.increment_version(model.momenta[0]),
    "mark": lambda model: model.weights[0].grad.requires_grad_(),
    "step": lambda model: Model.step(model, TWO),
    "exclude": lambda model: model.weights[1].requires_grad_(False).requires_grad_(True),
    "detach": detach,
    "hold": hold_and_forget,
    "fail": fail,
    "record": record,
    "mark momentum": lambda model: model.momenta[0].requires_grad_().requires_grad_(False),
    "deepcopy": lambda model: copy.deepcopy((model.weights, model.momenta)),
    "copy": lambda model: copy.copy(model.weights[0].grad).add_(1),
    "pickle": lambda model: pickle.loads(pickle.dumps((model.weights, model.weights[1].grad))),
    "post-accumulate hook": lambda model: model.weights[0].register_post_accumulate_grad_hook(
        lambda weight: setattr(weight, "grad", weight.grad * 2)
    ),
    "attribute": lambda model: setattr(model.weights[0], "label", "first"),
    "data of grad": lambda model: setattr(model.weights[1].grad, "data", oplib.ones(2)),
    "swap data": lambda model: setattr(model.weights[0], "data", model.momenta[0]),
}


@pytest.mark.parametrize("between", BETWEEN)
def test_calls_do_what_plain_ones_do_whatever_happens_between(between):
    mine, theirs = CompiledModel(), Model()
    for _ in range(2):
        train(mine, theirs)
        for model in (mine, theirs):
            BETWEEN[between](model)
        train(mine, theirs)
    assert_equal(mine, theirs)


@pytest.mark.parametrize("is_array_read", [False, True])
def test_a_gradient_that_somebody_holds_keeps_its_value(is_array_read):
    mine, theirs = CompiledModel(), Model()
    held = []
    for _ in range(5):
        train(mine, theirs, calls=2)
        held += [[model.weights[0].grad for model in (mine, theirs)]]
        if is_array_read:
            assert held[-1][0].numpy().shape == (2,)
    train(mine, theirs)
    for one, other in held:
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)
    assert len({id(one) for one, _ in held}) == 5


def test_a_gradient_that_another_program_returns_keeps_its_value():
    model = CompiledModel()
    give = oplib.jit(lambda: model.weights[0].grad)
    train(model)
    grad = give()
    assert grad is model.weights[0].grad
    before = grad.tolist()
    other = oplib.jit(lambda: [setattr(model.weights[1], "grad", model.weights[0].grad)][1:])
    train(model)
    other()
    shared = model.weights[1]._grad
    train(model)
    assert grad.tolist() == before
    assert shared is not model.weights[0]._grad


def test_a_view_made_between_calls_shows_what_they_write():
    mine, theirs = CompiledModel(), Model()
    train(mine, theirs)
    views = [model.momenta[0][1:] for model in (mine, theirs)]
    train(mine, theirs)
    assert [one._version for one in views] == [views[1]._version] * 2
    np.testing.assert_allclose(views[0].numpy(), views[1].numpy(), rtol=1e-5)


def test_two_programs_take_turns():
    mine, theirs = CompiledModel(), Model()
    for shape in ((2,), (1,), (2,), (2,), (1,), (1,)):
        for model in (mine, theirs):
            model.step(oplib.ones(*shape))
    assert_equal(mine, theirs)


def test_an_argument_that_is_captured_too_is_noticed():
    mine, theirs = CompiledModel(), Model()
    train(mine, theirs)
    for model in (mine, theirs):
        model.step(model.momenta[0])
        model.step(TWO)
    assert_equal(mine, theirs)


def find_objects(step):
    """Returns the objects to which the function refers that serves the calls of the only program."""
    (programs,) = step._programs.by_key.values()
    return programs[0].serve.__globals__


def train_beside(monkeypatch, mine, theirs, calls, *, before=None, after=None):
    """Trains both, and does something right before or after each run of the compiled program."""
    objects = find_objects(mine.step)
    run = objects["run"]

    def run_beside(*inputs):
        if before is not None:
            before()
        found = run(*inputs)
        if after is not None:
            after()
        return found

    with monkeypatch.context() as patch:
        patch.setitem(objects, "run", run_beside)
        train(mine, theirs, calls=calls)
    assert_equal(mine, theirs)
    train(mine, theirs)
    assert_equal(mine, theirs)


def test_what_is_read_while_the_program_runs_is_written(monkeypatch):
    """A signal handler or a finalizer may read while the program runs."""
    mine, theirs = CompiledModel(), Model()
    train(mine, theirs)

    def read():
        assert mine.weights[0]._version > 0
        _ = mine.momenta[0]._storage.version
        mine.momenta[1]._storage.version += 0
        assert mine.weights[0].grad is None  # as in the plain step

    train_beside(monkeypatch, mine, theirs, 2, after=read)


def test_a_write_while_the_program_runs_does_not_end_the_call(monkeypatch):
    mine, theirs = CompiledModel(), Model()
    train(mine, theirs)

    def write():
        mine.momenta[0]._storage.array = TWO.array  # the call writes after this

    train_beside(monkeypatch, mine, theirs, 1, after=write)
    assert_equal(mine, theirs)


@pytest.mark.parametrize("use", ["read", "trace", "copy"])
def test_another_thread_waits_for_what_a_program_writes(use, monkeypatch):
    mine, theirs, threads, found = CompiledModel(), Model(), [], []
    train(mine, theirs)
    uses = {
        "read": lambda: mine.weights[0].detach().tolist(),
        "trace": oplib.jit(lambda: (mine.weights[0] * 1).detach()),
        "copy": lambda: copy.deepcopy(mine.weights[0]).tolist(),
    }

    def start_thread():
        thread = threading.Thread(target=lambda: found.append(uses[use]()))
        thread.start()
        threads.append(thread)
        thread.join(0.2)  # it waits

    train_beside(monkeypatch, mine, theirs, 1, before=start_thread)
    threads[0].join()
    plain, due = Model(), []
    for _ in range(2 * CALLS + 1):
        plain.step(TWO)
        due.append(plain.weights[0].tolist())
    assert any(np.allclose(np.asarray(found[0]), grad, rtol=1e-5) for grad in due[CALLS:])


def test_what_is_read_before_the_program_runs_stays_valid(monkeypatch):
    """A finalizer may read after the operands are found."""
    mine, theirs = CompiledModel(), Model()
    train(mine, theirs)
    objects, held = find_objects(mine.step), []
    take_cleared = objects["take_cleared"]

    def read_and_take(tensors):
        held.append(mine.weights[0].detach().array)
        return take_cleared(tensors)

    with monkeypatch.context() as patch:
        patch.setitem(objects, "take_cleared", read_and_take)
        train(mine, theirs, calls=2)
    assert [array.shape for array in map(np.asarray, held)] == [(2,), (2,)]
    train(mine, theirs)
    assert_equal(mine, theirs)


def test_other_threads_read_whole_values_between_calls():
    """All items of each Tensor are equal at all times, and a gradient that somebody holds does not change."""
    weights = [oplib.ones(4, requires_grad=True) for _ in range(3)]

    @oplib.jit
    def step():
        for weight in weights:
            weight.grad = None
        sum((weight * weight).sum() for weight in weights).backward()
        with oplib.no_grad():
            for weight in weights:
                weight.sub_(weight.grad, alpha=0.01)

    step()
    done, problems = threading.Event(), []

    def read():
        while not done.is_set():
            for weight in weights:
                grad, copied = weight.grad, copy.deepcopy(weight)  # None while a call computes it
                held = [one for one in (grad, copied.grad) if one is not None]
                shown = [one.tolist() for one in (*held, weight, copied)]
                if any(len(set(one)) > 1 for one in shown) or (held and held[0].tolist() != shown[0]):
                    problems.append(shown)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(300):
            step()
    finally:
        done.set()
        reader.join()
    assert problems == []
    assert [weight._version for weight in weights] == [301] * 3
    for weight in weights:  # 301 steps of float32 round by up to 6e-8 twice each
        np.testing.assert_allclose(weight.detach().numpy(), np.full(4, 0.98**301), rtol=1e-4)


def test_a_failure_of_a_call_that_follows_removes_the_gradients_only(monkeypatch):
    """The step sets them to None before it computes new ones, so their memory is free by then."""
    mine, theirs = CompiledModel(), Model()
    train(mine, theirs)

    def fail(*inputs):
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setitem(find_objects(mine.step), "run", fail)
        with pytest.raises(RuntimeError, match="no memory"):
            mine.step(TWO)
    assert [weight.grad for weight in mine.weights] == [None, None]
    for weight in theirs.weights:
        weight.grad = None
    assert_equal(mine, theirs)
    train(mine, theirs)
    assert_equal(mine, theirs)


def _read_momentum(model):
    _ = model.momenta[0].array


def _read_gradient(model):
    _ = model.weights[0].grad


@pytest.mark.parametrize("step", ["get_array", "get_aval"])
@pytest.mark.parametrize("read", [_read_momentum, _read_gradient])
@pytest.mark.parametrize("calls", [1, CALLS])
def test_what_is_read_while_a_call_finds_its_operands_is_there(monkeypatch, read, calls, step):
    """A signal handler may run between two lines of the call."""
    mine, theirs = CompiledModel(), Model()
    train(mine, theirs, calls=calls)
    objects = find_objects(mine.step)
    take = objects[step]

    def take_and_read(*args):
        read(mine)
        return take(*args)

    with monkeypatch.context() as patch:
        patch.setitem(objects, step, take_and_read)
        train(mine, theirs, calls=1)
    assert_equal(mine, theirs)
    train(mine, theirs)
    assert_equal(mine, theirs)


def test_the_old_gradients_are_freed_before_the_program_runs(monkeypatch):
    model = CompiledModel()
    train(model)
    arrays = [weakref.ref(get_array(weight._grad._storage)) for weight in model.weights]
    objects, freed = find_objects(model.step), []
    run = objects["run"]

    def run_and_look(*inputs):
        freed.append([array() is None for array in arrays])
        return run(*inputs)

    with monkeypatch.context() as patch:
        patch.setitem(objects, "run", run_and_look)
        train(model, calls=1)
    assert freed == [[True, True]]


def test_gradients_that_are_read_inside_accumulate():
    weight = oplib.ones(2, requires_grad=True)

    @oplib.jit
    def step():
        (weight * weight).sum().backward()

    for count in range(1, 6):
        step()
        assert count != 5 or weight.grad.tolist() == [10, 10]


def test_results_are_freed_when_nobody_holds_them():
    x = oplib.zeros(4)
    step = oplib.jit(lambda: (x.add_(1.0), x * 2)[1])
    for _ in range(CALLS):
        array = weakref.ref(step().array)
    gc.collect()
    assert array() is None


def test_a_cleared_gradient_frees_its_array():
    model = CompiledModel()
    train(model)
    arrays = [weakref.ref(get_array(weight._grad._storage)) for weight in model.weights]
    for weight in model.weights:
        weight.grad = None
    gc.collect()
    assert [one() for one in arrays] == [None, None]


def test_dropped_tensors_free_their_arrays_although_the_function_lives():
    weights = [oplib.ones(2), oplib.ones(2)]
    step = oplib.jit(lambda weights: [weight.add_(1) for weight in weights][2:])
    for _ in range(CALLS):
        step(weights)
    arrays = [weakref.ref(get_array(weight._storage)) for weight in weights]
    del weights
    gc.collect()
    assert [one() for one in arrays] == [None, None]
    assert step.compilations == 1


def test_what_is_read_after_the_program_has_run_loses_no_tensor(monkeypatch):
    """A signal that arrives while the program runs is handled right after it."""
    x = oplib.zeros(4)
    step = oplib.jit(lambda: x.add_(1.0))
    for _ in range(3):
        step()
    write_back = find_objects(step)["write_back"]
    note = write_back.note

    def read_and_note(tensors):
        _ = x._storage.array
        note(tensors)

    with monkeypatch.context() as patch:
        patch.setattr(write_back, "note", read_and_note)
        step()
    assert x._version == 4
    assert (x.numpy() == 4.0).all()
    step()
    assert (x.numpy() == 5.0).all()


def test_an_interrupt_by_a_handler_that_reads_loses_no_tensor(monkeypatch):
    """The handler may save the weights before it raises."""
    x, y = oplib.zeros(4), oplib.zeros(4)
    step = oplib.jit(lambda: (x.add_(1.0), y.add_(1.0)))
    for _ in range(3):
        step()

    def read_and_raise(tensors):
        _ = x._storage.array
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(find_objects(step)["write_back"], "note", read_and_raise)
        with pytest.raises(KeyboardInterrupt):
            step()
    assert (x.tolist(), y.tolist()) == ([4.0] * 4, [4.0] * 4)
    assert (x._version, y._version) == (4, 4)
    step()
    assert (x.tolist(), y.tolist()) == ([5.0] * 4, [5.0] * 4)


def test_what_is_read_while_inputs_are_copied_stays_valid(monkeypatch):
    x, y, held = oplib.zeros(4), oplib.zeros(4), []
    step = oplib.jit(lambda: (x.add_(1.0), y.add_(1.0)))
    for _ in range(3):
        step()
    _ = x.array  # so x is copied, and y is not
    objects = find_objects(step)
    copy = objects["copy_read"]

    def copy_and_read(*given):
        copy(*given)
        held.append(y.array)

    with monkeypatch.context() as patch:
        patch.setitem(objects, "copy_read", copy_and_read)
        step()
    assert (np.asarray(held[0]) == 3.0).all()
    assert (y.numpy() == 4.0).all()
