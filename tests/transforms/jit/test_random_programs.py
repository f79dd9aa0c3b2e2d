"""Random programs do under ``oplib.jit`` what they do without.

A program is called several times over Tensors that it captures, writes and differentiates. After each call
values, gradients, versions, identities, shared memory and Generators are compared.

``RANDOM_GRAPHS=1000`` runs so many examples; without it a few. ``OPLIB_TEST_SEED`` draws others.
"""

import os
from types import SimpleNamespace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, assume, given, settings, strategies as st

import oplib
import oplib.nn.functional as F
from oplib.errors import TracingError
from tests.autograd.machines import BINARY, IN_PLACE, SHAPE, UNARY, VIEWS, Instruction, Tape

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spec("J.2", "J.3", "J.5", "J.6", "J.7"),
    pytest.mark.usefixtures("with_64_bits"),
]

EXAMPLES = int(os.environ.get("RANDOM_GRAPHS", "0")) or 12
CALLS = 3
LARGE = 1e4  # beyond this, rounding would be all that a comparison sees

STATE = {
    "draw": lambda step, t: step.values.append(
        oplib.rand(SHAPE, dtype=oplib.float64, generator=step.world.generator)
    ),
    "drop": lambda step, t: step.values.append(F.dropout(t, 0.5)),
    "keep": lambda step, t: setattr(step.world.holder, "kept", t.detach()),
    "clear": lambda step, t: setattr(step.leaves[0], "grad", None),
    "descend": lambda step, t: step.descend(),
    "assign": lambda step, t: step.assign(t),
    "share": lambda step, t: step.share(t),
}
BETWEEN = {
    "nothing": lambda world: None,
    "clear": lambda world: [setattr(leaf, "grad", None) for leaf in world.leaves],
    "write": lambda world: world.buffer.add_(0.1),
    "halve": lambda world: world.halve(),
    "replace": lambda world: setattr(world.holder, "kept", make_tensor(6)),
    "hook": lambda world: world.leaves[1].register_hook(lambda grad: grad * 0.5),
    "seed": lambda world: world.generator.manual_seed(3),
    "give": lambda world: setattr(world.leaves[2], "grad", make_tensor(7)),
}


class World:
    """The Tensors and Generators that a program finds and changes."""

    def __init__(self):
        self.leaves = [make_tensor(place).requires_grad_() for place in range(3)]
        self.buffer = make_tensor(3)
        self.row = self.buffer[0]
        self.holder = SimpleNamespace(kept=make_tensor(4))
        self.generator = oplib.Generator().manual_seed(1)
        self.origin = make_tensor(8).requires_grad_()
        self.make_past()

    def make_past(self):
        """Makes a Tensor with a history, and views of it."""
        self.past = self.origin.sin()
        self.past_row = self.past[0]
        self.past_flat = self.past.t().t().view(-1)

    @property
    def pasts(self):
        return [self.past, self.past_row, self.past_flat]

    def halve(self):
        with oplib.no_grad():
            self.leaves[0].mul_(0.5)

    def end_histories(self):
        """Lets the next call begin without the graph of this one, which a backward has freed."""
        if self.buffer.requires_grad:
            self.buffer = self.buffer.detach().clone()
            self.row = self.buffer[0]
        if self.holder.kept.requires_grad:
            self.holder.kept = self.holder.kept.detach().clone()
        self.make_past()


class Step(Tape):
    """One call of a program over a world."""

    def __init__(self, world, x, *, has_past):
        super().__init__(list(world.leaves))
        self.world = world
        self.values += [world.buffer, world.row, world.holder.kept, x, *(world.pasts if has_past else ())]

    def step(self, instruction):
        if instruction.kind == "state":
            STATE[instruction.name](self, self.values[instruction.first % len(self.values)])
        else:
            super().step(instruction)

    def draw(self):
        self.values.append(oplib.rand(SHAPE, dtype=oplib.float64, generator=self.world.generator))

    def descend(self):
        with oplib.no_grad():
            for leaf in self.leaves:
                if leaf.grad is not None:
                    leaf.sub_(leaf.grad, alpha=0.1)
                    leaf.grad.mul_(0.9)

    def assign(self, value):
        if tuple(value.shape) == SHAPE:
            self.leaves[1].grad = value.detach().clone()

    def share(self, value):
        if tuple(value.shape) == SHAPE:
            self.leaves[2].data = value.detach() * 1


class Program(NamedTuple):
    """A program.

    Attributes:
        lines: what each call does.
        roots: which values are differentiated.
        ending: how.
        between: what happens after each call.
        unread: how many calls come before each call whose effects are read.
        has_past: whether it reads and writes views that have a history before the call.
    """

    lines: list[Instruction]
    roots: list[int]
    ending: str
    between: list[str]
    unread: int = 0
    has_past: bool = False

    def call(self, world, x):
        if self.ending == "no grad":
            with oplib.no_grad():
                return self.run(world, x).values[-2:]
        step = self.run(world, x)
        roots = step.roots(self.roots)
        if self.ending == "live":
            return roots
        if self.ending == "grad":
            return oplib.autograd.grad(
                roots, step.leaves, list(map(oplib.ones_like, roots)), allow_unused=True
            )
        oplib.autograd.backward(roots, list(map(oplib.ones_like, roots)), retain_graph=self.ending == "kept")
        return roots if self.ending == "kept" else [root.detach() for root in roots]

    def run(self, world, x):
        step = Step(world, x, has_past=self.has_past)
        step.run(self.lines)
        return step


