"""Views of memory beyond the comparison with torch: writes through them, saving, errors."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError, AutogradError
from oplib.tensor.views import AsDtype, Sliding, Strided


def test_windows_that_do_not_overlap_can_be_written_and_are_seen_in_the_base():
    base = oplib.arange(5.0)
    base.unfold(0, 2, 3).mul_(10.0)
    assert base.tolist() == [0.0, 10.0, 2.0, 30.0, 40.0]


def test_windows_of_an_inner_dimension_can_be_written():
    base = oplib.zeros(2, 4, 2)
    base.unfold(1, 2, 2)[:, 1, :, 0] = 7.0
    assert base[:, :, 0].tolist() == [[0.0, 0.0, 7.0, 0.0], [0.0, 0.0, 7.0, 0.0]]


def test_windows_that_overlap_cannot_be_written():
    with pytest.raises(AutogradError, match="more than one element of the written-to tensor"):
        oplib.arange(5.0).unfold(0, 2, 1).add_(1.0)


def test_windows_that_overlap_can_all_get_one_value():
    base = oplib.arange(5.0)
    base.unfold(0, 2, 1).zero_()
    assert base.tolist() == [0.0] * 5


def test_a_write_through_strides_is_recorded_in_the_history_of_the_base():
    leaf = oplib.arange(4.0).requires_grad_()
    base = leaf * 1
    base.as_strided((2,), (2,), 1).mul_(3.0)
    base.sum().backward()
    assert leaf.grad.tolist() == [1.0, 3.0, 1.0, 3.0]


def test_bits_are_shared_and_have_no_history():
    base = oplib.tensor([1.0, -2.0], requires_grad=True)
    bits = base.view(oplib.int32)
    assert not bits.requires_grad
    with oplib.no_grad():
        bits.bitwise_and_(0x7FFFFFFF)
    assert base.tolist() == [1.0, 2.0]
    assert base._version == 1


def test_bits_of_another_size_are_written_back():
    base = oplib.zeros(2, 2, dtype=oplib.int32)
    base.view(oplib.int16)[:, 1] = 1
    assert base.tolist() == [[65536, 0], [65536, 0]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: x.as_strided((3,), (4,)),
            r"as_strided: sizes \[3\], strides \[4\] and storage offset 0 are out",
        ),
        (
            lambda x: x[1].as_strided((2,), (1,), 0),
            "Use a tensor that contains all of these items, such as its base",
        ),
        (lambda x: x.unfold(1, 4, 1), "unfold: maximum size for tensor at dimension 1 is 3 but size is 4"),
        (lambda x: x.unfold(0, 1, 0), "unfold: size must be >= 0 and step > 0. Got .* size 1, step 0"),
        (lambda x: x.view(oplib.complex64), r"must be divisible by 2 to view float32 as complex64"),
        (lambda x: x.t().view(oplib.int8), r"stride\(-1\) must be 1 to view float32 as int8"),
    ],
)
def test_memory_that_is_not_there_is_refused(call, text):
    with pytest.raises(ArgumentError, match=text):
        call(oplib.zeros(2, 3))


def test_arrays_have_windows_too_and_their_gradient_is_summed():
    taken = jax.grad(lambda a: oplib.ops.oplib.unfold(a, 0, 2, 1).sum())(jnp.arange(3.0))
    assert taken.tolist() == [1.0, 2.0, 1.0]


@pytest.mark.parametrize(
    "frame",
    [
        Sliding.of((2, 5), 1, 2, 2),
        Strided.of((4,), ((1,), 0), (2, 2), ((1, 1), 0)),
        AsDtype.of((2,), np.dtype("float32"), np.dtype("int32")),
    ],
)
def test_a_frame_that_was_pickled_is_the_same_one(frame):
    assert pickle.loads(pickle.dumps(frame)) is frame
