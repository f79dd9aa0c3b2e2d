"""Functions that contain the fast paths of their overloads: only the time of a call may differ."""

from __future__ import annotations

import gc
import inspect
import itertools
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib import Tensor
from oplib.errors import ArgumentError, ArgumentOverflowError, AutogradError, RegistrationError
from oplib.library import Library, ops, register_autograd
from oplib.library.dispatch.inlined_overloads import Branch, inline_overloads
from oplib.tensor.views import Chain
from tests.threads import run_in_threads

X, Y = jnp.arange(3.0), jnp.asarray([2.0, 3.0, 5.0])


@pytest.fixture
def scale() -> Iterator[Any]:
    """A function of two overloads that records which calls its own code has served."""
    library = Library("inlined", "FRAGMENT")
    library.define("scale.Tensor(Tensor self, Tensor other) -> Tensor")
    library.define("scale.Scalar(Tensor self, Scalar other) -> Tensor", operand=["other"])

    def kernel(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y

    for name in ("scale.Tensor", "scale.Scalar"):
        library.impl(name, kernel, "default")
        register_autograd(f"inlined::{name}", "derive")
    on_tensor, on_number = ops.inlined.scale.Tensor, ops.inlined.scale.Scalar
    served: list[str] = []

    def scale(self: Any, other: Any, *, times: int = 1) -> Any:
        served.append(type(other).__name__)
        overload = on_number if isinstance(other, (int, float)) else on_tensor
        return overload.call(self, other * times)

    made: Any = inline_overloads(
        scale, Branch("{1}.__class__ is float", on_number, (0, 1)), Branch("", on_tensor, (0, 1))
    )
    made.served, made.library = served, library
    yield made
    library._destroy()


def leaf(array: Any) -> Tensor:
    return Tensor.from_array(jnp.asarray(array), requires_grad=True)


@pytest.mark.fast_path
def test_after_the_first_calls_its_own_code_serves_only_calls_without_fast_path(scale: Any) -> None:
    x, y = Tensor.from_array(X), Tensor.from_array(Y)
    for _ in range(3):
        np.testing.assert_array_equal(scale(x, y).array, X * Y)
        np.testing.assert_array_equal(scale(x, 2.0).array, X * 2)
    scale.served.clear()
    scale(x, y), scale(x, 2.0), scale(self=x, other=y)
    assert scale.served == []
    np.testing.assert_array_equal(scale(x, 2.0, times=3).array, X * 6)
    np.testing.assert_array_equal(scale(x, 2).array, X * 2)
    assert scale.served == ["float", "int"]


def test_arrays_give_arrays(scale: Any) -> None:
    for _ in range(3):
        result = scale(X, Y)
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(result, X * Y)
    np.testing.assert_array_equal(jax.jit(lambda x: scale(x, Y))(X), X * Y)


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)], ids=str)
@pytest.mark.parametrize("is_leaf", [True, False], ids=["leaves", "results"])
def test_gradients_are_right_whatever_was_recorded_before(
    scale: Any, wanted: tuple[bool, bool], is_leaf: bool
) -> None:
    others = [(True, True), (False, True), (True, False)]
    for shape in ((3,), (2, 3)):
        for mask in [*others, wanted, wanted]:
            x, y = (
                Tensor.from_array(jnp.broadcast_to(array, shape), requires_grad=want)
                for array, want in zip((X, Y), mask, strict=True)
            )
            inputs = [one if is_leaf or not one.requires_grad else one + 0.0 for one in (x, y)]
            (scale(*inputs) * 3.0).sum().backward()
            for one, other, want in ((x, y, mask[0]), (y, x, mask[1])):
                assert (one.grad is not None) is want
                if want:
                    np.testing.assert_allclose(one.grad.array, 3.0 * np.asarray(other.array))


@pytest.mark.parametrize("mask", [m for m in itertools.product((False, True), repeat=3) if any(m)], ids=str)
@pytest.mark.parametrize("function", [oplib.lerp, oplib.addcmul], ids=lambda one: one.__name__)
def test_gradients_of_three_tensors_go_to_those_that_want_them(function: Any, mask: tuple[bool, ...]) -> None:
    def formula(x: jax.Array, y: jax.Array, z: jax.Array) -> jax.Array:
        return (x + z * (y - x) if function is oplib.lerp else x + y * z).sum()

    arrays = (X, Y, X * 0.25 + 1.0)
    expected = jax.grad(formula, argnums=(0, 1, 2))(*arrays)
    for _ in range(3):  # the first call takes the complete path, the next the code that it added
        tensors = [Tensor.from_array(one, requires_grad=want) for one, want in zip(arrays, mask, strict=True)]
        function(*tensors).sum().backward()
        for tensor, gradient, want in zip(tensors, expected, mask, strict=True):
            assert (tensor.grad is not None) is want
            if want:
                np.testing.assert_allclose(tensor.grad.array, gradient, rtol=1e-6)


