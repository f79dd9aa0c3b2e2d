"""Small gradients that a step leaves in one array are those of the uncompiled step, however they are read."""

import copy
import pickle
import queue
import re
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import oplib
from oplib.errors import TracingError
from oplib.nn.utils import clip_grad_norm_
from oplib.transforms.jit.collector import FEWEST_PACKED
from tests.threads import run_in_threads

COUNT = FEWEST_PACKED + 2
X = oplib.tensor([2.0, 1.0])

pytestmark = pytest.mark.spec("J.2", "J.10")


class Model:
    """Small weights, and a step that clears their gradients and trains them."""

    def __init__(self, make=lambda number: oplib.tensor([1.0 + number, 2.0]), count=COUNT):
        self.weights = [make(number).requires_grad_() for number in range(count)]

    def find_loss(self):
        return sum(((weight * weight).sum() * 0.1 for weight in self.weights), X.sum())

    def step(self):
        for weight in self.weights:
            weight.grad = None
        self.find_loss().backward()
        self.descend()

    def descend(self):
        with oplib.no_grad():
            for weight in self.weights:
                weight.sub_(weight.grad, alpha=0.1)


class CompiledModel(Model):
    """The same, compiled."""

    step = oplib.jit(Model.step)


def are_packed(model):
    return [type(weight._grad) is tuple for weight in model.weights]


def train(*models, calls=2):
    for model in models:
        for _ in range(calls):
            model.step()


def compare(mine, theirs):
    for one, other in zip(mine.weights, theirs.weights, strict=True):
        np.testing.assert_allclose(one.tolist(), other.tolist(), rtol=1e-6)
        assert (one.grad is None) == (other.grad is None)
        if other.grad is not None:
            np.testing.assert_allclose(one.grad.tolist(), other.grad.tolist(), rtol=1e-6)
            assert one.grad._version == other.grad._version
            assert one.grad.dtype == other.grad.dtype


def trained_pair():
    mine, theirs = CompiledModel(), Model()
    train(mine, theirs)
    assert all(are_packed(mine))
    return mine, theirs


def change_in_place(model):
    grad = model.weights[3].grad
    grad.add_(1)
    grad[0] = 7
    return grad.tolist(), model.weights[3].grad is grad


def take_over(model):
    model.weights[0].grad = model.weights[1].grad
    model.weights[1].grad.zero_()
    return model.weights[0].grad.tolist()


def delete(model):
    del model.weights[2].grad
    return model.weights[2].grad


def accumulate(model):
    model.find_loss().backward()
    return model.weights[4].grad.tolist()


def accumulate_compiled(model):
    with oplib.autograd.compiled_autograd.enable():
        model.find_loss().backward()
    return model.weights[4].grad.tolist()


def accumulate_with_history(model):
    model.find_loss().backward(create_graph=True)
    return model.weights[4].grad.requires_grad


def retain(model):
    weight = model.weights[0]
    weight.requires_grad_(False)
    weight.mul_(model.weights[1])
    weight.retain_grad()
    (weight * 3).sum().backward()
    grad = weight.grad.tolist()
    weight.detach_().requires_grad_()
    return grad


def read_in_program(model):
    return oplib.jit(lambda: sum(weight.grad.sum() for weight in model.weights))().item()


def write_in_program(model):
    @oplib.jit
    def double():
        for weight in model.weights:
            weight.grad.mul_(2)

    double()
    double()
    return model.weights[1].grad.tolist()


def read_in_trace(model):
    weight = model.weights[5]
    traced = jax.jit(lambda x: x * weight.grad.array)(jnp.ones(2)).tolist()
    return traced, weight.grad.tolist(), weight.grad._version


def read_in_map(model):
    weight = model.weights[5]
    mapped = oplib.vmap(lambda x: x * weight.grad)(oplib.ones(3, 2)).tolist()
    return mapped, weight.grad.tolist()


def write_copy(model):
    copied = copy.deepcopy(model.weights)
    copied[1].grad.zero_()
    return model.weights[1].grad.tolist()


