"""Hooks through which saved tensors go."""

import threading

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function, _pop_saved_tensors_default_hooks, _push_saved_tensors_default_hooks
from oplib.autograd.graph import disable_saved_tensors_hooks, saved_tensors_hooks
from oplib.errors import AutogradError, GradientTypeError, SavedTensorError
from oplib.modes import modes


@pytest.fixture
def a():
    return oplib.tensor([2.0], requires_grad=True)


class Recorder:
    """A pair of hooks that count."""

    def __init__(self):
        self.packed = []
        self.unpacked = 0

    def pack(self, tensor):
        self.packed.append(tensor)
        return tensor.detach()

    def unpack(self, kept):
        self.unpacked += 1
        return kept

    def __call__(self, **options):
        return saved_tensors_hooks(self.pack, self.unpack, **options)


@pytest.fixture
def hooks():
    return Recorder()


CALLS = {
    "a*a": (lambda a: a * a, 2),
    "a*constant": (lambda a: a * oplib.tensor([5.0]), 1),
    "a*3": (lambda a: a * 3, 0),
    "a**3": (lambda a: a**3, 1),
    "exp": (lambda a: a.exp(), 1),
    "sum": (lambda a: a.sum(), 0),
    "a[0]": (lambda a: a[0], 0),
    "a+a": (lambda a: a + a, 0),
    "no input requires grad": (lambda a: a.detach() * a.detach(), 0),
}


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("call", CALLS)
def test_an_op_packs_what_it_saves(a, hooks, call):
    function, count = CALLS[call]
    with hooks():
        y = function(a)
    assert len(hooks.packed) == count
    if y.requires_grad:
        y.backward()
        assert hooks.unpacked == count


@pytest.mark.spec("000.14")
def test_nothing_is_packed_under_no_grad(a, hooks):
    with hooks(), oplib.no_grad():
        a * a
    assert not hooks.packed


@pytest.mark.spec("000.14")
def test_pack_sees_the_very_input_with_its_history_and_grad_mode_is_off(a):
    seen = []
    b = a * 1
    with saved_tensors_hooks(lambda t: seen.append((t, t.grad_fn, oplib.is_grad_enabled())), lambda t: t):
        b * b
    assert [one[0] is b for one in seen] == [True, True]
    assert seen[0][1] is b.grad_fn
    assert not seen[0][2]


@pytest.mark.spec("000.14")
def test_a_result_is_packed_with_its_node(a, hooks):
    with hooks():
        y = a.exp()
    assert hooks.packed[0].grad_fn is y.grad_fn
    assert y.grad_fn._saved_result.grad_fn is y.grad_fn
    assert y.grad_fn._saved_result is not y


@pytest.mark.spec("000.14")
def test_the_result_of_unpack_is_what_the_backward_reads(a):
    with saved_tensors_hooks(lambda t: None, lambda kept: oplib.tensor([7.0])):
        y = a * a
    y.backward()
    assert a.grad.tolist() == [14.0]


@pytest.mark.spec("000.14")
def test_unpack_runs_at_every_read(a, hooks):
    with hooks():
        y = a * a
    y.grad_fn._saved_self  # noqa: B018  reading is what is tested
    assert hooks.unpacked == 1
    y.backward(retain_graph=True)
    y.backward()
    assert hooks.unpacked == 5


@pytest.mark.spec("000.14")
def test_unpack_runs_in_the_grad_mode_of_the_reader(a):
    modes_seen = []
    with saved_tensors_hooks(lambda t: t, lambda t: (modes_seen.append(oplib.is_grad_enabled()), t)[1]):
        y = a.exp()
    y.grad_fn._saved_result  # noqa: B018
    y.backward(retain_graph=True)
    oplib.autograd.grad(y, a, create_graph=True)
    assert modes_seen == [True, False, True]