@pytest.mark.usefixtures("told_already")
def test_a_rule_that_is_registered_later_is_used_at_once(scale: Any) -> None:
    x, y = Tensor.from_array(X), Tensor.from_array(Y)
    for _ in range(3):
        scale(x, y)
    scale.library.impl("scale.Tensor", add_kernel, "default")
    np.testing.assert_array_equal(scale(x, y).array, X + Y)
    np.testing.assert_array_equal(scale(x, y).array, X + Y)


def add_kernel(x: jax.Array, y: jax.Array) -> jax.Array:
    return x + y


@pytest.mark.fast_path
@pytest.mark.usefixtures("told_already")
def test_code_is_written_anew_for_a_rule_that_is_registered_later(scale: Any) -> None:
    x, y = Tensor.from_array(X), Tensor.from_array(Y)
    for kernel in (add_kernel, add_kernel):
        for _ in range(3):
            scale(x, y), scale(x, 2.0)
        scale.served.clear()
        scale(x, y), scale(x, 2.0)
        assert not scale.served
        scale.library.impl("scale.Tensor", kernel, "default")
        np.testing.assert_array_equal(scale(x, y).array, X + Y)
        assert scale.served == ["Tensor"]


@pytest.mark.fast_path
@pytest.mark.usefixtures("small_heap", "told_already")
def test_code_that_is_gone_leaves_no_objects_of_former_records(scale: Any) -> None:
    x, y = leaf(X), leaf(Y)
    records, sizes = [], []
    for _ in range(12):
        scale.library.impl("scale.Tensor", add_kernel, "default")
        for _ in range(3):
            scale(x, y).sum().backward()
        records.append(weakref.ref(ops.inlined.scale.Tensor.prepare()))
        gc.collect()
        sizes.append(len(scale.__globals__))
    assert sum(record() is not None for record in records) <= 6  # caches of JAX hold some
    assert sizes[-1] <= sizes[0] + 40  # each record adds 5 to 10 names


def test_an_op_that_is_gone_raises(scale: Any) -> None:
    x, y = leaf(X), leaf(Y)
    for _ in range(3):
        scale(x, y)
    scale.library._destroy()
    with pytest.raises(RegistrationError, match="not defined any more"):
        scale(x, y)


def test_parameters_names_and_text_are_those_of_the_function() -> None:
    assert str(inspect.signature(oplib.mul)).startswith("(input, other, *, out=None")
    assert list(inspect.signature(oplib.Tensor.add).parameters) == ["input", "other", "alpha"]
    assert oplib.Tensor.__mul__.__qualname__ == "TensorOperators.__mul__"
    assert oplib.exp.__name__ == "exp"
    assert "torch.exp" in (oplib.exp.__doc__ or "")


class Foreign:
    def __radd__(self, other: object) -> str:
        return "mine"

    __rmul__ = __rsub__ = __rtruediv__ = __rmatmul__ = __radd__


def test_operators_leave_unknown_operands_to_the_other_side() -> None:
    x = leaf(X)
    for _ in range(3):
        assert [x + Foreign(), x * Foreign(), x - Foreign(), x / Foreign(), x @ Foreign()] == ["mine"] * 5
        with pytest.raises(TypeError, match="unsupported operand type"):
            x + "a"
        assert (x == None) is False  # noqa: E711  Python's own answer is asked for


@pytest.mark.parametrize(
    ("run", "saved"), [(lambda x: x * x, "input"), (lambda x: x.exp(), "output"), (lambda x: x / 2.0, None)]
)
def test_a_write_to_a_saved_tensor_is_found(run: Any, saved: str | None) -> None:
    for _ in range(3):
        x = leaf(X) * 1.0
        y = run(x)
        {"input": x, "output": y, None: x}[saved].detach().add_(1.0)
        if saved is None:
            y.sum().backward()
            continue
        with pytest.raises(AutogradError, match="modified by an inplace operation"):
            y.sum().backward()


def test_results_without_gradients_have_no_history() -> None:
    x = leaf(X)
    for _ in range(3):
        assert not (x > 1.0).requires_grad
        assert (x > 1.0).grad_fn is None


def test_in_inference_mode_results_are_inference_tensors() -> None:
    x = leaf(X)
    for _ in range(3):
        assert (x * x).requires_grad
        with oplib.inference_mode():
            assert (x * x).is_inference()


def test_many_threads_may_write_its_code_at_once(scale: Any) -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    failed: list[object] = []

    def work(number: int) -> None:
        for turn in range(40):
            x, y = (Tensor.from_array(array, requires_grad=True) for array in (X, Y))
            mask = (turn + number) % 3
            inputs = (x.detach() if mask == 1 else x, y.detach() if mask == 2 else y)
            scale(*inputs).sum().backward()
            if mask != 1 and not np.array_equal(x.grad.array, Y):
                failed.append((number, turn, x.grad))

    try:
        run_in_threads(work)
    finally:
        sys.setswitchinterval(before)
    assert failed == []


