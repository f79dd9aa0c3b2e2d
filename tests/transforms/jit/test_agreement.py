"""The reactions of a process to the digests of the others; ``tests/distributed`` asks a second process."""

from __future__ import annotations

import re
import threading
from types import SimpleNamespace

import jax
import pytest

import oplib
from oplib.errors import DeviceError
from oplib.transforms.jit import agreement
from oplib.transforms.jit.agreement import find_processes, require_agreement

PROCESSES = {number: SimpleNamespace(process_index=number, id=number) for number in range(3)}


def agree(monkeypatch, answer):
    """Asks for agreement, where ``answer`` makes the digests of all processes out of that of this one."""
    monkeypatch.setattr(agreement, "_exchange", lambda digest, _: answer(digest))
    require_agreement("step", "it has not been compiled yet", PROCESSES, "program")


def test_equal_programs_agree(monkeypatch):
    agree(monkeypatch, lambda digest: [digest] * 3)


@pytest.mark.spec("D.61")
def test_the_processes_with_another_program_are_named(monkeypatch):
    told = r"Process 0 compiles its own because it has not .*, and differs from process 1, 2\. Compare"
    with pytest.raises(DeviceError, match=rf"step: .* compile different programs\. {told}"):
        agree(monkeypatch, lambda digest: [digest, b"other", b"third"])


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


def test_one_process_asks_nobody():
    assert find_processes([jax.numpy.ones(2), 3.0]) == {}


def test_every_process_answers_for_itself():
    assert agreement._exchange(b"digest", jax.devices()[:1]) == [b"digest"]
