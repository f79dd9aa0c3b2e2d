"""Short programs at the corners of ops, each of which once gave something else here than in torch."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("with_64_bits")

NONE = (0, 2)  # the shape of an index without places


def set_real_part_of_leaf(lib):
    leaf = lib.ones(2, requires_grad=True)
    leaf.real = lib.zeros(2)


def set_real_part(lib):
    x = lib.ones(2, requires_grad=True) * 2
    x.real = 3
    return x, x.requires_grad


def turn_expanded(lib):
    x = lib.tensor([[1.0], [2.0]]).expand(2, 2)
    return x.t_()


def write_nothing_expanded(lib):
    x = lib.empty((0, 3)).expand(2, 0, 3)
    x[0:0, 1:2] *= 2
    return x.add_(1).tolist()


def compare_into(lib):
    x = lib.ones(2, requires_grad=True)
    return lib.ne(x, x, out=lib.empty(0)), lib.argmax(x, out=lib.empty(0, dtype=lib.int64))


def is_itself(lib):
    x = lib.ones(2, requires_grad=True)
    return [one is x for one in (x.conj(), lib.conj_physical(x), x.real, lib.real(x))]


def multiply_short(lib):
    x = lib.tensor([[1, 2], [3, 200]], dtype=lib.int16)
    return [(one, str(one.dtype)[-5:]) for one in (x.prod(dtype=lib.int16), x.prod(1, dtype=lib.int16))]


def sum_short_to_size(lib):
    x = lib.tensor([[200, 200], [0, 100]], dtype=lib.uint8)
    sums = x.sum_to_size(1, 2), (x > 0).sum_to_size(2), x.sum_to_size(2, 2), (x > 0).sum_to_size(2, 2)
    return sums, [str(one.dtype).removeprefix("torch.") for one in sums]


def count_many_bytes(lib):
    counts = lib.bincount(lib.ones(300, dtype=lib.uint8))
    return counts, str(counts.dtype).removeprefix("torch.")


def ask_no_dims(lib):
    x = lib.tensor([[1, 0], [2, 3]])
    return x.any(()), lib.all(x, dim=[]), x.all(())


def count_in_integers(lib):
    return (
        lib.linspace(5, 2.5, 5, dtype=lib.int8),
        lib.logspace(0.5, 2.5, 3, dtype=lib.int64),
        lib.arange(5.5, 0, -1.5, dtype=lib.int32),
    )


def give_numbers_of_numpy(lib):
    x = lib.ones(2)
    half = np.float32(0.5)
    return (
        lib.add(x, x, alpha=np.int8(2)),
        lib.addcmul(x, x, x, value=half),
        x.masked_fill(x > 0, half),
        lib.norm(x, np.float32(1)),
    )


def give_types_of_numbers(lib):
    x = lib.tensor([1, 2])
    return lib.sum(x, dtype=float), x.prod(dtype=complex), x.sum(dtype=bool)


def scatter_nothing(lib):
    x, none = lib.ones(2, 2), lib.zeros(NONE, dtype=lib.int64)
    return (
        x.scatter_(0, none, lib.ones(1, 1, 1)),
        x.scatter_add(0, none, lib.ones(1)),
        lib.scatter_reduce(x, 0, none, lib.ones(1), "sum"),
    )


def copy_a_number(lib):
    x = lib.ones(2, requires_grad=True) * 2
    return x.copy_(3), x.requires_grad, lib.zeros(2, dtype=lib.int8).copy_(2.5)


def reduce_no_dim_by_none(lib):
    return lib.amax(lib.tensor([[1.0, 2.0]]), None, True), lib.tensor([1.0, 2.0]).amin(dim=None)


def put_nothing_on_a_diagonal(lib):
    return lib.empty(0).diag_embed(1), lib.empty(2, 0).diag_embed().shape == (2, 0, 0)


def raise_real_to_complex(lib):
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    lib.view_as_real(lib.pow(x, lib.tensor(-2j))).sum().backward()
    return x.grad


def store_complex_in_bools(lib):
    x = lib.zeros(2, dtype=lib.bool)
    x[0] = 1j
    return x


def multiply_in_place_where_told(lib):
    x = lib.ones(3)
    x.scatter_(0, lib.tensor([0, 0, 2]), 2.0, reduce="multiply")
    return x.scatter_(0, lib.tensor([1]), value=4.0, reduce="add")


def take_none_of_one(lib):
    return lib.topk(lib.tensor(2.0), 0)[0], lib.adjoint(lib.tensor(1j))


def write_what_was_ordered(lib):
    found = []
    for pick in (
        lambda x: lib.sort(x, 1, descending=True)[0],
        lambda x: lib.topk(x, 2, 0)[0],
        lambda x: lib.kthvalue(x, 2, 1, True)[0],
        lambda x: lib.max(x, 1)[0],
        lambda x: lib.median(x, 0)[0],
        lambda x: lib.mode(x)[0],
    ):
        leaf = lib.tensor([[3.0, 1.0, 2.5], [0.5, -1.0, 4.0]], requires_grad=True)
        x = leaf * 1
        picked = pick(x)
        x.add_(1)  # the places are saved, and not what stood there
        (picked**3).sum().backward()
        found.append(leaf.grad)
    return found


def write_a_result(lib):
    leaf = lib.tensor([0.5, -0.25], requires_grad=True)
    result = leaf.erfinv()
    result.mul_(2)
    result.sum().backward()
    return leaf.grad


@pytest.mark.parametrize(
    "program",
    [
        multiply_in_place_where_told,
        take_none_of_one,
        write_what_was_ordered,
        write_a_result,
        copy_a_number,
        reduce_no_dim_by_none,
        put_nothing_on_a_diagonal,
        raise_real_to_complex,
        store_complex_in_bools,
        set_real_part_of_leaf,
        set_real_part,
        turn_expanded,
        write_nothing_expanded,
        compare_into,
        is_itself,
        multiply_short,
        sum_short_to_size,
        count_many_bytes,
        ask_no_dims,
        count_in_integers,
        give_numbers_of_numpy,
        give_types_of_numbers,
        scatter_nothing,
    ],
)
def test_a_program_at_a_corner_gives_what_it_gives_in_torch(assert_agrees, program):
    assert_agrees(program)


@pytest.mark.parametrize(
    "program",
    [
        lambda lib, x: lib.scatter(x, 0, lib.tensor([0]), 1j),
        lambda lib, x: x.__setitem__(0, 1j),
        lambda lib, x: x.__setitem__(lib.tensor([0]), 1j),
        lambda lib, x: x.half().__setitem__(slice(0, 0), 1j),
        lambda lib, x: x.index_fill_(0, lib.tensor([0]), 1j),
        lambda lib, x: lib.index_select(lib.tensor(1.0), 0, lib.tensor([0, 0])),
        lambda lib, x: lib.index_select(lib.tensor(1.0), 0, lib.tensor([1])),
        lambda lib, x: x.narrow(0, 0.5, 1),
    ],
)
def test_what_would_be_cut_is_refused_and_nothing_is_written(assert_agrees, program):
    def call(lib):
        x = lib.ones(3)
        with pytest.raises((RuntimeError, TypeError, IndexError)) as caught:
            program(lib, x)
        return x, isinstance(caught.value, IndexError)

    assert_agrees(call)
