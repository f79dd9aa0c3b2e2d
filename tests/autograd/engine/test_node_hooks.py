"""Hooks: their order, what they see, and what they may return."""

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import grad
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.errors import AutogradError, GradientTypeError
from tests.autograd.functions import Split


@pytest.fixture
def x():
    return oplib.tensor([0.0, 0.0], requires_grad=True)


@pytest.mark.spec("E.3")
def test_all_hooks_run_in_their_order(x):
    log = []
    y = x * 1
    y.retain_grad()
    y.grad_fn.register_prehook(lambda grads: log.append(("pre", y.grad is not None)))
    y.register_hook(lambda g: log.append(("tensor", y.grad is not None)))
    y.grad_fn.register_hook(lambda results, grads: log.append("post"))
    x.register_hook(lambda g: log.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda leaf: log.append("accumulated"))
    y.sum().backward()
    assert log == [("tensor", False), ("pre", True), "post", "leaf", "accumulated"]


@pytest.mark.spec("000.7", "000.8")
def test_hooks_see_what_the_one_before_made(x):
    node = (x * 1).grad_fn
    node.register_prehook(lambda grads: (grads[0] * 2,))
    node.register_prehook(lambda grads: (grads[0] + 1,))
    node.register_hook(lambda results, _: (results[0] * 10, *results[1:]))
    node.register_hook(lambda results, _: (results[0] + 5, *results[1:]))
    y = oplib.Tensor.from_array(jnp.zeros(2))
    y._requires_grad, y._grad_fn = True, node
    y.sum().backward()
    assert x.grad.tolist() == [35.0, 35.0]


@pytest.mark.spec("000.7")
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_post_hook_sees_results_and_what_the_node_received(x, create_graph):
    seen = []
    y = x * 3
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_hook(lambda results, grads: seen.append((results, grads)))
    oplib.autograd.backward(y.sum(), create_graph=create_graph)
    ((results, grads),) = seen
    assert results[0].tolist() == [6.0, 6.0]
    assert results[1] is None
    assert grads[0].tolist() == [2.0, 2.0]


@pytest.mark.spec("000.7", "000.8")
def test_removed_hooks_do_not_run(x):
    y = x.sin()
    handles = [
        y.grad_fn.register_hook(lambda results, _: (results[0] * 6,)),
        y.grad_fn.register_prehook(lambda grads: (grads[0] * 7,)),
        y.register_hook(lambda g: g * 5),
    ]
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [210.0, 210.0]
    for handle in handles:
        handle.remove()
        handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_hook_may_register_one_on_another_output_of_its_node(x):
    first, second = x.unbind(0)
    first.register_hook(lambda grad: second.register_hook(lambda grad: grad * 3) and None)
    (first * 2 + second).sum().backward()
    assert x.grad.tolist() == [2.0, 1.0]


@pytest.mark.spec("E.3")
def test_a_hook_removed_during_the_run_of_its_dictionary_still_runs(x):
    log = []
    y = x * 1
    y.register_hook(lambda g: second.remove())
    second = y.register_hook(lambda g: log.append("second"))
    y.sum().backward()
    assert log == ["second"]


@pytest.mark.spec("000.7")
def test_a_post_hook_added_while_the_node_runs_does_run(x):
    log = []
    y = x * 1
    y.grad_fn.register_prehook(
        lambda grads: y.grad_fn.register_hook(lambda results, _: log.append("added")) and None
    )
    y.sum().backward()
    assert log == ["added"]


@pytest.mark.spec("000.6")
def test_a_tensor_hook_registered_later_is_seen_without_registering_again(x):
    y = x * 1
    y.register_hook(lambda g: g * 2)
    y.register_hook(lambda g: g * 5)
    y.sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]


@pytest.mark.spec("E.3")
def test_a_retained_gradient_sees_all_tensor_hooks(x):
    y = x * 1
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward(retain_graph=True)
    first = y.grad
    assert first.tolist() == [10.0, 10.0]
    y.sum().backward()
    assert y.grad.tolist() == [20.0, 20.0]
    assert y.grad is not first


@pytest.mark.spec("E.3")
def test_a_tensor_hook_gets_none_for_an_output_nobody_used(x):
    seen = []
    first, second = Split.apply(x)
    second.register_hook(seen.append)
    first.sum().backward()
    assert seen == [None]


def test_hooks_of_two_outputs_go_to_their_own_slots(x):
    first, second = Split.apply(x)
    first.register_hook(lambda g: g * 10)
    second.register_hook(lambda g: g * 100)
    (first + second).sum().backward()
    assert x.grad.tolist() == [320.0, 320.0]


@pytest.mark.spec("E.3", "D.9")
def test_a_capture_that_does_not_run_is_taken_after_its_tensor_hooks(x):
    log = []
    b = x * 2
    b.register_hook(lambda g: g * 100)
    b.grad_fn.register_prehook(lambda grads: log.append("pre"))
    assert grad((b * 4).sum(), b)[0].tolist() == [400.0, 400.0]
    assert log == []


@pytest.mark.spec("E.3", "D.9")
def test_a_capture_that_runs_too_is_taken_before_its_tensor_hooks(x):
    b = x * 2
    b.register_hook(lambda g: g * 100)
    at_b, at_x = grad((b * 4).sum(), [b, x])
    assert at_b.tolist() == [4.0, 4.0]
    assert at_x.tolist() == [800.0, 800.0]


