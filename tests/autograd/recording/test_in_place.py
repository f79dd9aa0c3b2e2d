"""Writing in place: what the box takes over, what saved values think of it, and what is refused.

The numbers are compared with torch's in ``tests/parity/test_ops.py``; here they are those of ``jax.grad``.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import oplib
from oplib.autograd import forward_ad
from oplib.autograd.recording.in_place import write_values
from oplib.errors import ArgumentError, AutogradError, SavedTensorError, TracingError


def leaf(*values):
    return oplib.tensor(list(values), requires_grad=True)


# Results of writes ------------------------------------------------------------------------------------------


def test_an_in_place_op_returns_the_tensor_it_wrote_and_counts_the_write():
    x = oplib.tensor([1.0, 2.0])
    assert x.add_(1) is x
    assert (x.tolist(), x._version) == ([2.0, 3.0], 1)


def test_the_tensor_takes_over_the_place_on_the_tape_of_its_new_value():
    x = leaf(1.0, 2.0)
    y = x * 1
    y.exp_()
    assert y.grad_fn.name() == "ExpBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "MulBackward0"


def test_a_constant_that_takes_in_a_tensor_with_history_has_one_too():
    x, total = leaf(1.0, 2.0), oplib.zeros(2)
    total += x * x
    assert total.requires_grad
    assert not total.is_leaf
    total.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


@pytest.mark.spec("D.20")
def test_under_no_grad_the_value_changes_and_the_history_stays():
    x = leaf(1.0, 2.0)
    y = x + 1
    before = y.grad_fn
    with oplib.no_grad():
        y.mul_(10)
        x.sub_(1)
    assert y.grad_fn is before
    assert x.is_leaf
    assert x.requires_grad
    assert (x.tolist(), y.tolist()) == ([0.0, 1.0], [20.0, 30.0])


def test_a_detached_tensor_sees_the_write_and_its_version():
    x = oplib.tensor([1.0, 2.0])
    other = x.detach()
    other.zero_()
    assert (x.tolist(), x._version) == ([0.0, 0.0], 1)


def test_only_the_other_operand_is_broadcast_and_only_the_result_is_converted():
    x = oplib.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=oplib.float16)
    x += oplib.tensor([0.5, 1.0])
    assert x.dtype == oplib.float16
    assert x.tolist() == [[1.5, 3.0], [3.5, 5.0]]


def test_zero_keeps_requires_grad_and_the_gradient_is_zero():
    x = leaf(1.0, 2.0)
    y = (x * 3).zero_()
    assert y.requires_grad
    (y + x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


# Saved values -----------------------------------------------------------------------------------------------


def test_a_value_saved_before_the_write_is_refused_by_the_backward():
    x = leaf(1.0, 2.0)
    y = x * 1
    product = y * y
    y.add_(1)
    with pytest.raises(SavedTensorError, match="modified by an inplace operation"):
        product.sum().backward()


def test_a_write_after_a_use_that_saved_nothing_is_harmless():
    x = leaf(1.0, 2.0)
    y = x * 1
    total = y + 1
    y.mul_(5)
    (total.sum() + y.sum()).backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_what_the_writing_op_itself_saved_of_the_old_value_is_exempt():
    x, factor = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * 1
    y.mul_(factor)
    y.sum().backward()
    assert (x.grad.tolist(), factor.grad.tolist()) == ([3.0, 4.0], [1.0, 2.0])


def test_a_saved_result_belongs_to_the_written_tensor_from_then_on():
    x = leaf(1.0, 2.0)
    y = (x * 1).exp_()
    y.add_(1)
    with pytest.raises(SavedTensorError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_chain_of_writes_differentiates_as_the_functional_program_twice():
    def program(x):
        y = x * 1.0
        y = y * x
        y = jnp.sin(y) + 2.0
        return jnp.sum(y * y)

    x = leaf(0.3, 0.7)
    y = x * 1
    y.mul_(x).sin_().add_(2.0)
    (first,) = oplib.autograd.grad((y * y).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad(first.sum(), x)
    expected = jax.grad(program)(x.array)
    np.testing.assert_allclose(first.detach().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(
        second.numpy(), jax.grad(lambda a: jax.grad(program)(a).sum())(x.array), rtol=1e-5
    )


# Hooks ------------------------------------------------------------------------------------------------------


def test_a_hook_stays_with_the_gradient_for_which_it_was_registered():
    x, seen = leaf(1.0), []
    y = x * 2
    y.register_hook(lambda grad: seen.append(("before", grad.tolist())))
    y.mul_(10)
    y.register_hook(lambda grad: seen.append(("after", grad.tolist())))
    y.sum().backward()
    assert seen == [("after", [1.0]), ("before", [10.0])]


def test_a_retained_gradient_is_that_of_the_new_value():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.mul_(10)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0]
    assert x.grad.tolist() == [60.0]


# Refused writes ---------------------------------------------------------------------------------------------


@pytest.mark.spec("D.20")
@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.zero_(),
        lambda x: x.copy_(x * 2),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: x.__imul__(2),
    ],
)
def test_a_leaf_that_requires_grad_is_not_written_while_grad_mode_is_on(write):
    x = leaf(1.0, 2.0)
    with pytest.raises(
        AutogradError, match="a leaf Variable that requires grad is being used in an in-place"
    ):
        write(x)
    assert (x.tolist(), x._version) == ([1.0, 2.0], 0)


def test_a_result_of_a_higher_kind_is_not_stored():
    x = oplib.tensor([1, 2], dtype=oplib.int32)
    with pytest.raises(ArgumentError, match="result type Float can't be cast to the desired output type Int"):
        x.mul_(0.5)
    assert (x.tolist(), x._version) == ([1, 2], 0)


@pytest.mark.parametrize("length", [1, 2])
@pytest.mark.parametrize("name", ["add_", "copy_"])
def test_a_result_of_another_shape_is_not_stored(name, length):
    x = oplib.zeros(3)
    text = rf"output with shape \[3\] doesn't match the broadcast shape \[{length}, 3\]"
    with pytest.raises(ArgumentError, match=text):
        getattr(x, name)(oplib.ones(length, 3))
    assert x._version == 0


def test_an_item_that_is_shown_several_times_is_not_written():
    x = oplib.zeros(1, 3)
    with pytest.raises(
        AutogradError, match="more than one element of the written-to tensor refers to a single"
    ):
        x.expand(4, 3).add_(1)
    x.expand(4, 3)[2].add_(1)
    assert x.tolist() == [[1.0, 1.0, 1.0]]


def test_an_array_is_not_written():
    with pytest.raises(ArgumentError, match="only a Tensor can be written in place"):
        oplib.Tensor.exp_(jnp.ones(2))


@pytest.mark.spec("D.13")
def test_a_traced_value_does_not_escape_into_a_tensor_from_outside():
    x = oplib.zeros(2)
    with pytest.raises(TracingError, match="outlives it"):
        jax.jit(lambda a: x.add_(oplib.Tensor.from_array(a)).array)(jnp.ones(2))
    assert x.tolist() == [0.0, 0.0]


@pytest.mark.spec("D.13")
def test_a_tensor_made_in_a_trace_is_written_there():
    def program(a):
        y = oplib.Tensor.from_array(a) * 2
        y.exp_()
        total = oplib.zeros(2)
        total += y
        return total.array

    np.testing.assert_allclose(jax.jit(program)(jnp.ones(2)), np.exp(2.0) * np.ones(2), rtol=1e-6)


def test_what_was_overwritten_by_a_constant_may_be_used_twice():
    leaf = oplib.tensor([1.0, -2.0], requires_grad=True)
    written = (leaf * 1).gt_(0)
    (written * written).sum().backward()
    assert written.tolist() == [1.0, 0.0]
    assert leaf.grad is None


def test_a_write_of_a_view_has_a_second_derivative():
    x = oplib.tensor([0.5, 2.0], requires_grad=True)
    y = oplib.zeros(2)
    y[1:] = x[:1]
    y += x
    (first,) = oplib.autograd.grad((y**3).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad(first.sum(), x)
    # y = (a, a + b): the sum of the first derivatives is 3a^2 + 6(a + b)^2
    assert second.tolist() == [6 * 0.5 + 12 * 2.5, 12 * 2.5]


# Views ------------------------------------------------------------------------------------------------------


def list_halves(name):
    def halves(x: jax.Array) -> list[jax.Array]:
        return [x[:2], x[2:]]

    def first(x: jax.Array) -> jax.Array:
        return x[:2]

    kernel = {"halves": halves, "first": first}[name]
    return oplib.custom_op(f"in_place::{name}", kernel, tags=(oplib.Tag.view,), autograd="derive")


@pytest.mark.usefixtures("forget_ops")
def test_one_of_several_views_of_a_registered_op_is_not_written():
    x = leaf(1.0, 2.0, 3.0, 4.0) * 1
    first, _ = list_halves("halves")(x)
    with pytest.raises(AutogradError, match="the output of a function that returns multiple views"):
        first.mul_(2)
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.usefixtures("forget_ops")
def test_the_only_view_of_a_registered_op_is_written_unless_it_views_one_of_several():
    view = list_halves("first")
    x = leaf(1.0, 2.0, 3.0, 4.0) * 1
    view(x).mul_(2)
    assert x.tolist() == [2.0, 4.0, 3.0, 4.0]
    with pytest.raises(AutogradError, match="the output of a function that returns multiple views"):
        view(x.split(3)[0]).mul_(2)


def find_pull(view, gradient):
    """Returns the formula of the node of a view, at a gradient."""
    operands: list = []
    view.grad_fn.read_operands(operands)
    return view.grad_fn.find_function((True,)).run(*operands, gradient)


@pytest.mark.parametrize(
    "cut",
    [lambda x: x[1:3], lambda x: x.view(2, 2), lambda x: x.as_strided((2, 3), (1, 1))],
    ids=["window", "reshape", "overlapping"],
)
def test_the_formula_of_a_view_is_the_transpose_of_reading_it(cut):
    view = cut(leaf(1.0, 2.0, 3.0, 4.0))
    gradient = jnp.arange(1.0, 1.0 + view.numel()).reshape(view.shape)
    _, pull = jax.vjp(lambda x: cut(oplib.tensor(x)).array, jnp.ones(4))
    np.testing.assert_array_equal(find_pull(view, gradient)[0], pull(gradient)[0])


def test_the_tangent_of_a_view_of_a_dual_tensor_is_a_view_of_its_tangent():
    def cut(x):
        return x[1:][1:3]

    start, tangent = jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([1.0, 2.0, 3.0, 4.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(leaf(*start.tolist()) * 1, oplib.tensor(tangent))
        view = cut(dual)
        assert forward_ad.unpack_dual(view).tangent.tolist() == [3.0, 4.0]
        dual.mul_(dual)
        found = forward_ad.unpack_dual(view).tangent
    _, expected = jax.jvp(lambda x: cut(x * x), (start,), (tangent,))
    assert found.tolist() == expected.tolist()


def test_a_write_that_saves_numbers_only_follows_no_version():
    x = leaf(1.0, 2.0)
    y = x.clone().mul_(2.0).mul_(3.0)
    assert y.grad_fn.versions is None
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_an_item_that_its_base_shows_several_times_is_written_only_without_history():
    factor = oplib.tensor(3.0, requires_grad=True)
    base = oplib.ones(1).expand(3).detach()
    base[0].add_(1)
    assert base.tolist() == [2.0, 2.0, 2.0]
    for write in (lambda: base[0].mul_(factor), lambda: base[:1].copy_(factor)):
        with pytest.raises(AutogradError, match="more than one element of the base refers"):
            write()
    with oplib.no_grad():
        base[0].mul_(factor)
    assert (base.tolist(), base.requires_grad) == ([6.0, 6.0, 6.0], False)


def test_a_list_of_operands_requires_grad_if_one_of_its_tensors_does():
    x = leaf(1.0)
    for operands in ([x.detach(), x], (x,)):
        with pytest.raises(AutogradError, match="don't support automatic differentiation"):
            oplib.cat(operands, out=oplib.empty(0))
    assert oplib.cat([x.detach(), x.detach()], out=oplib.empty(0)).tolist() == [1.0, 1.0]


@pytest.mark.devices(2)
def test_values_that_are_written_together_take_the_layouts_of_what_they_replace():
    sharding = NamedSharding(jax.make_mesh((2,), ("a",), axis_types=(AxisType.Auto,)), PartitionSpec("a"))
    spread = oplib.Tensor.from_array(jax.device_put(jnp.zeros(4), sharding))
    alone, base = oplib.zeros(4), oplib.zeros(2, 4)
    view = base[1]
    with oplib.no_grad():
        write_values([spread, alone, spread, view], [jnp.full(4, float(n)) for n in range(4)], "test")
        whole = jax.device_put(jnp.full(4, 5.0), NamedSharding(sharding.mesh, PartitionSpec()))
        write_values([spread, alone], [whole, jnp.full(4, 6.0)], "test")
    assert (spread.array.sharding, alone.array.sharding) == (sharding, jnp.zeros(4).sharding)
    assert [one.tolist() for one in (spread, alone, view)] == [[5.0] * 4, [6.0] * 4, [3.0] * 4]
    assert [one._version for one in (spread, alone, view)] == [3, 2, 1]
    assert base.tolist() == [[0.0] * 4, [3.0] * 4]


def test_values_of_a_trace_are_not_written_into_tensors_outside():
    x = oplib.zeros(3)

    def leak(array):
        with oplib.no_grad():
            write_values([x], [array], "test")
        return array

    with pytest.raises(TracingError):
        jax.jit(leak)(jnp.ones(3))
    assert (x.tolist(), x._version) == ([0.0] * 3, 0)
