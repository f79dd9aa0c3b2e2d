"""Functions in the style of the fields that write them: each runs plainly, and under ``oplib.jit``."""

from __future__ import annotations

from typing import Any

import pytest

import oplib

pytest.importorskip("torch")


def make(lib: Any, forward: Any, backward: Any, **members: Any) -> Any:
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward), **members}
    return type("Fn", (lib.autograd.Function,), methods)


def train(lib: Any, function: Any, *inputs: Any) -> Any:
    """Returns the value of a function of Tensors, and the gradient of each input."""
    leaves = [lib.tensor(one, requires_grad=True) for one in inputs]
    result = function(*leaves)
    result.sum().backward()
    return result, [leaf.grad for leaf in leaves]


def quantize(lib: Any) -> Any:
    """A quantiser with a learned step: a straight-through gradient, and tests of the device."""

    def forward(ctx: Any, x: Any, scale: Any, low: int, high: int) -> Any:
        assert not x.is_cuda
        ctx.save_for_backward(x, scale)
        ctx.bounds = low, high
        ctx.factor = 1.0 / (x.numel() * high) ** 0.5
        return (x / scale).clamp(low, high).round() * scale

    def backward(ctx: Any, grad: Any) -> Any:
        x, scale = ctx.saved_variables
        low, high = ctx.bounds
        q = x / scale
        below, above = (q < low).float(), (q > high).float()
        inside = 1.0 - below - above
        of_scale = (below * low + above * high + inside * (q.round() - q)) * grad * ctx.factor
        return inside * grad, of_scale.sum().unsqueeze(0), None, None

    function = make(lib, forward, backward)
    return train(lib, lambda x, s: function().apply(x, s, -4, 3), [-3.0, -0.3, 0.2, 0.9, 5.0], [0.25])


def store_float8(lib: Any) -> Any:
    """Training with float8: the forward rounds to it and saturates."""

    def forward(ctx: Any, x: Any) -> Any:
        return x.to(lib.float8_e4m3fn).to(lib.float32)

    function = make(lib, forward, lambda ctx, grad: grad.to(lib.float8_e5m2).to(lib.float32))
    return train(lib, lambda x: function.apply(x * 100) * 3.3, [0.013, -2.0, 4.65, 9.0])


def spike(lib: Any) -> Any:
    """A surrogate gradient of a spiking neuron, over some steps."""

    def forward(ctx: Any, potential: Any, slope: float = 10.0) -> Any:
        ctx.save_for_backward(potential)
        ctx.slope = slope
        out = lib.zeros_like(potential)
        out[potential > 0] = 1.0
        return out

    def backward(ctx: Any, grad: Any) -> Any:
        (potential,) = ctx.saved_tensors
        return grad.clone() / (ctx.slope * lib.abs(potential) + 1.0) ** 2, None

    function = make(lib, forward, backward)

    def run(current: Any) -> Any:
        potential, spikes = lib.zeros(3), []
        for _ in range(4):
            potential = 0.9 * potential + current
            spikes.append(function.apply(potential - 1.0))
            potential = potential - spikes[-1].detach()
        return lib.stack(spikes)

    return train(lib, run, [0.3, 0.6, 1.2])


def reverse(lib: Any) -> Any:
    """A reversible block: the forward saves its output, and the backward computes it again."""

    def forward(ctx: Any, x: Any, y: Any, w: Any) -> Any:
        with lib.no_grad():
            out = lib.tanh(y * w)
            top = x + out
            below = y + lib.sin(top)
        ctx.save_for_backward(top.detach(), below.detach(), w)
        return top, below

    def backward(ctx: Any, of_top: Any, of_below: Any) -> Any:
        top, below, w = ctx.saved_tensors
        with lib.enable_grad():
            top = top.detach().requires_grad_()
            inner = lib.sin(top)
            inner.backward(of_below)
        with lib.no_grad():
            y = below - inner
            of_top = of_top + top.grad
        with lib.enable_grad():
            y, weight = y.detach().requires_grad_(), w.detach().requires_grad_()
            lib.autograd.backward(lib.tanh(y * weight), of_top)
        return of_top, of_below + y.grad, weight.grad

    function = make(lib, forward, backward)
    return train(lib, lambda x, y, w: sum(function.apply(x, y, w)), [1.0, 2.0], [0.5, -1.0], [0.3, 0.7])


def solve(lib: Any) -> Any:
    """The adjoint of a fixed point: autograd.grad inside of the forward, with grad mode off outside of it."""

    def forward(ctx: Any, z: Any, a: Any) -> Any:
        with lib.enable_grad():
            for _ in range(30):
                (slope,) = lib.autograd.grad(((z - lib.cos(a * z)) ** 2).sum(), z)
                z = (z - 0.2 * slope).detach().requires_grad_()
        ctx.save_for_backward(z.detach(), a)
        return z.detach()

    def backward(ctx: Any, grad: Any) -> Any:
        z, a = ctx.saved_tensors
        inner = 1 + a * lib.sin(a * z)
        return None, -grad * z * lib.sin(a * z) / inner

    function = make(lib, forward, backward)
    return train(lib, lambda a: function.apply(lib.ones(2, requires_grad=True), a), [0.4, 0.9])


