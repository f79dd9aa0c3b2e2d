"""Numbers that a function changes while it is traced, in objects that hold no Tensor."""

import threading

import pytest

import oplib
from oplib.errors import TracingError

pytestmark = pytest.mark.spec("J.3")

ONES = oplib.ones(2)


class Meter:
    """Holds numbers."""

    def __init__(self):
        self.count, self.largest, self.name = 0, 1000.0, "loss"

    def update(self):
        self.count += 1


class SlottedMeter:
    """The same in slots."""

    __slots__ = ("count",)

    def __init__(self):
        self.count = 0


class Model:
    """Holds a Tensor, and a meter that does not."""

    def __init__(self):
        self.weight, self.meter = oplib.zeros(2), Meter()

    @oplib.jit
    def forward(self, x):
        self.meter.update()
        return self.weight + x


METER = Meter()


def count_in_a_global(x):
    METER.count += 1
    return x * 2


def make_counters():
    meter, slotted, kept = Meter(), SlottedMeter(), [Meter()]

    def count_in_a_variable(x):
        meter.update()
        return x * 2

    def count_in_a_slot(x):
        slotted.count += 1
        return x * 2

    def rename(x):
        kept[0].name += "s"
        return x * 2

    return [
        (count_in_a_global, "METER.count was changed from 0 to 1", lambda: METER.count == 0),
        (count_in_a_variable, "meter.count was changed from 0 to 1", lambda: meter.count == 0),
        (count_in_a_slot, "slotted.count was changed from 0 to 1", lambda: slotted.count == 0),
        (rename, "name was changed from 'loss' to 'losss'", lambda: kept[0].name == "loss"),
    ]


@pytest.mark.parametrize("number", range(4))
def test_an_attribute_of_an_object_without_tensors_that_counts_is_refused(number):
    function, text, is_unchanged = make_counters()[number]
    step = oplib.jit(function)
    for _ in range(2):
        with pytest.raises(TracingError, match=text):
            step(ONES)
        assert is_unchanged()
    assert step.compilations == 0


def test_an_object_beside_a_captured_tensor_is_one_of_them():
    model = Model()
    with pytest.raises(TracingError, match=r"self.meter.count was changed from 0 to 1"):
        model.forward(ONES)
    assert model.meter.count == 0


def test_an_attribute_that_ends_as_it_was_is_no_change():
    meter = Meter()

    @oplib.jit
    def step(x):
        meter.largest += 1
        result = x * meter.largest
        meter.largest -= 1
        return result

    assert step(ONES).tolist() == step(ONES).tolist() == [1001, 1001]
    assert (step.compilations, meter.largest) == (1, 1000)


def test_a_thread_may_count_what_the_function_does_not_name():
    meter = Meter()
    is_traced, is_counted = threading.Event(), threading.Event()

    def count():
        is_traced.wait()
        meter.count += 1
        is_counted.set()

    @oplib.jit
    def step(x):
        is_traced.set()
        is_counted.wait()
        return x * meter.largest

    thread = threading.Thread(target=count)
    thread.start()
    assert step(ONES).tolist() == [1000, 1000]
    thread.join()
    assert meter.count == 1


def test_lists_dictionaries_and_variables_without_tensors_count_traces():
    counts, listed, total = {"traces": 0}, [], 0

    @oplib.jit
    def step(x):
        nonlocal total
        total += 1
        counts["traces"] += 1
        listed.append(1)
        return x * 2

    for _ in range(3):
        step(ONES)
    assert (total, counts, listed, step.compilations) == (1, {"traces": 1}, [1], 1)
