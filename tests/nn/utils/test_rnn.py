"""Batches of sequences of different lengths; values are compared with torch in ``tests/parity``."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentTypeError, ConcreteValueError
from oplib.nn.utils.rnn import pad_sequence, unpad_sequence


def make_sequences():
    return [oplib.arange(float(length)) + 1 for length in (2, 4, 1)]


def test_sequences_of_data_compile_nothing(caplog):
    given = [oplib.from_numpy(np.ones((length, 3), np.float32)) for length in range(5, 9)]
    with jax.log_compiles():
        assert pad_sequence(given, batch_first=True).shape == (4, 8, 3)
    assert "Compiling" not in caplog.text


@pytest.mark.devices(2)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_the_batch_is_where_the_sequences_are(requires_grad):
    second = jax.devices()[1]
    given = [one.to(second).requires_grad_(requires_grad) for one in make_sequences()]
    assert pad_sequence(given).device == oplib.device(second)
    with pytest.raises(
        ValueError, match=r"incompatible devices.* Move them to one device by Tensor\.to, before a program\."
    ):
        pad_sequence([*given, oplib.tensor([1.0], device=jax.devices()[0])])


def test_a_compiled_function_pads_as_an_eager_one():
    pad = oplib.jit(lambda sequences: pad_sequence(sequences, batch_first=True, padding_side="left"))
    assert pad(make_sequences()).tolist() == [[0, 0, 1, 2], [1, 2, 3, 4], [0, 0, 0, 1]]


def test_sequences_come_out_again():
    given = make_sequences()
    lengths = oplib.tensor([len(one) for one in given])
    for batch_first in (False, True):
        batch = pad_sequence(given, batch_first)
        found = unpad_sequence(batch, lengths, batch_first)
        assert [one.tolist() for one in found] == [one.tolist() for one in given]
        found[0].zero_()
        assert batch.sum().item() == 14


def test_jax_differentiates_by_sequences():
    def total(x):
        batch = pad_sequence([oplib.Tensor.from_array(x), oplib.ones(4)], padding_value=3.0)
        return (batch * batch).sum().array

    assert jax.grad(total)(jnp.array([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_lengths_must_have_values():
    batch = pad_sequence(make_sequences(), True)
    with pytest.raises(ConcreteValueError):
        oplib.jit(lambda lengths: unpad_sequence(batch, lengths, True))(oplib.tensor([1, 1, 1]))
    with pytest.raises(ArgumentTypeError, match=r"unpad_sequence: argument 'lengths' is a Tensor. Got \[1"):
        unpad_sequence(batch, [1, 1, 1], True)


def test_packed_sequences_are_explained():
    with pytest.raises(
        AttributeError, match=r"There are no packed sequences: use oplib\.nn\.utils\.rnn\.pad_seq"
    ):
        oplib.nn.utils.rnn.pack_padded_sequence  # noqa: B018  reading it raises


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("value", [None, 1j, "0"])
def test_what_is_no_real_number_fills_no_place(value, requires_grad):
    given = [one.requires_grad_(requires_grad) for one in make_sequences()]
    with pytest.raises(TypeError, match=r"'padding_value' is a real number.* Write padding_value=0\.0\."):
        pad_sequence(given, padding_value=value)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("value", [True, np.float32(2), np.int64(3)])
def test_each_real_number_fills_places(value, requires_grad):
    given = [one.requires_grad_(requires_grad) for one in make_sequences()]
    assert pad_sequence(given, padding_value=value)[-1, -1].item() == float(value)
