"""The gradients that a pass starts with, and names around it: the same programs on torch and oplib."""

import pytest

import oplib

from .programs import Programs, leaf

PROGRAMS = Programs()


# The gradients a pass starts with


def root_gradients(lib, shape, given, *, dtype=None, batched=False):
    output = lib.ones(shape).requires_grad_() * 1.0
    gradient = None if given is None else lib.ones(given, dtype=dtype) if isinstance(given, tuple) else given
    return lib.autograd._make_grads((output,), (gradient,), batched)


ROOT_GRADIENTS = {
    "equal shapes": ((2,), (2,)),
    "no broadcasting": ((2,), (1, 2)),
    "other shape": ((2,), (3,)),
    "implicit scalar": ((), None),
    "implicit one by one": ((1, 1), None),
    "implicit vector": ((2,), None),
    "implicit empty": ((0,), None),
    "a number": ((2,), 3),
    "zero-dimensional": ((), ()),
}
BATCHED = {
    "batch": ((2,), (5, 2)),
    "wrong rest": ((2,), (5, 3)),
    "no rest": ((2,), (2,)),
    "scalar output": ((), (3,)),
    "no batch dimension": ((2,), ()),
    "empty batch": ((2,), (0, 2)),
}


@pytest.mark.spec("001.5")
@pytest.mark.parametrize("case", ROOT_GRADIENTS)
def test_root_gradients_are_those_of_torch(assert_agrees, case):
    assert_agrees(lambda lib: root_gradients(lib, *ROOT_GRADIENTS[case]))


@pytest.mark.spec("001.5")
@pytest.mark.parametrize("case", BATCHED)
def test_batched_root_gradients_are_those_of_torch(assert_agrees, case):
    assert_agrees(lambda lib: root_gradients(lib, *BATCHED[case], batched=True))


@pytest.mark.spec("001.5")
@pytest.mark.parametrize("dtype", ["complex64", "int32", "float32"])
def test_a_root_gradient_of_each_dtype_is_taken_as_by_torch(assert_agrees, dtype):
    assert_agrees(lambda lib: len(root_gradients(lib, (2,), (2,), dtype=getattr(lib, dtype))))


@pytest.mark.spec("001.6")
def test_gradients_become_a_tuple_as_in_torch(assert_agrees):
    assert_agrees(lambda lib: lib.autograd._tensor_or_tensors_to_tuple(None, 2))
    assert_agrees(lambda lib: lib.autograd._tensor_or_tensors_to_tuple(lib.ones(1), 5))
    assert_agrees(lambda lib: lib.autograd._tensor_or_tensors_to_tuple([lib.ones(1), None], 7))
    assert_agrees(lambda lib: lib.autograd._tensor_or_tensors_to_tuple(3, 1))


@pytest.mark.spec("001.4")
def test_shapes_of_gradients_are_read_as_in_torch(assert_agrees):
    assert_agrees(
        lambda lib: tuple(map(tuple, lib.autograd._calculate_shape(lib.ones(2, 3), lib.ones(4, 2, 3), True)))
    )
    assert_agrees(
        lambda lib: tuple(map(tuple, lib.autograd._calculate_shape(lib.ones(2, 3), lib.ones(4, 2, 3), False)))
    )


# Names kept for parity


@PROGRAMS.add
@pytest.mark.spec("001.11")
def variable_refuses(lib):
    lib.autograd.variable([1.0])


@PROGRAMS.add
@pytest.mark.spec("001.2", "001.11")
def variable_is_every_tensor(lib):
    Variable = lib.autograd.Variable
    marked = Variable(lib.ones(1), requires_grad=True)
    return isinstance(lib.ones(1), Variable), marked.requires_grad, lib.autograd.variable.Variable is Variable


@PROGRAMS.add
@pytest.mark.spec("001.10", "004.15")
def checkpoint_validity(lib):
    a = leaf(lib, 1)
    seen = [lib.autograd._is_checkpoint_valid()]

    def build():
        b = a * 2
        b.register_hook(lambda g: seen.append(lib.autograd._is_checkpoint_valid()))
        return b.sum()

    build().backward()
    build().backward(inputs=[a])
    lib.autograd.grad(build(), a)
    return seen


@PROGRAMS.add
@pytest.mark.spec("001.15", "001.16")
def flags(lib):
    with lib.autograd._force_original_view_tracking(True):
        inside = lib.autograd.is_view_replay_enabled()
    with lib.autograd.set_multithreading_enabled(False):
        threads = lib.autograd.is_multithreading_enabled()
    return inside, lib.autograd.is_view_replay_enabled(), threads, lib.autograd.is_multithreading_enabled()


@PROGRAMS.add
@pytest.mark.spec("001.14")
def a_device_class_that_is_none(lib):
    lib.autograd._register_py_tensor_class_for_device("cpu", 3)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])


@pytest.mark.spec("001.2")
def test_every_public_name_of_torch_autograd_is_there():
    torch = pytest.importorskip("torch")
    later = {"enforce_grad_layout_policy"}  # ruling D.12
    assert set(torch.autograd.__all__) - later <= set(oplib.autograd.__all__)
