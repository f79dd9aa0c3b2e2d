"""The programs of the group ``tape``: each takes a library (oplib, torch), and returns a function to time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Program = Callable[[], Any]
SHAPE = (8, 8)
PARAMETERS = 50
TIMES = 10


def _make_leaf(lib: Any, *shape: int) -> Any:
    return lib.full(shape or SHAPE, 0.5).requires_grad_()


def _make_square(lib: Any) -> Any:
    """Returns a Function with the rules of all transformations, in the form for which both have vmap."""

    class Square(lib.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:  # noqa: ARG004
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * ctx.saved_tensors[0]

    return Square


def _run_backward(result: Any, ones: Any, leaf: Any) -> Any:
    result.backward(ones)
    grad, leaf.grad = leaf.grad, None
    return grad


def batched(lib: Any) -> Program:
    """Pulls eight gradients back through three ops."""
    x, grads = _make_leaf(lib), lib.ones(8, *SHAPE)
    y = (x * x).tanh() * x
    return lambda: lib.autograd.grad(y, x, grads, retain_graph=True, is_grads_batched=True)[0]


def forward_mode(lib: Any) -> Program:
    """Pushes a tangent through a Function."""
    square, x, tangent = _make_square(lib), lib.full(SHAPE, 0.5), lib.ones(*SHAPE)
    forward_ad = lib.autograd.forward_ad

    def run() -> Any:
        with forward_ad.dual_level():
            dual = square.apply(forward_ad.make_dual(x, tangent))
            return forward_ad.unpack_dual(dual).tangent

    return run


def saved_on_cpu(lib: Any) -> Program:
    """Runs forward and backward of two ops below ``save_on_cpu``."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)

    def run() -> Any:
        with lib.autograd.graph.save_on_cpu():
            y = (x * x) * x
        return _run_backward(y, ones, x)

    return run


def saved_by_hooks(lib: Any) -> Program:
    """Runs forward and backward of two ops below hooks for saved tensors."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)

    def run() -> Any:
        with lib.autograd.graph.saved_tensors_hooks(_keep, _keep):
            y = (x * x) * x
        return _run_backward(y, ones, x)

    return run


def _keep(value: Any) -> Any:
    return value


def checkpoint(lib: Any) -> Program:
    """Runs forward and backward of a checkpointed function."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)
    return lambda: _run_backward(
        lib.utils.checkpoint.checkpoint(lambda v: (v * v).tanh() * v, x, use_reentrant=False), ones, x
    )


def mapped(lib: Any) -> Program:
    """Maps a Function."""
    square, x = _make_square(lib), lib.full(SHAPE, 0.5)
    return lambda: lib.vmap(square.apply)(x)


def mapped_backward(lib: Any) -> Program:
    """Maps a Function, and runs its backward."""
    square, x, ones = _make_square(lib), _make_leaf(lib), lib.ones(*SHAPE)
    return lambda: _run_backward(lib.vmap(square.apply)(x), ones, x)


def function(lib: Any) -> Program:
    """Runs forward and backward of a Function."""

    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, y = ctx.saved_tensors
            return grad * y, grad * x

    x, y, ones = _make_leaf(lib), lib.full(SHAPE, 2.0), lib.ones(*SHAPE)
    return lambda: _run_backward(Product.apply(x, y), ones, x)


def two_results(lib: Any) -> Program:
    """Runs forward and backward of a Function with two results."""

    class Both(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2.0, x * x

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return first * 2.0 + second * ctx.saved_tensors[0]

    x, ones = _make_leaf(lib), lib.ones(*SHAPE)

    def run() -> Any:
        lib.autograd.backward(Both.apply(x), (ones, ones))
        grad, x.grad = x.grad, None
        return grad

    return run


def dirty(lib: Any) -> Program:
    """Runs forward and backward of a Function that writes into its input."""

    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2.0)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:  # noqa: ARG004
            return grad * 2.0

    x, ones = _make_leaf(lib), lib.ones(*SHAPE)
    return lambda: _run_backward(Double.apply(x.clone()), ones, x)


