"""Calls of an op with every kind of kernel: its arguments, its results, and the errors.

Behaviour that torch has too is tested in ``tests/parity/test_calling.py``.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib import Device, Tensor
from oplib.errors import (
    ArgumentError,
    AutogradError,
    ConcreteValueError,
    DimensionError,
    MissingRuleError,
    ResultError,
)
from oplib.library import Library, Tag, custom_op, define, eval_shape, impl, ops
from tests.library.sample_kernels import KINDS


def register(fn: Any, hint: Any, schema: str | None = None, *, name: str = "call::op", **options: Any) -> Any:
    """Registers a function whose tensors are annotated with ``hint``."""
    fn.__annotations__ = {"x": hint, "return": hint}
    return custom_op(name, fn, schema=schema, **options)


def tensor(*values: float, grad: bool = False) -> Tensor:
    return oplib.tensor([float(value) for value in values], requires_grad=grad)


# The arguments of a kernel --------------------------------------------------------------------------------


def test_defaults_are_filled_in_as_typed_values(hint: Any) -> None:
    seen: list[Any] = []

    def kernel(x, d, v, n, many, s, *, flag):
        seen.append((d, v, n, many, s, flag))
        return x * 1

    schema = (
        "(Tensor x, ScalarType d=float32, Device v='cpu', int[2] n=3, int[] many=[1, 2], str s='b', *, "
        "bool flag=True) -> Tensor"
    )
    op = register(kernel, hint, schema)
    op(tensor(1))
    op(tensor(1), n=4, s=b"zz", flag=0)
    assert seen[0] == (np.dtype("float32"), Device("cpu"), [3, 3], [1, 2], "b", True)
    assert seen[1] == (np.dtype("float32"), Device("cpu"), [4, 4], [1, 2], "zz", False)
    assert type(seen[1][-1]) is bool


def test_parameters_may_have_other_names_than_the_schema(hint: Any) -> None:
    def kernel(x, factor):
        return x * factor

    op = register(kernel, hint, "(Tensor values, float by) -> Tensor")
    assert op(by=3, values=tensor(2)).tolist() == [6.0]


def test_a_default_list_that_a_kernel_changed_is_whole_at_the_next_call() -> None:
    def kernel(x, many):
        many.append(9)
        return x * len(many)

    op = register(kernel, Tensor, "(Tensor x, int[] many=[1, 2]) -> Tensor")
    assert [op(tensor(1)).tolist(), op(tensor(1)).tolist()] == [[3.0], [3.0]]


# The results of a kernel ----------------------------------------------------------------------------------


def test_results_take_the_declared_form(hint: Any) -> None:
    op = register(
        lambda x: [x * 1, True, 2, (x * 1, x * 3)], hint, "(Tensor x) -> (Tensor, int, float, Tensor[])"
    )
    first, number, real, rest = op(tensor(1))
    assert (first.tolist(), number, real, [one.tolist() for one in rest]) == ([1.0], 1, 2.0, [[1.0], [3.0]])
    assert [type(number), type(real), type(rest)] == [int, float, list]


def test_the_number_of_results_is_checked(hint: Any) -> None:
    op = register(lambda x: (x * 1, x * 2, x * 3), hint, "(Tensor x) -> (Tensor, Tensor)")
    with pytest.raises(ResultError, match=r"call::op: the kernel returned 3 results. Declared are 2"):
        op(tensor(1))


@pytest.mark.parametrize(
    "make", [lambda x: x.array * 2, lambda x: np.ones(1, np.float32)], ids=["jax", "numpy"]
)
@pytest.mark.parametrize("grad", [False, True])
def test_an_eager_kernel_that_returns_an_array_is_refused(make: Any, grad: bool) -> None:
    op = register(make, Tensor, "(Tensor x) -> Tensor")
    with pytest.raises(ResultError, match="the kernel works on Tensors and returned an array"):
        op(tensor(1, grad=grad))


def test_an_exception_of_a_kernel_keeps_its_type(hint: Any) -> None:
    def kernel(x):
        raise KeyError("kernel")

    op = register(kernel, hint, "(Tensor x) -> Tensor")
    for x in (tensor(1), tensor(1, grad=True), jnp.ones(1)):
        with pytest.raises(KeyError, match="kernel"):
            op(x)


def test_no_call_needs_a_fake_kernel_that_raises(hint: Any) -> None:
    def fake(x):
        raise KeyError("fake")

    op = register(lambda x: x * 2, hint, "(Tensor x) -> Tensor")
    op.register_fake(fake)
    op.register_autograd(lambda ctx, grad: grad * 2)
    x = tensor(1, grad=True)
    with pytest.warns(
        UserWarning, match="call::op: the fake kernel at .* raised an error. Got KeyError: 'fake'"
    ):
        op(x).sum().backward()
    assert (op(tensor(1)).tolist(), op(jnp.ones(1)).tolist(), x.grad.tolist()) == ([2.0], [2.0], [2.0])
    with pytest.raises(KeyError, match="fake"):
        eval_shape(op, jnp.ones(1))


def test_an_undeclared_write_is_found_among_arrays_too() -> None:
    def kernel(x, y):
        y.add_(1)
        return x * 1

    op = register(kernel, Tensor, "(Tensor x, Tensor y) -> Tensor")
    for call in (op, jax.jit(op)):
        with pytest.raises(
            AutogradError, match="the kernel wrote argument 'y', which is not defined as mutable"
        ):
            call(jnp.ones(1), jnp.ones(1))


# Written arguments that are results -----------------------------------------------------------------------


def add_in_place(hint: Any, **options: Any) -> Any:
    if hint is jax.Array:
        kernel = lambda x, y: x + y  # noqa: E731  a kernel on arrays returns the new value
    else:

        def kernel(x, y):
            x += y
            return x

    schema = "(Tensor(a!) x, Tensor y) -> Tensor(a!)"
    return register(kernel, hint, schema, mutates_args=("x",), tags=Tag.inplace, **options)


def test_an_inplace_op_returns_the_very_object(hint: Any) -> None:
    op, x = add_in_place(hint), tensor(1)
    assert op(x, tensor(2)) is x
    assert x.tolist() == [3.0]
    assert x._version > 0


def test_an_inplace_op_with_a_gradient_gives_a_result_that_cannot_be_differentiated(hint: Any) -> None:
    op, x = add_in_place(hint), tensor(1)
    result = op(x, tensor(2, grad=True))
    assert (result.tolist(), result.requires_grad, x.tolist()) == ([3.0], True, [3.0])
    with pytest.raises(MissingRuleError, match="no autograd formula was registered"):
        result.sum().backward()


def test_the_functional_form_gives_the_new_value_once(hint: Any) -> None:
    op = add_in_place(hint)
    functional, ones = op._opoverload.functional, jnp.ones((3, 2))
    for transform in (lambda f: f, jax.jit, jax.vmap):
        assert transform(functional)(ones, ones).tolist() == [[2.0, 2.0]] * 3
    assert eval_shape(op, ones, ones).shape == (3, 2)


def test_a_batching_rule_of_an_inplace_op_gives_the_new_value(hint: Any) -> None:
    op, ones = add_in_place(hint), jnp.ones((3, 2))
    op.register_vmap(lambda info, in_dims, x, y: (x.add_(y * 10) if hint is Tensor else x + y * 10, 0))
    assert jax.vmap(op._opoverload.functional)(ones, ones).tolist() == [[11.0, 11.0]] * 3


def test_an_inplace_op_of_define_returns_the_very_object(hint: Any) -> None:
    kernel = add_in_place(hint, name="call::other").__wrapped__
    define("call::op", "(Tensor(a!) x, Tensor y) -> Tensor(a!)")
    impl("call::op", "default", kernel)
    x = tensor(1)
    assert ops.call.op(x, tensor(2)) is x
    assert x.tolist() == [3.0]


def test_a_result_may_stand_beside_a_returned_argument(hint: Any) -> None:
    if hint is jax.Array:
        kernel = lambda x, y: (x + y, y * 2)  # noqa: E731  the new value first, then what is declared besides
    else:

        def kernel(x, y):
            x += y
            return y * 2, x

    define("call::op", "(Tensor(a!) x, Tensor y) -> (Tensor, Tensor(a!))")
    kernel.__annotations__ = {"x": hint}
    impl("call::op", "default", kernel)
    x = tensor(1)
    doubled, returned = ops.call.op(x, tensor(2))
    assert returned is x
    assert (doubled.tolist(), x.tolist()) == ([4.0], [3.0])


@pytest.mark.parametrize("kind", ["host", "eager"])
def test_another_object_in_the_place_of_a_written_argument_is_refused(kind: str) -> None:
    schema = "(Tensor x, *, Tensor(a!) first, Tensor(b!) second) -> (Tensor(a!), Tensor(b!))"
    op = register(
        lambda x, *, first, second: (second, first),
        KINDS[kind],
        schema,
        mutates_args=("first", "second"),
        tags=Tag.out,
    )
    with pytest.raises(
        ResultError, match=r"Tag.out its mutable keyword-only arguments.*In the place of 'first'"
    ):
        op(tensor(1), first=tensor(0), second=tensor(0))


def test_an_out_op_refuses_gradients(hint: Any) -> None:
    schema = "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
    op = register(lambda x, *, out: out, hint, schema, mutates_args=("out",), tags=Tag.out)
    with pytest.raises(AutogradError, match=r"functions with out=\.\.\. arguments don't support automatic"):
        op(tensor(1, grad=True), out=tensor(0))
    with oplib.no_grad():
        out = tensor(0)
        assert op(tensor(1, grad=True), out=out) is out


# Gradients ------------------------------------------------------------------------------------------------


def test_tensors_beside_none_in_a_list_get_gradients(hint: Any) -> None:
    op = register(lambda xs: xs[0] + xs[2], hint, "(Tensor?[] xs) -> Tensor")
    op.register_autograd(lambda ctx, grad: [grad * 3 if flag else None for flag in ctx.needs_input_grad[0]])
    x, y = tensor(1, grad=True), tensor(2)
    op([x, None, y]).sum().backward()
    assert (x.grad.tolist(), y.grad) == ([3.0], None)


def test_an_empty_list_of_numbers_has_none_for_a_gradient(hint: Any) -> None:
    op = register(lambda xs, n: xs[0] + len(n), hint, "(Tensor[] xs, int[] n) -> Tensor")
    op.register_autograd(lambda ctx, grad: ([grad * 3], None))
    x = tensor(1, grad=True)
    op([x], []).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_an_op_of_define_without_a_formula_is_opaque_to_gradients(hint: Any) -> None:
    kernel = lambda x: x * 2  # noqa: E731
    kernel.__annotations__ = {"x": hint}
    define("call::op", "(Tensor x) -> Tensor")
    impl("call::op", "default", kernel)
    result = ops.call.op(tensor(1, grad=True))
    assert result.requires_grad
    with pytest.raises(MissingRuleError, match=r"call::op but no autograd formula was registered"):
        result.sum().backward()


def test_a_tensor_with_a_gradient_is_not_written_while_grad_mode_is_on(hint: Any) -> None:
    op, leaf = add_in_place(hint), tensor(1, grad=True)
    for x, what in ((leaf, "a leaf Variable that requires grad"), (leaf * 1, "a tensor with history")):
        with pytest.raises(AutogradError, match=f"call::op: {what} is being used in an in-place operation"):
            op(x, tensor(1))
        assert (x.tolist(), x._version) == ([1.0], 0)
    with oplib.no_grad():
        assert op(leaf, tensor(1)).tolist() == [2.0]


def test_a_graph_is_freed_without_the_garbage_collector(hint: Any) -> None:
    op = register(lambda x: x * 2, hint, "(Tensor x) -> Tensor")
    op.register_autograd(
        lambda ctx, grad: grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0], output),
    )
    x = tensor(1, grad=True)
    op(x).sum().backward()  # compiled code is reused
    gc.collect()
    gc.disable()
    try:
        result = op(x * 1)
        node, storage = weakref.ref(result.grad_fn), weakref.ref(result)
        del result
        assert (node(), storage()) == (None, None)
    finally:
        gc.enable()


# Errors ---------------------------------------------------------------------------------------------------


def test_an_error_leaves_tensors_and_gradients_as_they_were(hint: Any) -> None:
    op = register(lambda x, n: x * n, hint, "(Tensor x, int n) -> Tensor")
    op.register_autograd(lambda ctx, grad: (grad, grad))
    x = tensor(1, grad=True)
    with pytest.raises(ArgumentError, match=r"argument 'n' .* found 'text'"):
        op(x, "text")
    with pytest.raises(AutogradError, match="gradient different than None at position 1"):
        op(x, 3).sum().backward()
    assert (x.grad, x._version, x.grad_fn) == (None, 0, None)


def test_a_failed_write_leaves_all_tensors_as_they_were() -> None:
    schema = "(Tensor(a!)[] xs) -> ()"
    op = register(lambda xs: [xs[0] * 2, xs[1][:1]], jax.Array, schema, mutates_args=("xs",))
    first, second = tensor(1, 2), tensor(1, 2)
    with pytest.raises(RuntimeError, match=r"f32\[1\] for f32\[2\]"):
        op([first, second])
    assert (first.tolist(), first._version, second.tolist(), second._version) == (
        [1.0, 2.0],
        0,
        [1.0, 2.0],
        0,
    )


def test_the_error_of_a_wrong_argument_has_three_parts(hint: Any) -> None:
    op = register(lambda x, n: x, hint, "(Tensor x, int n=1) -> Tensor")
    with pytest.raises(ArgumentError) as caught:
        op(tensor(1), n="text")
    assert str(caught.value) == (
        "call::op: argument 'n' (position 1) expected a value of type 'int' but found 'text', of type str. "
        "Declared: call::op(Tensor x, int n=1) -> Tensor. "
        "Pass an int, a bool, or an integer array of one element."
    )


# Kernels for devices --------------------------------------------------------------------------------------


def test_the_error_of_a_missing_kernel_lists_the_kernels(hint: Any) -> None:
    op = register(lambda x: x * 1, hint, "(Tensor x) -> Tensor", device_types="tpu")
    message = r"call::op: Could not run: .* not have a kernel registered for platform 'cpu'\. Registered: tpu"
    with pytest.raises(MissingRuleError, match=message):
        op(tensor(1))
    with pytest.raises(NotImplementedError, match=message):
        op(jnp.ones(1))


def test_a_call_without_tensors_has_no_kernel_for_a_device(hint: Any) -> None:
    op = register(lambda xs: 1, hint, "(Tensor[] xs) -> int", device_types="cpu")
    with pytest.raises(MissingRuleError, match="no tensor arguments in the call that tell its device"):
        op([])
    op.register_kernel(None, lambda xs: 2)
    assert op([]) == 2


def test_a_factory_runs_the_kernel_for_its_device(hint: Any) -> None:
    make = {Tensor: oplib.ones, np.ndarray: lambda n: np.ones(n, np.float32)}.get(hint, jnp.ones)
    kernel = lambda n, device: make(n)  # noqa: E731
    kernel.__annotations__ = {"return": hint}
    define("call::ones", "(int n, *, Device? device=None) -> Tensor")
    impl("call::ones", "cpu", kernel)
    assert ops.call.ones(2, device="cpu").tolist() == [1.0, 1.0]
    assert ops.call.ones(2).tolist() == [1.0, 1.0]
    with pytest.raises(MissingRuleError, match="does not have a kernel registered for platform 'cuda'"):
        ops.call.ones(2, device="cuda")


@pytest.mark.devices(4)
def test_the_result_of_a_compiled_factory_is_on_its_device() -> None:
    @custom_op("call::op")
    def make(n: int, *, device: Device | None = None) -> jax.Array:
        return jnp.ones(n)

    assert make(2, device="cpu:3").device == Device("cpu:3")
    assert make.arrays(2, device="cpu:2").devices() == {jax.devices()[2]}
    assert make(2).device == oplib.ones(2).device


def test_an_argument_called_device_steers_nothing_beside_tensors(hint: Any) -> None:
    op = register(lambda x, device: x * 1, hint, "(Tensor x, Device device) -> Tensor", device_types="cpu")
    assert op(tensor(1), "cuda").tolist() == [1.0]


# Batching rules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (
            lambda x: (x[:2], 0),
            ResultError,
            r"another batch size. Got f32\[2,2\] with the batch at 0, and .* has 3",
        ),
        (lambda x: (x, 5), DimensionError, r"out of range. Got 5 for f32\[3,2\]"),
        (lambda x: (x, "first"), ResultError, r"incompatible out_dims. Got 'first' for one array"),
        (lambda x: x, ResultError, r"must give two returns, \(output, out_dims\)"),
    ],
)
@pytest.mark.parametrize("kind", ["compiled", "eager"])
def test_a_batching_rule_is_held_to_its_answer(kind: str, answer: Any, error: type, message: str) -> None:
    op = register(lambda x: x * 1, KINDS[kind], "(Tensor x) -> Tensor")
    op.register_vmap(lambda info, in_dims, x: answer(x))
    with pytest.raises(
        error, match=f"call::op: the vmap {'rule' if 'dims. Got' not in message else 'static'}.*{message}"
    ):
        jax.vmap(op)(jnp.ones((3, 2)))


def test_a_batching_rule_gets_a_place_for_each_positional_argument() -> None:
    seen: list[Any] = []

    def rule(info, in_dims, xs, y, n, *, m):
        seen.append((in_dims, n, m))
        return xs[0] * y, 0

    kernel = lambda xs, y, n, *, m: xs[0] * y  # noqa: E731
    op = register(kernel, jax.Array, "(Tensor?[] xs, Tensor y, int n=3, *, int m=4) -> Tensor")
    op.register_vmap(rule)
    jax.vmap(lambda x: op([x, None, jnp.ones(1)], jnp.ones(1)))(jnp.ones((3, 1)))
    assert seen[0] == (([0, None, None], None, None), 3, 4)


# Traces ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("J.18")
@pytest.mark.parametrize("kind", [jax.Array, np.ndarray])
def test_an_op_of_the_user_gives_no_known_value_while_a_function_is_traced(kind: Any) -> None:
    op = register(lambda x: x * 2, kind)
    op.register_fake(lambda x: x * 2)
    text = r"needed while the function is compiled at .*op\(oplib.ones"
    with pytest.raises(ConcreteValueError, match=text):
        oplib.jit(lambda x: op(oplib.ones(1)).item())(oplib.ones(3))
    assert oplib.jit(lambda x: x + oplib.neg(oplib.ones(1)).item())(oplib.ones(1)).tolist() == [0.0]


# Packets --------------------------------------------------------------------------------------------------


def test_a_packet_tries_its_overloads_in_order_in_every_world() -> None:
    library = Library("call", "FRAGMENT")
    for schema, kernel in {
        "pick(Tensor x) -> Tensor": lambda x: x * 1,
        "pick.times(Tensor x, int n) -> Tensor": lambda x, n: x * n,
        "pick.many(Tensor[] xs) -> Tensor": lambda xs: xs[0] * 100,
    }.items():
        library.define(schema)
        kernel.__annotations__ = {"x": jax.Array, "xs": list[jax.Array]}
        library.impl(schema.partition("(")[0], kernel, "default")
    pick = ops.call.pick
    for make in (tensor, lambda *values: jnp.array(values, jnp.float32)):
        x = make(2)
        assert [pick(x).tolist(), pick(x, 3).tolist(), pick([x]).tolist()] == [[2.0], [6.0], [200.0]]
    with pytest.raises(ArgumentError, match=r"failed to match any schema(.|\n)*call::pick.times"):
        pick(tensor(1), "text")


@pytest.mark.usefixtures("forget_ops")
def test_a_kernel_on_tensors_draws_other_numbers_at_each_call_and_the_generator_counts_calls():
    @custom_op("dispatch_test::noise")
    def noise(x: oplib.Tensor, generator: oplib.Generator | None = None) -> oplib.Tensor:
        return x + oplib.rand(3, generator=generator) + oplib.rand(3, generator=generator)

    def run(generator):
        drawn = [noise(oplib.zeros(3), generator) for _ in range(2)]
        return [one.tolist() for one in drawn], generator.get_state()[2]

    (first, second), count = run(oplib.Generator().manual_seed(3))
    assert (first != second, count) == (True, 2)
    assert run(oplib.Generator().manual_seed(3)) == ([first, second], 2)
    assert run(oplib.Generator().manual_seed(4))[0][0] != first
