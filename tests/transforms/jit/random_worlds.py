"""The state of random programs of ``oplib.jit``, and the instructions that read and change it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

import oplib
import oplib.nn.functional as F
from oplib.utils.checkpoint import checkpoint
from tests.autograd.machines import SHAPE, Tape


class Scaled(oplib.autograd.Function):
    """A Function that keeps a Tensor, a number of the settings, and the mode of its forward."""

    @staticmethod
    def forward(ctx: Any, x: Any, factor: float) -> Any:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x.tanh() * factor

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * (1 - x.tanh() ** 2) * ctx.factor, None


class Inner(oplib.autograd.Function):
    """A Function that differentiates inside its backward, as a reversible block does."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        with oplib.enable_grad():
            again = x.detach().requires_grad_()
            again.sin().backward(grad)
        return again.grad


class Turned(oplib.autograd.Function):
    """A Function that returns a view of its argument."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.t()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad.t()


class World:
    """The Tensors, Generators, containers and settings that a program finds and changes."""

    def __init__(self) -> None:
        self.leaves = [make_tensor(place).requires_grad_() for place in range(3)]
        self.buffer = make_tensor(3)
        self.row = self.buffer[0]
        self.holder = SimpleNamespace(kept=make_tensor(4))
        self.generator = oplib.Generator().manual_seed(1)
        self.origin = make_tensor(8).requires_grad_()
        self.options = {"rate": 0.5, "other": 0.25}
        self.settings = type("Settings", (), {"base": 0.5, "factor": lambda self: self.base})()
        self.settings.rate = 0.75
        self.layers = [oplib.sin, oplib.tanh]
        self.log: list[float] = []
        self.act = partial(oplib.mul, other=0.5)
        self.given = partial(oplib.mul, other=0.5)
        self.scale: Any = _make_scale()
        self.optimizer = oplib.optim.Optimizer(optax.adam(0.05), self.leaves[:2])
        self.make_past()

    def make_past(self) -> None:
        """Makes a Tensor with a history, and views of it."""
        self.past = self.origin.sin()
        self.past_row = self.past[0]
        self.past_flat = self.past.t().t().view(-1)

    @property
    def pasts(self) -> list[Any]:
        return [self.past, self.past_row, self.past_flat]

    def halve(self) -> None:
        with oplib.no_grad():
            self.leaves[0].mul_(0.5)

    def end_histories(self) -> None:
        """Lets the next call begin without the graph of this one, which a backward has freed."""
        if self.buffer.requires_grad:
            self.buffer = self.buffer.detach().clone()
            self.row = self.buffer[0]
        if self.holder.kept.requires_grad:
            self.holder.kept = self.holder.kept.detach().clone()
        self.make_past()


def _make_scale() -> Any:
    def scale(t: Any, factor: float = 0.5, *, offset: float = 0.1) -> Any:
        return t * factor + offset

    return scale


def make_tensor(place: int) -> Any:
    """Returns a matrix of its own for each number."""
    return oplib.Tensor.from_array(jnp.asarray(np.sin(np.arange(6.0) * (place + 1) + 1).reshape(SHAPE)))


class Step(Tape):
    """One call of a program over a world.

    Attributes:
        given: a partial that is an argument of the call.
        kept: what the holder kept before the call.
    """

    def __init__(self, world: World, x: Any, given: Any, *, has_past: bool) -> None:
        super().__init__(list(world.leaves))
        self.world = world
        self.given = given
        self.kept = world.holder.kept
        self.values += [world.buffer, world.row, world.holder.kept, x, *(world.pasts if has_past else ())]

    def step(self, instruction: Any) -> None:
        table = {"state": STATE, "container": CONTAINERS, "region": REGIONS, "metadata": METADATA}.get(
            instruction.kind
        )
        if table is not None:
            table[instruction.name](self, self.values[instruction.first % len(self.values)])
        else:
            super().step(instruction)

    def draw(self) -> None:
        self.values.append(oplib.rand(SHAPE, dtype=oplib.float64, generator=self.world.generator))

    def descend(self) -> None:
        with oplib.no_grad():
            for leaf in self.leaves:
                if leaf.grad is not None:
                    leaf.sub_(leaf.grad, alpha=0.1)
                    leaf.grad.mul_(0.9)

    def assign(self, value: Any) -> None:
        if tuple(value.shape) == SHAPE:
            self.leaves[1].grad = value.detach().clone()

    def share(self, value: Any) -> None:
        if tuple(value.shape) == SHAPE:
            self.leaves[2].data = value.detach() * 1

    def optimize(self, value: Any) -> None:
        if value.requires_grad:
            grads = oplib.autograd.grad(value.sum(), self.leaves[:2], retain_graph=True, allow_unused=True)
            for leaf, grad in zip(self.leaves, grads, strict=False):
                leaf.grad = grad
        self.world.optimizer.step()


Act = Callable[[Step, Any], object]

STATE: dict[str, Act] = {
    "draw": lambda step, t: step.draw(),
    "drop": lambda step, t: step.values.append(F.dropout(t, 0.5)),
    "keep": lambda step, t: setattr(step.world.holder, "kept", t.detach()),
    "clear": lambda step, t: setattr(step.leaves[0], "grad", None),
    "descend": lambda step, t: step.descend(),
    "assign": lambda step, t: step.assign(t),
    "share": lambda step, t: step.share(t),
    "optimize": lambda step, t: step.optimize(t),
    "zero": lambda step, t: step.world.optimizer.zero_grad(),
    "write data": lambda step, t: step.world.buffer.data.mul_(0.5),
    "read data": lambda step, t: step.values.append(t.data * 0.5),
}
"""Instructions that read and write the state of a world."""


def _apply_layers(step: Step, t: Any) -> None:
    for layer in step.world.layers:
        t = layer(t)
    step.values.append(t)


def _try_attribute(step: Step, t: Any) -> None:
    try:
        step.values.append(t * step.world.settings.extra)
    except AttributeError:
        step.values.append(t * 0.5)


CONTAINERS: dict[str, Act] = {
    "option": lambda step, t: step.values.append(t * step.world.options["rate"]),
    "option or default": lambda step, t: step.values.append(t * step.world.options.get("extra", 0.5)),
    "has option": lambda step, t: step.values.append(t * (0.5 if "extra" in step.world.options else 0.25)),
    "sum of options": lambda step, t: step.values.append(t * sum(step.world.options.values())),
    "count of options": lambda step, t: step.values.append(t / len(step.world.options)),
    "attribute": lambda step, t: step.values.append(t * step.world.settings.rate),
    "attribute or default": lambda step, t: step.values.append(
        t * getattr(step.world.settings, "bonus", 0.5)
    ),
    "tried attribute": _try_attribute,
    "method": lambda step, t: step.values.append(t * step.world.settings.factor()),
    "partial": lambda step, t: step.values.append(step.world.act(t)),
    "partial argument": lambda step, t: step.values.append(step.given(t)),
    "defaults": lambda step, t: step.values.append(step.world.scale(t)),
    "layers": _apply_layers,
}
"""Instructions that read values other than Tensors, which change between calls."""


def _scan(step: Step, t: Any) -> None:
    if t.ndim:
        leaf = step.leaves[0].sum()
        total, rows = oplib.scan(lambda c, row: (c * 0.5 + row.sum(), row.sin() * leaf), t.sum() * 0, t)
        step.values += [t * total.tanh(), rows]


def _branch(step: Step, t: Any) -> None:
    leaf = step.leaves[1]
    step.values.append(oplib.cond(t.sum() > 0, lambda a: a.sin() + leaf.mean(), lambda a: a * 0.5, t))


def _loop(step: Step, t: Any) -> None:
    with oplib.no_grad():
        _, found = oplib.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1].tanh()), (oplib.tensor(0), t.detach())
        )
    step.values.append(found)


def _infer(step: Step, t: Any) -> None:
    with oplib.inference_mode():
        found = t.sin() * 2
    step.values.append(found.clone())


def _cast(step: Step, t: Any) -> None:
    flat = t.detach().float().reshape(1, -1)
    with oplib.autocast("cpu", dtype=oplib.bfloat16):
        kinds = [(flat @ flat.t()).dtype, flat.sum().dtype]
    step.values.append(
        t * (0.5 if kinds[0] == oplib.bfloat16 else 0.25) * (0.5 if kinds[1] == kinds[0] else 1)
    )


def _use_known(step: Step, t: Any) -> None:
    count = oplib.ones(2, 2).triu().nonzero().shape[0] + oplib.arange(3).sum().item()
    step.values.append(t * (count / 8))
    if tuple(t.shape) == SHAPE:
        step.values.append(t[oplib.tensor([False, True])].expand(SHAPE).clone())


REGIONS: dict[str, Act] = {
    "scan": _scan,
    "cond": _branch,
    "while": _loop,
    "vmap": lambda step, t: step.values.append(
        oplib.vmap(lambda row: row.sin() * row)(t) if t.ndim else t * 1
    ),
    "checkpoint": lambda step, t: step.values.append(
        checkpoint(lambda a: a.sin().tanh(), t, use_reentrant=False)
    ),
    "function": lambda step, t: step.values.append(Scaled.apply(t, step.world.settings.rate)),
    "backward in a function": lambda step, t: step.values.append(Inner.apply(t)),
    "inference": _infer,
    "autocast": _cast,
    "known": _use_known,
}
"""Instructions that run code in a mode, a map, control flow or a Function."""


def _recorded(tensor: Any) -> Any:
    """A context in which a history stays that of the tensor: torch cannot differentiate it otherwise."""
    return contextlib.nullcontext() if tensor.requires_grad else oplib.no_grad()


def _turn(step: Step, t: Any) -> None:
    made = t * 1
    with _recorded(made):
        _ = made.t_() if made.ndim == 2 else made.unsqueeze_(0)
    step.values.append(made)


def _assign_data(step: Step, t: Any) -> None:
    """Only of a Tensor from before: a new alias counts its versions alone (see ``jit.md``)."""
    if step.world.holder.kept is step.kept:
        step.world.holder.kept.data = t.detach() * 0.5


METADATA: dict[str, Act] = {
    "turn a value": _turn,
    "assign data": _assign_data,
    "view of a function": lambda step, t: step.values.append(Turned.apply(t) if t.ndim == 2 else t * 1),
    "memory of a value": lambda step, t: step.values.extend([t.detach(), t.data]),
}
"""Instructions that write what a Tensor is, and not its items, and that share its memory."""


def _weigh(leaf: Any, t: Any, other: float = 0.5) -> Any:
    return t * leaf.mean() * other


def _set_base(world: World) -> None:
    kind: Any = type(world.settings)
    kind.base *= 0.5


def _set_bonus(world: World) -> None:
    kind: Any = type(world.settings)
    kind.bonus = 0.75


def _give(other: Any) -> Callable[[World], object]:
    return lambda world: setattr(world, "given", partial(oplib.mul, other=other))


def _override(world: World) -> None:
    kind: Any = type(world.settings)
    kind.factor = lambda self: 0.75


BETWEEN: dict[str, Callable[[World], object]] = {
    "nothing": lambda world: None,
    "clear": lambda world: [setattr(leaf, "grad", None) for leaf in world.leaves],
    "write": lambda world: world.buffer.add_(0.1),
    "halve": lambda world: world.halve(),
    "replace": lambda world: setattr(world.holder, "kept", make_tensor(6)),
    "hook": lambda world: world.leaves[1].register_hook(lambda grad: grad * 0.5),
    "seed": lambda world: world.generator.manual_seed(3),
    "give": lambda world: setattr(world.leaves[2], "grad", make_tensor(7)),
    "set option": lambda world: world.options.update(rate=world.options["rate"] * 0.5),
    "add option": lambda world: world.options.update(extra=0.75),
    "drop option": lambda world: world.options.pop("extra", None),
    "exchange option": lambda world: world.options.update({f"other {len(world.log)}": 0.1}),
    "log": lambda world: world.log.append(1.0),
    "set attribute": lambda world: setattr(world.settings, "rate", 0.25),
    "add attribute": lambda world: setattr(world.settings, "extra", 0.75),
    "set attribute of the class": _set_base,
    "add attribute of the class": _set_bonus,
    "replace method": _override,
    "replace partial": lambda world: setattr(world, "act", partial(oplib.mul, other=0.25)),
    "give another partial": _give(0.25),
    "give an equal partial": _give(0.5),
    "give a partial of a Tensor": lambda world: _give(oplib.tensor(0.3, dtype=oplib.float64))(world),
    "give a partial of a leaf": lambda world: setattr(world, "given", partial(_weigh, world.leaves[1])),
    "change the given partial": lambda world: world.given.keywords.update(other=0.2),
    "set default": lambda world: setattr(world.scale, "__defaults__", (0.25,)),
    "set keyword default": lambda world: world.scale.__kwdefaults__.update(offset=0.2),
    "add layer": lambda world: world.layers.append(oplib.sigmoid),
    "turn layers": lambda world: world.layers.reverse(),
    "replace options": lambda world: setattr(world, "options", dict(world.options, rate=0.3)),
}
"""Changes of a world between two calls."""