def make_tensor(place):
    return oplib.Tensor.from_array(jnp.asarray(np.sin(np.arange(6.0) * (place + 1) + 1).reshape(SHAPE)))


def make_starts(roots):
    return [oplib.ones_like(root) for root in roots]


def differentiate(world, results):
    """Runs the backward of what came back with a history, or was left with one."""
    live = [one for one in (*results, *world.pasts) if one is not None and one.requires_grad]
    if live:
        oplib.autograd.backward(live, make_starts(live))


def describe(world, results, before):
    """Returns the arrays of all Tensors, and everything else that can be compared."""
    named = {"buffer": world.buffer, "row": world.row, "kept": world.holder.kept}
    named |= {f"leaf {number}": leaf for number, leaf in enumerate(world.leaves)}
    named |= {f"grad {number}": leaf.grad for number, leaf in enumerate(world.leaves)}
    named |= {f"past {number}": one for number, one in enumerate(world.pasts)}
    named |= {"origin": world.origin, "grad of origin": world.origin.grad}
    named |= {f"result {number}": one for number, one in enumerate(results)}
    tensors = {name: one for name, one in named.items() if one is not None}
    objects: dict[int, str] = {}
    # Views of a Tensor that was made inside and did not come back share no memory with each other.
    owners = {id(one._storage): name for name, one in reversed(tensors.items()) if one._base is None}
    facts = {
        name: (
            objects.setdefault(id(one), name),
            owners.get(id(one._storage.owner), name),
            one._version,
            one.requires_grad,
            one.is_leaf,
            one.shape,
        )
        for name, one in tensors.items()
    }
    facts["grads"] = [
        leaf.grad is not None and leaf.grad is old for leaf, old in zip(world.leaves, before, strict=True)
    ]
    facts["generators"] = [one[::2] for one in (world.generator.get_state(), oplib.get_rng_state())]
    return facts, {name: one.detach().numpy().copy() for name, one in tensors.items()}


def run(program, compiled):
    """Returns what is there after each call, or the kind of the error that ended the run."""
    world, found = World(), []
    oplib.manual_seed(5)

    def call(x):
        return program.call(world, x)

    step = oplib.jit(call) if compiled else call
    for number in range(CALLS):
        try:
            for _ in range(program.unread):
                differentiate(world, step(make_tensor(5 + number)))
                world.end_histories()
            before = [leaf.grad for leaf in world.leaves]
            results = step(make_tensor(5 + number))
            found.append(describe(world, results, before))
            differentiate(world, results)
            found.append(describe(world, results, before))
        except RuntimeError as error:
            found.append(error)
            return found
        world.end_histories()
        BETWEEN[program.between[number % len(program.between)]](world)
    return found


def assert_same(plain, compiled):
    for place, (theirs, mine) in enumerate(zip(plain, compiled, strict=False)):
        if isinstance(mine, TracingError) and "recorded outside of it" in str(mine):
            return  # a backward inside that reaches a history from outside is refused
        if isinstance(theirs, Exception) or isinstance(mine, Exception):
            assert isinstance(theirs, Exception) == isinstance(mine, Exception), (place, theirs, mine)
            return
        for name, fact in theirs[0].items():
            assert (place, name, mine[0].get(name)) == (place, name, fact)
        assert mine[0].keys() == theirs[0].keys()
        for name, array in theirs[1].items():
            np.testing.assert_allclose(mine[1][name], array, rtol=1e-8, atol=1e-8, err_msg=f"{place} {name}")
    assert len(plain) == len(compiled)


number = st.integers(0, 30)
hook = st.none() | st.sampled_from([2.0, -1.0, 0.5])


def instructions(kind, table):
    return st.builds(Instruction, st.just(kind), st.sampled_from(sorted(table)), number, number, hook)


lines = st.one_of(
    instructions("unary", UNARY),
    instructions("binary", BINARY),
    instructions("detach", UNARY),
    instructions("no_grad", UNARY),
    instructions("in_place", IN_PLACE),
    instructions("view", VIEWS),
    instructions("state", STATE),
    instructions("state", STATE),
)
programs = st.builds(
    Program,
    st.lists(lines, min_size=1, max_size=12),
    st.lists(number, min_size=1, max_size=3),
    st.sampled_from(["backward", "grad", "live", "kept", "no grad"]),
    st.lists(st.sampled_from(sorted(BETWEEN)), min_size=1, max_size=2),
    st.integers(0, 3),
    st.booleans(),
)


@settings(max_examples=EXAMPLES, phases=[Phase.generate])  # a shorter program costs minutes to find
@given(programs)
def test_a_compiled_program_leaves_what_the_plain_one_leaves(program):
    plain = run(program, compiled=False)
    arrays = [array for one in plain if isinstance(one, tuple) for array in one[1].values()]
    assume(all(np.isfinite(array).all() and np.abs(array).max() < LARGE for array in arrays))
    assert_same(plain, run(program, compiled=True))