@pytest.mark.spec("000.14")
def test_the_link_is_restored_so_that_higher_orders_work():
    a = oplib.tensor(3.0, requires_grad=True)
    with saved_tensors_hooks(lambda t: t.numpy(force=True), lambda kept: oplib.tensor(kept)):
        y = a**3
    (first,) = oplib.autograd.grad(y, a, create_graph=True)
    (second,) = oplib.autograd.grad(first, a)
    assert (first.item(), second.item()) == (27.0, 18.0)


@pytest.mark.spec("000.14")
@pytest.mark.parametrize(("inside", "factor"), [(0, 2), (1, 8), (2, 8)])
def test_a_recorded_pass_packs_too(a, inside, factor):
    with saved_tensors_hooks(lambda t: 2 * t, lambda kept: kept):
        y = (a**3).sum()
        if inside:
            (first,) = oplib.autograd.grad(y, a, create_graph=True)
        if inside == 2:
            first.sum().backward()
    if not inside:
        (first,) = oplib.autograd.grad(y, a, create_graph=True)
    if inside < 2:
        first.sum().backward()
    assert a.grad.tolist() == [6 * factor * 2.0]


@pytest.mark.spec("000.14")
def test_the_version_is_not_checked_of_what_hooks_have_packed(a):
    b = a * 1
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = b * b
    with oplib.no_grad():
        b.mul_(5)
    y.backward()
    assert a.grad.tolist() == [20.0]


@pytest.mark.spec("000.14")
def test_a_second_pass_is_refused_all_the_same(a, hooks):
    with hooks():
        y = a * a
    y.backward()
    with pytest.raises(SavedTensorError, match="a second time"):
        y.backward()


@pytest.mark.spec("000.14")
def test_only_the_innermost_pair_applies(a, hooks):
    inner = Recorder()
    with hooks():
        with inner():
            a * a
        a.exp()
    assert (len(inner.packed), len(hooks.packed)) == (2, 1)


@pytest.mark.spec("000.14")
def test_a_composed_pair_packs_through_those_around_it(a):
    order = []

    def pair(name):
        return (
            lambda t: (order.append(f"pack {name}"), (name, t.detach()))[1],
            lambda kept: (order.append(f"unpack {kept[0]}"), kept[1])[1],
        )

    with saved_tensors_hooks(*pair("outer")), saved_tensors_hooks(*pair("inner"), compose=True):
        y = a.exp()
    y.backward()
    assert order == ["pack inner", "pack outer", "unpack outer", "unpack inner"]
    assert a.grad.tolist() == y.tolist()


@pytest.mark.spec("000.14")
def test_the_stack_is_the_threads_own(a, hooks):
    def run():
        a * a

    with hooks():
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert not hooks.packed


@pytest.mark.spec("000.14")
def test_leaving_by_an_error_takes_the_pair_away(hooks):
    with pytest.raises(ZeroDivisionError), hooks():
        1 / 0  # noqa: B018
    assert modes.state.watchers == 0


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, None)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x, _), _ = ctx.saved_tensors, ctx.saved_tensors
        return grad * 3 * x * x


@pytest.mark.spec("000.14")
def test_a_function_packs_its_very_input_and_unpacks_at_each_read(a, hooks):
    b = a * 1
    with hooks():
        y = Cube.apply(b)
    assert [one is b for one in hooks.packed] == [True]
    y.backward()
    assert hooks.unpacked == 2
    assert a.grad.tolist() == [12.0]


def test_a_function_that_is_unpacked_twice_differentiates_twice(a, hooks):
    with hooks():
        y = Cube.apply(a)
    (first,) = oplib.autograd.grad(y, a, create_graph=True)
    (second,) = oplib.autograd.grad(first, a)
    assert (first.tolist(), second.tolist()) == ([12.0], [12.0])


def test_a_function_without_hooks_gives_back_the_very_tensors(a):
    seen = []

    class Save(Cube):
        @staticmethod
        def backward(ctx, grad):
            seen.extend(ctx.saved_tensors)
            return grad

    b = a * 1
    Save.apply(b).backward()
    assert seen[0] is b


