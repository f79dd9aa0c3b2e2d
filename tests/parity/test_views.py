"""Views and writing into them beside torch: values, versions, gradients, graphs, and when what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oplib

from .conftest import assert_close, plain


def leaf(lib, *shape):
    count = int(np.prod(shape))
    values = np.linspace(0.5, 2.0, count, dtype=np.float32).reshape(shape)
    return lib.tensor(values, requires_grad=True)


VIEWS = {
    "select": lambda x: x[1],
    "last": lambda x: x[-1, 2],
    "slice": lambda x: x[:, 1:4:2],
    "none": lambda x: x[:, None, 1],
    "whole": lambda x: x[...],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "transposed": lambda x: x.t()[1:],
    "permuted": lambda x: x.permute(1, 0),
    "view": lambda x: x.view(2, 6),
    "view of view": lambda x: x.view(2, 2, 3)[:, 1].view(6),
    "reshaped": lambda x: x.reshape(-1),
    "flattened": lambda x: x.flatten(),
    "unflattened": lambda x: x.unflatten(1, (2, -1)),
    "unsqueezed": lambda x: x.unsqueeze(1),
    "squeezed": lambda x: x[:, :1].squeeze(),
    "diagonal": lambda x: x.diagonal(1),
    "moved": lambda x: x.movedim(0, 1),
    "swapped": lambda x: x.swapaxes(0, 1),
    "chunk of expand": lambda x: x[:, :1].expand(4, 3)[:, 2],
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_write_into_a_view_is_seen_in_its_base_with_its_gradient(agree, name):
    def program(lib):
        x = leaf(lib, 4, 3)
        y = x * 2
        view = VIEWS[name](y)
        before = view.grad_fn
        view.mul_(view * 3)
        (view.sum() + (y * y).sum()).backward()
        return (
            y, view, x.grad, y._version, view._version, before, y.grad_fn, view.grad_fn, view._base is y,
            [step for step, length in zip(view.stride(), view.shape, strict=True) if length > 1],
            view.storage_offset(), view.is_contiguous(),
        )  # fmt: skip

    agree(program)


@pytest.mark.parametrize("part", ["real", "imag"])
def test_real_and_imaginary_parts_are_written_with_their_gradient(agree, part):
    def program(lib):
        z = lib.tensor(np.array([1 + 2j, 3 - 1j], np.complex64), requires_grad=True)
        y = z * (2 + 1j)
        getattr(y, part).mul_(3)
        (y.real.sum() + 2 * y.imag.sum()).backward()
        grad, pairs = lib.view_as_real(z.grad), lib.view_as_real(y.detach())
        return pairs, grad, y.grad_fn, getattr(y, part).grad_fn, y._version, getattr(y, part).stride()

    agree(program)


def test_pairs_are_complex_numbers_on_the_same_memory(agree):
    def program(lib):
        x = leaf(lib, 3, 2)
        y = x * 1
        lib.view_as_complex(y)[1].mul_(2j)
        lib.view_as_complex(y).imag.add_(1)
        (y * y).sum().backward()
        return y, x.grad, y.grad_fn, y._version

    agree(program)


def write_item(x):
    x[0] += 1


SMALL = {
    "item": write_item,
    "constant": lambda x: x.__setitem__((slice(None), 1), 5.0),
    "tensor": lambda x: x.__setitem__(slice(1, 3), x[:2].clone() * 2),
    "broadcast": lambda x: x.__setitem__(..., x[0].clone()),
    "places": lambda x: x.__setitem__(([0, 2], [1, 1]), 7.0),
    "zero": lambda x: x[1].zero_(),
    "fill": lambda x: x.t()[1].fill_(3),
    "copy": lambda x: x[1].copy_(x[0].clone()),
    "relu": lambda x: x[2].sub_(3).relu_(),
    "chain": lambda x: x[0].view(3, 1)[1:].squeeze(1).exp_().add_(1).div_(2),
    "pow": lambda x: x[1:].pow_(2).neg_().cos_(),
    "clamp": lambda x: x[0].clamp_(0.1, 0.7),
    "masked": lambda x: x.masked_fill_(x > 1, 0.5),
    "put": lambda x: x.index_put_((places(x),), x[1].clone(), True),
    "turned": lambda x: x.t_().unsqueeze_(0).squeeze_().transpose_(0, 1),
    "turned view": lambda x: x[:2].t_().mul_(2),
}


def places(x):
    """The place 0 twice, in integers of the system that the tensor is of."""
    return (x.detach()[:2, 0] != x.detach()[:2, 0]) + 0


@pytest.mark.parametrize("name", SMALL)
def test_what_is_written_in_place_has_torchs_values_versions_and_gradients(agree, name):
    def program(lib):
        x = leaf(lib, 3, 3)
        y = x * 2
        row = y[0]
        SMALL[name](y)
        loss = (y * y).sum() + row.sum()
        loss.backward()
        return y, row, y._version, x.grad

    agree(program)


def in_no_grad(lib, make):
    with lib.no_grad():
        return make()


REFUSED = {
    "leaf": lambda lib, a, y: a.add_(1),
    "item of leaf": lambda lib, a, y: a[0].add_(1),
    "setitem of leaf": lambda lib, a, y: a.__setitem__(0, 1.0),
    "no_grad view of leaf": lambda lib, a, y: in_no_grad(lib, lambda: a[0]).add_(1),
    "no_grad view": lambda lib, a, y: in_no_grad(lib, lambda: y[0]).add_(1),
    "view of no_grad view": lambda lib, a, y: in_no_grad(lib, lambda: y[0])[1:].add_(1),
    "unbound": lambda lib, a, y: y.unbind()[1].add_(1),
    "split": lambda lib, a, y: y.split(2)[0].mul_(2),
    "chunk": lambda lib, a, y: y.chunk(3)[0].mul_(2),
    "part of split": lambda lib, a, y: y.split(2)[0][0].mul_(2),
    "expanded": lambda lib, a, y: y[:1].expand(4, 3).add_(1),
    "detached view in place": lambda lib, a, y: y[0].detach_(),
    "flag of a view": lambda lib, a, y: y[0].requires_grad_(False),
    "view of other strides": lambda lib, a, y: y.t().view(9),
    "unbound of a constant takes history": lambda lib, a, y: lib.zeros(2, 3).unbind()[0].mul_(a[0]),
    "turned leaf": lambda lib, a, y: a.t_(),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.spec("D.20")
def test_what_torch_refuses_is_refused_and_nothing_is_written(agree, name):
    def program(lib):
        a = leaf(lib, 3, 3)
        return REFUSED[name](lib, a, a * 1)

    agree(program)
    a = leaf(oplib, 3, 3)
    y = a * 1
    with pytest.raises(RuntimeError):
        REFUSED[name](oplib, a, y)
    assert (y._version, a._version) == (0, 0)


def written_then(make, use):
    """A restricted view is made, its base is written, and then the view is used."""

    def program(lib):
        a = leaf(lib, 3, 3)
        y = a * 1
        view = make(lib, y)
        y.add_(1)
        return use(view)

    return program


LATER = {
    "no_grad": lambda lib, y: in_no_grad(lib, lambda: y[0]),
    "unbind": lambda lib, y: y.unbind()[0],
    "split": lambda lib, y: y.split(1)[2],
}


@pytest.mark.parametrize("name", LATER)
@pytest.mark.parametrize(
    "use",
    [
        lambda v: v.requires_grad,
        lambda v: v.grad_fn,
        lambda v: v.is_leaf,
        lambda v: v * 2,
        lambda v: v.detach(),
    ],
    ids=["requires_grad", "grad_fn", "is_leaf", "use", "detach"],
)
def test_a_view_that_may_not_be_rebased_complains_when_it_is_used_after_a_write(agree, name, use):
    agree(written_then(LATER[name], use))


def test_a_write_that_is_not_recorded_bars_such_a_view_too(agree):
    def program(lib):
        y = leaf(lib, 3, 3) * 1
        first, *_ = y.unbind()
        with lib.no_grad():
            first.add_(1)
        return first.grad_fn

    agree(program)


ALLOWED = {
    "unbound constant": lambda lib: lib.zeros(2, 3).unbind()[0].add_(1),
    "constant takes history": lambda lib: lib.zeros(2, 3)[0].add_(leaf(lib, 3)),
    "detached": lambda lib: leaf(lib, 3).detach()[0].add_(1),
    "data": lambda lib: leaf(lib, 3).data[0].add_(1),
    "one of an expanded": lambda lib: (leaf(lib, 1, 3) * 1).expand(4, 3)[1].mul_(2),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_torch_allows_is_allowed(agree, name):
    def program(lib):
        view = ALLOWED[name](lib)
        return view, view.requires_grad, view._version

    agree(program)


@pytest.mark.spec("000.13")
def test_who_shares_a_version_shares_it_as_in_torch(agree):
    def program(lib):
        x = lib.zeros(3)
        view, detached, data = x[:1], x.detach(), x.data
        lib.autograd.graph.increment_version(view)
        first = [one._version for one in (x, view, detached, data)]
        data.add_(1)
        detached[1].add_(1)
        return (
            first,
            [one._version for one in (x, view, detached, data)],
            x,
            data,
            detached._is_view(),
            view._is_view(),
        )

    agree(program)


def test_a_view_of_what_begins_to_require_grad_is_a_leaf_of_its_own(agree):
    def program(lib):
        x = lib.ones(3)
        view = x[0]
        x.requires_grad_()
        return view.requires_grad, view.is_leaf, view.grad_fn, (view * 2).requires_grad

    agree(program)


def test_hooks_stay_with_the_old_value_and_retained_gradients_move_on(agree):
    def program(lib):
        x, seen = leaf(lib, 3), []
        y = x * 2
        view = y[:2]
        view.retain_grad()
        y.retain_grad()
        y.register_hook(lambda g: seen.append(("base", g.tolist())))
        view.mul_(3)
        view.register_hook(lambda g: seen.append(("view after", g.tolist())))
        (y.sum() + view.sum()).backward()
        return seen, y.grad, view.grad, x.grad

    agree(program)


def test_a_function_that_returns_a_view_or_its_input_bars_writes(agree):
    def program(lib, of):
        class Function(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return of(x)

            @staticmethod
            def backward(ctx, *grads):
                return grads[0] * 10

        x = leaf(lib, 3)
        y = x * 1
        result = Function.apply(y)
        is_view, base = result._is_view(), result._base is y
        result.sum().backward()
        try:
            result.add_(1)
        except RuntimeError:
            return is_view, base, x.grad, "refused"
        return is_view, base, x.grad, "written"

    agree(lambda lib: program(lib, lambda x: x.view(-1)))
    agree(lambda lib: program(lib, lambda x: x))


def test_a_view_is_marked_dirty_and_its_base_has_the_history(agree):
    def program(lib):
        class Double(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(2)
                ctx.mark_dirty(x)
                return x

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

        x = leaf(lib, 3)
        y = x * 1
        view = y[1:]
        returned = Double.apply(view)
        y.sum().backward()
        return y, x.grad, y.grad_fn, returned is view, view.grad_fn

    agree(program)


def test_a_second_gradient_goes_through_writes_into_views(agree):
    def program(lib):
        x = leaf(lib, 2, 3)
        y = x * x
        y[0].mul_(x[1])
        y.t()[1].sin_()
        (first,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
        (second,) = lib.autograd.grad((first * first).sum(), x)
        return first.detach(), second

    agree(program)


def test_another_view_that_was_saved_counts_as_overwritten(agree):
    def program(lib):
        y = leaf(lib, 2, 3) * 1
        y[0].mul_(y[1])
        y.sum().backward()

    agree(program)


# Random programs --------------------------------------------------------------------------------------------

SHAPES = [(3, 4), (2, 2, 3), (6,)]


@st.composite
def steps(draw):
    """A program: each step makes a view of a tensor so far, writes into one, or computes a new one."""
    shape = draw(st.sampled_from(SHAPES))
    return shape, draw(
        st.lists(
            st.tuples(st.integers(0, 9), st.sampled_from([*MOVES, *WRITES, "square"]), st.integers(0, 3)),
            min_size=2,
            max_size=7,
        )
    )


MOVES = {
    "select": lambda t, n: (
        t.select(n % t.ndim, n % t.shape[n % t.ndim]) if t.ndim and 0 not in t.shape else None
    ),
    "slice": lambda t, n: t[n % 2 :: 1 + n % 3] if t.ndim else None,
    "transpose": lambda t, n: t.transpose(0, n % t.ndim) if t.ndim else None,
    "narrow": lambda t, n: t.narrow(-1, n % t.shape[-1], t.shape[-1] - n % t.shape[-1]) if t.ndim else None,
    "reshape": lambda t, n: t.reshape(-1) if n else t.reshape((1, *t.shape)),
    "unsqueeze": lambda t, n: t.unsqueeze(n % (t.ndim + 1)),
    "diagonal": lambda t, n: t.diagonal(n % 2) if t.ndim > 1 else None,
}
WRITES = {
    "scale": lambda t, n: t.mul_(1.5 + n),
    "sine": lambda t, n: t.sin_(),
    "zero": lambda t, n: t.zero_(),
    "shift": lambda t, n: t.add_(n),
    "item": lambda t, n: t.__setitem__(0, 0.25 * n) if t.ndim and t.shape[0] else None,
}


def run_program(lib, shape, program):
    x = leaf(lib, *shape)
    made = [x * 1]
    for which, name, number in program:
        tensor = made[which % len(made)]
        if name in WRITES:
            WRITES[name](tensor, number)
        else:
            new = tensor * tensor if name == "square" else MOVES[name](tensor, number)
            if new is not None:
                made.append(new)
    loss = sum((one * (place + 1)).sum() for place, one in enumerate(made))
    versions, views = [one._version for one in made], [one._is_view() for one in made]
    try:
        loss.backward()
    except RuntimeError:
        return [one.detach().tolist() for one in made], versions, views, "overwritten"
    return [one.detach().tolist() for one in made], versions, views, x.grad


@settings(max_examples=12, deadline=None)
@given(steps())
def test_random_views_and_writes_are_torchs(agree_on, drawn):
    agree_on(lambda lib: run_program(lib, *drawn))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(steps())
def test_many_random_views_and_writes_are_torchs(agree_on, drawn):
    agree_on(lambda lib: run_program(lib, *drawn))


@pytest.fixture(scope="module")
def agree_on():
    """As ``agree``, of which Hypothesis must not have one for each example."""
    torch = pytest.importorskip("torch")

    def compare(program):
        assert_close(plain(program(oplib)), plain(program(torch)))

    return compare


# Results written into a tensor that is given ----------------------------------------------------------------


OUT = {
    "add": lambda lib, x, out: lib.add(x, 1, alpha=2, out=out),
    "sub": lambda lib, x, out: lib.sub(x, x, out=out),
    "mul": lambda lib, x, out: lib.mul(x, 2.5, out=out),
    "div": lambda lib, x, out: lib.div(x, x, out=out),
    "matmul": lambda lib, x, out: lib.matmul(x, x, out=out),
    "exp": lambda lib, x, out: lib.exp(x, out=out),
    "sin": lambda lib, x, out: lib.sin(x, out=out),
    "cos": lambda lib, x, out: lib.cos(x, out=out),
    "sum": lambda lib, x, out: lib.sum(x, 0, keepdim=True, out=out),
    "cat": lambda lib, x, out: lib.cat([x, x], 1, out=out),
}
OUTS = {
    "empty": lambda lib: lib.zeros(0),
    "fitting": lambda lib: lib.zeros(3, 3),
    "view": lambda lib: lib.zeros(2, 3, 3)[1],
    "integers": lambda lib: lib.zeros(3, 3, dtype=lib.int32),
    "leaf": lambda lib: lib.zeros(3, 3, requires_grad=True),
    "complex": lambda lib: lib.zeros(3, 3, dtype=lib.complex64).real,
}


@pytest.mark.parametrize("name", OUT)
def test_a_result_is_written_into_the_tensor_that_is_given(agree, name):
    def program(lib):
        out = lib.zeros(0)
        x = leaf(lib, 3, 3)
        with lib.no_grad():
            returned = OUT[name](lib, x, out)
        return returned is out, out, out._version > 0

    agree(program)


@pytest.mark.parametrize("kind", OUTS)
def test_where_a_result_is_written_it_has_the_dtype_of_the_place(agree, kind):
    def program(lib):
        out = OUTS[kind](lib)
        lib.mul(lib.ones(3, 3), 2.5, out=out)
        return out, out._base if out._base is None or kind == "view" else None

    agree(program)


def test_nothing_is_recorded_with_out(agree):
    agree(lambda lib: lib.add(leaf(lib, 3), 1, out=lib.zeros(3)))


@pytest.mark.spec("000.25")
def test_a_saved_tensor_that_out_overwrites_is_found_by_its_version(agree):
    def program(lib):
        y = leaf(lib, 3) * 1
        z = y.detach()
        loss = (y * y).sum()
        lib.add(lib.ones(3), 1, out=z)
        loss.backward()

    agree(program)
