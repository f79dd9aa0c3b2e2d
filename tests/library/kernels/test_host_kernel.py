"""Kernels annotated numpy.ndarray: plain Python on numpy arrays, and a callback under a trace."""

from __future__ import annotations

import operator
import re
import threading
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import oplib
from oplib.errors import (
    ArgumentValueError,
    DtypeError,
    MissingRuleError,
    RegistrationError,
    ResultError,
    TracingError,
)
from oplib.library import custom_op, ops

X = jnp.array([0.3, -0.7, 1.1])


def make_sine(name: str, calls: list[object] | None = None):
    @custom_op(name)
    def sine(x: np.ndarray) -> np.ndarray:
        if calls is not None:
            calls.append(type(x))
        return np.sin(x)

    sine.register_fake(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    return sine


VALUES = [1, True, 1.5, 2j, np.ones(2), np.arange(3), np.float64(2), np.int64(3), np.ones(2, np.complex128)]


@pytest.mark.spec("D.54")
@pytest.mark.parametrize("wide", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("value", [*VALUES, np.float16(2), np.uint8(3), X], ids=repr)
def test_arguments_have_the_dtypes_that_they_have_under_jit(value: object, wide: bool) -> None:
    dtypes: list[object] = []

    @custom_op
    def note(x: np.ndarray) -> np.ndarray:
        dtypes.append(x.dtype)
        return x + x.dtype.type(1)

    note.register_fake(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype))
    with jax.enable_x64(wide):
        results = [note(value), jax.jit(note)(value), note.functional(value)]
        results.append(jax.vmap(lambda _: note(value))(jnp.zeros(2))[0])
        assert set(dtypes) == {jnp.asarray(value).dtype}
        assert {result.dtype for result in results} == {jnp.asarray(value).dtype}
        for result in results:
            np.testing.assert_array_equal(result, results[1])


@pytest.mark.spec("D.54")
@pytest.mark.parametrize("value", [2**40, 2**70, np.array([1, 2**40]), np.uint64(2**63)], ids=repr)
def test_an_integer_that_does_not_fit_is_refused(value: object) -> None:
    with pytest.raises(DtypeError, match=r"argument 'x'.*do not fit"):
        make_sine("host::range")(value)


def test_a_host_kernel_gets_numpy_arrays_on_every_eager_call() -> None:
    calls: list[object] = []
    sine = make_sine("host::every", calls)
    for value in (X, oplib.tensor([0.3, -0.7, 1.1])):
        result = sine(value)
        np.testing.assert_allclose(np.asarray(result), np.sin(X), rtol=1e-6)
        assert type(result) is (oplib.Tensor if isinstance(value, oplib.Tensor) else type(X))
    assert calls == [np.ndarray, np.ndarray]


def test_under_a_trace_it_is_a_callback_with_the_shapes_of_its_fake_kernel() -> None:
    calls: list[object] = []
    sine = make_sine("host::traced", calls)
    run = jax.jit(sine)
    for _ in range(3):
        np.testing.assert_allclose(run(X), np.sin(X), rtol=1e-6)
    assert len(calls) == 3
    np.testing.assert_allclose(jax.vmap(sine)(X), np.sin(X), rtol=1e-6)


def test_under_a_trace_a_missing_fake_kernel_is_named() -> None:
    @custom_op("host::fakeless")
    def fakeless(x: np.ndarray) -> np.ndarray:
        return x

    with pytest.raises(MissingRuleError, match=r"host::fakeless: no fake impl registered") as caught:
        jax.jit(fakeless)(X)
    decorator = str(caught.value).partition("Register one with @")[2].removesuffix(".")
    eval(decorator, {"oplib": oplib})(lambda x: x)
    np.testing.assert_array_equal(jax.jit(fakeless)(X), X)


def test_its_formula_is_a_compiled_jax_function() -> None:
    traces: list[object] = []
    sine = make_sine("host::formula")

    @sine.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    def backward(ctx, grad):
        traces.append(type(grad))
        return grad * jnp.cos(ctx.saved_tensors[0])

    for _ in range(3):
        x = oplib.tensor([0.3, -0.7, 1.1], requires_grad=True)
        sine(x).sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.cos(X), rtol=1e-6)
    assert len(traces) == 1
    for grad in (jax.grad(lambda x: sine(x).sum()), jax.vmap(jax.grad(sine))):
        np.testing.assert_allclose(jax.jit(grad)(X), np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(sine, (X,), (X,))[1], X * np.cos(X), rtol=1e-6)


