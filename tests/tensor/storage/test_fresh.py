"""Rules of large Tensors whose writes use their own buffers: ADR 44."""

import contextlib
import copy
import itertools
import os
import pickle
import signal
import sys
import threading
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.tensor.storage import fresh
from oplib.tensor.storage.fresh import FreshStorage, mark_fresh, rewrite
from tests.threads import try_in_threads

SIDE = 512  # a matrix of so many rows and columns is large
ROW = 3


def make(value=1.0):
    """Returns a large Tensor, after a write of each kind has run for its shape and compiled."""
    x = oplib.full((SIDE, SIDE), value)
    for _ in range(2):
        x[ROW] = oplib.full((SIDE,), value)
        x.mul_(1.0)
        x.add_(0.0)
    assert is_fresh(x)
    return x


def is_fresh(x):
    return x._storage.__class__ is FreshStorage


def find_buffer(x):
    """Returns the address of the buffer, without reading the Tensor as code of users does."""
    return x._storage.spec.unsafe_buffer_pointer()


def write_all(x):
    """Changes all items, by each kind of write, several times."""
    for _ in range(2):
        x.add_(5.0)
        x[ROW] = oplib.full((SIDE,), 7.0)
        x[5] += 1.0
        x.mul_(2.0)


@pytest.mark.parametrize("make", [oplib.zeros, oplib.ones, oplib.empty])
def test_a_factory_makes_a_large_tensor_whose_first_write_uses_its_buffer(make):
    x = make(SIDE, SIDE)
    assert is_fresh(x)
    x.fill_(2.0)
    assert is_fresh(x)
    assert not is_fresh(make(2, 2))
    assert jax.jit(lambda y: (make(SIDE, SIDE).fill_(y) + y).array)(3.0)[1, 2] == 6.0


# What the writes cost ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1.0),
        lambda x: x.add_(oplib.ones(SIDE)),
        lambda x: x.add_(oplib.ones(SIDE), alpha=2.0),
        lambda x: x.mul_(oplib.ones(SIDE, SIDE)),
        lambda x: x.clamp_(0.0, 1.0),
        lambda x: x.exp_(),
        lambda x: x.lerp_(oplib.ones(SIDE, SIDE), 0.5),
        lambda x: x.addcdiv_(oplib.ones(SIDE, SIDE), oplib.ones(SIDE, SIDE), value=0.5),
        lambda x: x.copy_(oplib.ones(SIDE, SIDE)),
        lambda x: x.__setitem__(ROW, 2.0),
        lambda x: x.__setitem__(ROW, oplib.ones(SIDE)),
        lambda x: x.__setitem__((slice(1, 9, 2), slice(None, 7)), oplib.ones(7)),
        lambda x: x[ROW].add_(1.0),
        lambda x: x[ROW].__iadd__(1.0),
        lambda x: x.t()[ROW].fill_(4.0),
        lambda x: x.view(-1)[7:90].copy_(x[1, 7:90]),
        lambda x: x.detach().add_(1.0),
    ],
)
def test_a_write_uses_the_buffer_of_a_tensor_that_nobody_has_read(write):
    x, same = make(0.5), oplib.tensor(np.full((SIDE, SIDE), 0.5, np.float32))
    write(x), write(x)  # the first ones compile
    buffer, version = find_buffer(x), x._version
    for _ in range(3):
        write(x)
    assert find_buffer(x) == buffer
    assert is_fresh(x)
    for _ in range(5):
        write(same)
        _ = same.array  # so that each of these writes makes another array
    np.testing.assert_array_equal(x.numpy(), same.numpy())
    assert x._version == version + 3


def test_reading_a_row_leaves_the_buffer_to_the_next_write():
    x = make()
    total = oplib.zeros(SIDE)
    buffers = set()
    for index in range(6):
        total += x[index] * 2.0
        x[index + 1] = total
        buffers.add(find_buffer(x))
    assert len(buffers) < 4  # the first read and write of their kinds copy
    np.testing.assert_array_equal(x[:, 0][:7].numpy(), [1.0, 2.0, 6.0, 18.0, 54.0, 162.0, 486.0])


@pytest.mark.fast_path
@pytest.mark.parametrize("is_new", [False, True], ids=["record as before", "another record"])
def test_the_result_of_an_op_is_copied_by_the_first_write_only(is_new, forget_ops):
    for _ in range(2):
        oplib.ones(2).add_(1.0)  # the first calls write the code of the function
    if is_new:
        oplib.library.register_autocast("oplib::add.Scalar", "cpu", oplib.float32)
        oplib.ones(2).add_(1.0)
    x = oplib.ones(SIDE, SIDE) * 2.0
    x.add_(1.0)
    assert is_fresh(x)
    x.add_(1.0), x.add_(1.0)  # the first one donates a copy if none has run for this shape before
    buffer = find_buffer(x)
    x.add_(1.0)
    assert find_buffer(x) == buffer
    assert x[1, 1].item() == 6.0