def straight_through(lib: Any) -> Program:
    """Runs forward and backward of a straight-through estimator."""

    class Round(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:  # noqa: ARG004
            return x.round()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:  # noqa: ARG004
            return grad

    x, ones = _make_leaf(lib), lib.ones(*SHAPE)
    return lambda: _run_backward(Round.apply(x), ones, x)


def double_backward_of_function(lib: Any) -> Program:
    """Differentiates the gradient of a Function."""
    return _differentiate_twice(lib, _make_square(lib).apply)


def double_backward_of_cube(lib: Any) -> Program:
    """Differentiates the gradient of x³."""
    return _differentiate_twice(lib, lambda x: x * x * x)


def _differentiate_twice(lib: Any, call: Callable[[Any], Any]) -> Program:
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)

    def run() -> Any:
        (first,) = lib.autograd.grad(call(x), x, ones, create_graph=True)
        return lib.autograd.grad(first, x, ones)[0]

    return run


def hvp(lib: Any) -> Program:
    """Computes a product with the Hessian."""
    x, along = lib.full((8,), 0.5), lib.ones(8)
    return lambda: lib.autograd.functional.hvp(_sum_of_cubes, x, along)[1]


def hessian(lib: Any) -> Program:
    """Computes a Hessian."""
    x = lib.full((4,), 0.5)
    return lambda: lib.autograd.functional.hessian(_sum_of_cubes, x)


def jacobian(lib: Any) -> Program:
    """Computes a Jacobian row by row."""
    x = lib.full((4,), 0.5)
    return lambda: lib.autograd.functional.jacobian(lambda v: v * v * v, x)


def _sum_of_cubes(x: Any) -> Any:
    return (x * x * x).sum()


def gradient(lib: Any) -> Program:
    """Runs ``autograd.grad`` of a product."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)
    return lambda: lib.autograd.grad(x * x, x, ones)[0]


def backward_to_inputs(lib: Any) -> Program:
    """Runs ``backward(inputs=)`` of a product."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)

    def run() -> Any:
        (x * x).backward(ones, inputs=[x])
        grad, x.grad = x.grad, None
        return grad

    return run


def write_through_view(lib: Any) -> Program:
    """Writes through a view of a copy, and runs the backward."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)

    def run() -> Any:
        copy = x.clone()
        copy[3].mul_(2.0)
        return _run_backward(copy, ones, x)

    return run


def in_place_chain(lib: Any) -> Program:
    """Runs three writes, and the backward."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)
    return lambda: _run_backward(x.clone().mul_(2.0).add_(1.0).mul_(3.0), ones, x)


def unbind(lib: Any) -> Program:
    """Sums the rows of an array, and runs the backward."""
    x, ones = _make_leaf(lib), lib.ones(SHAPE[1])
    return lambda: _run_backward(sum(x.unbind()[1:], x[0]), ones, x)


def many_parameters(lib: Any) -> Program:
    """Runs a loss of 50 parameters, and the backward."""
    parameters = [_make_leaf(lib) for _ in range(PARAMETERS)]
    x, ones = lib.ones(*SHAPE), lib.ones(*SHAPE)

    def run() -> Any:
        y = x
        for parameter in parameters:
            y = y * parameter
        y.backward(ones)
        grad = parameters[0].grad
        for parameter in parameters:
            parameter.grad = None
        return grad

    return run


def layer(lib: Any) -> Program:
    """Runs a matmul and a relu, and the backward."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)
    weight = lib.full(SHAPE, 0.1).requires_grad_()
    return lambda: _run_backward((x @ weight).relu(), ones, x)


def gradcheck(lib: Any) -> Program:
    """Checks the gradient of a Function."""
    return _check(lib, lib.autograd.gradcheck)


def gradgradcheck(lib: Any) -> Program:
    """Checks the second derivative of a Function."""
    return _check(lib, lib.autograd.gradgradcheck)


def _check(lib: Any, check: Any) -> Program:
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2.0 * ctx.saved_tensors[0]

    x = lib.full((3,), 0.5).requires_grad_()
    limits = {"eps": 1e-2, "atol": 1e-2, "rtol": 1e-2, "check_batched_grad": False}
    return lambda: check(Double.apply, (x,), **limits)


def anomaly(lib: Any) -> Program:
    """Runs forward and backward below ``detect_anomaly``."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)

    def run() -> Any:
        with lib.autograd.set_detect_anomaly(True):
            return _run_backward(x * x, ones, x)

    return run


