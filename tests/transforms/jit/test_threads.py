"""Several threads call and trace the same and different functions over the same Tensors."""

import threading

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
