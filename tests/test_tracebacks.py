"""Which frames an error shows: the user's, and one line of oplib for each call into it."""

import json
import os
import re
import subprocess
import sys
import threading
import traceback
import weakref
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import jax
import pytest

import oplib
from oplib.errors import ArgumentValueError
from oplib.tracebacks import entry_point

from .tracebacks import ARGUMENTS, REGISTRATIONS, USERS

ROOT = Path(__file__).parent.parent
OWN = re.compile(r'  File "(?:[^"]*/oplib/[^"]*\.py|<[^"]*>)"')
FRAME = re.compile(r'  File "([^"]*)", line \d+, in (\S+)')
CHAINED = "the above exception"
MISTAKES = [f"call/{name}" for name in ARGUMENTS] + [f"registration/{name}" for name in REGISTRATIONS]


@pytest.fixture(scope="module")
def printed():
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_TRACEBACK_FILTERING": "auto"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.tracebacks"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def short(forget_ops):
    before, oplib.config.traceback = oplib.config.traceback, "short"
    yield
    oplib.config.traceback = before


@pytest.mark.parametrize("name", MISTAKES)
def test_an_error_in_the_arguments_shows_one_line_of_oplib(printed, name):
    text = printed["short"][name]
    frames = FRAME.findall(text)
    assert frames[0][0] == f"/scripts/{name.partition('/')[2]}.py"
    assert len(OWN.findall(text)) <= 1
    assert len(frames) <= 3
    assert len(text.splitlines()) <= 12


@pytest.mark.parametrize("name", MISTAKES)
def test_one_mistake_is_one_error(printed, name):
    assert CHAINED not in printed["short"][name].lower()
    assert "JAX_TRACEBACK_FILTERING" not in printed["short"][name]


@pytest.mark.parametrize("name", USERS)
def test_an_error_in_the_users_code_ends_there(printed, name):
    text = printed["short"][f"user/{name}"].rpartition("Traceback (most recent call last)")[2]
    frames = FRAME.findall(text)
    assert frames[0][0] == f"/scripts/{name}.py"
    assert frames[-1] == ("/scripts/prelude.py", "<lambda>" if name == "value of a tracer" else "fail")
    assert len(OWN.findall(text)) <= 2
    assert "/site-packages/" not in text


@pytest.mark.parametrize("name", [*MISTAKES, *(f"user/{name}" for name in USERS)])
def test_the_full_setting_keeps_every_frame(printed, name):
    short, full = (len(OWN.findall(printed[setting][name])) for setting in ("short", "full"))
    assert full >= short
    calls = {f"call/{one}" for one in ("shapes", "dim", "axis", "gradient", "type")}
    if name in calls | {f"user/{one}" for one in ("kernel", "formula", "hook")}:
        assert full >= 3


@pytest.mark.slow
@pytest.mark.parametrize("filtering", ["auto", "off"])
def test_a_script_prints_few_lines(tmp_path, filtering):
    script = tmp_path / "script.py"
    script.write_text("import oplib\na, b = oplib.ones(2), oplib.ones(3)\noplib.mul(a, b)\n")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_TRACEBACK_FILTERING": filtering}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, check=False
    )
    assert len(FRAME.findall(done.stderr)) == 2
    assert len(done.stderr.splitlines()) <= 8


def test_an_unknown_setting_raises():
    with pytest.raises(ArgumentValueError, match=r"config\.traceback: no such setting\. Got 'long'"):
        oplib.config.traceback = "long"
    assert oplib.config.traceback == "short"