@pytest.mark.spec("000.14")
def test_registered_ops_pack_what_their_setup_saves(forget_ops, a, hooks):
    @oplib.custom_op("test_saved::sine")
    def sine(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], jnp.cos(inputs[0]))

    sine.register_autograd(lambda ctx, grad: grad * ctx.saved_tensors[1], setup_context=setup)
    with hooks():
        y = sine(a)
    assert len(hooks.packed) == 2
    (first,) = oplib.autograd.grad(y, a, create_graph=True)
    (second,) = oplib.autograd.grad(first, a)
    assert first.item() == pytest.approx(float(jnp.cos(2.0)))
    assert second.item() == pytest.approx(-float(jnp.sin(2.0)))


@pytest.mark.spec("000.14")
def test_an_array_among_the_arguments_is_packed_and_a_number_is_not(forget_ops, a, hooks):
    @oplib.custom_op("test_saved::scale", operand=("by",))
    def scale(x: jax.Array, factor: jax.Array, by: float) -> jax.Array:
        return x * factor * by

    scale.register_autograd("derive")
    with hooks():
        y = scale(a, jnp.array([3.0]), 2.0)
    y.backward()
    assert len(hooks.packed) == 1
    assert a.grad.tolist() == [6.0]


@pytest.mark.spec("000.14")
def test_eager_ops_pack_what_their_setup_saves(forget_ops, a, hooks):
    @oplib.custom_op("test_saved::eager")
    def eager(x: oplib.Tensor) -> oplib.Tensor:
        return x * x

    eager.register_autograd(
        lambda ctx, grad: grad * 2 * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    with hooks():
        y = eager(a)
    y.backward()
    assert (len(hooks.packed), hooks.unpacked) == (1, 1)
    assert a.grad.tolist() == [4.0]


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("call", [lambda a: a * a, lambda a: (a * 1).exp(), Cube.apply])
def test_a_pack_hook_that_writes_into_its_argument_is_refused(a, call):
    with (
        saved_tensors_hooks(lambda t: t.detach().mul_(2), lambda t: t),
        pytest.raises(AutogradError, match="pack hook is modifying its input in place"),
    ):
        call(a)


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("call", [lambda a: a * a, Cube.apply])
def test_an_unpack_hook_returns_a_tensor(a, call):
    with saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = call(a)
    with pytest.raises(
        GradientTypeError, match=r"unpack_hook is expected to be a Tensor. Got result of type int"
    ):
        y.backward()


@pytest.mark.spec("000.14")
def test_errors_of_hooks_pass(a):
    with saved_tensors_hooks(lambda t: 1 / 0, lambda t: t), pytest.raises(ZeroDivisionError):
        a * a
    with saved_tensors_hooks(lambda t: t, lambda t: 1 / 0):
        y = a * a
    with pytest.raises(ZeroDivisionError):
        y.backward()


@pytest.mark.spec("000.14")
def test_hooks_that_cannot_be_called_are_refused_at_the_door():
    with (
        pytest.raises(GradientTypeError, match=r"the pack hook cannot be called. Got int"),
        saved_tensors_hooks(3, lambda t: t),
    ):
        pass
    assert modes.state.watchers == 0


@pytest.mark.spec("000.14", "001.13")
def test_pushing_and_popping_by_hand(a, hooks):
    _push_saved_tensors_default_hooks(hooks.pack, hooks.unpack)
    a * a
    _pop_saved_tensors_default_hooks()
    assert len(hooks.packed) == 2
    with pytest.raises(AutogradError, match="no hooks are in force"):
        _pop_saved_tensors_default_hooks()


@pytest.mark.spec("000.14")
def test_what_was_packed_goes_when_the_graph_frees_it(a):
    alive = []

    class Kept:
        def __init__(self, tensor):
            self.array = tensor.array
            alive.append(self)

        def __del__(self):
            alive.append("gone")

    with saved_tensors_hooks(Kept, lambda kept: oplib.Tensor.from_array(kept.array)):
        y = a.exp()
    alive.clear()
    y.backward()
    assert alive == ["gone"]


@pytest.mark.spec("000.14")
def test_hooks_work_under_a_trace():
    def step(value):
        a = oplib.Tensor.from_array(value, requires_grad=True)
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            y = (a * a).sum()
        return oplib.autograd.grad(y, a)[0].array

    assert jax.jit(step)(jnp.array([3.0])).tolist() == [6.0]


# Disabling


@pytest.mark.spec("000.16")
def test_entering_while_disabled_raises_exactly_the_message(hooks):
    with disable_saved_tensors_hooks("outer"):
        with (
            disable_saved_tensors_hooks("inner"),
            pytest.raises(AutogradError, match=r"^inner$"),
            hooks(),
        ):
            pass
        with pytest.raises(AutogradError, match=r"^outer$"), hooks():
            pass
    with hooks():
        pass


@pytest.mark.spec("000.16")
def test_disabling_while_a_pair_is_in_force_raises_and_changes_nothing(a, hooks):
    with hooks():
        with pytest.raises(AutogradError, match=r"^not now$"), disable_saved_tensors_hooks("not now"):
            pass
        a * a
    with hooks():
        pass
    assert len(hooks.packed) == 2


@pytest.mark.spec("000.16")
def test_it_decorates_functions_and_takes_a_string(hooks):
    @disable_saved_tensors_hooks("decorated")
    def run():
        with hooks():
            pass

    with pytest.raises(AutogradError, match=r"^decorated$"):
        run()
    with pytest.raises(TypeError, match="Got int"), disable_saved_tensors_hooks(3):
        pass


@pytest.mark.spec("000.16")
def test_the_message_is_the_threads_own(hooks):
    entered = []

    def run():
        with hooks():
            entered.append(True)

    with disable_saved_tensors_hooks("here"):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert entered


# Transformations. There is no grad transform of ours that would have to refuse hooks, as torch.func.grad
# does: maps and forward mode allow them, and what JAX saves for a derivative of its own is no saved tensor.


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("place", ["around", "inside"])
def test_a_map_allows_hooks(hooks, place):
    rows = oplib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)

    def square(row):
        if place == "around":
            return (row * row).sum()
        with saved_tensors_hooks(lambda tensor: tensor * 2, lambda kept: kept / 2):
            return (row * row).sum()

    if place == "around":
        with hooks():
            y = oplib.vmap(square)(rows)
        assert hooks.packed
    else:
        y = oplib.vmap(square)(rows)
    y.sum().backward()
    assert rows.grad.tolist() == [[2.0, 4.0], [6.0, 8.0]]


@pytest.mark.spec("000.14")
def test_forward_mode_allows_hooks_and_saves_nothing_for_itself(hooks):
    with hooks(), oplib.autograd.forward_ad.dual_level():
        x = oplib.autograd.forward_ad.make_dual(oplib.tensor([3.0]), oplib.ones(1))
        tangent = oplib.autograd.forward_ad.unpack_dual(x * x).tangent
    assert tangent.tolist() == [6.0]
    assert not hooks.packed


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("differentiate", [jax.grad, jax.jacfwd])
def test_hooks_around_a_derivative_of_jaxs_do_not_see_it(hooks, differentiate):
    with hooks():
        found = differentiate(lambda x: oplib.exp(x) * x)(jnp.float32(0.0))
    assert found == 1.0
    assert not hooks.packed


@pytest.mark.spec("000.14")
def test_a_tape_inside_a_derivative_of_jaxs_packs(hooks):
    def slope(array):
        x = oplib.Tensor.from_array(array, requires_grad=True)
        with hooks():
            y = x * x * x
        return oplib.autograd.grad(y, x)[0].array

    assert jax.grad(slope)(jnp.float32(2.0)) == 12.0
    assert len(hooks.packed) == 4