def differentiate_inside(lib: Any) -> Any:
    """The loss of an energy: its forward differentiates its argument, and is called without a graph."""

    def forward(ctx: Any, x: Any) -> Any:
        with lib.enable_grad():
            (slope,) = lib.autograd.grad((x**3).sum(), x)
        ctx.save_for_backward(x)
        return slope

    function = make(lib, forward, lambda ctx, grad: grad * 6 * ctx.saved_tensors[0])
    x = lib.tensor([1.0, 2.0], requires_grad=True)
    with lib.no_grad():
        return function.apply(x)


def sort_softly(lib: Any) -> Any:
    """Sorting: a permutation as a Tensor of integers, made by an old constructor, and scattered back."""

    def forward(ctx: Any, x: Any) -> Any:
        order = lib.argsort(x, dim=-1)
        ctx.order = lib.LongTensor(order.tolist())
        ctx.mark_non_differentiable(order)
        return x.gather(-1, order), order

    def backward(ctx: Any, grad: Any, _: Any) -> Any:
        out = lib.Tensor(*grad.shape).fill_(0.0)
        return out.scatter_(-1, ctx.order, grad)

    function = make(lib, forward, backward)
    return train(
        lib, lambda x: function.apply(x)[0] * lib.FloatTensor([1, 2, 3]), [[3.0, 1.0, 2.0], [0.0, -1.0, 5.0]]
    )


def decode(lib: Any) -> Any:
    """Structured prediction: the forward decodes detached scores, with a blackbox gradient."""

    def best(scores: Any) -> Any:
        rows, columns = scores.shape
        assert scores.shape.numel() == rows * columns
        return lib.nn.functional.one_hot(scores.argmax(-1), columns).type(lib.FloatTensor)

    def forward(ctx: Any, scores: Any, weight: float) -> Any:
        path = best(scores.detach())
        ctx.save_for_backward(scores, path)
        ctx.weight = weight
        return path

    def backward(ctx: Any, grad: Any) -> Any:
        scores, path = ctx.saved_tensors
        moved = best(lib.add(scores, ctx.weight, grad))
        return -(path - moved) / ctx.weight, None

    function = make(lib, forward, backward)
    costs = [[0.1, 2.0, 0.3], [4.0, 0.1, 0.2]]
    return train(
        lib, lambda s: function.apply(s, 5.0) * lib.tensor(costs), [[1.0, 1.1, 0.9], [0.3, 0.2, 0.25]]
    )


def fuse_loss(lib: Any) -> Any:
    """A fused loss: the forward computes the gradient and stores it over the logits."""

    def forward(ctx: Any, logits: Any, target: Any) -> Any:
        lib._check(logits.shape[0] == target.shape[0], lambda: "one target for each row")
        top = logits.max(-1, keepdim=True).values
        shifted = (logits - top).exp_()
        total = shifted.sum(-1, keepdim=True)
        loss = (total.log().squeeze(-1) - (logits - top).gather(-1, target[:, None]).squeeze(-1)).mean()
        grad = shifted.div_(total)
        grad.scatter_add_(-1, target[:, None], lib.full_like(target[:, None], -1.0, dtype=grad.dtype))
        ctx.save_for_backward(grad.div_(len(target)))
        return loss

    function = make(lib, forward, lambda ctx, g: (ctx.saved_tensors[0].mul(g), None))
    target = lib.LongTensor([2, 0])
    return train(lib, lambda x: function.apply(x, target), [[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]])


def move_memory(lib: Any) -> Any:
    """A buffer that is given other memory by ``set_`` between forward and backward."""

    def forward(ctx: Any, x: Any, buffer: Any) -> Any:
        with lib.no_grad():
            buffer.set_((x * 2).detach())
        ctx.scale = buffer.clone()
        return x * ctx.scale

    function = make(lib, forward, lambda ctx, grad: (grad * ctx.scale, None))
    return train(lib, lambda x: function.apply(x, lib.zeros(1)), [1.0, 2.0])


PROGRAMS = {
    one.__name__: one
    for one in (
        *(
            quantize,
            store_float8,
            spike,
            reverse,
            solve,
            differentiate_inside,
            sort_softly,
            decode,
            fuse_loss,
        ),
        *(move_memory,),
    )
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*overload")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_function_of_a_field_gives_the_numbers_of_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])


# A trace refuses these with an error: they read values of an argument, store a gradient in a leaf that shares
# the memory of a captured one, or give an argument other memory.
NOT_TRACED = {"sort_softly", "move_memory"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*overload")
@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - NOT_TRACED))
def test_a_function_of_a_field_gives_the_same_under_jit(monkeypatch, name):
    expected = PROGRAMS[name](oplib)
    apply = oplib.autograd.Function.apply.__func__

    def compiled(cls: Any, *args: Any) -> Any:
        def call(*given: Any) -> Any:
            rest = iter(given)
            return apply(cls, *[next(rest) if isinstance(one, oplib.Tensor) else one for one in args])

        return oplib.jit(call)(*[one for one in args if isinstance(one, oplib.Tensor)])

    monkeypatch.setattr(oplib.autograd.Function, "apply", classmethod(compiled))
    for one, want in zip(*map(oplib.pytree.tree_leaves, (PROGRAMS[name](oplib), expected)), strict=True):
        assert one.flatten().tolist() == pytest.approx(want.flatten().tolist(), rel=1e-5)