@pytest.mark.fast_path
@pytest.mark.usefixtures("told_already")
def test_a_rule_may_be_registered_while_other_threads_write_its_code(scale: Any) -> None:
    x, y = Tensor.from_array(X), Tensor.from_array(Y)

    def work(number: int) -> None:
        for turn in range(24):
            if turn % 4 == number:
                scale.library.impl("scale.Tensor", add_kernel, "default")
            result = scale(x, y).array
            assert np.array_equal(result, X + Y)

    scale.library.impl("scale.Tensor", add_kernel, "default")
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    try:
        run_in_threads(work)
    finally:
        sys.setswitchinterval(before)
    for _ in range(2):
        scale(x, y)
    scale.served.clear()
    scale(x, y)
    assert not scale.served


def product(self: Any, other: Any) -> Any:
    return oplib.ops.oplib.mul.Tensor(self, other)


def test_the_text_of_a_inlined_function_can_be_read() -> None:
    inlined = inline_overloads(product, Branch("", oplib.ops.oplib.mul.Tensor))
    for _ in range(2):
        inlined(Tensor.from_array(X), Tensor.from_array(Y))
    source = inspect.getsource(inlined)
    assert source.startswith("def product(self, other):")
    assert "specialization = __find(())" in source


@pytest.mark.fast_path
def test_a_function_gets_its_code_at_the_second_call_which_this_code_serves() -> None:
    inlined = inline_overloads(product, Branch("", oplib.ops.oplib.mul.Tensor))
    before = inspect.getsource(inlined)
    for count in (1, 2):
        x = Tensor.from_array(X, requires_grad=True)
        inlined(x, Tensor.from_array(Y)).sum().backward()
        assert np.array_equal(x.grad.array, Y)
        assert (inspect.getsource(inlined) == before) is (count == 1)
    assert "__is_prepared" not in inspect.getsource(inlined)
    assert "__pattern is " in inspect.getsource(inlined)


@pytest.mark.fast_path
def test_a_write_through_a_view_runs_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    x = oplib.zeros(4, 4)
    held = x[1:3, ::2]

    def write() -> None:
        held.fill_(1)
        held.mul_(2.0).add_(x[3, :2])
        x[3] += 1.0

    for _ in range(3):
        write()
    with monkeypatch.context() as patch:
        patch.setattr(Chain, "write", None)  # the second of three programs
        version = x._version
        write()
    assert x._version == version + 5
    assert x.tolist() == [[0.0] * 4, *[[5.0, 0.0, 5.0, 0.0]] * 2, [4.0] * 4]


@pytest.mark.fast_path
def test_a_result_that_does_not_fit_into_the_view_is_converted_or_refused() -> None:
    x = oplib.zeros(2, 2, dtype=oplib.float16)
    whole, integers = oplib.ones(2, 2, dtype=oplib.float16), oplib.ones(2, 2, dtype=oplib.int32)
    wide = oplib.full((2,), 0.5)
    for count in range(1, 5):
        x[0].add_(wide)
        assert x.tolist() == [[0.5 * count] * 2, [0.0] * 2]
        with pytest.raises(ArgumentError, match="doesn't match the broadcast shape"):
            x[:1].add_(whole)  # the result has the shape of the base
        with pytest.raises(ArgumentError, match="can't be cast"):
            integers[0].mul_(2.5)
        with pytest.raises(AutogradError, match="single memory"):
            x[0, :1].expand(2).add_(1.0)
    assert integers.tolist() == [[1, 1], [1, 1]]


@pytest.mark.fast_path
def test_a_number_that_does_not_fit_fills_nothing() -> None:
    x = oplib.zeros(2, dtype=oplib.int8)
    for _ in range(3):
        x.fill_(3)
        with pytest.raises(ArgumentOverflowError, match="without overflow"):
            x.fill_(300)
        assert x.tolist() == [3, 3]


@pytest.mark.fast_path
def test_a_write_through_a_view_is_counted_and_recorded_as_before() -> None:
    leaf = oplib.ones(2, requires_grad=True)
    for _ in range(3):
        x = oplib.ones(2, 2)
        product = leaf * x[0]
        x[0].mul_(2.0)
        with pytest.raises(AutogradError, match="modified by an inplace operation"):
            product.sum().backward()
        x[1].mul_(leaf)
        x[0].mul_(3.0)
        x.sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.tolist() == [1.0, 1.0]
        leaf.grad = None
        with oplib.no_grad():
            early = x[1]
            x[1].mul_(2.0)
        with pytest.raises(AutogradError, match="no_grad"):
            early.mul_(2.0)
