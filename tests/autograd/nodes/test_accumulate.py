"""How gradients are added to those of leaves."""

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import forward_ad
from oplib.autograd.nodes.accumulate import AccumulateGrad, gradient_edge
from oplib.errors import AutogradError, GradientTypeError, TracingError


@pytest.mark.spec("E.7")
def test_accumulation_keeps_the_object_and_counts_a_version():
    x = oplib.tensor(1.0, requires_grad=True)
    (x * 2).backward()
    first = x.grad
    (x * 3).backward()
    assert x.grad is first
    assert first.item() == 5.0
    assert first._version == 1


@pytest.mark.spec("E.7")
def test_accumulation_under_create_graph_makes_a_new_tensor():
    x = oplib.tensor(1.0, requires_grad=True)
    (x * 2).backward()
    first = x.grad
    oplib.autograd.backward(x * x, create_graph=True)
    assert x.grad is not first
    assert first.item() == 2.0
    assert x.grad.item() == 4.0
    assert x.grad.requires_grad


@pytest.mark.spec("E.7")
def test_two_leaves_never_share_the_box_of_a_gradient():
    a, b = oplib.tensor(1.0, requires_grad=True), oplib.tensor(1.0, requires_grad=True)
    oplib.autograd.backward(a + b, create_graph=True)
    assert a.grad is not b.grad
    with oplib.no_grad():
        a.grad.zero_()
    assert b.grad.item() == 1.0


@pytest.mark.spec("E.7")
def test_a_gradient_given_by_the_user_is_never_written():
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    given = oplib.tensor([1.0, 1.0])
    x.backward(given)
    x.backward(given)
    assert given.tolist() == [1.0, 1.0]
    assert given._version == 0
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_gradient_of_a_trace_takes_no_value_of_a_trace_inside_of_it():
    @jax.jit
    def compute(array):
        x = oplib.Tensor.from_array(array, requires_grad=True)
        (x * 2).sum().backward()

        @jax.jit
        def add(array):
            with pytest.raises(TracingError, match="add_: a traced value would be stored"):
                x.grad.add_(oplib.Tensor.from_array(array))
            return array

        return add(array) + x.grad.array

    assert compute(jnp.ones(2)).tolist() == [3.0, 3.0]


def test_an_accumulator_that_gets_no_gradient_leaves_grad_alone(node, output):
    x = oplib.tensor(1.0, requires_grad=True)

    class NothingBackward0(type(node())):
        def apply(self, grads, run):
            return [None]

    output(node(gradient_edge(x), cls=NothingBackward0)).backward()
    assert x.grad is None


@pytest.mark.spec("E.3", "000.7")
def test_the_accumulator_runs_hooks_after_grad_is_written():
    x = oplib.tensor(1.0, requires_grad=True)
    accumulator, _ = gradient_edge(x)
    assert isinstance(accumulator, AccumulateGrad)
    log = []
    x.register_post_accumulate_grad_hook(lambda leaf: log.append(("post accumulate", leaf.grad.item())))
    accumulator.register_hook(lambda results, grads: log.append((results, grads[0].item(), x.grad.item())))
    (x * 2).backward()
    assert log == [("post accumulate", 2.0), ((), 2.0, 2.0)]


def test_gradients_are_summed_in_float32_without_weak_types():
    x = oplib.tensor(1.0, requires_grad=True)
    (x * 2 + x * 3).backward()
    assert x.grad.array.dtype == jnp.float32
    assert not x.grad.array.weak_type


@pytest.mark.parametrize("way", ["op by op", "in a program", "compiled"])
@pytest.mark.parametrize("held", ["expanded", "overlapping", "every second", "data"])
def test_a_gradient_is_not_added_where_items_share_memory(held: str, way: str, monkeypatch):
    w = oplib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    base = oplib.zeros(5) if held == "every second" else oplib.zeros(1)
    w.grad = {
        "expanded": lambda: base.expand(3),
        "overlapping": lambda: base.as_strided((3,), (0,)),
        "every second": lambda: base[::2],
        "data": lambda: oplib.zeros(3).data,
    }[held]()

    def step():
        (w * w).sum().backward()

    step = oplib.jit(step) if way == "in a program" else step
    monkeypatch.setattr(oplib.config, "compiled_autograd", way == "compiled")
    if held in ("expanded", "overlapping"):
        with pytest.raises(AutogradError, match="more than one element of the written-to tensor"):
            step()
        assert w.grad.tolist() == [0.0, 0.0, 0.0]
        w.grad = w.grad.clone()
    step()
    assert w.grad.tolist() == [2.0, 4.0, 6.0]


def test_a_leaf_that_needs_no_gradient_any_more_gets_none():
    x, y = oplib.tensor(1.0, requires_grad=True), oplib.tensor(2.0, requires_grad=True)
    product = x * y
    x.requires_grad_(False)
    product.backward()
    assert (x.grad, y.grad.item()) == (None, 1.0)


def test_a_leaf_that_became_the_result_of_an_op_is_refused():
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    with oplib.no_grad():
        x.requires_grad_(False)
    x.mul_(oplib.tensor([1.0, 1.0], requires_grad=True))
    with pytest.raises(AutogradError, match="leaf variable has been moved into the graph interior"):
        y.sum().backward()


def test_a_gradient_of_another_shape_than_the_held_one_is_refused():
    x = oplib.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    x.data = oplib.ones(3)
    with pytest.raises(AutogradError, match="AccumulateGrad"):
        (x * 2).sum().backward()


@pytest.mark.parametrize(
    ("create_graph", "tangents"), [(True, [66.0, 66.0]), (False, [60.0, 60.0])], ids=["recorded", "stored"]
)
def test_in_a_dual_level_gradients_are_added_with_their_tangents(create_graph, tangents):
    """As in torch, a gradient that is stored and not recorded has none; one that is added to it has."""
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    with forward_ad.dual_level():
        for factor in (1.0, 10.0):
            dual = forward_ad.make_dual(x, oplib.tensor([1.0, 0.5]))
            (factor * dual**3).sum().backward(create_graph=create_graph)
        assert x.grad.tolist() == [33.0, 132.0]
        assert forward_ad.unpack_dual(x.grad).tangent.tolist() == tangents


def test_hooks_after_the_accumulation_see_the_sum_and_return_nothing():
    x, seen = oplib.tensor([1.0, 2.0], requires_grad=True), []
    handle = x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.tolist()))
    for _ in range(2):
        (x * 3).sum().backward()
    handle.remove()
    (x * 3).sum().backward()
    assert seen == [[3.0, 3.0], [6.0, 6.0]]
    x.register_post_accumulate_grad_hook(lambda leaf: leaf)
    with pytest.raises(GradientTypeError, match="None"):
        (x * 3).sum().backward()


def test_two_threads_make_one_accumulator_and_it_ends_with_the_graph():
    x = oplib.tensor(1.0, requires_grad=True)
    one, other = gradient_edge(x), gradient_edge(x)
    assert one[0] is other[0]
    assert isinstance(one[0], AccumulateGrad)
    assert gradient_edge(x.detach()) is None
