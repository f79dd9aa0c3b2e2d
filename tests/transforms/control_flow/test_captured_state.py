"""A body of control flow leaves the Tensors that it captures as they are, or raises by name."""

from types import SimpleNamespace

import pytest

import oplib
from oplib.errors import AutogradError, TracingError

pytestmark = pytest.mark.spec("J.15")

FLOWS = {
    "scan": lambda act, xs: oplib.scan(lambda c, x: (c + x.sum(), act(x)), oplib.tensor(0.0), xs),
    "cond": lambda act, xs: oplib.cond(xs.sum() > 0, act, lambda x: x, xs[0]),
    "while_loop": lambda act, xs: oplib.while_loop(lambda c: c.sum() < 9, lambda c: act(c) + 1, xs[0]),
}
CHANGES = {
    "data": lambda w, x: setattr(w, "data", x * 2),
    "data of outside": lambda w, x: setattr(w, "data", oplib.ones(2)),
    "set_": lambda w, x: w.set_(x * 2),
    "t_": lambda w, x: w.t_(),
    "unsqueeze_": lambda w, x: w.unsqueeze_(0),
    "as_strided_": lambda w, x: w.as_strided_((2,), (1,)),
    "resize_": lambda w, x: w.resize_(4),
    "an attribute": lambda w, x: setattr(w, "note", {"of": [x * 2]}),
    "another attribute": lambda w, x: setattr(w, "mark", x),
    "an attribute, and an error": lambda w, x: (setattr(w, "note", x), w.add_(1)),
}
TEXTS = {
    "data of outside": "data: a traced value would be stored",
    "set_": "data: a traced value would be stored",
    "an attribute": r"keeps a value of its trace as an attribute of a Tensor .* for w.note",
    "another attribute": r"keeps a value of its trace as an attribute of a Tensor .* for w.mark",
    "an attribute, and an error": "add_: a traced value would be stored",
}


@pytest.mark.parametrize("run", [lambda function: function(), lambda function: oplib.jit(function)()])
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_captured_tensor_is_not_changed(change, flow, run):
    w, xs = oplib.arange(4.0).view(2, 2).clone(), oplib.arange(6.0).view(3, 2)
    w.mark = 3

    def act(x):
        CHANGES[change](w, x)
        return x * w.sum()

    told = TEXTS.get(change, f"{change}: a traced value would be stored")
    with pytest.raises(TracingError, match=rf"{told}|{change} changes a tensor from outside of the function"):
        run(lambda: FLOWS[flow](act, xs))
    assert w.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert (w.shape, w.stride(), w._version, w.mark) == ((2, 2), (2, 1), 0, 3)
    assert not hasattr(w, "note")
    act_alone = FLOWS[flow](lambda x: x * w.sum(), xs)
    assert all(leaf.isfinite().all() for leaf in oplib.pytree.tree_leaves(act_alone))


def test_a_tensor_made_inside_may_change_and_keep_attributes():
    def body(c, x):
        made = x * 2
        made.data, made.note = x * 3, x
        made.unsqueeze_(0)
        return c + made.sum(), made.note

    total, rows = oplib.scan(body, oplib.tensor(0.0), oplib.arange(6.0).view(3, 2))
    assert (total.item(), rows.tolist()) == (45.0, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])


def test_an_attribute_that_holds_a_tensor_of_outside_stays():
    w, other, holder = oplib.ones(2), oplib.zeros(2), SimpleNamespace(count=0)

    def body(c, x):
        w.note = other
        holder.count += 1
        return c + (w * x).sum(), None

    oplib.scan(body, oplib.tensor(0.0), oplib.ones(3, 2))
    assert w.note is other


def test_mapped_data_of_an_outside_tensor_is_refused():
    w = oplib.ones(2)

    def row(x):
        w.data = x
        return x

    with pytest.raises(TracingError, match="data: inplace arithmetic in vmap"):
        oplib.vmap(row)(oplib.ones(3, 2))
    assert w.tolist() == [1.0, 1.0]


LOST = {
    "split": lambda base: base.split(2)[0],
    "no_grad": lambda base: oplib.no_grad()(lambda: base[:2])(),
}
READS = {
    "nothing": lambda view, x: x * 3,
    "its shape": lambda view, x: x * view.shape[0],
    "detach": lambda view, x: x * view.detach(),
    "in no_grad": lambda view, x: x + oplib.no_grad()(lambda: view * 1.5)(),
}


@pytest.mark.parametrize("flow", ["cond", "scan"])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", LOST)
def test_a_view_whose_history_may_not_be_read_is_captured_as_by_a_plain_function(kind, read, flow):
    leaf, x = oplib.arange(4.0).requires_grad_(), oplib.ones(2, requires_grad=True)
    found = []
    for factor in (2.0, 3.0):
        base = leaf * 1
        view = LOST[kind](base)
        base.mul_(factor)

        def body(x, view=view):
            return READS[read](view, x)

        if flow == "cond":
            result = oplib.cond(oplib.tensor(True), body, lambda x: x * 1, x)
        else:
            result, _ = oplib.scan(lambda c, row, body=body: (body(c) * row, row), x, oplib.ones(1))
        (grad,) = oplib.autograd.grad(result.sum(), x)
        (plain_grad,) = oplib.autograd.grad(body(x).sum(), x)
        found.append((result.tolist(), grad.tolist()))
        assert found[-1] == (body(x).tolist(), plain_grad.tolist())
    assert (found[0] == found[1]) == (read in {"nothing", "its shape"})


@pytest.mark.parametrize("kind", LOST)
def test_a_history_that_may_not_be_read_is_refused_in_a_body(kind):
    base = oplib.arange(4.0).requires_grad_() * 1
    view = LOST[kind](base)
    base.mul_(2.0)
    with pytest.raises(AutogradError, match="has been modified inplace"):
        oplib.cond(oplib.tensor(True), lambda x: x * view, lambda x: x * 1, oplib.ones(2))


@pytest.mark.parametrize("where", ["body", "condition", "carry"])
@pytest.mark.parametrize("kind", LOST)
def test_a_history_that_may_not_be_read_is_refused_in_a_while_loop(kind, where):
    def loop(view):
        factor = view.sum() if where == "condition" else 1.0
        return oplib.while_loop(
            lambda x: x.sum() < 100 * factor,
            lambda x: x + (view if where == "body" else 1.0),
            view if where == "carry" else oplib.ones(2),
        )

    base = oplib.arange(4.0).requires_grad_() * 1
    view = LOST[kind](base)
    assert loop(view).sum() >= 100  # the program that it leaves serves no call that is refused
    base.mul_(2.0)
    with pytest.raises(AutogradError, match="has been modified inplace"):
        loop(view)
    with oplib.no_grad():
        assert loop(view).sum() >= 100


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", LOST)
def test_a_while_loop_may_read_what_a_plain_loop_may(kind, read):
    base = oplib.arange(1.0, 5.0).requires_grad_() * 1
    view = LOST[kind](base)
    base.mul_(2.0)
    x = oplib.ones(2)
    result = oplib.while_loop(lambda x: x.sum() < 100, lambda x: READS[read](view, x), x)
    while x.sum() < 100:
        x = READS[read](view, x)
    assert result.tolist() == x.tolist()
