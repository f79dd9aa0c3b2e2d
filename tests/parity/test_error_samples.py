"""The error samples on torch and on oplib: both refuse, and ours is an error of torch's kinds."""

from __future__ import annotations

import pytest

import oplib
from tests.builtin.error_samples.error_samples import REFUSALS

from .conftest import ERRORS

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("with_64_bits", "without_warnings")
OPS = dict.fromkeys(refusal.op for refusal in REFUSALS)


@pytest.mark.parametrize("op", OPS)
def test_a_bad_input_raises_what_torch_raises(op):
    for refusal in (one for one in REFUSALS if one.op == op):
        with pytest.raises(Exception) as theirs:
            refusal.call(torch, [])
        with pytest.raises(Exception) as ours:
            refusal.call(oplib, [])
        wanted = [kind for kind in ERRORS if isinstance(theirs.value, kind)]
        assert isinstance(ours.value, tuple(wanted)), refusal
        assert all(isinstance(ours.value, kind) for kind in wanted), f"{refusal}: {ours.value!r}"


def test_a_matrix_without_an_inverse_is_an_error_of_linalg():
    assert issubclass(oplib.linalg.LinAlgError, RuntimeError)
    with pytest.raises(oplib.linalg.LinAlgError, match="singular"):
        oplib.linalg.inv(oplib.zeros(2, 2))
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.inv(torch.zeros(2, 2))