def test_a_small_tensor_stays_ordinary():
    x = oplib.zeros(8, 8)
    x.add_(1.0), x.add_(1.0)
    x[ROW] = 1.0
    assert not is_fresh(x)


def test_a_write_that_fails_leaves_the_tensor_as_it_was():
    x = make()
    for _ in range(2):
        with pytest.raises(oplib.errors.ArgumentError, match="doesn't match the broadcast shape"):
            x.add_(oplib.ones(2, SIDE, SIDE))
        with pytest.raises(oplib.errors.OplibError):
            x.add_(oplib.ones(3))
        whole = oplib.ones(SIDE, SIDE, dtype=oplib.int32)
        with pytest.raises(oplib.errors.ArgumentError, match="can't be cast"):
            whole.add_(0.5)
        assert whole[0, 0].item() == 1
    assert (x.numpy() == 1.0).all()


def test_a_large_write_is_recorded_as_a_small_one():
    w = oplib.full((SIDE,), 2.0, requires_grad=True)
    x = make()
    x[ROW] = w
    x[4] += w * 3.0
    x.mul_(2.0)
    x.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.full(SIDE, 8.0))


# Who may hold the array -------------------------------------------------------------------------------------


def _trace(x):
    return jax.jit(lambda: x.array + 0.0)()


def _save(x):
    w = oplib.ones(SIDE, SIDE, requires_grad=True)
    product = w * x.data  # whose versions count no writes into x
    return lambda: oplib.autograd.grad(product.sum(), w, retain_graph=True)[0].numpy()


def _pack(x):
    w, packed = oplib.ones(SIDE, SIDE, requires_grad=True), []
    with oplib.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.array) or t, lambda t: t):
        _ = w * x
    return packed


class _Keep(oplib.autograd.Function):
    @staticmethod
    def forward(ctx, w, x):
        ctx.kept = x.array
        return w * x

    @staticmethod
    def backward(ctx, g):
        return g * oplib.Tensor.from_array(ctx.kept), None


def _apply(x):
    w = oplib.ones(SIDE, SIDE, requires_grad=True)
    product = _Keep.apply(w, x)
    return lambda: oplib.autograd.grad(product.sum(), w, retain_graph=True)[0].numpy()


