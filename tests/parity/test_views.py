"""Views and writing into them beside torch: values, versions, gradients, graphs, and when what is refused."""

import numpy as np
import pytest

import oplib

from .programs import shaped_leaf

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
def test_a_write_into_a_view_is_seen_in_its_base_with_its_gradient(assert_agrees, name):
    def program(lib):
        x = shaped_leaf(lib, 4, 3)
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

    assert_agrees(program)


@pytest.mark.parametrize("part", ["real", "imag"])
def test_real_and_imaginary_parts_are_written_with_their_gradient(assert_agrees, part):
    def program(lib):
        z = lib.tensor(np.array([1 + 2j, 3 - 1j], np.complex64), requires_grad=True)
        y = z * (2 + 1j)
        getattr(y, part).mul_(3)
        (y.real.sum() + 2 * y.imag.sum()).backward()
        grad, pairs = lib.view_as_real(z.grad), lib.view_as_real(y.detach())
        return pairs, grad, y.grad_fn, getattr(y, part).grad_fn, y._version, getattr(y, part).stride()

    assert_agrees(program)


def test_pairs_are_complex_numbers_on_the_same_memory(assert_agrees):
    def program(lib):
        x = shaped_leaf(lib, 3, 2)
        y = x * 1
        lib.view_as_complex(y)[1].mul_(2j)
        lib.view_as_complex(y).imag.add_(1)
        (y * y).sum().backward()
        return y, x.grad, y.grad_fn, y._version

    assert_agrees(program)


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
def test_what_is_written_in_place_has_torchs_values_versions_and_gradients(assert_agrees, name):
    def program(lib):
        x = shaped_leaf(lib, 3, 3)
        y = x * 2
        row = y[0]
        SMALL[name](y)
        loss = (y * y).sum() + row.sum()
        loss.backward()
        return y, row, y._version, x.grad

    assert_agrees(program)


@pytest.mark.spec("000.13")
def test_who_shares_a_version_shares_it_as_in_torch(assert_agrees):
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

    assert_agrees(program)


WRITES_BESIDE = {
    "the view": lambda x, view: view[0].mul_(2),
    "its base": lambda x, view: x.mul_(2),
    "another view": lambda x, view: x[1:].mul_(2),
    "an alias": lambda x, view: x.detach().mul_(2),
}


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("write", WRITES_BESIDE)
def test_a_view_of_what_begins_to_require_grad_has_its_history(assert_agrees, write, is_later):
    def program(lib):
        x = lib.arange(4.0) + 0
        view = x[:3]
        inner = view[::2]
        if not is_later:
            WRITES_BESIDE[write](x, view)
        x.requires_grad_()
        if is_later:
            with lib.no_grad():
                WRITES_BESIDE[write](x, view)
        flags = [(one.requires_grad, one.is_leaf) for one in (view, inner)]
        (view.sum() + (inner * inner).sum()).backward()
        return flags, x, x.grad

    assert_agrees(program)


def test_a_view_of_what_begins_to_require_grad_follows_its_flag(assert_agrees):
    def program(lib):
        x = lib.ones(3)
        view, own, pieces = x[0], x[:2], x.split(1)
        own.requires_grad_()
        with lib.no_grad():
            made_without = x[1:]
        flags = []
        for value in (True, False, True):
            x.requires_grad_(value)
            flags.append([one.requires_grad for one in (view, own, made_without, *pieces)])
        own.sum().backward()
        return flags, own.is_leaf, own.grad, x.grad, [one.is_leaf for one in (made_without, *pieces)]

    assert_agrees(program)


def test_a_view_whose_history_may_not_be_read_may_be_told_to_require_grad(assert_agrees):
    def program(lib):
        base = shaped_leaf(lib, 3) * 1
        with lib.no_grad():
            view = base[:2]
        base.mul_(2)
        return view.requires_grad_().requires_grad, base

    assert_agrees(program)


def test_a_view_of_an_inference_tensor_is_detached_in_place_outside(assert_agrees):
    def program(lib):
        with lib.inference_mode():
            base = lib.ones(3)
        view = base[:2]
        return view.detach_(), view.is_inference()

    assert_agrees(program)


def test_a_view_has_the_history_of_its_base_if_nothing_is_written():
    x = oplib.arange(4.0)
    view = x[1:3]
    x.requires_grad_()
    (view * view).sum().backward()
    assert not view.is_leaf
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 2.0, 4.0, 0.0]


