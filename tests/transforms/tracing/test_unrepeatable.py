"""What a trace may not do, since no call of its program would do it again."""

import array
import builtins
import io
import itertools
import random
import sys
import threading

import numpy as np
import pytest

import oplib
from oplib.errors import TracingError
from oplib.transforms.tracing import unrepeatable
from tests.interrupts import interrupt_everywhere

pytestmark = pytest.mark.spec("J.21")
REFUSED = "does not do again what it did"


def draw(x):
    return x * random.random()


def test_the_error_names_what_was_advanced_and_the_cure():
    rates = iter([1.0, 2.0])
    step = oplib.jit(lambda x: x * next(rates))
    with pytest.raises(TracingError, match=r"<lambda>: .* Got: rates was advanced\. .* oplib\.rand\."):
        step(oplib.ones(1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: zip([1.0], [2.0], strict=True),
        lambda: map(float, ["1"]),
        lambda: enumerate([1.0]),
        lambda: reversed([1.0]),
        lambda: itertools.count(300),
        lambda: itertools.chain([1.0], [2.0]),
        lambda: iter({"a": 1.0}),
        lambda: iter(range(3)),
        lambda: iter(array.array("d", [1.0])),
        lambda: (rate for rate in [1.0]),
    ],
)
def test_each_iterator_of_python_is_refused_where_the_trace_advances_it(make):
    held = make()
    with pytest.raises(TracingError, match="held was advanced"):
        oplib.jit(lambda x: x * (1.0 if next(held) else 2.0))(oplib.ones(1))


def test_a_generator_that_has_begun_is_refused_too():
    held = (rate for rate in [1.0, 2.0, 3.0])
    next(held)
    with pytest.raises(TracingError, match="held was advanced"):
        oplib.jit(lambda x: x * next(held))(oplib.ones(1))


def test_iterators_that_the_function_makes_or_leaves_alone_are_no_error():
    held = iter([1.0])
    step = oplib.jit(lambda x: x * sum(rate for rate in map(float, [1, 2])) + (0 if held is None else 1))
    assert step(oplib.ones(1)).tolist() == [4.0]
    assert step(oplib.ones(1)).tolist() == [4.0]
    assert step.compilations == 1


@pytest.mark.parametrize("make", [lambda: random.Random(0), lambda: np.random.RandomState(0)])
def test_an_argument_from_which_the_function_draws_is_refused(make):
    step = oplib.jit(lambda x, draws: x * float(draws.random()))
    with pytest.raises(TracingError, match="argument 'draws' was advanced"):
        step(oplib.ones(1), make())


def test_draws_in_control_flow_are_refused():
    with pytest.raises(TracingError, match=REFUSED):
        oplib.scan(lambda carry, x: (carry + draw(x), x), oplib.zeros(()), oplib.ones(3))


def test_draws_of_other_threads_are_none_of_the_function():
    ends = threading.Event()

    def draw_on():
        while not ends.is_set():
            random.random()

    thread = threading.Thread(target=draw_on)
    thread.start()
    try:
        assert oplib.jit(lambda x: x * 2)(oplib.ones(1)).tolist() == [2.0]
    finally:
        ends.set()
        thread.join()


def test_the_error_for_a_file_names_the_line_that_reads_it(tmp_path):
    path = tmp_path / "rates.npy"
    np.save(path, np.ones(2, "float32"))
    with pytest.raises(TracingError, match=rf"{__file__}:\d+ reads .*rates\.npy"):
        oplib.jit(lambda x: x * oplib.tensor(np.load(path)))(oplib.ones(2))


def test_a_file_that_the_function_only_writes_is_a_side_effect(tmp_path):
    def step(x):
        (tmp_path / "log.txt").write_text("called")
        return x * 2

    assert oplib.jit(step)(oplib.ones(1)).tolist() == [2.0]
    assert (tmp_path / "log.txt").read_text() == "called"


def test_a_file_that_a_module_reads_while_it_is_imported_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "rate.txt").write_text("2")
    text = f"with open({str(tmp_path / 'rate.txt')!r}) as file:\n    rate = float(file.read())"
    (tmp_path / "reads_a_rate.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "reads_a_rate", None)
    del sys.modules["reads_a_rate"]

    def step(x):
        import reads_a_rate

        return x * reads_a_rate.rate

    step = oplib.jit(step)
    assert step(oplib.ones(1)).tolist() == [2.0]
    sys.modules["reads_a_rate"].rate = 3.0
    assert step(oplib.ones(1)).tolist() == [3.0]


def test_an_open_of_another_library_is_called_while_tracing_and_stays(tmp_path, monkeypatch):
    opened = []
    own = builtins.open

    def note(file, *args, **kwargs):
        opened.append(file)
        return own(file, *args, **kwargs)

    monkeypatch.setattr(builtins, "open", note)

    def step(x):
        with open(tmp_path / "log.txt", "a") as log:  # noqa: PTH123  the function that is replaced
            log.write("traced")
        return x * 2

    oplib.jit(step)(oplib.ones(1))
    assert opened.count(tmp_path / "log.txt") == 1  # JAX opens files of its cache
    assert builtins.open is note
    assert io.open is own


def test_an_open_that_an_interrupt_left_in_place_opens_files(tmp_path, monkeypatch):
    monkeypatch.setattr(builtins, "open", unrepeatable._open)
    (tmp_path / "a.txt").write_text("a")
    assert oplib.jit(lambda x: x * 2)(oplib.ones(1)).item() == 2
    with open(tmp_path / "a.txt") as file:  # noqa: PTH123  the function is tested
        assert file.read() == "a"


def test_after_an_interrupt_anywhere_files_are_still_watched(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("a")
    monkeypatch.setattr(unrepeatable, "_watching", {})
    for module in (builtins, io):
        monkeypatch.setattr(module, "open", module.open)

    def work():
        with unrepeatable._watch_files():
            pass

    places = 0
    for _ in interrupt_everywhere(work):
        places += 1
        with unrepeatable._watch_files() as files:
            (tmp_path / "a.txt").read_text()
        assert len(files) == 1
    assert places > 5