def _host(x):
    seen = []

    @oplib.custom_op("test_fresh::look")
    def look(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return x.copy()

    seen.append(look(x).numpy())
    return seen


@oplib.jit
def _same(x):
    return x


def _assign(x):
    other = oplib.zeros(SIDE, SIDE)
    other.copy_(x)
    return other


def _grad(x):
    leaf = oplib.zeros(SIDE, SIDE, requires_grad=True)
    leaf.backward(x)
    return leaf.grad


def _checkpoint(x):
    w = oplib.ones(SIDE, SIDE, requires_grad=True)
    kept = x.clone()
    result = oplib.utils.checkpoint.checkpoint(lambda a: (a * kept).sum(), w, use_reentrant=False)
    return lambda: oplib.autograd.grad(result, w, retain_graph=True)[0].numpy()


def _uncompiled(x):
    with jax.disable_jit():
        other = oplib.zeros(SIDE, SIDE)
        other.copy_(x)
    write_all(other)
    return x.array


LEAKS = {
    "array": lambda x: x.array,
    "array of a detached one": lambda x: x.detach().array,
    "array of data": lambda x: x.data.array,
    "numpy": lambda x: x.numpy(),
    "__array__": np.asarray,
    "dlpack": pytest.param(np.from_dlpack, marks=pytest.mark.cpu),
    "dlpack to JAX": lambda x: jnp.from_dlpack(x),
    "__jax_array__": jnp.asarray,
    "device_put": lambda x: jax.device_put(x.array, jax.devices()[0]),
    "leaf of jax.tree": lambda x: jax.tree.leaves(x),
    "clone": lambda x: x.clone(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "identical view": lambda x: x.view(SIDE, SIDE).array,
    "all of it": lambda x: x[:].array,
    "turned": lambda x: x.t().array,
    "rows": lambda x: [row.array for row in x.unbind()[:6]],
    "expanded": lambda x: x.expand(SIDE, SIDE).array,
    "to": lambda x: x.to(x.dtype).array,
    "operand of an op": lambda x: x * 1.0,
    "sum": lambda x: x.sum(),
    "operand of its own write": lambda x: [x.clone(), x.add_(x).sub_(x * 0.5).array],
    "saved": _save,
    "packed": _pack,
    "kept by a Function": _apply,
    "host kernel": _host,
    "checkpoint": _checkpoint,
    "result of oplib.jit": lambda x: _same(x).array,
    "captured by oplib.jit": lambda x: oplib.jit(lambda: x * 1.0)(),
    "traced by jax.jit": _trace,
    "vmap": lambda x: oplib.vmap(lambda row: row * 1.0)(x),
    "copied": _assign,
    "gradient": _grad,
    "uncompiled": _uncompiled,
    "from_array": lambda x: oplib.Tensor.from_array(x.array),
    "optimizer": lambda x: copy.deepcopy({"x": x, "y": x.detach().clone()}),
    "spec": lambda x: (x.shape, x.dtype, x._version, x.device) and x.array,
}


def _read(kept):
    if callable(kept) and not isinstance(kept, oplib.Tensor):
        return [np.array(kept())]
    leaves = jax.tree.leaves(kept, is_leaf=lambda leaf: isinstance(leaf, oplib.Tensor))
    return [np.array(leaf.detach().array if isinstance(leaf, oplib.Tensor) else leaf) for leaf in leaves]


@pytest.fixture
def scratch_registry(forget_ops):
    """Removes the ops that a leak defines."""


@pytest.mark.usefixtures("scratch_registry")
@pytest.mark.spec("J.10")
@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS)
def test_what_has_left_a_tensor_is_never_written(leak):
    x = make()
    assert is_fresh(x)
    kept = leak(x)
    before = _read(kept)
    write_all(x)
    for was, now in zip(before, _read(kept), strict=True):
        np.testing.assert_array_equal(now, was)
    assert np.isfinite(x.numpy()).all()


@pytest.mark.usefixtures("scratch_registry")
@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS)
def test_what_has_left_between_two_writes_of_a_row_is_never_written(leak):
    x = make()
    x[ROW] = 2.0
    kept = leak(x)
    before = _read(kept)
    x[ROW] = 9.0
    x[ROW] = 8.0
    for was, now in zip(before, _read(kept), strict=True):
        np.testing.assert_array_equal(now, was)


def test_an_array_of_the_user_is_never_written():
    array = jnp.ones((SIDE, SIDE))
    data = np.ones((SIDE, SIDE), np.float32)
    tensors = [oplib.Tensor.from_array(array), oplib.tensor(data), oplib.from_numpy(data)]
    first = oplib.zeros(SIDE, SIDE)
    first.data = oplib.Tensor.from_array(array)
    for x in [*tensors, first]:
        write_all(x)
    assert (np.asarray(array) == 1.0).all()
    assert (data == 1.0).all()


def test_a_compiled_function_gives_each_result_a_buffer_of_its_own():
    # The claim about JAX on which fresh storages rest: a jitted function returns no argument and no constant.
    x = jnp.arange(8.0)
    constant = jnp.arange(8.0) * 2.0
    for function in (lambda a: a, lambda a: jax.jit(lambda b: b)(a), lambda a: (a, a + 1.0)[0]):
        assert jax.jit(function)(x).unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    give = jax.jit(lambda _: constant)
    arrays = [constant, give(x), give(x)]
    assert len({array.unsafe_buffer_pointer() for array in arrays}) == 3


# Threads, interrupts ----------------------------------------------------------------------------------------


def test_threads_read_whole_values_while_another_one_writes():
    x = make(0.0)
    row = x[7]
    program = oplib.jit(lambda: x * 1.0)
    readers = [
        lambda: np.asarray(x.array),
        lambda: x.numpy(),
        lambda: (x * 1.0).numpy(),
        lambda: x[7].numpy(),
        lambda: row.numpy(),
        lambda: (row + 0.0).numpy(),
        lambda: x.clone().numpy(),
        lambda: program().numpy(),
    ]
    for read in readers:
        read()
    is_over = threading.Event()

    def run(number):
        if number == len(readers):
            for _ in range(300):
                x.add_(1.0)
            is_over.set()
            return
        while not is_over.is_set():
            values = readers[number]()
            assert values.min() == values.max()

    assert not any(try_in_threads(run, len(readers) + 1))
    assert (x.numpy() == 300.0).all()


def test_no_write_of_a_thread_is_lost():
    x = make(0.0)

    def run(number):
        for _ in range(40):
            x.add_(1.0)
            x[number] += 1.0
            x[number, :3] = x[number, 3:6]

    assert not any(try_in_threads(run))
    values = x.numpy()
    assert (values[4:] == 160.0).all()
    assert (values[:4, 3:] == 200.0).all()