@pytest.mark.spec("E.3", "000.8")
def test_a_captured_leaf_runs_its_tensor_hooks_but_no_node_hooks(x):
    log = []
    x.register_hook(lambda g: g * 3)
    x.register_post_accumulate_grad_hook(lambda leaf: log.append("accumulated"))
    accumulator = gradient_edge(x)[0]
    accumulator.register_prehook(lambda grads: log.append("pre"))
    assert grad((x * 2).sum(), x)[0].tolist() == [6.0, 6.0]
    assert log == []


@pytest.mark.spec("000.7", "000.8")
def test_a_hook_that_returns_none_for_one_gradient_drops_it(x):
    y = x * 2
    y.grad_fn.register_hook(lambda results, _: (None,) * len(results))
    y.sum().backward()
    assert x.grad is None
    z = x * 2
    z.grad_fn.register_prehook(lambda grads: (None,))
    z.sum().backward()
    assert x.grad is None


def bad(change):
    """A hook, named so that errors can tell it."""

    def culprit(grads, *_):
        return change(grads)

    return culprit


BAD_TUPLES = [
    (lambda grads: grads[0], GradientTypeError, "expected a tuple. Got Tensor"),
    (lambda grads: list(grads), GradientTypeError, "expected a tuple. Got list"),
    (lambda grads: (*grads, grads[0]), AutogradError, r"incorrect number of values. Got \d, expected \d"),
    (lambda grads: (oplib.ones(3), *grads[1:]), AutogradError, r"changed the size.*f32\[3\].*f32\[2\]"),
    (
        lambda grads: (oplib.Tensor.from_array(jnp.ones(2, jnp.float16)), *grads[1:]),
        AutogradError,
        r"changed the type.*f16\[2\].*f32\[2\]",
    ),
    (lambda grads: (1, *grads[1:]), GradientTypeError, "expected a Tensor or None. Got int"),
]


@pytest.mark.spec("000.7", "000.8")
@pytest.mark.parametrize(("change", "error", "text"), BAD_TUPLES)
@pytest.mark.parametrize("kind", ["register_hook", "register_prehook"])
def test_a_node_hook_that_returns_something_else_raises(x, kind, change, error, text):
    y = x * 2
    getattr(y.grad_fn, kind)(bad(change))
    with pytest.raises(error, match=f"MulBackward0: hook 'culprit'.*{text}"):
        y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        ((), GradientTypeError, "Got tuple"),
        (1, GradientTypeError, "Got int"),
        (jnp.ones(3), AutogradError, "changed the size"),
        (jnp.ones(2, jnp.int32), AutogradError, "changed the type"),
    ],
)
def test_a_tensor_hook_that_returns_something_else_raises(x, result, error, text):
    y = x * 2
    y.register_hook(lambda g: oplib.Tensor.from_array(result) if isinstance(result, jax.Array) else result)
    with pytest.raises(error, match=text):
        y.sum().backward()


def test_a_gradient_that_is_none_cannot_be_replaced(x):
    first, second = Split.apply(x)
    second.register_hook(lambda g: oplib.ones(2))
    with pytest.raises(AutogradError, match="can't replace a None gradient"):
        first.sum().backward()


@pytest.mark.spec("000.7")
def test_hooks_work_on_tracers():
    shapes = []

    def step(array):
        leaf = oplib.Tensor.from_array(array, requires_grad=True)
        y = leaf * leaf
        y.register_hook(lambda g: g * 10)
        y.grad_fn.register_hook(lambda results, _: shapes.append(results[0].array.shape))
        y.sum().backward()
        return leaf.grad.array

    assert jax.jit(step)(jnp.array([1.0, 2.0])).tolist() == [20.0, 40.0]
    assert shapes == [(2,)]


@pytest.mark.spec("000.7")
def test_a_wrong_size_is_found_on_tracers_too():
    def step(array):
        leaf = oplib.Tensor.from_array(array, requires_grad=True)
        y = leaf * leaf
        y.register_hook(lambda g: oplib.ones(3))
        y.sum().backward()

    with pytest.raises(AutogradError, match="changed the size"):
        jax.jit(step)(jnp.array([1.0, 2.0]))


@pytest.mark.spec("E.3")
@pytest.mark.parametrize("result", [3, oplib.ones(1)])
def test_a_post_accumulate_hook_returns_nothing_and_what_it_did_stays(result):
    x = oplib.tensor([1.0], requires_grad=True)

    def double(leaf):
        leaf.grad = leaf.grad * 2
        return result

    x.register_post_accumulate_grad_hook(double)
    with pytest.raises(
        GradientTypeError, match=r"post accumulate grad hook 'double' should return None. Got"
    ):
        (x * 3).sum().backward()
    assert x.grad.tolist() == [6.0]


@pytest.mark.parametrize("uses", [[0], [1], [0, 1], [1, 0]])
def test_a_leaf_that_has_got_another_shape_gets_gradients_of_uses_before_and_after(uses):
    x = oplib.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    losses = [(x * 2).sum()]
    x.data = x.data.reshape(3)
    losses.append((x * 2).sum())
    sum(losses[use] for use in uses).backward()
    assert x.grad.flatten().tolist() == [2.0 * len(uses)] * 3