def test_hooks_stay_with_the_old_value_and_retained_gradients_move_on(assert_agrees):
    def program(lib):
        x, seen = shaped_leaf(lib, 3), []
        y = x * 2
        view = y[:2]
        view.retain_grad()
        y.retain_grad()
        y.register_hook(lambda g: seen.append(("base", g.tolist())))
        view.mul_(3)
        view.register_hook(lambda g: seen.append(("view after", g.tolist())))
        (y.sum() + view.sum()).backward()
        return seen, y.grad, view.grad, x.grad

    assert_agrees(program)


def test_a_function_that_returns_a_view_or_its_input_bars_writes(assert_agrees):
    def program(lib, of):
        class Function(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return of(x)

            @staticmethod
            def backward(ctx, *grads):
                return grads[0] * 10

        x = shaped_leaf(lib, 3)
        y = x * 1
        result = Function.apply(y)
        is_view, base = result._is_view(), result._base is y
        result.sum().backward()
        try:
            result.add_(1)
        except RuntimeError:
            return is_view, base, x.grad, "refused"
        return is_view, base, x.grad, "written"

    assert_agrees(lambda lib: program(lib, lambda x: x.view(-1)))
    assert_agrees(lambda lib: program(lib, lambda x: x))


def test_a_view_is_marked_dirty_and_its_base_has_the_history(assert_agrees):
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

        x = shaped_leaf(lib, 3)
        y = x * 1
        view = y[1:]
        returned = Double.apply(view)
        y.sum().backward()
        return y, x.grad, y.grad_fn, returned is view, view.grad_fn

    assert_agrees(program)


def test_a_second_gradient_goes_through_writes_into_views(assert_agrees):
    def program(lib):
        x = shaped_leaf(lib, 2, 3)
        y = x * x
        y[0].mul_(x[1])
        y.t()[1].sin_()
        (first,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
        (second,) = lib.autograd.grad((first * first).sum(), x)
        return first.detach(), second

    assert_agrees(program)


def test_another_view_that_was_saved_counts_as_overwritten(assert_agrees):
    def program(lib):
        y = shaped_leaf(lib, 2, 3) * 1
        y[0].mul_(y[1])
        y.sum().backward()

    assert_agrees(program)


BEFORE_THE_BASE_IS_DETACHED = {
    "nothing": lambda lib, base, row, first: None,
    "the base is written": lambda lib, base, row, first: base.mul_(2),
    "a view is written": lambda lib, base, row, first: row.relu_(),
    "a view is written and another read": lambda lib, base, row, first: (row.mul_(2), first.grad_fn),
    "two views are written": lambda lib, base, row, first: (row.mul_(2), first.mul_(3)),
    "a view that retains": lambda lib, base, row, first: (row.retain_grad(), row.mul_(2)),
    "a view is written and its history read": lambda lib, base, row, first: row.mul_(2).grad_fn,
}


@pytest.mark.parametrize("is_written_after", [False, True])
@pytest.mark.parametrize("name", BEFORE_THE_BASE_IS_DETACHED)
def test_views_of_a_base_that_is_detached_keep_the_histories_that_torch_keeps(
    assert_agrees, name, is_written_after
):
    def program(lib):
        leaf = lib.tensor([[-1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        base = leaf * 1
        row, first = base[0], base[:, 0]
        with lib.no_grad():
            constant = base[1]
        BEFORE_THE_BASE_IS_DETACHED[name](lib, base, row, first)
        base.detach_()
        if is_written_after:
            base.mul_(3)
        found = []
        for view in (row, first):
            total = [view.sum()]
            found += [view.requires_grad, *lib.autograd.grad(total, leaf, allow_unused=True)]
        return found, base.requires_grad, constant.requires_grad if name == "nothing" else None

    assert_agrees(program)


def test_a_view_made_in_no_grad_mode_requires_grad_as_its_base_does(assert_agrees):
    def program(lib):
        leaf = shaped_leaf(lib, 2, 3)
        with lib.no_grad():
            constant = leaf[0]
        row, found = leaf[0], []
        for value in (False, True, False):
            leaf.requires_grad_(value)
            found += [constant.requires_grad, row.requires_grad, leaf.requires_grad]
        return found

    assert_agrees(program)