def test_an_error_of_the_program_leaves_the_array():
    x = make()

    def fail(array):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rewrite(x._storage, fail, ())
    assert (x.numpy() == 1.0).all()


@pytest.mark.parametrize("line", range(7))
def test_an_interrupt_finds_all_of_a_write_or_nothing(line):
    x = make()
    x.add_(1.0)
    before, lines = x._version, []

    def interrupt(frame, event, _):
        if event == "line":
            lines.append(frame.f_lineno)
            if len(set(lines)) == line + 3:  # after the first and `with`
                raise KeyboardInterrupt
        return interrupt

    sys.settrace(lambda frame, *_: interrupt if frame.f_code is rewrite.__code__ else None)
    try:
        x.add_(1.0)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    assert lines
    assert (x._version - before, x.numpy().min()) in [(0, 2.0), (1, 3.0)]


@pytest.mark.parametrize("looked_for", ["nans", "infs"])
def test_a_write_that_jax_refuses_leaves_the_tensor(looked_for):
    value = {"nans": float("nan"), "infs": float("inf")}[looked_for]
    x = make()
    for write in [lambda: x.mul_(value), lambda: x.__setitem__(ROW, value)]:
        with getattr(jax, f"debug_{looked_for}")(True):
            with contextlib.suppress(FloatingPointError):
                write()
            assert x.numpy().shape == (SIDE, SIDE)
        x.fill_(1.0)
    with getattr(jax, f"debug_{looked_for}")(True), pytest.raises(FloatingPointError):
        x.mul_(value)
    assert (x.numpy() == 1.0).all()


@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_child_does_not_wait_for_a_lock_that_a_thread_held():
    x, is_held, is_over = make(), threading.Event(), threading.Event()

    def hold():
        with fresh.buffers:
            is_held.set()
            is_over.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that waits
        os._exit(int(x._version < 0))
    assert os.waitpid(child, 0)[1] == 0
    thread.join()


def test_a_signal_handler_keeps_what_it_reads_during_a_write():
    x, held = make(), []

    class Operands:
        def __iter__(self):  # where a handler may run
            held.append(x.array)
            return iter((1.0,))

    x[3] = 2.0
    run = jax.jit(jnp.add, donate_argnums=0)
    assert not rewrite(x._storage, run, Operands())
    assert np.asarray(held[0])[3].min() == 2.0
    assert x.array is held[0]


def test_a_signal_handler_may_write_during_a_write():
    x = make()
    run = jax.jit(jnp.add, donate_argnums=0)

    class Operands:
        def __iter__(self):
            assert rewrite(x._storage, run, (4.0,))
            return iter((1.0,))

    x.add_(1.0)
    assert not rewrite(x._storage, run, Operands())
    assert (x.numpy() == 6.0).all()


def test_a_storage_that_is_read_is_not_rewritten():
    x = make()
    _ = x.array
    assert not rewrite(x._storage, partial(pytest.fail, "ran"), ())


def test_a_traced_array_is_not_owned():
    def run(array):
        storage = oplib.Tensor.from_array(array)._storage
        mark_fresh(storage)
        assert storage.__class__ is not FreshStorage
        return array

    jax.jit(run)(jnp.ones(2))


# Random programs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_of_writes_and_reads_agree_with_numpy(seed):
    draw = np.random.default_rng(seed)
    x, expected = oplib.zeros(SIDE, SIDE), np.zeros((SIDE, SIDE), np.float32)
    kept, view = [], x[2:5]
    for _, kind in zip(range(40), itertools.cycle(draw.permutation(9)), strict=False):
        index, value = int(draw.integers(SIDE)), float(draw.integers(-4, 5))
        if kind == 0:
            x.add_(value), np.add(expected, value, out=expected)
        elif kind == 1:
            x[index] = value
            expected[index] = value
        elif kind == 2:
            x[index] += value
            expected[index] += value
        elif kind == 3:
            x[index] = x[index - 1]
            expected[index] = expected[index - 1]
        elif kind == 4:
            kept.append((x.array, expected.copy()))
        elif kind == 5:
            view.mul_(0.5)
            expected[2:5] *= 0.5
        elif kind == 6:
            x.t()[:, index].copy_(x[0])
            expected[index] = expected[0]
        elif kind == 7:
            kept.append((x[index].numpy(), expected[index].copy()))
        else:
            x.detach().clamp_(-6.0, 6.0)
            np.clip(expected, -6.0, 6.0, out=expected)
    np.testing.assert_array_equal(x.numpy(), expected)
    for array, values in kept:
        np.testing.assert_array_equal(np.asarray(array), values)