def call_hook(model):
    seen = []
    weight = model.weights[0]
    handle = weight.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.tolist()))
    model.find_loss().backward()
    handle.remove()
    return seen


def pass_through_dlpack(model):
    return np.from_dlpack(model.weights[0].grad).tolist()


def measure(model):
    oplib.visual.graph(model.find_loss(), run=True)
    return model.weights[0].grad.tolist()


READS = [
    lambda model: [weight.grad.tolist() for weight in model.weights],
    lambda model: model.weights[0].grad is model.weights[0].grad,
    lambda model: (model.weights[0].grad.is_leaf, model.weights[0].grad.requires_grad),
    lambda model: (model.weights[0].grad.shape, model.weights[0].grad.device, model.weights[0].grad.grad),
    lambda model: model.weights[0].grad.array.committed,
    lambda model: repr(model.weights[0].grad),
    lambda model: model.weights[0].grad.numpy().tolist(),
    lambda model: model.weights[0].grad.data.view(2, 1).tolist(),
    lambda model: (copy.copy(model.weights[0]).grad, copy.copy(model.weights[0].grad).tolist()),
    lambda model: copy.deepcopy(model.weights)[1].grad.tolist(),
    lambda model: pickle.loads(pickle.dumps(model.weights[0].grad)).tolist(),
    lambda model: pickle.loads(pickle.dumps(model.weights[0])).grad,
    lambda model: clip_grad_norm_(model.weights, 0.5).item(),
    write_copy, change_in_place, take_over, delete, accumulate, accumulate_compiled, accumulate_with_history,
    retain, read_in_program, write_in_program, read_in_trace, read_in_map, call_hook,
    pass_through_dlpack, measure,
]  # fmt: skip


@pytest.mark.parametrize("read", READS)
def test_a_gradient_is_that_of_the_uncompiled_step(read):
    mine, theirs = trained_pair()
    found, expected = read(mine), read(theirs)
    np.testing.assert_equal(found, expected)
    compare(mine, theirs)
    train(mine, theirs)
    compare(mine, theirs)


def test_a_step_that_nobody_looks_at_makes_no_gradient():
    mine, theirs = trained_pair()
    train(mine, theirs, calls=3)
    assert all(are_packed(mine))
    assert len({id(weight._grad[0]) for weight in mine.weights}) == 1
    assert mine.weights[0].grad.tolist() == pytest.approx(theirs.weights[0].grad.tolist())
    assert are_packed(mine) == [False] + [True] * (COUNT - 1)
    compare(mine, theirs)


def test_writes_inside_count():
    class Clipped(Model):
        def descend(self):
            for weight in self.weights:
                weight.grad.mul_(0.5).clamp_(max=1.0)
            super().descend()

    class CompiledClipped(Clipped):
        step = oplib.jit(Clipped.step)

    mine, theirs = CompiledClipped(), Clipped()
    train(mine, theirs)
    assert all(are_packed(mine))
    compare(mine, theirs)
    assert mine.weights[0].grad._version == 2


def test_gradients_of_each_dtype_have_an_array():
    dtypes = oplib.float32, oplib.bfloat16, oplib.complex64

    def make(number):
        return oplib.full((number % 3,), 1.5, dtype=dtypes[number % 3])

    mine, theirs = (kind(make, 3 * FEWEST_PACKED) for kind in (CompiledModel, Model))

    def find_loss(model):
        return sum(((weight * weight.conj()).sum().abs() for weight in model.weights), X.sum())

    mine.find_loss, theirs.find_loss = (lambda: find_loss(mine)), (lambda: find_loss(theirs))
    train(mine, theirs, calls=1)
    assert all(are_packed(mine))
    assert len({id(weight._grad[0]) for weight in mine.weights}) == 3
    compare(mine, theirs)


class Update(Model):
    """A step without the update."""

    def descend(self):
        pass


class Accumulating(Model):
    """A step that does not clear its gradients."""

    def step(self):
        self.find_loss().backward()
        self.descend()


