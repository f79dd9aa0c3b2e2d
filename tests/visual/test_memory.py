"""``oplib.visual.memory``: live arrays, and what keeps them."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.visual import memory
from oplib.visual.memory import MemoryReport, MemoryRow

# each look goes through all objects of the process
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_heap")]

SIZE = 7919  # no other array of the tests has this size


def find_rows(shape: str = f"f32[{SIZE}]") -> list[MemoryRow]:
    return [row for row in memory().rows if row.shape == shape and "shared_arrays" not in row.holder]


def list_holders() -> list[str]:
    return [row.holder for row in find_rows()]


def leaf() -> Any:
    return oplib.arange(float(SIZE)).requires_grad_()


class Trainer:
    def __init__(self) -> None:
        self.history: list[dict[str, Any]] = []


class Slotted:
    __slots__ = ("value",)


def test_the_largest_arrays_come_first_with_their_bytes() -> None:
    kept = [oplib.arange(float(SIZE)), oplib.arange(2.0 * SIZE)]
    report = memory()
    sizes = [row.nbytes for row in report.rows]
    assert sizes == sorted(sizes, reverse=True)
    assert report.nbytes == sum(sizes)
    assert [row.nbytes for row in report.rows if row.holder.endswith("kept[1]")] == [8 * SIZE]
    assert len(kept) == 2


def test_a_history_of_losses_is_one_row_with_op_line_and_names() -> None:
    trainer, weight = Trainer(), leaf()
    for _ in range(5):
        trainer.history.append({"loss": weight.exp().sum()})
    (row,) = [row for row in find_rows() if "trainer.history" in row.holder]
    assert (row.count, row.nbytes) == (5, 5 * 4 * SIZE)
    assert row.made.startswith("exp, test_memory.py:")
    name = test_a_history_of_losses_is_one_row_with_op_line_and_names.__name__
    assert row.holder == f"saved for the backward of {name}.<locals>.trainer.history[…]['loss']"
    trainer.history[1:] = []
    assert any(holder.endswith("trainer.history[0]['loss']") for holder in list_holders())


def test_a_deep_graph_is_walked_without_recursion() -> None:
    y = leaf()
    for _ in range(3 * sys.getrecursionlimit()):
        y = y.reshape(1, SIZE).reshape(SIZE)
    y = y.exp()
    assert any(holder.endswith(".y") for holder in list_holders())


def test_each_kind_of_holder_has_a_name() -> None:
    def remember(value: Any) -> Any:
        return lambda: value

    held = Slotted()
    held.value = (oplib.arange(float(SIZE)),)
    closure = remember(oplib.arange(float(SIZE)))
    plain = jnp.arange(float(SIZE))
    weight = leaf()
    weight.sum().backward()
    weight.grad = weight.detach() * 2
    place = f"{test_each_kind_of_holder_has_a_name.__name__}.<locals>"
    names = ["closure.<closure>.value", "held.value[0]", "plain", "weight", "weight.grad"]
    assert sorted(list_holders()) == [f"{place}.{name}" for name in names]
    assert (plain.size, closure().numel()) == (SIZE, SIZE)


def test_an_error_that_is_kept_is_found_and_memory_keeps_no_local_variable() -> None:
    def fail() -> None:
        lost = oplib.arange(float(SIZE))
        raise ValueError(lost.numel())

    errors: list[Exception] = []
    try:
        fail()
    except ValueError as error:
        errors.append(error)
    assert ["errors[0].__traceback__" in holder for holder in list_holders()] == [True]
    errors.clear()
    big = oplib.arange(float(SIZE))
    gone = weakref.ref(big)
    assert len(list_holders()) == 1
    del big
    gc.collect()
    assert gone() is None
    assert list_holders() == []


def test_a_suspended_generator_and_another_thread_are_looked_at() -> None:
    def run() -> Any:
        inner = oplib.arange(float(SIZE))
        yield None
        yield inner

    steps = run()
    next(steps)
    name = test_a_suspended_generator_and_another_thread_are_looked_at.__name__
    assert list_holders() == [f"{name}.<locals>.steps"]
    steps.close()
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        held = oplib.arange(float(SIZE))
        begun.set()
        ended.wait()
        assert held.numel() == SIZE

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        begun.wait()
        try:
            assert list_holders() == ["work.<locals>.held"]
        finally:
            ended.set()
        done.result()


def test_a_program_lists_its_constants_and_not_what_it_captures() -> None:
    captured = oplib.arange(float(SIZE))

    @oplib.jit
    def add_constant(x: Any) -> Any:
        return x + captured + oplib.tensor(list(range(SIZE)))

    add_constant(oplib.ones(SIZE))
    constants = find_rows(f"i32[{SIZE}]")
    assert [row.holder for row in constants] == ["the programs of oplib.jit: add_constant"]
    assert list_holders() == [
        f"{test_a_program_lists_its_constants_and_not_what_it_captures.__name__}.<locals>.captured"
    ]
    add_constant.clear()
    assert find_rows(f"i32[{SIZE}]") == []


def test_donated_arrays_are_gone_and_fresh_buffers_stay_fresh() -> None:
    weight = oplib.arange(float(SIZE))

    @oplib.jit
    def step() -> None:
        weight.mul_(2.0)

    step()
    step()
    (row,) = find_rows()
    assert row.count == 1
    before = {name for name, _, donated in oplib.visual.program(step).operands if donated}
    assert before == {"weight"}  # looking at it is no read


def test_a_look_runs_no_code_of_objects() -> None:
    class Proxy:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

    objects = [Proxy(), {"key": oplib.arange(float(SIZE))}]
    assert len(list_holders()) == 1
    assert len(objects) == 2


def test_text_page_and_file_show_the_rows(tmp_path: Any) -> None:
    kept = oplib.arange(16.0 * SIZE)
    rows = [MemoryRow(2048, 2, "f32[256]", "exp, a.py:3", "<b>"), MemoryRow(4, 1, "f32[]", "", "x")]
    report = MemoryReport(rows)
    assert str(report).splitlines() == [
        "live arrays: 3, 2 KiB",
        "",
        "bytes  arrays        op and line  kept by",
        "2 KiB  2 × f32[256]  exp, a.py:3  <b>",
        "4 B    1 × f32[]     –            x",
    ]
    assert "<td>&lt;b&gt;</td>" in report.html()
    assert report.save(tmp_path / "a.txt").read_text(encoding="utf-8") == str(report)
    assert "kept" in str(memory())
    assert kept.numel() == 16 * SIZE


@pytest.mark.usefixtures("forget_ops")
def test_it_can_be_called_while_a_function_is_traced() -> None:
    seen: list[int] = []

    def run(x: jax.Array) -> jax.Array:
        seen.append(len(memory().rows))
        return x * 2

    assert jax.jit(run)(jnp.ones(3)).shape == (3,)
    assert seen
