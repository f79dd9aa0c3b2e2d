"""What a Tensor offers beside its ops: the same programs on torch and oplib."""

import numpy as np
import pytest

from .programs import Programs, leaf

PROGRAMS = Programs()
NAN = float("nan")


def describe(tensor):
    return tensor, list(tensor.shape), str(tensor.dtype).rpartition(".")[2], tensor.requires_grad


@PROGRAMS.add
def new_factories(lib):
    x = leaf(lib, 1, 2)
    made = [
        x.new_zeros(2, 3),
        x.new_zeros(()),
        x.new_ones((2,)),
        x.new_full((2,), 3),
        x.new_zeros(2, dtype=lib.int32),
        x.new_ones(2, requires_grad=True),
        x.new_tensor([1, 2]),
        x.new_tensor([1, 2], requires_grad=True),
        lib.ones(2, dtype=lib.int32).new_ones(3),
    ]
    return [describe(one) for one in made], list(x.new_empty(2, 3).shape)


@PROGRAMS.add
def new(lib):
    x = leaf(lib, 1, 2)
    made = [
        x.new([1, 2]),
        x.new((2, 3)),
        x.new(np.ones(2, "float32")),
        lib.ones(2, dtype=lib.int32).new([3, 4]),
    ]
    return [describe(one) for one in made], list(x.new().shape), list(x.new(2, 3).shape), x.new(x) is x


@PROGRAMS.add
def new_of_a_number(lib):
    leaf(lib, 1).new(2.5)


@PROGRAMS.add
def retaining(lib):
    x = leaf(lib, 1, 2)
    y = x * 2
    seen = [x.retains_grad, y.retains_grad]
    x.retain_grad()
    y.retain_grad()
    return [*seen, x.retains_grad, y.retains_grad]


@PROGRAMS.add
def post_accumulate_hooks(lib):
    x, seen = leaf(lib, 1, 2), []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    return seen, x.grad


@PROGRAMS.add
def post_accumulate_hook_on_a_result(lib):
    (leaf(lib, 1) * 2).register_post_accumulate_grad_hook(lambda p: None)


@PROGRAMS.add
def post_accumulate_hook_without_grad(lib):
    lib.ones(2).register_post_accumulate_grad_hook(lambda p: None)


@PROGRAMS.add
def post_accumulate_hook_that_returns(lib):
    x = leaf(lib, 1)
    x.register_post_accumulate_grad_hook(lambda p: 3)
    (x * 2).sum().backward()


@PROGRAMS.add
def hooks_of_a_tensor(lib):
    x = leaf(lib, 1)
    before = x._backward_hooks
    handle = x.register_hook(lambda g: g)
    count = len(x._backward_hooks)
    handle.remove()
    return before, count, len(x._backward_hooks)


@PROGRAMS.add
def attributes_listed(lib):
    x = lib.ones(2)
    x.mine = 1
    listed = dir(x)
    return [
        name in listed for name in ("mine", "grad", "add_", "is_leaf", "new_ones", "nothing")
    ], listed == sorted(listed)


COMPARED = {
    "same": ([1.0, 2.0], [1.0, 2.0], {}),
    "broadcast": ([1.0], [1.0, 1.0], {}),
    "nan": ([NAN], [NAN], {}),
    "integers": ([1, 2], [1, 3], {}),
    "close": ([1.0], [1.0000001], {}),
    "dtypes": ([1.0], [1], {}),
    "shapes": ([1.0, 2.0], [1.0, 2.0, 3.0], {}),
    "tolerance": ([100], [101], {"rtol": 0.1}),
    "negative": ([1.0], [1.0], {"rtol": -1.0}),
    "equal nan": ([NAN], [NAN], {"equal_nan": True}),
    "empty": ([], [], {}),
}


@pytest.mark.parametrize("case", COMPARED)
def test_whole_tensors_are_compared_as_by_torch(assert_agrees, case):
    first, second, options = COMPARED[case]
    assert_agrees(lambda lib: lib.allclose(lib.tensor(first), lib.tensor(second), **options))
    if not options and case != "integers":
        assert_agrees(lambda lib: lib.equal(lib.tensor(first), lib.tensor(second)))


@pytest.mark.parametrize("compare", ["equal", "allclose"])
def test_a_number_is_not_compared_with_a_tensor(assert_agrees, compare):
    assert_agrees(lambda lib: getattr(lib, compare)(lib.ones(1), 1.0))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])
