"""Bad inputs of the built-in ops: the text of the error, and that nothing is changed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import oplib
from oplib.builtin.public_functions.families import FAMILIES
from oplib.errors import OplibError
from tests.builtin.error_samples.error_samples import REFUSALS
from tests.builtin.error_samples.refusals import Refusal

# These calls warn of sizes that broadcast before they raise.
pytestmark = pytest.mark.usefixtures("with_64_bits", "without_warnings")

COMPOSED = {
    "sdpa",
    "flash_attention",
    "im2col",
    "quantiles",
    "slopes",
    "sampled_max_pool2d",
}  # called by functions of other names
BY_OP = {op: [one for one in REFUSALS if one.op == op] for op in dict.fromkeys(one.op for one in REFUSALS)}
SUBJECT = re.compile(r"(oplib::)?[\w.]+(\(\))?[: ]")
EVIDENCE = re.compile(r"\b([Gg]ot|found|Value|is not a valid value|type \w+ can't)\b")


def assert_is_refused(refusal: Refusal) -> None:
    tensors: list[oplib.Tensor] = []
    with pytest.raises(OplibError) as caught:
        refusal.call(oplib, tensors)
    text = str(caught.value)
    assert refusal.says in text, f"{refusal}: {text}"
    assert SUBJECT.match(text), f"{refusal}: {text}"
    assert EVIDENCE.search(text), f"{refusal}: {text}"
    made: list[oplib.Tensor] = []
    _make_again(refusal, made)
    for tensor, fresh in zip(tensors, made, strict=True):
        np.testing.assert_array_equal(tensor.array, fresh.array)
        assert tensor._version == fresh._version


def _make_again(refusal: Refusal, made: list[oplib.Tensor]) -> None:
    with pytest.raises(OplibError):
        refusal.call(oplib, made)


@pytest.mark.parametrize("op", BY_OP)
def test_a_bad_input_is_refused_in_our_words_and_nothing_is_changed(op):
    for refusal in BY_OP[op]:
        assert_is_refused(refusal)


def test_there_are_bad_inputs_for_every_family():
    called = {op.rpartition(".")[2].removesuffix("_") for op in BY_OP}
    for family in FAMILIES:
        ops = {re.sub("^(linalg|fft|special)_|_with_indices$", "", row.op) for row in family.ROWS}
        assert ops & (called | COMPOSED), family.__name__