def list_functions(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def list_files(error):
    return [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]


def define(name, kernel):
    def run(x: oplib.Tensor) -> oplib.Tensor:
        return kernel(x)

    return oplib.custom_op(f"tracebacks_test::{name}", run, mutates_args=())


def test_a_debugger_after_the_error_stops_in_the_users_frame():
    def kernel(x):
        secret = 3
        raise KeyError(secret)

    with pytest.raises(KeyError) as caught:
        define("stop", kernel)(oplib.ones(2))
    step = caught.value.__traceback__
    while step.tb_next is not None:
        step = step.tb_next
    assert step.tb_frame.f_locals["secret"] == 3


def test_a_cause_that_the_user_gives_stays():
    inner = ValueError("inner")

    def kernel(x):
        raise KeyError("outer") from inner

    with pytest.raises(KeyError) as caught:
        define("cause", kernel)(oplib.ones(2))
    assert caught.value.__cause__ is inner


def test_an_error_that_the_user_handles_keeps_its_frames():
    oplib.config.traceback = "full"
    with pytest.raises(RuntimeError) as first:
        oplib.mul(oplib.ones(2), oplib.ones(3))
    oplib.config.traceback = "short"
    before = list_functions(first.value)
    assert len(before) > 5

    def call_again():
        try:
            raise first.value
        except RuntimeError:
            oplib.ones(2).sum(dim=5)

    with pytest.raises(IndexError) as second:
        call_again()
    assert second.value.__context__ is first.value
    assert list_functions(first.value)[-len(before) :] == before


FAILING = {
    "matmul": lambda x: x @ x,
    "recorded": lambda x: x.requires_grad_() @ x,
    "add": lambda x: x + oplib.ones(4, 5),
    "in place": lambda x: x.add_(oplib.ones(4, 5)),
    "list": lambda x: oplib.cat([x, oplib.ones(4, 5)]),
    "several results": lambda x: x.topk(9),
    "arrays": lambda x: oplib.matmul(x.array, x.array),
}


def define_failing():
    @oplib.custom_op("tracebacks_test::failing", mutates_args=())
    def fail(x: jax.Array) -> jax.Array:
        raise ValueError("the kernel failed")

    return fail


def count_calls(function, x, count):
    try:
        sys.setprofile(count)
        function(x)
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("name", [*FAILING, "user's kernel"])
def test_a_failing_call_costs_its_trace_alone(name):
    """JAX compares each file of a traceback with its own: some 20,000 calls, 15 ms."""
    x, calls = oplib.ones(2, 3), 0
    fail = FAILING.get(name) or define_failing()

    def count(frame, event, arg):
        nonlocal calls
        calls += event == "call"

    for _ in range(3):  # the first calls import, and write the fast path
        with suppress(RuntimeError, ValueError):
            fail(x)
    with pytest.raises((RuntimeError, ValueError)):
        count_calls(fail, x, count)
    assert 10 < calls < 3000


def test_an_interrupt_passes_as_it_is():
    def kernel(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        define("interrupt", kernel)(oplib.ones(2))
    assert "dispatcher.py" in list_files(caught.value)


def test_an_error_between_the_lines_of_a_frame_passes_as_it_is():
    """A signal handler may raise where an instruction of its frame, such as that of a cell, has no line."""

    def find_frame():
        cell = 1
        return sys._getframe(), lambda: cell

    between = TracebackType(None, find_frame()[0], 0, -1)
    assert between.tb_lineno is None

    @entry_point
    def interrupted():
        raise TimeoutError("from a handler").with_traceback(between)

    with pytest.raises(TimeoutError, match="from a handler") as caught:
        interrupted()
    last = list(traceback.walk_tb(caught.value.__traceback__))[-1]
    assert last == (between.tb_frame, None)


def test_an_error_that_oplib_did_not_expect_names_the_setting():
    with pytest.raises(TypeError) as caught:
        entry_point(oplib.pytree.tree_map)(len, 3)
    assert 'oplib.config.traceback = "full"' in "".join(caught.value.__cause__.__notes__)


def test_the_notes_of_jax_come_after_those_of_oplib():
    def double(x: jax.Array) -> jax.Array:
        return x * 2

    op = oplib.custom_op("tracebacks::noted", double)
    op.register_autograd(lambda ctx, grad: {}[grad.shape])
    y = op(oplib.ones(2, requires_grad=True)).sum()
    with pytest.raises(KeyError) as caught:
        y.backward()
    *ours, last = caught.value.__notes__
    assert ours[0] == "Raised in the backward formula of tracebacks::noted."
    assert "while" in ours[1]
    assert "JAX has removed its internal frames" in last


@pytest.mark.parametrize("notes", [(), None, 3, [3, "mine"]])
def test_notes_of_any_kind_pass(notes):
    error = KeyError("mine")
    error.__notes__ = notes

    def raise_it(x):
        raise error

    with pytest.raises(KeyError) as caught:
        oplib.pytree.tree_map(raise_it, 3)
    assert caught.value.__notes__ == notes


def test_calls_inside_the_users_code_show_one_line_each():
    def kernel(x):
        return x * oplib.ones(7)

    with pytest.raises(RuntimeError) as caught:
        define("nested", kernel)(oplib.ones(2))
    files = list_files(caught.value)
    assert files.count("test_tracebacks.py") == 3
    assert len(files) == 5


def test_a_backward_inside_a_backward_shows_one_line_each():
    class Inner(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            with oplib.enable_grad():
                leaf = oplib.ones(2, requires_grad=True)
                (leaf * leaf).backward(oplib.ones(3))

    x = oplib.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Mismatch in shape") as caught:
        Inner.apply(x).sum().backward()
    assert len(list_files(caught.value)) == 4


@pytest.mark.filterwarnings("ignore")  # anomaly mode warns, and prints the forward call
def test_anomaly_mode_still_names_the_forward_call():
    def fail(grad):
        raise KeyError("backward")

    class Failing(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return fail(grad)

    with oplib.autograd.detect_anomaly():
        y = Failing.apply(oplib.ones(2, requires_grad=True)).sum()
        with pytest.raises(KeyError) as caught:
            y.backward()
    assert list_functions(caught.value)[-1] == "fail"
    assert "y = Failing.apply" in "".join(caught.value.__notes__)


def test_threads_and_generators_are_shortened_alike():
    found = []
    _ = oplib.ones(2) * oplib.ones(2)  # the first use of an operator shows the line of its method too

    def generate():
        yield oplib.ones(2) * oplib.ones(3)

    def work():
        try:
            next(generate())
        except RuntimeError as error:
            found.append(list_functions(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found[0][:2] == ["work", "generate"]
    assert len(found[0]) == 3


def test_an_error_that_was_handled_keeps_no_tensor_alive(collector_off):
    x = oplib.ones(2)
    alive = weakref.ref(x)
    with suppress(IndexError):
        x.sum(dim=5)
    del x
    assert alive() is None


def test_no_warning_counts_the_frames_to_the_users_line():
    """A decorator such as ``entry_point`` adds a frame; ``warn_user`` finds the line."""
    texts = {path: path.read_text() for path in (ROOT / "oplib").rglob("*.py")}
    assert any("stacklevel=find_frame_outside(" in text for text in texts.values())
    assert [path for path, text in texts.items() if re.search(r"stacklevel=\d", text)] == []
