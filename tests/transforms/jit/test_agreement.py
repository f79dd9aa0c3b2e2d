"""The reactions of a process to the pages of the others; ``tests/distributed`` asks a second process."""

from __future__ import annotations

import re
import threading
import time
from types import SimpleNamespace

import jax
import pytest

import oplib
from oplib.errors import DeviceError
from oplib.transforms.jit import agreement
from oplib.transforms.jit.agreement import CallWatch, find_processes, require_agreement

PROCESSES = {number: SimpleNamespace(process_index=number, id=number) for number in range(3)}
OPERANDS = ["argument 'x' f32[8]", "weight f32[8]"]


def agree(monkeypatch, answer, text="program", operands=OPERANDS):
    """Asks for agreement, where ``answer`` makes the pages of all processes out of that of this one."""
    monkeypatch.setattr(agreement, "_exchange", lambda page, _: answer(page))
    require_agreement("step", "it has not been compiled yet", PROCESSES, text, operands)


def test_equal_programs_agree(monkeypatch):
    agree(monkeypatch, lambda page: [page] * 3)


def keep_page(monkeypatch, text, operands):
    kept = []
    agree(monkeypatch, lambda page: kept.append(page) or [page] * 3, text, operands)
    return kept[0]


def test_the_operand_that_differs_is_named(monkeypatch):
    other = keep_page(monkeypatch, "another", ["argument 'x' f32[4]", "weight f32[8]"])
    told = r"step: .* Process 0 has argument 'x' f32\[8\], and process 2 has argument 'x' f32\[4\]"
    with pytest.raises(DeviceError, match=told):
        agree(monkeypatch, lambda page: [page, page, other])


def test_a_process_with_fewer_operands_is_named(monkeypatch):
    other = keep_page(monkeypatch, "another", OPERANDS[:1])
    with pytest.raises(DeviceError, match=r"has weight f32\[8\], and process 1 has no further operand"):
        agree(monkeypatch, lambda page: [page, other, page])


def test_another_text_of_the_same_operands_is_refused(monkeypatch):
    other = keep_page(monkeypatch, "another", OPERANDS)
    with pytest.raises(DeviceError, match="same operands, but another text"):
        agree(monkeypatch, lambda page: [page, other, page])


def test_thousands_of_operands_fit(monkeypatch):
    many = [f"parameter {number} f32[8]" for number in range(5000)]
    page = keep_page(monkeypatch, "text", many)
    assert len(page) == len(keep_page(monkeypatch, "text", []))


def test_a_process_that_does_not_answer_ends_the_wait(monkeypatch):
    monkeypatch.setattr(oplib.config, "process_timeout", 0.05)
    told = r"step: .* Process 0 compiles it because it has not .* has waited (\S+) s for process 1, 2\. Call"
    is_over = threading.Event()
    try:
        with pytest.raises(DeviceError, match=told) as caught:
            agree(monkeypatch, lambda _: is_over.wait())
    finally:
        is_over.set()
    (waited,) = re.findall("has waited (.+) s for", str(caught.value))
    assert 0.05 <= float(waited) < 60


def test_an_error_of_the_network_is_told(monkeypatch):
    def fail(_):
        raise RuntimeError("the wire is cut\nand more")

    with pytest.raises(DeviceError, match=r"process 1, 2 \(the wire is cut\)") as caught:
        agree(monkeypatch, fail)
    assert isinstance(caught.value.__cause__, RuntimeError)


def make_watch(monkeypatch, seconds):
    monkeypatch.setattr(oplib.config, "process_timeout", seconds)
    return CallWatch(
        "step", PROCESSES, [jax.ShapeDtypeStruct((8,), "float32"), jax.ShapeDtypeStruct((), "float32")]
    )


def test_a_call_whose_results_do_not_come_is_told_once(monkeypatch):
    monkeypatch.setattr(agreement, "_watch", lambda reference: None)
    watch = make_watch(monkeypatch, 0.01)
    watch.check()
    watch.begin()
    is_over = threading.Event()
    watch.end([jax.numpy.ones(8), SimpleNamespace(block_until_ready=is_over.wait)])
    time.sleep(0.02)
    with pytest.warns(
        UserWarning, match=r"step: a call has not ended for 0\.01 s .* with process 1, 2, which"
    ):
        watch.check()
    watch.check()
    is_over.set()


@pytest.mark.parametrize("results", [None, [jax.numpy.ones(8), jax.numpy.ones(())]])
def test_a_call_that_ends_or_raises_is_not_told(monkeypatch, results):
    monkeypatch.setattr(agreement, "_watch", lambda reference: None)
    watch = make_watch(monkeypatch, 0.01)
    watch.begin()
    watch.end(results)
    time.sleep(0.02)
    watch.check()


def test_a_result_that_a_later_call_has_taken_is_not_told(monkeypatch):
    monkeypatch.setattr(agreement, "_watch", lambda reference: None)
    watch, taken = make_watch(monkeypatch, 0.01), jax.numpy.ones(())
    watch.begin()
    watch.end([jax.numpy.ones(8), taken])
    taken.delete()
    time.sleep(0.02)
    watch.check()


def test_one_process_asks_nobody():
    assert find_processes([jax.numpy.ones(2), 3.0]) == {}


def test_every_process_answers_for_itself():
    (page,) = agreement._exchange(b"page".ljust(agreement._PAGE_SIZE, b"\0"), jax.devices()[:1])
    assert page.rstrip(b"\0") == b"page"