def kept_graph(lib: Any) -> Program:
    """Runs the backward of one graph again."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)
    y = (x * x).tanh()

    def run() -> Any:
        y.backward(ones, retain_graph=True)
        grad, x.grad = x.grad, None
        return grad

    return run


def accumulations(lib: Any) -> Program:
    """Adds ten gradients to one ``grad``."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)

    def run() -> Any:
        for _ in range(TIMES):
            (x * 2.0).backward(ones)
        grad, x.grad = x.grad, None
        return grad

    return run


def index(lib: Any) -> Program:
    """Takes a row, and runs the backward."""
    x, ones = _make_leaf(lib), lib.ones(SHAPE[1])
    return lambda: _run_backward(x[3], ones, x)


def tensor_hook(lib: Any) -> Program:
    """Runs a backward with a hook of a tensor."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)

    def run() -> Any:
        y = x * x
        y.register_hook(_ignore)
        return _run_backward(y, ones, x)

    return run


def _ignore(grad: Any) -> None:
    del grad


def detach(lib: Any) -> Program:
    """Runs a product with a detached factor, and the backward."""
    x, ones = _make_leaf(lib), lib.ones(*SHAPE)
    return lambda: _run_backward(x * x.detach(), ones, x)


def cat(lib: Any) -> Program:
    """Concatenates, and runs the backward."""
    x, ones = _make_leaf(lib), lib.ones(2 * SHAPE[0], SHAPE[1])
    return lambda: _run_backward(lib.cat([x, x]), ones, x)


PROGRAMS: tuple[tuple[str, float | None, Callable[[Any], Program]], ...] = (
    ("grad with is_grads_batched", 1.6, batched),
    ("forward mode of a Function", 1.7, forward_mode),
    ("save_on_cpu", 2.1, saved_on_cpu),
    ("saved_tensors_hooks", 2.1, saved_by_hooks),
    ("checkpoint", 1.4, checkpoint),
    ("vmap of a Function", 1.6, mapped),
    ("vmap of a Function, and backward", 2.2, mapped_backward),
    ("a Function, forward and backward", 1.5, function),
    ("a Function with two results", 1.55, two_results),
    ("a Function that writes into its input", 1.7, dirty),
    ("a straight-through estimator", 1.2, straight_through),
    ("double backward of a Function", 2.1, double_backward_of_function),
    ("double backward of x³", 2.4, double_backward_of_cube),
    ("functional.hvp", 2.6, hvp),
    ("functional.hessian", 2.3, hessian),
    ("functional.jacobian", 2.0, jacobian),
    ("autograd.grad", 1.8, gradient),
    ("backward(inputs=)", 1.9, backward_to_inputs),
    ("write through a view", 2.4, write_through_view),
    ("in-place chain", 2.0, in_place_chain),
    ("unbind and sum", 2.8, unbind),
    (f"{PARAMETERS} parameters", 2.2, many_parameters),
    ("matmul and relu", 2.2, layer),
    ("gradcheck of a Function", 2.0, gradcheck),
    ("gradgradcheck of a Function", 2.0, gradgradcheck),
    ("detect_anomaly", 1.8, anomaly),
    ("backward of a kept graph", 1.7, kept_graph),
    ("ten accumulations", 1.65, accumulations),
    ("index", 1.5, index),
    ("a hook of a tensor", None, tensor_hook),
    ("detach", None, detach),
    ("cat", None, cat),
)
"""What the row says, its bound, and the program."""
