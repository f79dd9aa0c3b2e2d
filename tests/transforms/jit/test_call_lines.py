"""One function serves the calls of a program; it has only the lines that the program needs."""

import gc
import inspect
import traceback
import weakref

import jax
import pytest

import oplib

pytestmark = pytest.mark.spec("J.2")


def find_function(step):
    (programs,) = step._programs.by_key.values()
    return programs[0].serve


def test_a_program_that_writes_and_records_nothing_has_no_lines_for_that():
    weight = oplib.ones(2, requires_grad=True)
    plain, recorded = oplib.jit(lambda x: x * 2), oplib.jit(lambda x: weight * x)
    for step, parts in ((plain, []), (recorded, ["start_node"]), (oplib.jit(lambda x: x.add_(1)), ["note"])):
        step(oplib.ones(2))
        text = inspect.getsource(find_function(step))
        assert [part for part in ("start_node", "note", "fill", "draw") if f".{part}(" in text] == parts
        assert ("except BaseException" in text) == ("note" in parts)


def test_a_dropped_program_is_freed_at_once():
    step = oplib.jit(lambda x: x * 2)
    step(oplib.ones(2))
    function = weakref.ref(find_function(step))
    gc.collect()
    gc.disable()
    try:
        step.clear()
        assert function() is None
    finally:
        gc.enable()


def test_an_error_of_a_callback_shows_one_line_of_oplib():
    def refuse(_):
        raise ValueError("mine")

    def step(x):
        shape = jax.ShapeDtypeStruct((2,), "float32")
        return oplib.Tensor.from_array(jax.pure_callback(refuse, shape, x.array))

    compiled = oplib.jit(step)
    with pytest.raises(Exception, match="mine") as caught:
        compiled(oplib.ones(2)).tolist()
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert sum(file.startswith("<oplib.") or "/oplib/transforms/" in file for file in files) <= 1


def test_a_call_inside_of_a_call_finds_its_own_program():
    inner = oplib.jit(lambda x: x + 1)
    inner(oplib.ones(2))
    outer = oplib.jit(lambda x: inner(x) * 2)
    for _ in range(2):
        assert outer(oplib.ones(2)).tolist() == [4, 4]
        assert inner(oplib.ones(2)).tolist() == [2, 2]
