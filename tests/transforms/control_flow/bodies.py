"""Bodies for loops, and the loop in Python that they are compared with."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import oplib
from oplib.autograd import Function, grad


class Cube(Function):
    """Its backward is another derivative on purpose, so that a lost rule is seen."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 5 * x * x


def save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


@oplib.custom_op("control_flow_test::compiled")
def compiled(x: jax.Array) -> jax.Array:
    return jnp.tanh(x)


compiled.register_autograd(lambda ctx, gradient: gradient * 7 * ctx.saved_tensors[0], setup_context=save)


@oplib.custom_op("control_flow_test::eager")
def eager(x: oplib.Tensor) -> oplib.Tensor:
    return x.tanh()


eager.register_autograd(lambda ctx, gradient: gradient * 3 * ctx.saved_tensors[0], setup_context=save)


@oplib.custom_op("control_flow_test::host")
def host(x: np.ndarray) -> np.ndarray:
    return np.sin(x)


host.register_fake(lambda x: x)
host.register_autograd(lambda ctx, gradient: gradient * jnp.cos(ctx.saved_tensors[0]), setup_context=save)


class Weights:
    """The Tensors that bodies capture.

    Args:
        seed: of the numbers.
    """

    def __init__(self, seed: int = 0) -> None:
        numbers = np.random.default_rng(seed)

        def make(*shape):
            return oplib.tensor(numbers.normal(size=shape) / 2, requires_grad=True)

        self.w, self.b, self.init, self.xs = make(3, 3), make(3), make(3), make(4, 3)
        self.row = self.w[0]
        self.constant = oplib.tensor(numbers.normal(size=3))

    @property
    def inputs(self):
        return self.w, self.b, self.init, self.xs


class Bodies:
    """Bodies by name: each gets a carry and a slice, and returns a carry and what is kept.

    Args:
        at: what they capture.
    """

    def __init__(self, at: Weights) -> None:
        self.at = at

    def plain(self, h, x):
        at = self.at
        h = (h @ at.w + x * at.b).tanh()
        return h, h * at.constant

    def detached(self, h, x):
        at = self.at
        return (h.detach() @ at.w + h * x).tanh(), h * x.detach()

    def under_no_grad(self, h, x):
        at = self.at
        with oplib.no_grad():
            scale = (h * h).sum()
        return (h @ at.w) * 0.5 + x * scale, h * scale

    def in_place(self, h, x):
        at = self.at
        y = h.clone()
        y[0] = x[0] * 2
        y.mul_(at.w[1])
        z = oplib.zeros(3, dtype=y.dtype)
        z[1:] = y[:2]
        z += at.b
        return z.sin(), y

    def in_place_under_no_grad(self, h, x):
        at = self.at
        y, z = h * 2, x * h
        with oplib.no_grad():
            y.mul_(3 * h)
            z[0] = h[1] * 5
            z[1:].add_(at.w[0, :2])
        return (y * z).sin(), z

    def local_leaf(self, h, x):
        at = self.at
        p = h.detach().requires_grad_()
        loss = ((p @ at.w) ** 2).sum()
        (g,) = grad(loss, p, retain_graph=True)
        return h - 0.1 * g * h, loss + x.sum()

    def gradient_inside(self, h, x):
        at = self.at
        loss = ((h @ at.w - x) ** 2).sum()
        (g,) = grad(loss, h, create_graph=True)
        return h - 0.1 * g, loss

    def views(self, h, x):
        at = self.at
        return (h * at.row + at.w.t()[0] * x).tanh(), at.w[:, 1] * h

    def function(self, h, x):
        at = self.at
        return (Cube.apply(h) * 0.1 + x).sin(), Cube.apply(at.w).sum() * h

    def compiled_op(self, h, x):
        at = self.at
        return compiled(h) + x, compiled(at.w).sum() * h

    def eager_op(self, h, x):
        at = self.at
        return (eager(h) + x).tanh(), eager(at.w).sum() * h

    def captured_result(self, h, x):
        at = self.at
        return h * x, (at.w, at.b.detach(), at.constant)

    def nested(self, h, x):
        at = self.at
        h, ys = oplib.scan(lambda c, v: ((c * v + at.w[0]).tanh(), c * at.b), h, oplib.stack([x, x * 2]))
        return h, ys.sum(0)

    def branching(self, h, x):
        at = self.at
        return oplib.cond(h.sum() > 0, lambda h: (h @ at.w).tanh(), lambda h: h * x + at.b, h), h

    def integers(self, h, x):
        return h + x, (oplib.stack([h, x]).argmax(0), None)


def make_bodies(at: Weights):
    """Returns the bodies that capture some weights, by name."""
    bodies = Bodies(at)
    return {name: getattr(bodies, name) for name in NAMES}


NAMES = sorted(name for name in vars(Bodies) if not name.startswith("_"))


def loop(f, init, xs, *, reverse=False):
    """The computation of ``scan``, in Python."""
    kept = []
    for x in reversed(list(xs)) if reverse else xs:
        init, y = f(init, x)
        kept.append(y)
    kept = kept[::-1] if reverse else kept

    def stack(*leaves):
        return None if leaves[0] is None else oplib.stack(leaves)

    return init, oplib.pytree.tree_map(stack, *kept)


def find_tensors(tree):
    return [leaf for leaf in oplib.pytree.tree_leaves(tree) if leaf is not None]


def differentiate(results, inputs):
    """Returns first and second gradients of a number made of all results."""
    floating = [one for one in find_tensors(results) if one.requires_grad]
    first = grad(sum((one**2).sum() for one in floating), inputs, create_graph=True, allow_unused=True)
    total = sum((one**2).sum() for one in first if one is not None and one.requires_grad)
    second = grad(total, inputs, allow_unused=True) if isinstance(total, oplib.Tensor) else ()
    return [*first, *second]


def assert_close(found, expected, rtol=1e-9):
    """None counts as zero: a compiled program has zeros where a loop in Python has no path."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        values = [0.0 if value is None else value.detach().numpy() for value in (one, other)]
        np.testing.assert_allclose(*values, rtol=rtol, atol=1e-9)