class Late(Model):
    """A step that uses the gradients of the one before."""

    def step(self):
        if self.weights[0].grad is not None:
            self.descend()
        super().step()


UNPACKED = [
    (Update, {}),
    (Accumulating, {}),
    (Late, {}),
    (Model, {"count": FEWEST_PACKED - 1}),
    (Model, {"make": lambda number: oplib.full((5000,), 0.1 * number)}),
]


@pytest.mark.parametrize(("kind", "options"), UNPACKED)
def test_gradients_that_are_read_or_large_or_few_stay_apart(kind, options):
    compiled = type("Compiled", (kind,), {"step": oplib.jit(kind.step)})
    mine, theirs = compiled(**options), kind(**options)
    train(mine, theirs)
    assert not any(are_packed(mine))
    compare(mine, theirs)


def test_large_gradients_stay_beside_small_ones():
    def make(number):
        return oplib.full((2 if number else 5000,), 1.0 + number)

    mine, theirs = CompiledModel(make), Model(make)
    train(mine, theirs)
    assert are_packed(mine) == [False] + [True] * (COUNT - 1)
    compare(mine, theirs)


class Sharing(Model):
    """A step whose results show gradients."""

    def step(self):
        super().step()
        return self.share([weight.grad for weight in self.weights])


SHARED = [
    lambda grads: grads[1],
    lambda grads: grads[1].view(-1),
    lambda grads: grads[1].detach(),
    lambda grads: {"grads": grads},
    lambda grads: grads[1].data,
]


@pytest.mark.parametrize("share", SHARED)
def test_results_that_show_a_gradient_share_its_memory(share):
    mine, theirs = type("Compiled", (Sharing,), {"step": oplib.jit(Sharing.step)})(), Sharing()
    for model in (mine, theirs):
        model.share = share
        model.step()
        shown = model.step()
        for weight in model.weights:
            weight.grad.add_(1)
        model.shown = shown["grads"][1] if isinstance(shown, dict) else shown
    assert mine.shown.tolist() == pytest.approx(theirs.shown.tolist())
    compare(mine, theirs)


def test_leaves_with_one_gradient_share_it():
    class Shared(Model):
        def descend(self):
            super().descend()
            self.weights[0].grad = self.weights[1].grad
            self.weights[2].grad = self.weights[3].grad.detach()
            self.weights[4].grad = self.weights[5].grad[:]

    mine, theirs = type("Compiled", (Shared,), {"step": oplib.jit(Shared.step)})(), Shared()
    train(mine, theirs)
    for model in (mine, theirs):
        for number in (1, 3, 5):
            model.weights[number].grad.add_(number)
    assert mine.weights[0].grad is mine.weights[1].grad
    compare(mine, theirs)


def test_one_program_serves_models_by_turns():
    step = oplib.jit(Model.step)
    models, others = [Model() for _ in range(2)], [Model() for _ in range(2)]
    for model, other in zip(models, others, strict=True):
        with oplib.no_grad():
            model.weights[0].mul_(3), other.weights[0].mul_(3)
        step(model), other.step()
    assert all(map(all, map(are_packed, models)))
    compare(models[0], others[0])
    compare(models[1], others[1])


def test_a_gradient_with_a_history_or_an_attribute_stays_apart():
    class Marked(Model):
        def step(self):
            for weight in self.weights:
                weight.grad = None
            self.find_loss().backward(create_graph=True)
            self.weights[0].grad = self.weights[0].grad.detach()
            self.weights[0].grad.note = "kept"
            self.descend()

    mine, theirs = type("Compiled", (Marked,), {"step": oplib.jit(Marked.step)})(), Marked()
    train(mine, theirs, calls=1)
    assert not any(are_packed(mine))
    assert mine.weights[0].grad.note == "kept"
    assert [weight.grad.requires_grad for weight in mine.weights] == [False] + [True] * (COUNT - 1)


