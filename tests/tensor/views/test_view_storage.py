"""Writes by several threads into one storage: none is lost."""

import sys

import numpy as np
import pytest

import oplib
from oplib.errors import AutogradError
from oplib.tensor import Storage
from oplib.tensor.storage.fresh import LARGE, get_owner_array
from tests.tensor.views.row_writers import ROW_WRITERS
from tests.threads import run_in_threads

THREADS, TIMES = 8, 60


@pytest.fixture(autouse=True)
def switch_often():
    """Python lets another thread run every few microseconds, which is several times in each write."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("add", ROW_WRITERS)
def test_threads_that_add_to_their_own_rows_lose_no_update(add):
    base = oplib.zeros(THREADS, 4)
    add(base, 0)

    def work(number):
        for _ in range(TIMES):
            add(base, number)

    base.zero_()
    run_in_threads(work, THREADS)
    assert base.tolist() == [[TIMES] * 4] * THREADS


def test_threads_that_add_to_the_same_items_lose_no_update():
    base = oplib.zeros(THREADS, 4)

    def work(number):
        for _ in range(TIMES):
            if number % 2:
                base[number].add_(1)
            else:
                base.add_(1)

    run_in_threads(work, THREADS)
    whole = TIMES * THREADS / 2
    assert base.tolist() == [[whole + TIMES * (row % 2)] * 4 for row in range(THREADS)]


def test_threads_that_store_read_what_they_stored():
    base = oplib.zeros(THREADS, 4)

    def work(number):
        wrong = 0
        for count in range(TIMES):
            base[number] = count
            wrong += base[number].tolist() != [count] * 4
        return wrong

    assert run_in_threads(work, THREADS) == [0] * THREADS


def test_a_storage_takes_no_value_that_was_computed_from_an_earlier_one():
    storage = Storage(np.zeros(1))
    seen, new = storage.array, np.ones(1)
    assert storage.exchange(seen, new)
    assert not storage.exchange(seen, np.zeros(1))
    assert (storage.array is new, storage.version) == (True, 1)


@pytest.mark.parametrize("size", [8, LARGE])
@pytest.mark.parametrize("writes", range(3))  # a large base gets a buffer of its own by them
def test_a_view_takes_no_value_that_was_computed_from_an_earlier_one(size, writes):
    base = oplib.zeros(size)
    part = base[2:4]
    for _ in range(writes):
        part.add_(1)
    seen, new = get_owner_array(base._storage), np.full(2, 9, np.float32)
    base.add_(1)
    assert not part._storage.exchange(seen, new)
    assert base[:4].tolist() == [1, 1, 1 + writes, 1 + writes]
    assert part._storage.exchange(get_owner_array(base._storage), new)
    assert base[:4].tolist() == [1, 1, 9, 9]


def test_an_op_is_computed_again_when_another_thread_has_written():
    tensor, other = oplib.zeros(2), oplib.ones(2)

    def work(number):
        for _ in range(TIMES):
            tensor.add_(other) if number % 2 else tensor.sub_(other)

    run_in_threads(work, THREADS)
    assert tensor.tolist() == [0, 0]


def test_a_large_view_reads_what_was_written_into_its_base_each_time():
    base = oplib.zeros(LARGE)
    part, expected = base[10:-10], np.zeros(LARGE, np.float32)
    for number in range(4):
        base.add_(number)
        expected += number
        np.testing.assert_array_equal(part.numpy(), expected[10:-10])
        base[10:20] = 9.0
        expected[10:20] = 9.0
        assert part.sum().item() == part.sum().item() == expected[10:-10].sum()


def test_an_item_of_an_expanded_number_is_written_by_a_number():
    base = oplib.zeros(())
    view = base.expand(2, 3)
    view.fill_(2.0)
    view[1, 2] = 5.0  # the item is all of the base
    assert base.item() == 5.0
    assert view.tolist() == [[5.0] * 3] * 2


@pytest.mark.parametrize("way", [lambda x: x.detach(), lambda x: x.data, lambda x: x.detach().data[:]])
@pytest.mark.parametrize("compiled", [False, True])
def test_an_expanded_tensor_that_is_detached_is_not_written_either(way, compiled):
    expanded = oplib.zeros(()).expand(3)
    shared, row = way(expanded), oplib.arange(3.0)
    for write in (
        lambda: shared.add_(row),
        lambda: shared.copy_(row),
        lambda: oplib.add(row, 1, out=shared),
        lambda: shared.__setitem__(slice(0, 2), row[1:]),
    ):
        with pytest.raises(AutogradError, match="more than one element of the written-to tensor"):
            (oplib.jit(write) if compiled else write)()
    assert expanded.tolist() == shared.tolist() == [0.0, 0.0, 0.0]
    transposed = oplib.zeros(3, 2).detach().t().data
    transposed.add_(oplib.tensor([[1.0], [2.0]]))
    assert transposed.tolist() == [[1.0] * 3, [2.0] * 3]


def test_a_write_through_shared_memory_is_counted_as_torch_counts_it():
    torch = pytest.importorskip("torch")

    def count(library):
        base, whole = library.zeros(()), library.zeros(4)
        expanded, part = base.expand(3), whole[1:3]
        shared = expanded.detach()
        item, seen = shared[0], []
        for write in (
            lambda: item.add_(1),
            lambda: item.data.add_(1),
            lambda: shared[1].fill_(4),
            lambda: part.data.add_(1),
            lambda: part.add_(1),
            lambda: part.detach().mul_(2),
        ):
            write()
            seen.append([one._version for one in (base, expanded, shared, item, whole, part)])
        return seen, base.tolist(), whole.tolist()

    assert count(oplib) == count(torch)
