"""Kernels annotated jax.Array: traced once, run as one jit; actions that a trace does not allow raise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import AutogradError, TracingError
from oplib.library import custom_op, ops
from oplib.modes import modes

X = np.linspace(-1.0, 1.0, 6, dtype=np.float32).reshape(2, 3)


def test_a_kernel_is_traced_once_per_signature() -> None:
    traces: list[tuple[int, ...]] = []

    @custom_op("compiled::double")
    def double(x: jax.Array) -> jax.Array:
        traces.append(x.shape)
        return x * 2

    for _ in range(3):
        double(jnp.ones(2))
        double(oplib.tensor([1.0, 2.0]))
        double(jnp.ones(3))
    assert sorted(traces) == [(2,), (3,)]


def test_a_formula_is_traced_once_per_signature_and_mask() -> None:
    traces: list[object] = []

    @custom_op("compiled::product")
    def product(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y

    @product.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    def backward(ctx, grad):
        traces.append(ctx.needs_input_grad)
        x, y = ctx.saved_tensors
        return grad * y, grad * x

    x, y = oplib.tensor(X, requires_grad=True), oplib.tensor(X)
    for _ in range(3):
        product(x, y).sum().backward()
        product(x, x).sum().backward()
    assert sorted(traces) == [(True, False), (True, True)]
    np.testing.assert_allclose(x.grad.numpy(), 3 * X + 3 * 2 * X, rtol=1e-6)


def test_arrays_set_as_attributes_of_ctx_are_inputs_of_the_formula_and_the_rest_is_static() -> None:
    traces: list[object] = []

    @custom_op("compiled::scaled")
    def scaled(x: jax.Array, scale: float = 2.0) -> jax.Array:
        return x * x * scale

    def setup(ctx, inputs, output):
        ctx.x, ctx.scale = inputs
        ctx.pair = (inputs[0] * 2, "label")

    @scaled.register_autograd(setup_context=setup)
    def backward(ctx, grad):
        assert isinstance(ctx.x, jax.core.Tracer)
        assert ctx.pair[1] == "label"
        traces.append(ctx.scale)
        return grad * ctx.pair[0] * ctx.scale, None

    for value in (1.0, 2.0, 3.0):
        x = oplib.tensor([value], requires_grad=True)
        scaled(x, 3.0).sum().backward()
        assert x.grad.item() == pytest.approx(6.0 * value)
    assert traces == [3.0]


def test_ctx_is_read_only_in_a_compiled_formula() -> None:
    @custom_op("compiled::writer")
    def writer(x: jax.Array) -> jax.Array:
        return x + 1

    @writer.register_autograd
    def backward(ctx, grad):
        ctx.seen = True
        return grad

    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(AutogradError, match=r"compiled::writer: ctx\.seen was set in the backward formula"):
        writer(x).sum().backward()


def test_reading_an_unset_attribute_raises_with_the_cure() -> None:
    @custom_op("compiled::forgetful")
    def forgetful(x: jax.Array, scale: float) -> jax.Array:
        return x * scale

    def save(ctx, inputs, output):
        ctx.factor = inputs[1]

    forgetful.register_autograd(lambda ctx, grad: (grad * ctx.scale, None), setup_context=save)
    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(
        AttributeError,
        match=r"compiled::forgetful: ctx\.scale is read .* has set \['factor'\]\. Set it in setup_context",
    ):
        forgetful(x, 2.0).sum().backward()
    forgetful.register_autograd(
        lambda ctx, grad: (grad * getattr(ctx, "scale", ctx.factor), None), setup_context=save
    )
    forgetful(x, 2.0).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_a_kernel_that_reads_a_value_names_the_argument_and_the_three_cures() -> None:
    @custom_op("compiled::branch")
    def branch(x: jax.Array, flag: jax.Array) -> jax.Array:
        return x if flag else -x

    with pytest.raises(TracingError, match="concrete value of argument 'flag'") as raised:
        branch(jnp.ones(2), jnp.array(True))
    for cure in ("static", "jax.lax", "compile=False"):
        assert cure in str(raised.value)


def test_a_kernel_that_calls_numpy_learns_of_kernels_on_numpy_arrays() -> None:
    @custom_op("compiled::sine")
    def sine(x: jax.Array) -> jax.Array:
        return jnp.asarray(np.sin(x))

    with pytest.raises(
        TracingError, match=r"'x' .*\. Use jax\.numpy, .*, or annotate numpy\.ndarray\. Got: .*"
    ):
        sine(jnp.ones(2))


def test_compile_false_runs_the_kernel_as_plain_python_on_every_call() -> None:
    calls: list[bool] = []

    @custom_op("compiled::plain", compile=False)
    def plain(x: jax.Array, flag: jax.Array) -> jax.Array:
        calls.append(bool(flag))
        return x * 2 if flag else -x

    plain.register_autograd(
        lambda ctx, grad: (grad * (2 if ctx.flag else -1), None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "flag", bool(inputs[1])),
    )
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    for flag in (True, False, True):
        plain(x, jnp.array(flag)).sum().backward()
    assert calls == [True, False, True]
    assert x.grad.tolist() == [3.0, 3.0]


def test_compile_kernels_false_runs_every_kernel_and_rule_as_plain_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values: list[float] = []

    @custom_op("compiled::debugged")
    def debugged(x: jax.Array) -> jax.Array:
        values.append(float(x[0]))
        return jnp.sin(x)

    @debugged.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    def backward(ctx, grad):
        values.append(float(grad[0]))
        return grad * jnp.cos(ctx.saved_tensors[0])

    x = oplib.tensor([0.5], requires_grad=True)
    monkeypatch.setattr(oplib.config, "compile_kernels", False)
    debugged(x).sum().backward()
    assert values == [0.5, 1.0]
    assert x.grad.item() == pytest.approx(float(np.cos(0.5)))
    np.testing.assert_allclose(debugged(jnp.array([0.5])), np.sin(0.5), rtol=1e-6)


def test_reading_a_tensor_from_outside_while_tracing_raises() -> None:
    outside = oplib.tensor([2.0])

    @custom_op("compiled::freezer")
    def freezer(x: jax.Array) -> jax.Array:
        return x * outside.array

    with pytest.raises(TracingError, match=r"compiled::freezer.*reads a Tensor from outside"):
        freezer(jnp.ones(1))


def test_using_an_op_on_a_tensor_from_outside_while_tracing_raises() -> None:
    outside = oplib.tensor([2.0])

    @custom_op("compiled::op_freezer")
    def op_freezer(x: jax.Array) -> jax.Array:
        return x * (outside * 2).array

    with pytest.raises(TracingError, match="from outside"):
        op_freezer(jnp.ones(1))


def test_advancing_a_generator_from_outside_while_tracing_raises() -> None:
    generator = oplib.Generator()

    @custom_op("compiled::noise")
    def noise(x: jax.Array) -> jax.Array:
        return x + oplib.rand(1, generator=generator).array

    with pytest.raises(TracingError, match="Generator: a draw inside a trace"):
        noise(jnp.ones(1))


def test_a_tensor_made_inside_a_kernel_may_be_used_there() -> None:
    @custom_op("compiled::inside")
    def inside(x: jax.Array) -> jax.Array:
        two = oplib.Tensor.from_array(x) * 2
        return two.array

    assert inside(jnp.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("part", ["kernel", "setup_context"])
def test_a_tracer_closed_over_is_refused(part: str) -> None:
    def run(scale: jax.Array) -> jax.Array:
        closed_over = scale * 2

        @custom_op("compiled::closure")
        def closure(x: jax.Array) -> jax.Array:
            return x * closed_over if part == "kernel" else x

        closure.register_autograd(
            lambda ctx, grad: grad * ctx.scale,
            setup_context=lambda ctx, inputs, output: setattr(ctx, "scale", closed_over),
        )
        return jax.grad(lambda x: closure(x).sum())(jnp.ones(3)).sum()

    with pytest.raises(TracingError, match=f"compiled::closure: the {part} closes over a traced value"):
        jax.jit(run)(2.0)


def test_grad_mode_of_the_first_call_is_not_frozen_into_a_kernel() -> None:
    modes_seen: list[bool] = []

    @custom_op("compiled::mode")
    def mode(x: jax.Array) -> jax.Array:
        modes_seen.append(oplib.is_grad_enabled())
        return x

    mode(jnp.ones(1))
    with oplib.no_grad():
        mode(jnp.ones(2))
    assert modes_seen == [False, False]


def test_a_tensor_that_an_array_kernel_returns_counts_as_its_array() -> None:
    @custom_op("compiled::boxed")
    def boxed(x: jax.Array) -> jax.Array:
        return oplib.Tensor.from_array(x) * 2

    assert boxed(jnp.ones(2)).tolist() == [2.0, 2.0]
    assert boxed(oplib.tensor([1.0])).tolist() == [2.0]


def test_an_op_may_call_itself() -> None:
    @custom_op("compiled::power")
    def power(x: jax.Array, n: int) -> jax.Array:
        return x if n == 0 else x * ops.compiled.power(x, n - 1)

    power.register_autograd("derive")
    x = oplib.tensor(2.0, requires_grad=True)
    power(x, 3).backward()
    assert x.grad.item() == 4 * 2.0**3
    assert jax.grad(power)(2.0, 3) == 4 * 2.0**3


def test_an_exception_in_a_kernel_or_rule_leaves_no_mode_behind() -> None:
    @custom_op("compiled::failing")
    def failing(x: jax.Array, where: str) -> jax.Array:
        if where == "kernel":
            raise KeyError(where)
        return x * 1

    @failing.register_autograd(setup_context=lambda ctx, inputs, output: setattr(ctx, "at", inputs[1]))
    def backward(ctx, grad):
        raise KeyError(ctx.at)

    for where in ("kernel", "formula"):
        x = oplib.tensor([1.0], requires_grad=True)
        with pytest.raises(KeyError, match=where):
            failing(x, where).sum().backward()
        assert modes.tracing is None  # a fixture checks the other modes


def test_constant_results_of_strong_arrays_are_strong() -> None:
    @custom_op("compiled::weak")
    def weak(x: jax.Array) -> jax.Array:
        return jnp.asarray(2.0) * jnp.asarray(3.0)

    assert not weak(jnp.ones(2)).weak_type
    assert not jax.jit(weak)(jnp.ones(2)).weak_type
