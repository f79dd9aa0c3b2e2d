"""Several threads call and trace the same and different functions over the same Tensors."""

import copy
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

import oplib
from tests.threads import run_in_threads

pytestmark = pytest.mark.spec("J.11")


def test_threads_that_trace_and_call_over_the_same_tensors_lose_no_write():
    weights = [oplib.zeros(2) for _ in range(2)]
    functions = [oplib.jit(lambda x, number=number: weights[number % 2].add_(x * 1)) for number in range(4)]
    done, seen = threading.Event(), []

    def call(number):
        function = functions[number % 4]
        for turn in range(20):
            function(oplib.ones(2))
            if turn % 7 == number % 4:
                function.clear()

    def read():
        while not done.is_set():
            for weight in weights:
                seen.append(len(set(weight.tolist())))
                (weight.detach() + 1).numpy()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        run_in_threads(call, 8)
    finally:
        done.set()
        reader.join()
    assert [weight.tolist() for weight in weights] == [[80, 80]] * 2
    assert set(seen) == {1}


def test_two_functions_that_train_one_tensor_lose_no_step():
    weight = oplib.ones(3, requires_grad=True)

    def train(x):
        weight.grad = None
        (weight * x).sum().backward()
        with oplib.no_grad():
            weight.sub_(weight.grad)

    functions = [oplib.jit(train), oplib.jit(train)]
    for function in functions:
        function(oplib.ones(3))
        function(oplib.ones(3))
    run_in_threads(lambda number: [functions[number % 2](oplib.ones(3)) for _ in range(20)], 4)
    assert weight.tolist() == [1 - 84] * 3


def test_eager_writes_beside_compiled_reads_are_seen():
    weight = oplib.zeros(2)
    double = oplib.jit(lambda: weight * 2)

    def work(number):
        for _ in range(100):
            if number:
                assert len(set(double().tolist())) == 1
            else:
                weight.add_(1)

    run_in_threads(work, 3)
    assert double().tolist() == [200, 200]


def test_threads_draw_different_numbers_of_one_generator():
    generator, same = oplib.Generator().manual_seed(1), oplib.Generator().manual_seed(1)
    draw = oplib.jit(lambda: oplib.rand(3, generator=generator))
    found = []
    run_in_threads(lambda _: [found.append(tuple(draw().tolist())) for _ in range(10)], 4)
    assert set(found) == {tuple(oplib.rand(3, generator=same).tolist()) for _ in range(40)}


@contextmanager
def paused_trace(work):
    """Has another thread trace a function, which waits at its end until the block ends."""
    inside, done = threading.Event(), threading.Event()

    @oplib.jit
    def function():
        work()
        inside.set()
        assert done.wait(300)

    with ThreadPoolExecutor(1) as threads:
        traced = threads.submit(function)
        try:
            assert inside.wait(300)
            yield
        finally:
            done.set()
        traced.result()


def test_copies_and_pickles_that_are_made_while_one_traces_are_ordinary():
    weight = oplib.ones(2, requires_grad=True)
    weight.name = "w"
    view = weight.detach()[:1]
    with paused_trace(lambda: weight.detach().mul_(3) * view):
        copies = [copy.copy(weight), copy.deepcopy(weight), pickle.loads(pickle.dumps(weight))]
        views = [copy.deepcopy(view), pickle.loads(pickle.dumps(view))]
    assert [(type(one), one.requires_grad, one.name) for one in copies] == [(oplib.Tensor, True, "w")] * 3
    assert [one.tolist() for one in copies] == [[3, 3], [1, 1], [1, 1]]  # a copy.copy shares the memory
    assert {type(one._storage) for one in copies} == {type(oplib.ones(2)._storage)}
    assert [one.tolist() for one in views] == [[1], [1]]


def test_a_storage_that_no_code_has_read_is_pickled_as_any_other():
    weight = oplib.zeros(2)
    step = oplib.jit(lambda: (weight.add_(1), None)[1])
    step()
    assert type(weight._storage) is not type(oplib.zeros(2)._storage)
    text = pickle.dumps(weight)
    assert b"jax" not in text
    assert pickle.loads(text).tolist() == [1, 1]


def test_another_thread_sees_its_own_attributes_while_one_traces():
    weight, buffer = oplib.ones(2, requires_grad=True), oplib.zeros(2)
    weight.grad = held = oplib.ones(2) * 7

    def train():
        weight.grad = None
        (weight * 2).sum().backward()
        weight.data = weight.data - weight.grad
        buffer.add_(weight)

    with paused_trace(train):
        assert weight.grad is held
        assert weight.tolist() == [1, 1]
        assert copy.deepcopy(weight).grad.tolist() == [7, 7]
        assert not buffer.requires_grad
        assert buffer.numpy().tolist() == [0, 0]
    assert weight.grad.tolist() == [2, 2]
    assert weight.tolist() == buffer.tolist() == [-1, -1]


def test_a_backward_passes_captured_tensors_while_one_traces():
    leaf = oplib.ones(2, requires_grad=True)
    hidden = leaf * 3
    with paused_trace(lambda: (hidden * 2).sum().detach()):
        (hidden * 5).sum().backward()
        assert leaf.grad.tolist() == [15, 15]


def test_what_another_thread_sets_while_one_traces_stays():
    weight, frozen, base = oplib.ones(2, requires_grad=True), oplib.ones(2), oplib.ones(2)
    with paused_trace(lambda: (weight * frozen * base).sum().backward()):
        kept = weight * 2
        weight.grad, weight.name = oplib.ones(2), "w"
        frozen.requires_grad_()
        view = base[:1]
    assert (weight.name, frozen.requires_grad) == ("w", True)
    assert weight.grad.tolist() == [2, 2]
    assert oplib.autograd.grad(kept.sum(), [weight])[0].tolist() == [2, 2]
    base.mul_(weight)
    assert view.requires_grad


def test_eager_writes_while_one_traces_are_all_counted():
    total, interval = oplib.zeros(2), sys.getswitchinterval()
    with paused_trace(lambda: total * 2):
        sys.setswitchinterval(1e-6)
        try:
            run_in_threads(lambda _: [total.add_(1) for _ in range(200)], 4)
        finally:
            sys.setswitchinterval(interval)
    assert total.tolist() == [800, 800]
    assert total._version == 800
