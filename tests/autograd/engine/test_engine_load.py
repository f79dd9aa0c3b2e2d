"""Many threads at once on shared leaves: no gradient is lost, no hook missed, no state mixed up.

Four seconds of it by default; a minute with OPLIB_LONG=1.
"""

import os
import random
import threading
import time

import pytest

import oplib
from oplib.autograd import Function, _current_autograd_node, _current_graph_task_id
from oplib.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from oplib.modes import modes

SECONDS = 60 if os.environ.get("OPLIB_LONG") == "1" else 4
THREADS = 6


class Fail(Function):
    @staticmethod
    def forward(ctx, x, who):
        ctx.who = who
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        raise KeyError(ctx.who)


class Nest(Function):
    """The identity, whose backward runs another one that adds to the same leaf."""

    @staticmethod
    def forward(ctx, x, leaf):
        ctx.leaf = leaf
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        with oplib.enable_grad():
            (ctx.leaf * 2).backward()
        return grad, None


class Worker:
    """One thread's share: random programs, and what they must have added to each leaf."""

    def __init__(self, number, leaves, shared, stop):
        self.random = random.Random(number)
        self.name = f"worker {number}"
        self.leaves, self.shared, self.stop = leaves, shared, stop
        self.due = [0] * len(leaves)
        self.calls = self.calls_due = self.rounds = 0
        self.errors = []
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            while not self.stop.is_set():
                self.rounds += 1
                self.random.choice(
                    [self.chain, self.pair, self.nested, self.failing, self.saved, self.common]
                )()
                assert modes.state.grad_enabled
                assert _current_graph_task_id() == -1
                assert _current_autograd_node() is None
        except BaseException as error:  # noqa: BLE001  it is shown by the test
            self.errors.append(error)

    def pick(self):
        place = self.random.randrange(len(self.leaves))
        return place, self.leaves[place]

    def chain(self):
        place, leaf = self.pick()
        depth = self.random.randrange(1, 6)
        y = leaf
        for _ in range(depth):
            y = y + leaf
        y.backward()
        self.due[place] += depth + 1

    def pair(self):
        (first, a), (second, b) = self.pick(), self.pick()
        y, z = a * 3, b * 5
        ids = set()

        def count(grads):
            self.calls += 1
            assert [grad.item() for grad in grads] == [1.0, 1.0]

        y.register_hook(lambda grad: ids.add(_current_graph_task_id()))
        z.register_hook(lambda grad: ids.add(_current_graph_task_id()))
        register_multi_grad_hook([y, z], count)
        (y + z).backward()
        assert len(ids) == 1
        self.calls_due += 1
        self.due[first] += 3
        self.due[second] += 5

    def nested(self):
        (first, a), (second, b) = self.pick(), self.pick()
        Nest.apply(a * 7, b).backward()
        self.due[first] += 7
        self.due[second] += 2

    def failing(self):
        """The leaf waits for the gradient that never comes, so nothing is added."""
        _, leaf = self.pick()
        y = Fail.apply(leaf * 11, self.name)
        with pytest.raises(KeyError, match=self.name):
            (y + leaf * 2).backward()

    def saved(self):
        place, leaf = self.pick()
        with saved_tensors_hooks(lambda t: (self.name, t.detach()), self.unpack):
            y = leaf * oplib.tensor(4.0)
        y.backward()
        self.due[place] += 4

    def unpack(self, packed):
        assert packed[0] == self.name
        return packed[1]

    def common(self):
        """Runs a graph that all threads share."""
        self.shared.backward(retain_graph=True)
        self.due[0] += 6


@pytest.mark.slow
@pytest.mark.spec("004.8", "004.5", "E.1", "E.8", "000.14", "000.19")
def test_threads_under_load_add_up_exactly():
    leaves = [oplib.tensor(1.0, requires_grad=True) for _ in range(3)]
    middle = leaves[0] * 2
    middle.retain_grad()
    stop = threading.Event()
    workers = [Worker(number, leaves, middle * 3, stop) for number in range(THREADS)]
    before = [0.0 if leaf.grad is None else leaf.grad.item() for leaf in leaves]
    for worker in workers:
        worker.thread.start()
    time.sleep(SECONDS)
    stop.set()
    for worker in workers:
        worker.thread.join()
    assert [worker.errors for worker in workers] == [[]] * THREADS
    due = [sum(worker.due[place] for worker in workers) for place in range(3)]
    assert max(due) < 2**24, "float32 would round: make the test shorter"
    assert [leaf.grad.item() for leaf in leaves] == [a + b for a, b in zip(before, due, strict=True)]
    assert [worker.calls for worker in workers] == [worker.calls_due for worker in workers]
    assert sum(worker.rounds for worker in workers) > 100


@pytest.mark.spec("004.8")
def test_a_retained_gradient_loses_nothing_either():
    x = oplib.tensor(1.0, requires_grad=True)
    y = x * 2
    y.retain_grad()
    z = y * 3
    threads = [
        threading.Thread(target=lambda: [z.backward(retain_graph=True) for _ in range(50)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (y.grad.item(), x.grad.item()) == (600.0, 1200.0)


@pytest.mark.spec("004.8")
def test_the_backward_of_one_call_of_a_function_runs_in_one_thread_at_a_time():
    inside, most = [], []

    class Watch(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            inside.append(None)
            most.append(len(inside))
            time.sleep(0.005)
            inside.pop()
            return grad

    x = oplib.tensor(1.0, requires_grad=True)
    y = Watch.apply(x)
    threads = [threading.Thread(target=lambda: y.backward(retain_graph=True)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4
    assert x.grad.item() == 4.0
