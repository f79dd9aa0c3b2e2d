"""Random programs on tensors, and the two machines that run them: the tape, and plain functions of JAX.

A program is a list of instructions; the numbers in it choose among whatever values there are when it runs, so
that every list is a program. In-place writes and views are plain functions on the JAX side: a value is an
array of positions in the flat array of its storage, and a write makes a new flat array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import oplib

SHAPE = (2, 3)

UNARY = {
    "sin": (lambda t: t.sin(), jnp.sin),
    "tanh": (lambda t: t.tanh(), jnp.tanh),
    "sigmoid": (lambda t: t.sigmoid(), jax.nn.sigmoid),
    "neg": (lambda t: -t, lambda a: -a),
    "scale": (lambda t: t * 0.5, lambda a: a * 0.5),
    "square": (lambda t: t * t, lambda a: a * a),
    "clone": (lambda t: t.clone(), lambda a: a),
    "center": (lambda t: t - t.mean(), lambda a: a - a.mean()),
}
BINARY = {
    "add": (lambda t, u: t + u, lambda a, b: a + b),
    "sub": (lambda t, u: t - u, lambda a, b: a - b),
    "mul": (lambda t, u: t * u, lambda a, b: a * b),
    "weigh": (lambda t, u: t * u.tanh(), lambda a, b: a * jnp.tanh(b)),
}
IN_PLACE = {
    "add_": (lambda t, u: t.add_(u), lambda a, b: a + b),
    "mul_": (lambda t, u: t.mul_(u.tanh()), lambda a, b: a * jnp.tanh(b)),
    "copy_": (lambda t, u: t.copy_(u), lambda a, b: jnp.broadcast_to(b, a.shape)),
    "sin_": (lambda t, u: t.sin_(), lambda a, b: jnp.sin(a)),
    "tanh_": (lambda t, u: t.tanh_(), lambda a, b: jnp.tanh(a)),
}
VIEWS = {
    "transpose": (lambda t: t.t(), lambda a: a.T, 2),
    "row": (lambda t: t[0], lambda a: a[0], 2),
    "tail": (lambda t: t[1:], lambda a: a[1:], 1),
    "flat": (lambda t: t.view(-1), lambda a: a.reshape(-1), 1),
    "unsqueeze": (lambda t: t.unsqueeze(0), lambda a: a[None], 1),
}


def has_view(name: str, shape: tuple[int, ...], *, is_contiguous: bool) -> bool:
    """Returns whether a value has a view of this name. A transposed matrix has no flat view."""
    if len(shape) < VIEWS[name][2] or shape[0] < 2:
        return False
    return name != "flat" or is_contiguous or len(shape) == 1


class Instruction(NamedTuple):
    """One step: an op by name, the values that it reads, and a number for what else there is to choose.

    Attributes:
        kind: ``unary``, ``binary``, ``in_place``, ``view``, ``detach`` or ``no_grad``.
        name: of the op in the table of its kind.
        first: which value, counted modulo those that there are.
        second: another one.
        hook: what the gradient of the result is multiplied by, by a hook; None for none. It is a hook of the
            tensor, or of its node where ``second`` is odd.
    """

    kind: str
    name: str
    first: int
    second: int
    hook: float | None


class Machine:
    """Runs programs, one instruction after the other."""

    def run(self, program: list[Instruction]) -> None:
        """Runs all instructions."""
        for instruction in program:
            self.step(instruction)

    def step(self, instruction: Instruction) -> None:
        """Runs one; what cannot be done with the values chosen is left out, on all machines alike."""
        raise NotImplementedError


class Tape(Machine):
    """Runs a program on Tensors.

    Attributes:
        leaves: the tensors that collect gradients.
        values: all that the program has made, leaves first.
    """

    def __init__(self, leaves: list[Any]) -> None:
        self.leaves = leaves
        self.values = list(leaves)

    def step(self, instruction: Instruction) -> None:
        kind, name, first, second, _ = instruction
        place = first % len(self.values)
        t, u = self.values[place], self.values[second % len(self.values)]
        if kind == "unary":
            self.add(UNARY[name][0](t), instruction)
        elif kind == "binary":
            self.add(BINARY[name][0](t, u if u.shape == t.shape else u.sum()), instruction)
        elif kind == "in_place":
            if place >= len(self.leaves):
                IN_PLACE[name][0](t, u if u.shape == t.shape else u.mean())
        elif kind == "view":
            if place >= len(self.leaves) and has_view(name, t.shape, is_contiguous=t.is_contiguous()):
                self.values.append(VIEWS[name][0](t))
        elif kind == "detach":
            self.values.append(t.detach().clone())
        else:
            with oplib.no_grad():
                self.values.append(UNARY[name][0](t))

    def add(self, value: Any, instruction: Instruction) -> None:
        """Adds a result, with a hook that scales its gradient."""
        hook = instruction.hook
        if hook is not None and value.requires_grad:
            if instruction.second % 2:
                value.grad_fn.register_prehook(lambda grads: (grads[0] * hook,))
            else:
                value.register_hook(lambda grad: grad * hook)
        self.values.append(value)

    def roots(self, numbers: list[int]) -> list[Any]:
        """Returns the values chosen as roots: those with a history, or the first leaf times one."""
        live = [value for value in self.values[len(self.leaves) :] if value.requires_grad]
        return [live[number % len(live)] for number in numbers] if live else [self.leaves[0] * 1.0]


def scale_gradient(array: Any, factor: float) -> Any:
    """Returns an array whose gradient is multiplied by a number on its way."""
    return array * factor + jax.lax.stop_gradient(array * (1 - factor))


class View(NamedTuple):
    """A value of the JAX machine.

    Attributes:
        storage: which flat array it lies in.
        positions: of its items there.
        live: whether gradients flow through it on the tape.
    """

    storage: int
    positions: np.ndarray[Any, Any]
    live: bool


class Functions(Machine):
    """Runs a program on arrays, as pure functions of the leaves."""

    def __init__(self, arrays: list[Any], probes: dict[int, Any] | None = None) -> None:
        """Starts with the leaves.

        Args:
            arrays: their values.
            probes: zeros to add to values by their numbers: the gradient by one is that of the value.
        """
        self.probes = probes or {}
        self.storages: list[Any] = []
        self.live: list[bool] = []
        self.values: list[View] = []
        self.count = len(arrays)
        for array in arrays:
            self.add(array, live=True)

    def read(self, view: View) -> Any:
        """Returns the array of a value."""
        return self.storages[view.storage][view.positions]

    def is_live(self, view: View) -> bool:
        """Whether the value requires grad now: a write may have given it a history."""
        return self.live[view.storage]

    def add(self, array: Any, *, live: bool, instruction: Instruction | None = None) -> None:
        """Adds a result in a storage of its own; the hook's factor is that of an identity's gradient.

        A probe stands where a retained gradient is taken: after the hooks of the tensor, before the node's.
        """
        hook = None if instruction is None or not live else instruction.hook
        on_node = instruction is not None and instruction.second % 2
        probe = self.probes.get(len(self.values))
        if hook is not None and on_node:
            array = scale_gradient(array, hook)
        if probe is not None:
            array = array + probe
        if hook is not None and not on_node:
            array = scale_gradient(array, hook)
        if not live:
            array = jax.lax.stop_gradient(array)
        self.storages.append(array.reshape(-1))
        self.live.append(live)
        self.values.append(View(len(self.storages) - 1, np.arange(array.size).reshape(array.shape), live))

    def step(self, instruction: Instruction) -> None:
        """Does on arrays what the tape does on Tensors."""
        kind, name, first, second, _ = instruction
        place = first % len(self.values)
        t, u = self.values[place], self.values[second % len(self.values)]
        a, b = self.read(t), self.read(u)
        if kind == "unary":
            self.add(UNARY[name][1](a), live=self.is_live(t), instruction=instruction)
        elif kind == "binary":
            other = b if b.shape == a.shape else b.sum()
            live = self.is_live(t) or self.is_live(u)
            self.add(BINARY[name][1](a, other), live=live, instruction=instruction)
        elif kind == "in_place":
            if place >= self.count:
                self.write(t, IN_PLACE[name][1](a, b if b.shape == a.shape else b.mean()))
                takes_other = name not in ("sin_", "tanh_")
                self.live[t.storage] = self.live[t.storage] or (takes_other and self.is_live(u))
        elif kind == "view":
            is_contiguous = bool((np.diff(t.positions.ravel()) == 1).all())
            if place >= self.count and has_view(name, a.shape, is_contiguous=is_contiguous):
                self.values.append(View(t.storage, VIEWS[name][1](t.positions), t.live))
        elif kind == "detach":
            self.add(a, live=False)
        else:
            self.add(UNARY[name][1](a), live=False)

    def write(self, view: View, array: Any) -> None:
        """Writes into the storage of a value."""
        storage = self.storages[view.storage]
        self.storages[view.storage] = storage.at[view.positions].set(array)

    def roots(self, numbers: list[int]) -> list[Any]:
        """Returns the arrays of the roots, chosen as on the tape."""
        live = [value for value in self.values[self.count :] if self.is_live(value)]
        chosen = [live[number % len(live)] for number in numbers] if live else [self.values[0]]
        return [self.read(value) for value in chosen]
