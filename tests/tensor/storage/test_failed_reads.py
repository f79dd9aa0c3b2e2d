"""A trace in which a read of a value failed and the code caught the error is refused."""

import contextlib
import re

import jax
import numpy as np
import pytest

import oplib

REFUSED = r"the code caught the error of a read while it was traced.*`if .*\.sum\(\) > 0:`.*is_compiling"


class Penalty(oplib.autograd.Function):
    """Has another gradient where its input is positive, and catches the error of the read."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (saved,) = ctx.saved_tensors
        try:
            if saved.sum() > 0:
                return g * 5
        except Exception:  # noqa: BLE001  the code under test
            pass
        return g


def _differentiate(x):
    return oplib.autograd.grad(Penalty.apply(x).sum(), x)[0]


def _compile(x):
    return oplib.jit(_differentiate)(x)


def _compile_forward(x):
    return oplib.autograd.grad(oplib.jit(lambda x: Penalty.apply(x).sum())(x), x)[0]


def _map(x):
    return oplib.vmap(_differentiate)(x)


def _map_forward(x):
    return oplib.autograd.grad(oplib.vmap(lambda row: Penalty.apply(row).sum())(x).sum(), x)[0]


def _scan(x):
    total, _ = oplib.scan(lambda carry, row: (carry + Penalty.apply(row).sum(), None), oplib.zeros(()), x)
    return oplib.autograd.grad(total, x)[0]


def _scan_reading(x):
    def body(carry, row):
        try:
            if row.sum() > 0:
                return carry + 5, None
        except oplib.errors.TracingError:
            pass
        return carry, None

    return oplib.scan(body, oplib.zeros(()), x.detach())[0]


def _checkpoint(x):
    def body(carry, row):
        kept = oplib.utils.checkpoint.checkpoint(
            lambda row: Penalty.apply(row).sum(), row, use_reentrant=False
        )
        return carry + kept, None

    return oplib.autograd.grad(oplib.scan(body, oplib.zeros(()), x)[0], x)[0]


TRACES = [_compile, _compile_forward, _map, _map_forward, _scan, _scan_reading, _checkpoint]


@pytest.mark.spec("J.22")
@pytest.mark.parametrize("trace", TRACES)
def test_a_trace_that_goes_on_after_a_failed_read_is_refused(trace):
    x = oplib.ones(3, 2, requires_grad=True)
    assert (_differentiate(x) == 5).all()
    with pytest.raises(oplib.errors.TracingError, match=REFUSED):
        trace(x)


@pytest.mark.spec("J.22")
def test_a_pass_of_compiled_autograd_reads_what_the_eager_one_reads():
    x = oplib.ones(3, requires_grad=True)
    with oplib.autograd.compiled_autograd.enable():
        Penalty.apply(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [5, 5, 5])


@pytest.mark.spec("J.22")
@pytest.mark.parametrize(
    "read",
    [
        float,
        bool,
        lambda x: x.tolist(),
        np.asarray,
        lambda x: oplib.equal(x, x + 1),
        lambda x: x.nonzero(),
        lambda x: oplib.ones(1)[x > 0],
        lambda x: oplib.ones(1).sum(dim=x.int()[0]),
        lambda x: f"{x.sum():.2f}",
        lambda x: [0, 1, 2][x.int()],
    ],
)
def test_each_way_to_read_a_value_counts(read):
    @oplib.jit
    def step(x):
        with contextlib.suppress(Exception):
            read(x)
        return x

    with pytest.raises(oplib.errors.TracingError, match="caught the error of a read"):
        step(oplib.tensor([2.0]))


@pytest.mark.spec("J.22")
def test_a_read_that_fails_in_a_map_and_is_caught_around_it_counts():
    @oplib.jit
    def step(x):
        try:
            return oplib.vmap(lambda row: row * row.item())(x)
        except oplib.errors.TracingError:
            return x

    with pytest.raises(oplib.errors.TracingError, match="step: the code caught the error of a read"):
        step(oplib.ones(2))


@pytest.mark.spec("J.22")
def test_an_error_that_leaves_the_function_stays_what_it_is():
    @oplib.jit
    def step(x):
        with contextlib.suppress(Exception):
            x.item()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        step(oplib.ones(1))


@pytest.mark.spec("J.22")
def test_reads_by_oplib_itself_are_no_reads_of_the_code():
    @oplib.jit
    def step(x):
        text = f"{x} {x!r}"
        pair = oplib.tensor([x.sum(), x.sum() * 2])  # numpy is asked first, and cannot read it
        return pair, text

    pair, text = step(oplib.ones(2))
    np.testing.assert_array_equal(pair.numpy(), [2, 4])
    assert re.search("f32", text)


@pytest.mark.spec("J.22")
def test_a_refused_trace_leaves_later_traces_alone():
    with pytest.raises(oplib.errors.TracingError, match="caught"):
        _compile(oplib.ones(2, requires_grad=True))
    with contextlib.suppress(oplib.errors.OplibError):
        oplib.jit(lambda x: x.item())(oplib.ones(1))
    np.testing.assert_array_equal(oplib.jit(lambda x: x * 2)(oplib.ones(2)).numpy(), [2, 2])


@pytest.mark.spec("J.22")
@pytest.mark.usefixtures("forget_ops")
def test_an_error_of_a_kernel_that_reads_counts_where_the_code_catches_it():
    @oplib.custom_op("failed_reads::double")
    def double(x: oplib.Tensor) -> oplib.Tensor:
        return x * (2 if x.sum().item() > 0 else 1)

    @oplib.jit
    def step(x):
        with contextlib.suppress(Exception):
            return double(x)
        return x

    assert double(oplib.ones(1)).item() == 2
    with pytest.raises(oplib.errors.TracingError, match="caught the error of a read"):
        step(oplib.ones(1))


def _branch(x):
    return x if x.sum() > 0 else -x


def _index(x):
    return x[x > 0].sum()


def _search(x):
    return oplib.unique(x)


_RUNS = {
    "oplib.vmap": oplib.vmap(_branch),
    "twice": oplib.vmap(oplib.vmap(_branch)),
    "oplib.jit": oplib.jit(_branch),
    "oplib.scan": lambda x: oplib.scan(lambda c, row: (c, _branch(row)), x[0], x),
    "jax.jit": jax.jit(_branch),
    "jax.vmap": jax.vmap(_branch),
    "oplib.vmap of a mask": oplib.vmap(_index),
    "jax.jit of unique": jax.jit(_search),
}


@pytest.mark.parametrize("run", _RUNS)
def test_the_error_of_a_read_says_the_line_once(run):
    with pytest.raises(oplib.errors.TracingError) as caught:
        _RUNS[run](oplib.ones(2, 2))
    text = str(caught.value)
    assert len(re.findall(r"test_failed_reads\.py:\d+: `return [^`]+`", text)) == 1
    assert len(text.replace(__file__, "")) < 400
