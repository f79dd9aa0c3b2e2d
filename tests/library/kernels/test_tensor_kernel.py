"""Kernels on Tensors: plain Python on every call, like their rules."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib import Tensor
from oplib.errors import AutogradError, MissingRuleError, ResultError, TracingError
from oplib.library import Library, Tag, custom_op, define, impl, ops


def test_kernel_setup_and_formula_run_on_every_call() -> None:
    calls: list[str] = []

    @custom_op("eager::double")
    def double(x: Tensor) -> Tensor:
        calls.append("kernel")
        return x * 2

    @double.register_autograd(setup_context=lambda ctx, inputs, output: calls.append("setup"))
    def backward(ctx, grad):
        calls.append("formula")
        return grad * 2

    x = oplib.tensor([1.0], requires_grad=True)
    for _ in range(2):
        double(x).sum().backward()
    assert calls == ["kernel", "setup", "formula"] * 2
    assert x.grad.item() == 4.0


def test_the_kernel_gets_the_very_tensor_with_recording_off() -> None:
    seen: list[object] = []

    @custom_op("eager::look")
    def look(x: Tensor) -> Tensor:
        seen.extend([x, x.requires_grad, oplib.is_grad_enabled()])
        return x * 1

    x = oplib.tensor([1.0], requires_grad=True)
    result = look(x)
    assert seen[0] is x
    assert seen[1:] == [True, False]
    assert result.grad_fn.name() == "GeneratedBackwardFor_eager_look_defaultBackward"


def test_results_of_captured_tensors_are_detached_even_under_enable_grad() -> None:
    captured = oplib.tensor([2.0], requires_grad=True)

    @custom_op("eager::capture")
    def capture(x: Tensor) -> Tensor:
        with oplib.enable_grad():
            return x.detach() * captured

    assert not capture(oplib.tensor([1.0])).requires_grad


def test_an_undeclared_write_is_found_by_its_version() -> None:
    @custom_op("eager::vandal")
    def vandal(x: Tensor, y: Tensor) -> Tensor:
        y.add_(1)
        return x * 2

    with pytest.raises(
        RuntimeError, match=r"eager::vandal: the kernel wrote argument 'y', which is not defined as mutable"
    ):
        vandal(oplib.tensor([1.0]), oplib.tensor([1.0]))


def test_a_declared_write_bumps_the_version_even_if_nothing_is_written_or_the_kernel_raises() -> None:
    @custom_op("eager::lazy", mutates_args=("xs", "y"))
    def lazy(xs: list[Tensor], y: Tensor | None, fail: bool) -> None:
        if fail:
            raise KeyError("kernel")

    x, y = oplib.tensor([1.0]), oplib.tensor([1.0])
    lazy([x], y, False)
    lazy([x], None, False)
    with pytest.raises(KeyError, match="kernel"):
        lazy([x], y, True)
    assert (x._version, y._version) == (3, 2)


def test_a_written_tensor_is_written_in_place() -> None:
    @custom_op("eager::add_one", mutates_args=("x",))
    def add_one(x: Tensor) -> None:
        x.add_(1)

    x = oplib.tensor([1.0])
    alias = x.detach()
    assert add_one(x) is None
    assert alias.tolist() == [2.0]
    assert ops.eager.add_one.default.functional(jnp.zeros(1)).tolist() == [1.0]


@pytest.mark.parametrize("returned", ["input", "detached", "twice", "in a list"])
def test_a_result_may_not_alias_an_input_or_another_result(returned: str) -> None:
    if returned == "in a list":

        @custom_op("eager::alias")
        def alias_list(x: Tensor) -> list[Tensor]:
            return [x * 1, x]

        op = alias_list
    elif returned == "twice":

        @custom_op("eager::alias")
        def alias_twice(x: Tensor) -> tuple[Tensor, Tensor]:
            y = x * 1
            return y, y

        op = alias_twice
    else:

        @custom_op("eager::alias")
        def alias(x: Tensor) -> Tensor:
            return x if returned == "input" else x.detach()

        op = alias
    with pytest.raises(ResultError, match="may not alias"):
        op(oplib.tensor([1.0]))


ALIASES = {
    "a slice": lambda x: x[:1],
    "a reshape": lambda x: x.reshape(3, 1),
    "an expansion": lambda x: x.expand(2, 3),
    "the data": lambda x: x.data,
    "a view of the data": lambda x: x.data[1:],
}
CALLS = {
    "eagerly": lambda op: op(oplib.ones(3)),
    "recorded": lambda op: op(oplib.ones(3, requires_grad=True)),
    "under no_grad": lambda op: oplib.no_grad()(op)(oplib.ones(3, requires_grad=True)),
    "compiled": lambda op: oplib.jit(lambda x: op(x))(oplib.ones(3)),
    "mapped": lambda op: oplib.vmap(op)(oplib.ones(2, 3)),
    "on arrays": lambda op: op(jnp.ones(3)),
    "under jit": lambda op: jax.jit(op)(jnp.ones(3)),
}


@pytest.mark.spec("D.50")
@pytest.mark.parametrize("has_formula", [False, True])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("alias", ALIASES)
def test_a_result_may_not_be_a_view_of_an_input(alias: str, call: str, has_formula: bool) -> None:
    @custom_op("eager::view_of_input")
    def view(x: Tensor) -> Tensor:
        return ALIASES[alias](x)

    if has_formula:
        view.register_autograd(lambda ctx, g: None)
    with pytest.raises(ResultError, match="must not also be an input to this custom op"):
        CALLS[call](view)


@pytest.mark.spec("D.50")
@pytest.mark.parametrize("call", CALLS)
def test_a_result_may_not_share_memory_with_another_result(call: str) -> None:
    @custom_op("eager::two_views")
    def halves(x: Tensor) -> tuple[Tensor, list[Tensor]]:
        y = x * 2
        return y[:1], [x.clone(), y[1:]]

    with pytest.raises(ResultError, match="operator or other returns"):
        CALLS[call](halves)


@pytest.mark.spec("D.50")
def test_a_view_that_the_schema_declares_and_a_copy_are_accepted() -> None:
    library = Library("eagerview", "DEF")
    library.define("first(Tensor(a) x) -> Tensor(a)")
    library.impl("first", lambda x: x[:1], "CPU")
    x = oplib.zeros(3)
    ops.eagerview.first(x).add_(10)
    assert x.tolist() == [10, 0, 0]
    library._destroy()

    @custom_op("eager::part_of_new")
    def part(x: Tensor) -> tuple[Tensor, Tensor]:
        return (x * 2)[:1], x[:1].clone()

    for call in CALLS.values():
        call(part)


def test_an_inplace_op_returns_the_very_object() -> None:
    @custom_op("eager::twice_", mutates_args=("x",), tags=Tag.inplace)
    def twice_(x: Tensor) -> Tensor:
        x.mul_(2)
        return x

    x = oplib.tensor([3.0])
    assert twice_(x) is x
    assert x.tolist() == [6.0]


def test_an_inplace_op_that_returns_something_else_raises() -> None:
    @custom_op("eager::other_", mutates_args=("x",), tags=Tag.inplace)
    def other_(x: Tensor) -> Tensor:
        return x * 2

    with pytest.raises(RuntimeError, match="first argument"):
        other_(oplib.tensor([3.0]))


def test_an_op_without_formula_requires_grad_and_raises_at_backward() -> None:
    @custom_op("eager::opaque")
    def opaque(x: Tensor) -> Tensor:
        return x * 2

    result = opaque(oplib.tensor([1.0], requires_grad=True))
    assert result.requires_grad
    with pytest.raises(
        MissingRuleError, match=r"eager::opaque.*no autograd formula was registered.*register_autograd"
    ):
        result.sum().backward()


def test_a_composite_kernel_is_differentiated_through() -> None:
    define("eager::square_sum", "(Tensor x) -> Tensor")
    impl("eager::square_sum", "CompositeImplicitAutograd", lambda x: (x * x).sum())
    x = oplib.tensor([1.0, 3.0], requires_grad=True)
    result = ops.eager.square_sum(x)
    assert result.grad_fn.name() == "SumBackward0"
    result.backward()
    assert x.grad.tolist() == [2.0, 6.0]


def test_an_error_in_a_backward_names_the_op_of_the_formula() -> None:
    @custom_op("eager::broken")
    def broken(x: Tensor) -> Tensor:
        return x * 2

    @broken.register_autograd
    def backward(ctx, grad):
        raise ZeroDivisionError("inside")

    with pytest.raises(ZeroDivisionError, match="inside") as raised:
        broken(oplib.tensor([1.0], requires_grad=True)).sum().backward()
    assert any("eager::broken" in note for note in raised.value.__notes__)


def test_a_formula_of_tensor_ops_is_differentiated_again() -> None:
    @custom_op("eager::cube")
    def cube(x: Tensor) -> Tensor:
        return x * x * x

    cube.register_autograd(
        lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    x = oplib.tensor([2.0], requires_grad=True)
    (first,) = oplib.autograd.grad(cube(x).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad(first.sum(), x)
    assert (first.item(), second.item()) == (12.0, 12.0)


def test_an_eager_op_works_on_arrays_under_jit_grad_and_vmap() -> None:
    @custom_op("eager::sine")
    def sine(x: Tensor) -> Tensor:
        return x.sin()

    sine.register_autograd(
        lambda ctx, grad: 7 * grad * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    x = jnp.array([0.3, 0.6])
    for run in (sine, jax.jit(sine), jax.vmap(sine)):
        np.testing.assert_allclose(run(x), np.sin(x), rtol=1e-6)
    for grad in (jax.vmap(jax.grad(sine)), jax.jit(jax.grad(lambda x: sine(x).sum()))):
        np.testing.assert_allclose(grad(x), 7 * np.cos(x), rtol=1e-6)


def test_an_eager_kernel_that_reads_values_under_a_trace_raises() -> None:
    @custom_op("eager::reader")
    def reader(x: Tensor) -> Tensor:
        return x * x.item()

    assert reader(oplib.tensor(2.0)).item() == 4.0
    with pytest.raises(RuntimeError, match="eager::reader: the kernel reads values while it is traced"):
        jax.jit(reader)(jnp.float32(2))


def test_a_list_given_to_a_kernel_is_fresh() -> None:
    @custom_op("eager::popper")
    def popper(xs: list[Tensor]) -> Tensor:
        return xs.pop() * 1

    xs = [oplib.tensor([1.0]), oplib.tensor([2.0])]
    popper(xs)
    assert len(xs) == 2


def test_arrays_among_tensors_are_constants_for_an_eager_kernel() -> None:
    @custom_op("eager::add")
    def add(x: Tensor, y: Tensor) -> Tensor:
        assert isinstance(y, Tensor)
        return x + y

    assert add(oplib.tensor([1.0]), jnp.array([2.0])).tolist() == [3.0]


def test_an_out_op_refuses_gradients() -> None:
    @custom_op("eager::add_out", mutates_args=("out",), tags=Tag.out)
    def add_out(x: Tensor, *, out: Tensor) -> Tensor:
        out.copy_(x + 1)
        return out

    out = oplib.zeros(1)
    assert add_out(oplib.tensor([1.0]), out=out) is out
    assert out.tolist() == [2.0]
    with pytest.raises(AutogradError, match=r"functions with out=\.\.\. arguments"):
        add_out(oplib.tensor([1.0], requires_grad=True), out=out)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x.numpy(),
        lambda x: x.tolist(),
        lambda x: f"{x.sum():.2f}",
        lambda x: x[x > 0],
        lambda x: float(jnp.sum(x.array)),
    ],
)
def test_the_error_of_a_kernel_that_reads_traced_values_names_the_line(read) -> None:
    def kernel(x: Tensor) -> Tensor:
        read(x)
        return x.clone()

    op = custom_op("eager::reading", kernel)
    line = f"{__file__}:{read.__code__.co_firstlineno}"
    where = rf"eager::reading: the kernel reads values while it is traced, at {re.escape(line)}\."
    with pytest.raises(TracingError, match=where):
        jax.jit(lambda x: op(x))(jnp.ones(2))
    with pytest.raises(TracingError, match=where):
        jax.jit(lambda x: op(Tensor.from_array(x)).array)(jnp.ones(2))
    op(jnp.ones(2))  # an eager call may read values


def test_a_kernel_that_calls_one_that_reads_values_hears_of_the_inner_one() -> None:
    inner = custom_op("eager::inner", lambda x: x * x.sum().item(), schema="(Tensor x) -> Tensor")
    outer = custom_op("eager::outer", lambda x: inner(x), schema="(Tensor x) -> Tensor")
    with pytest.raises(TracingError, match=r"^eager::inner: the kernel reads values"):
        jax.jit(lambda x: outer(x))(jnp.ones(2))


def test_the_tape_derives_the_backward_of_a_jvp_rule() -> None:
    ran: list[str] = []

    @custom_op("eager::cubed")
    def cubed(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        ran.append("kernel")
        return x * x * x, x * y

    @cubed.register_jvp
    def push(primals, tangents):
        ran.append("rule")
        (x, y), (dx, dy) = primals, tangents
        return (x**3, x * y), (5 * x**2 * dx, dx * y + x * dy)

    def run(x: Tensor, y: Tensor) -> Tensor:
        cube, product = cubed(x, y)
        return (cube * 2 + product.sin()).sum()

    leaves = [oplib.tensor([0.5, 2.0], requires_grad=True), oplib.tensor([1.0, 3.0], requires_grad=True)]
    first = oplib.autograd.grad(run(*leaves), leaves, create_graph=True)
    assert ran.count("kernel") <= 1  # it is traced, to compare the shapes of the results
    (second,) = oplib.autograd.grad(first[0].sum(), leaves[:1])

    def plain(x, y):
        return (10 * x**2 + jnp.cos(x * y) * y), jnp.cos(x * y) * x

    x, y = (leaf.detach().array for leaf in leaves)
    for found, due in zip(first, plain(x, y), strict=True):
        np.testing.assert_allclose(found.detach().array, due, rtol=1e-5)
    np.testing.assert_allclose(second.array, 20 * x - jnp.sin(x * y) * y**2, rtol=1e-4)
    by_jax = jax.grad(lambda x, y: (cubed(x, y)[0] * 2 + jnp.sin(cubed(x, y)[1])).sum(), (0, 1))(x, y)
    for found, due in zip(by_jax, plain(x, y), strict=True):
        np.testing.assert_allclose(found, due, rtol=1e-5)
    with oplib.no_grad():
        ran.clear()
        cubed(*leaves)
    assert ran == ["kernel"]


def test_the_tape_derives_the_backward_of_a_jvp_rule_that_reads_values() -> None:
    @custom_op("eager::scaled_by_sign")
    def scaled(x: Tensor) -> Tensor:
        return x * 2 if x.sum().item() > 0 else x * 3

    @scaled.register_jvp
    def push(primals, tangents):
        factor = 2 if primals[0].sum().item() > 0 else 3
        return primals[0] * factor, tangents[0] * factor

    for sign, slope in ((1.0, 2.0), (-1.0, 3.0)):
        x = oplib.tensor([sign, sign], requires_grad=True)
        scaled(x).sum().backward()
        assert x.grad.tolist() == [slope, slope]