def test_one_program_reads_gradients_whether_they_are_packed_or_not():
    mine, theirs = trained_pair()
    read = oplib.jit(lambda: sum(weight.grad.sum() for weight in mine.weights))
    for _ in range(3):
        expected = sum(weight.grad.sum() for weight in theirs.weights).item()
        assert read().item() == pytest.approx(expected)
        train(mine, theirs)
        assert all(are_packed(mine))
    assert read.compilations == 1


@pytest.mark.devices(8)
@pytest.mark.parametrize("is_spread", [True, False])
def test_gradients_of_a_step_on_a_mesh_stay_apart(is_spread):
    """The data lies there, and the weights do or do not."""
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("i",)), P("i"))

    def spread(number):
        return oplib.Tensor.from_array(jax.device_put(jnp.full(8, 1.0 + number), sharding))

    def make(number):
        return oplib.full((8,), 1.0 + number)

    compiled = type("Compiled", (Model,), {"step": oplib.jit(Model.step)})
    mine, theirs = compiled(spread if is_spread else make), Model(make)
    for model, data in ((mine, spread(1)), (theirs, make(1))):
        model.find_loss = lambda model=model, data=data: sum(
            ((one * one).sum() for one in model.weights), data.sum()
        )
    train(mine, theirs)
    assert not any(are_packed(mine))
    assert mine.weights[0].grad.array.sharding.device_set == sharding.device_set
    compare(mine, theirs)


def test_cleared_gradients_free_their_array():
    mine, _ = trained_pair()
    array = weakref.ref(mine.weights[0]._grad[0])
    held = mine.weights[0].grad
    for weight in mine.weights[:-1]:
        weight.grad = None
    assert array() is not None
    mine.weights[-1].grad = None
    assert array() is None
    assert held.tolist()


def test_the_next_step_frees_the_array_before_it_runs():
    mine, _ = trained_pair()
    array = weakref.ref(mine.weights[0]._grad[0])
    train(mine, calls=1)
    assert array() is None


def test_threads_read_one_gradient():
    for _ in range(5):
        mine, theirs = trained_pair()
        grads = run_in_threads(lambda _, model=mine: model.weights[0].grad)
        assert len({id(grad) for grad in grads}) == 1
        compare(mine, theirs)


def test_a_thread_reads_while_another_one_trains():
    mine, is_over = CompiledModel(), threading.Event()
    train(mine)

    def work(number):
        if number == 0:
            train(mine, calls=100)
            is_over.set()
        while not is_over.is_set():
            for weight in mine.weights:
                grad = weight.grad
                assert grad is None or grad.shape == (2,)

    run_in_threads(work, 3)


def test_the_settings_of_the_reader_change_nothing():
    mine, theirs = trained_pair()
    with jax.transfer_guard("disallow"), jax.disable_jit(), oplib.inference_mode(), oplib.no_grad():
        grad = mine.weights[0].grad
    assert not grad.is_inference()
    compare(mine, theirs)


@pytest.mark.devices(8)
def test_a_gradient_stays_on_its_device():
    mine, _ = trained_pair()
    device = mine.weights[0].array.device
    with jax.default_device(jax.devices()[1]):
        grad = mine.weights[0].grad
    assert grad.array.device == device
    assert not grad.array.committed


def test_a_report_of_memory_shows_who_holds_the_array():
    mine, _ = trained_pair()
    rows = [row for row in oplib.visual.memory().rows if re.search(r"mine\.weights\[\d\]\.grad$", row.holder)]
    assert [(row.count, row.shape) for row in rows] == [(1, f"f32[{2 * COUNT}]")]
    assert all(are_packed(mine))


def test_a_gradient_of_the_trace_that_is_kept_has_ended():
    model, kept = Model(), queue.SimpleQueue()

    @oplib.jit
    def step():
        model.step()
        kept.put(model.weights[0].grad)

    step()
    assert all(are_packed(model))
    with pytest.raises(TracingError, match="made inside a compiled function is used outside"):
        kept.get().tolist()