def test_the_second_derivative_of_a_host_op_is_that_of_its_formula() -> None:
    sine = make_sine("host::second")
    sine.register_autograd(
        lambda ctx, grad: grad * jnp.cos(ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    x = oplib.tensor([0.3, -0.7, 1.1], requires_grad=True)
    (grad,) = oplib.autograd.grad(sine(x).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad(grad.sum(), x)
    np.testing.assert_allclose(second.numpy(), -np.sin(X), rtol=1e-6)


def test_a_formula_annotated_with_numpy_runs_on_the_host() -> None:
    calls: list[object] = []
    sine = make_sine("host::host_formula")

    @sine.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    def backward(ctx, grad: np.ndarray):
        calls.append((type(grad), type(ctx.saved_tensors[0])))
        return grad * np.cos(ctx.saved_tensors[0])

    x = oplib.tensor([0.3, -0.7, 1.1], requires_grad=True)
    sine(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: sine(x).sum()))(X), np.cos(X), rtol=1e-6)
    assert calls == [(np.ndarray, np.ndarray)] * 2


def test_a_written_argument_is_a_copy_that_the_kernel_may_write_into() -> None:
    @custom_op("host::fill", mutates_args=("x",))
    def fill(x: np.ndarray, value: float) -> None:
        x[...] = value

    x = oplib.tensor([1.0, 2.0])
    before = x.array
    fill(x, 3.0)
    assert (x.tolist(), x._version) == ([3.0, 3.0], 1)
    assert before.tolist() == [1.0, 2.0]
    assert ops.host.fill.default.functional(jnp.zeros(2), 4.0).tolist() == [4.0, 4.0]
    assert jax.jit(lambda x: ops.host.fill.default.functional(x, 4.0))(jnp.zeros(2)).tolist() == [4.0, 4.0]


def test_the_inputs_of_a_host_kernel_are_read_only() -> None:
    @custom_op("host::vandal")
    def vandal(x: np.ndarray) -> np.ndarray:
        x[...] = 0
        return x.copy()

    with pytest.raises(ValueError, match="read-only"):
        vandal(X)


@pytest.mark.parametrize("make", [lambda x: [x, x], lambda x: [x.array] * 2])
@pytest.mark.parametrize(
    "write",
    [
        lambda xs: operator.iadd(xs[1], 1),
        lambda xs: [operator.setitem(x, 0, 1) for x in xs],
        lambda xs: np.add(xs[0], 1, out=xs[0]),
    ],
)
def test_a_write_into_an_item_of_a_list_names_the_argument_and_mutates_args(make: Any, write: Any) -> None:
    @custom_op("host::list_vandal")
    def vandal(xs: Sequence[np.ndarray]) -> np.ndarray:
        write(xs)
        return xs[1].copy()

    with pytest.raises(
        ArgumentValueError, match=r"Got xs \[f32\[3\], f32\[3\]\].*name the argument in mutates"
    ) as told:
        vandal(make(oplib.Tensor.from_array(X)))
    assert len(str(told.value)) <= 400


def test_a_host_kernel_may_write_the_items_of_a_list_that_mutates_args_names() -> None:
    @custom_op("host::list_writer", mutates_args=("xs",))
    def double(xs: Sequence[np.ndarray]) -> None:
        xs[1][...] *= 2

    x, y = oplib.ones(2), oplib.ones(2)
    double([x, y])
    assert (x.tolist(), y.tolist()) == ([1.0, 1.0], [2.0, 2.0])


def test_a_write_into_an_item_of_a_dictionary_names_the_argument() -> None:
    @custom_op("host::dict_vandal")
    def vandal(named: dict[str, np.ndarray]) -> np.ndarray:
        named["x"] += 1
        return named["x"].copy()

    with pytest.raises(ArgumentValueError, match=r"Got named \{.*name the argument in mutates_args"):
        vandal({"x": oplib.Tensor.from_array(X)})


def test_a_float64_result_is_refused_while_64_bit_types_are_off() -> None:
    @custom_op("host::wide")
    def wide(x: np.ndarray) -> np.ndarray:
        return x.astype(np.float64)

    with pytest.raises(
        ResultError, match=r"host::wide: the host kernel returned f64\[3\].*astype\(numpy.float32\)"
    ):
        wide(X)
    with jax.enable_x64(True):
        assert wide(X).dtype == np.float64


def test_the_result_is_copied_in() -> None:
    memory = np.zeros(2, np.float32)

    @custom_op("host::memory")
    def shared(x: np.ndarray) -> np.ndarray:
        return memory

    result = shared(X)
    memory[:] = 9
    assert result.tolist() == [0.0, 0.0]


def test_an_exception_keeps_its_type_and_text() -> None:
    class Odd(Exception):
        pass

    @custom_op("host::odd")
    def odd(x: np.ndarray) -> np.ndarray:
        raise Odd("as it was")

    with pytest.raises(Odd, match="as it was"):
        odd(X)


def test_a_host_op_with_lists_and_numbers() -> None:
    @custom_op("host::stats")
    def stats(xs: list[np.ndarray], k: int = 2) -> tuple[list[np.ndarray], int, float]:
        return [x * k for x in xs], len(xs), float(sum(x.sum() for x in xs))

    doubled, count, total = stats([oplib.tensor([1.0]), oplib.tensor([2.0])])
    assert ([x.tolist() for x in doubled], count, total) == ([[2.0], [4.0]], 2, 3.0)


def test_deriving_a_host_kernel_by_jax_is_refused() -> None:
    sine = make_sine("host::derived")
    with pytest.raises(RegistrationError, match=r"host::derived: JAX cannot derive.*Register a formula"):
        sine.register_autograd("derive")
    with pytest.raises(MissingRuleError) as raised:
        jax.grad(lambda x: sine(x).sum())(X)
    assert '"derive"' not in str(raised.value)


def test_a_fake_kernel_that_disagrees_is_named() -> None:
    @custom_op("host::mismatch")
    def mismatch(x: np.ndarray) -> np.ndarray:
        return np.sin(x)

    mismatch.register_fake(lambda x: jax.ShapeDtypeStruct((7,), x.dtype))
    with pytest.raises(
        Exception, match=r"host::mismatch: the kernel's results differ from those of its fake"
    ):
        jax.block_until_ready(jax.jit(mismatch)(X))


def test_a_fake_kernel_may_be_written_as_for_torch() -> None:
    sine = make_sine("host::like")
    sine.register_fake(lambda x: oplib.empty_like(x))
    np.testing.assert_allclose(jax.jit(sine)(X), np.sin(X), rtol=1e-6)


def test_the_torch_way_to_call_numpy_from_a_kernel_on_tensors() -> None:
    @custom_op("host::torch_way")
    def torch_way(x: oplib.Tensor) -> oplib.Tensor:
        return oplib.from_numpy(np.sin(x.cpu().numpy()))

    torch_way.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    x = oplib.tensor([0.5], requires_grad=True)
    torch_way(x).sum().backward()
    assert x.grad.item() == pytest.approx(float(np.cos(0.5)))


def test_a_kernel_cannot_write_into_the_callers_numpy_array() -> None:
    @custom_op("host::numpy_vandal")
    def vandal(x: np.ndarray) -> np.ndarray:
        x[...] = 0
        return x.copy()

    mine = np.ones(2, np.float32)
    with pytest.raises(ValueError, match="read-only"):
        vandal(mine)
    mine[0] = 2.0  # the caller may still write it


def test_integers_are_narrowed_alike_at_once_and_under_a_trace() -> None:
    @custom_op("host::order")
    def order(x: np.ndarray) -> np.ndarray:
        return np.argsort(x)

    order.register_fake(lambda x: jax.ShapeDtypeStruct(x.shape, np.int32))
    for run in (order, jax.jit(order)):
        assert run(X).dtype == np.int32
        assert run(X).tolist() == [1, 0, 2]


def test_integers_that_do_not_fit_are_refused() -> None:
    @custom_op("host::huge")
    def huge(x: np.ndarray) -> np.ndarray:
        return np.full(x.shape, 5_000_000_000)

    huge.register_fake(lambda x: jax.ShapeDtypeStruct(x.shape, np.int32))
    with pytest.raises(ResultError, match=r"host::huge: the host kernel returned.*do not fit int32"):
        huge(X)
    with pytest.raises(jax.errors.JaxRuntimeError, match="host::huge: the kernel's results differ from"):
        jax.block_until_ready(jax.jit(huge)(X))


def test_a_kernel_that_changes_its_list_argument_changes_no_other_call() -> None:
    @custom_op("host::popping")
    def popping(x: np.ndarray, dims: list[int]) -> np.ndarray:
        count = len(dims)
        dims.clear()
        return x * count

    assert [popping(X, [1, 2])[0] for _ in range(2)] == [2 * X[0]] * 2


# With a formula, under every transformation -------------------------------------------------------------


def make_product(name: str, *, formula_on_host: bool):
    """Makes ``sin(x * w)`` of rows and one weight, its kernel in numpy and its formula in either."""

    @custom_op(name)
    def product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.sin(x * w)

    product.register_fake(lambda x, w: jax.ShapeDtypeStruct(x.shape, x.dtype))
    xp = np if formula_on_host else jnp

    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        slope = grad * xp.cos(x * w)
        return slope * w, (slope * x).sum(tuple(range(x.ndim - 1)))

    backward.__annotations__["grad"] = np.ndarray if formula_on_host else jax.Array
    product.register_autograd(
        backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
    )
    return product


ROWS = jnp.arange(16.0).reshape(8, 2) / 7
WEIGHT = jnp.array([0.5, 1.5])
either = pytest.mark.parametrize("formula_on_host", [False, True])


def expected_gradients():
    return jax.grad(lambda x, w: (jnp.sin(x * w) ** 2).sum(), (0, 1))(ROWS, WEIGHT)


def assert_gradients(got):
    for one, other in zip(got, expected_gradients(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@either
def test_it_is_right_under_grad_and_vmap_and_scan(formula_on_host: bool) -> None:
    product = make_product("host::trans", formula_on_host=formula_on_host)

    def loss(x, w):
        return (product(x, w) ** 2).sum()

    assert_gradients(jax.jit(jax.grad(loss, (0, 1)))(ROWS, WEIGHT))
    by_row = jax.vmap(jax.grad(loss, (0, 1)), (0, None))(ROWS, WEIGHT)
    assert_gradients([by_row[0], by_row[1].sum(0)])
    scanned = jax.grad(
        lambda x, w: jax.lax.scan(lambda total, row: (total + loss(row, w), None), 0.0, x)[0], (0, 1)
    )
    assert_gradients(jax.jit(scanned)(ROWS, WEIGHT))


@pytest.mark.devices(8)
@either
@pytest.mark.parametrize("check_vma", [True, False])
def test_in_shard_map_a_replicated_weight_has_its_gradient_once(
    formula_on_host: bool, check_vma: bool
) -> None:
    """Fails if a derivative is wrong by the size of the mesh, as that of a bare callback is."""
    product = make_product("host::mesh", formula_on_host=formula_on_host)
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    split, whole = jax.sharding.PartitionSpec("d"), jax.sharding.PartitionSpec()

    def spread(function, outs):
        return jax.shard_map(
            function, mesh=mesh, in_specs=(split, whole), out_specs=outs, check_vma=check_vma
        )

    outside = spread(lambda x, w: jax.lax.psum((product(x, w) ** 2).sum(), "d"), whole)
    assert_gradients(jax.jit(jax.grad(outside, (0, 1)))(ROWS, WEIGHT))

    def inside(x, w):
        of_x, of_w = jax.grad(lambda x, w: (product(x, w) ** 2).sum(), (0, 1))(x, w)
        return of_x, of_w if check_vma else jax.lax.psum(of_w, "d")  # without the check nothing is summed

    assert_gradients(jax.jit(spread(inside, (split, whole)))(ROWS, WEIGHT))


@pytest.mark.devices(8)
@pytest.mark.filterwarnings("ignore:.*its arrays will be gathered:oplib.errors.CompilationWarning")
def test_the_result_of_a_jitted_call_on_spread_arrays_has_a_sharding() -> None:
    product = make_product("host::spread", formula_on_host=False)
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    result = jax.jit(product)(jax.device_put(ROWS, split), WEIGHT)
    assert result.sharding.is_fully_replicated
    np.testing.assert_allclose(result, np.sin(ROWS * WEIGHT), rtol=1e-6)


@either
def test_export_refuses_a_host_kernel_and_names_the_op(formula_on_host: bool) -> None:
    product = make_product("host::export", formula_on_host=formula_on_host)
    functions = [product]
    if formula_on_host:  # only the formula remains in the gradient of the sum
        functions.append(jax.grad(lambda x, w: product(x, w).sum()))
    for function in functions:
        with pytest.raises(TracingError, match=r"host::export: a host function cannot be exported"):
            export.export(jax.jit(function))(ROWS, WEIGHT)


def test_a_formula_on_the_host_has_no_derivative_of_its_own() -> None:
    product = make_product("host::order", formula_on_host=True)
    with pytest.raises(
        MissingRuleError, match=r"host::order: there is no forward-mode rule.*runs on the host"
    ):
        jax.jvp(product, (ROWS, WEIGHT), (ROWS, WEIGHT))
    with pytest.raises(
        MissingRuleError, match=r"host::order: .*on the host.*Write the formula for jax.Array"
    ):
        jax.hessian(lambda w: product(ROWS, w).sum())(WEIGHT)
    x = oplib.Tensor.from_array(ROWS, requires_grad=True)
    y = product(x, oplib.Tensor.from_array(WEIGHT)).sum()
    (gradient,) = oplib.autograd.grad(y, x, create_graph=True)
    with pytest.raises(
        MissingRuleError, match=r"host::order: .*host function.*Write the formula for jax.Array"
    ):
        oplib.autograd.grad(gradient.sum(), x)


@pytest.mark.parametrize("size", [2, 200_000])
def test_twenty_calls_in_flight_come_home(size: int) -> None:
    product = make_product("host::flight", formula_on_host=True)
    x, w = jnp.ones((1, size)), jnp.ones(size)
    forward = jax.jit(product)
    backward = jax.jit(jax.grad(lambda x, w: product(x, w).sum()))

    def fly() -> None:
        started = [run(x * place, w) for place in range(10) for run in (forward, backward)]
        chain = x
        for _ in range(20):
            chain = forward(chain, w)
        jax.block_until_ready([started, chain])
        arrived.append(started)

    arrived: list[list[jax.Array]] = []
    threads = [threading.Thread(target=fly, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert len(arrived) == 3, "calls in flight wait for each other"
    for place in range(10):
        np.testing.assert_allclose(arrived[0][2 * place][0, 0], np.sin(place), atol=1e-6)
        np.testing.assert_allclose(arrived[0][2 * place + 1][0, 0], np.cos(place), atol=1e-6)


def test_an_eager_call_has_no_callback_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    product = make_product("host::direct", formula_on_host=True)

    def refuse(*args, **kwargs):
        raise AssertionError("a callback")

    monkeypatch.setattr(jax, "pure_callback", refuse)
    x = oplib.Tensor.from_array(ROWS, requires_grad=True)
    w = oplib.Tensor.from_array(WEIGHT, requires_grad=True)
    (product(x, w) ** 2).sum().backward()
    assert_gradients([x.grad.array, w.grad.array])
    np.testing.assert_allclose(product(ROWS, WEIGHT), np.sin(ROWS * WEIGHT), rtol=1e-6)


def make_broken(part: str):
    """Returns an op whose kernel or formula on the host raises, or whose fake kernel is wrong."""

    @custom_op(f"host::broken_{part}")
    def broken(x: np.ndarray) -> np.ndarray:
        if part == "kernel":
            raise ValueError("no item\nis positive")
        if part == "numpy":
            return x @ np.ones((4, 4))
        return x * 2

    def formula(ctx, grad: np.ndarray) -> np.ndarray:
        if part == "formula":
            raise KeyError("missing")
        return grad[..., 0] if part == "fake" else grad

    broken.register_fake(
        lambda x: jax.ShapeDtypeStruct((*x.shape, 1) if part == "fake" else x.shape, x.dtype)
    )
    broken.register_autograd(formula)
    return broken


SHOWN = {
    "kernel": (
        r", in broken\. Call the op.*:\nValueError: no item\nis positive$",
        "in a compiled program at ",
    ),
    "numpy": (
        r"program:\nArgumentValueError: .*, in broken: return x @ np.*ValueError: matmul: ",
        "Got x f32[3]",
    ),
    "formula": (r", in formula\. Call the op.*:\nKeyError: 'missing'$", "in a compiled program at "),
    "fake": (r"program:\nResultError: host::broken_fake: the kernel's results differ", "see register_fake"),
}


def differentiate(op, x):
    y = op(x).sum()
    return y, oplib.autograd.grad(y, x)


def scan(op, x):
    return oplib.scan(lambda carry, row: (carry + op(row).sum(), None), oplib.zeros(()), x[None])[0]


PROGRAMS = {
    "oplib.jit": lambda op, x: differentiate(oplib.jit(op), x),
    "all in a program": lambda op, x: oplib.jit(lambda x: differentiate(op, x))(x),
    "oplib.vmap": lambda op, x: oplib.jit(oplib.vmap(lambda x: differentiate(op, x)))(x[None]),
    "oplib.scan": lambda op, x: differentiate(oplib.jit(lambda x: scan(op, x)), x),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("part", SHOWN)
def test_what_a_host_kernel_raises_in_a_program_of_oplib_has_a_short_text_at_each_call(part, program):
    op, (pattern, place) = make_broken(part), SHOWN[part]
    for _ in range(2):
        x = oplib.ones(3, requires_grad=True)
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            PROGRAMS[program](op, x)
        text = str(caught.value)
        assert re.search(pattern, text, re.DOTALL)
        assert place in text
        assert len(text.replace(__file__, "")) < 400
        assert isinstance(caught.value.__cause__, jax.errors.JaxRuntimeError)  # XLA's, with all frames
