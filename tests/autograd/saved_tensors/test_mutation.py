"""Writing into what was saved."""

import pytest

import oplib
from oplib.autograd import graph
from oplib.autograd.graph import _get_sid, _get_tid, allow_mutation_on_saved_tensors, saved_tensors_hooks
from oplib.errors import AutogradError, MisplacedCallError, SavedTensorError
from tests.threads import run_in_thread


def sizes(ctx):
    return len(ctx.original), len(ctx.cloned), len(ctx.tid_to_weakhandle), len(ctx.sid_to_tid)


@pytest.mark.spec("000.24", "000.25", "000.26", "000.27")
def test_what_the_context_knows_at_each_step():
    x = oplib.full((3,), 2.0).requires_grad_()
    with allow_mutation_on_saved_tensors() as ctx:
        y = x.clone()
        loss = (y**3).sum()
        assert sizes(ctx) == (1, 0, 1, 1)
        y.add_(1)
        assert sizes(ctx) == (0, 1, 1, 1)
        assert y.tolist() == [3.0] * 3
        loss.backward()
        del loss
        assert sizes(ctx) == (0, 0, 0, 1)
    assert x.grad.tolist() == [12.0] * 3
    assert sizes(ctx) == (0, 0, 0, 0)


@pytest.mark.spec("000.26")
def test_an_op_in_place_that_saves_its_own_input():
    x = oplib.full((3,), 2.0).requires_grad_()
    with allow_mutation_on_saved_tensors() as ctx:
        y = x.clone()
        loss = (y**3).sum()
        y.cos_()
        assert sizes(ctx)[0] + sizes(ctx)[1] == sizes(ctx)[2]
        loss.backward()
        assert x.grad.tolist() == [12.0] * 3
        oplib.autograd.grad(y.sum(), x)


@pytest.mark.spec("000.27")
def test_without_the_context_the_same_program_raises():
    x = oplib.full((3,), 2.0).requires_grad_()
    y = x.clone()
    loss = (y**3).sum()
    y.add_(1)
    with pytest.raises(SavedTensorError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.spec("000.27")
def test_it_works_for_second_orders():
    b = oplib.tensor(2.0, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        c = b.clone()
        y = c**3
        (first,) = oplib.autograd.grad(y, c, create_graph=True)
        c.detach().mul_(5)
        (second,) = oplib.autograd.grad(first, c)
    assert (first.item(), second.item()) == (12.0, 12.0)


@pytest.mark.spec("000.27")
def test_a_leaf_that_is_written_under_no_grad():
    a = oplib.tensor(2.0, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        y = a * a
        with oplib.no_grad():
            a.mul_(10)
        y.backward()
    assert a.grad.item() == 4.0


@pytest.mark.spec("000.24")
def test_one_value_has_one_handle_however_often_it_is_saved():
    b = oplib.tensor(2.0, requires_grad=True)
    with allow_mutation_on_saved_tensors() as ctx:
        kept = (b * b, b * b, b.sin())
        assert sizes(ctx) == (1, 0, 1, 1)
        del kept


@pytest.mark.spec("000.26")
@pytest.mark.usefixtures("collector_off")
def test_what_is_saved_goes_with_its_graph():
    a = oplib.tensor(2.0, requires_grad=True)
    with allow_mutation_on_saved_tensors() as ctx:
        y = a.exp()
        assert sizes(ctx)[0] == 1
        del y
        assert sizes(ctx)[0] == 0


@pytest.mark.spec("000.24", "000.27")
def test_a_backward_outside_of_the_context_raises():
    a = oplib.tensor(2.0, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        y = a * a
    with pytest.raises(MisplacedCallError, match="Trying to backward outside"):
        y.backward()
    with allow_mutation_on_saved_tensors(), pytest.raises(AssertionError, match="Trying to backward outside"):
        y.backward()


@pytest.mark.spec("000.21", "000.27", "D.5")
def test_it_cannot_be_nested_and_the_outer_one_goes_on():
    a = oplib.tensor(2.0, requires_grad=True)
    with allow_mutation_on_saved_tensors():
        assert graph._allow_mutation_on_saved_tensors_enabled
        y = a * a
        with pytest.raises(AutogradError, match="cannot be nested"), allow_mutation_on_saved_tensors():
            pass
        y.backward()
    assert a.grad.item() == 4.0
    assert not graph._allow_mutation_on_saved_tensors_enabled


@pytest.mark.spec("000.21")
def test_the_flag_is_the_processes():
    def enter():
        with allow_mutation_on_saved_tensors():
            pass

    with allow_mutation_on_saved_tensors(), pytest.raises(AutogradError, match="cannot be nested"):
        run_in_thread(enter)


@pytest.mark.spec("000.27")
def test_an_error_inside_cleans_up():
    with pytest.raises(ZeroDivisionError), allow_mutation_on_saved_tensors():
        1 / 0  # noqa: B018
    assert not graph._allow_mutation_on_saved_tensors_enabled
    with (
        graph.disable_saved_tensors_hooks("none"),
        pytest.raises(AutogradError, match=r"^none$"),
        allow_mutation_on_saved_tensors(),
    ):
        pass
    assert not graph._allow_mutation_on_saved_tensors_enabled


@pytest.mark.spec("000.27")
def test_hooks_of_a_user_inside_hide_it():
    a = oplib.tensor(2.0, requires_grad=True)
    with allow_mutation_on_saved_tensors() as ctx, saved_tensors_hooks(lambda t: t, lambda t: t):
        (a * a).backward()
        assert sizes(ctx) == (0, 0, 0, 0)


@pytest.mark.spec("000.22", "D.4")
def test_a_value_is_known_by_storage_and_version():
    a = oplib.tensor([1.0])
    alias = a.detach()
    assert _get_sid(a) == _get_sid(alias)
    assert _get_tid(a) != _get_tid(alias)
    before = _get_tid(a)
    assert before == (id(a), *_get_sid(a))
    a.mul_(2)
    assert _get_tid(a)[2] == before[2] + 1


@pytest.mark.spec("000.22", "000.27", "D.4")
@pytest.mark.parametrize("saves_view", [True, False])
def test_a_write_through_a_view_or_into_its_base_is_noticed(saves_view):
    a = oplib.ones(4).requires_grad_()
    with allow_mutation_on_saved_tensors() as ctx:
        b = a.clone()
        view = b[2:]
        y = (view**2 if saves_view else b**2).sum()
        (b if saves_view else view).mul_(10)
        assert (len(ctx.original), len(ctx.cloned)) == (0, 1)
        y.backward()
    assert a.grad.tolist() == ([0.0, 0.0, 2.0, 2.0] if saves_view else [2.0] * 4)
    assert _get_sid(b) == _get_sid(view)


@pytest.mark.parametrize("write", [lambda b: b.data.mul_(2), lambda b: b.detach().mul_(2)])
def test_a_write_through_data_is_noticed(write):
    a = oplib.ones(2, requires_grad=True)
    with allow_mutation_on_saved_tensors() as ctx:
        b = a * 3
        y = (b * b).sum()
        assert (len(ctx.original), len(ctx.cloned)) == (1, 0)
        write(b)
        assert (len(ctx.original), len(ctx.cloned)) == (0, 1)
        y.backward()
    assert a.grad.tolist() == [18.0, 18.0]


@pytest.mark.spec("000.23")
def test_a_handle_is_known_by_identity():
    a = oplib.tensor([1.0])
    first, second = graph._Handle(a), graph._Handle(a)
    assert first != second
    assert len({first, second}) == 2
