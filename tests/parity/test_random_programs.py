"""Random programs on the tape: hooks, in-place writes, views, several roots and passes, as torch has them."""

import math
import os

import hypothesis
import pytest
from hypothesis import strategies as st

import oplib
from tests.counts import counts

EXAMPLES = int(os.environ.get("RANDOM_GRAPHS", "0")) or 60
SIZE = 4
LEAVES = 3

# Each takes the library, and tensors of shape (4,), and gives one of that shape. Values stay small.
UNARY = {
    "sin": lambda lib, a: a.sin(),
    "tanh": lambda lib, a: a.tanh(),
    "neg": lambda lib, a: -a,
    "half": lambda lib, a: a * 0.5,
    "square": lambda lib, a: a.tanh() * a.tanh(),
    "mean": lambda lib, a: a - a.sum() * 0.25,
    "clone": lambda lib, a: a.clone(),
    "detach": lambda lib, a: a.detach().sin(),
    "transpose": lambda lib, a: a.reshape((2, 2)).t().reshape((4,)),
    "view": lambda lib, a: a.view(2, 2).view(4),
    "narrow": lambda lib, a: a.narrow(0, 1, 2).sum() * a,
}
BINARY = {
    "add": lambda lib, a, b: (a + b) * 0.5,
    "sub": lambda lib, a, b: a - b,
    "mul": lambda lib, a, b: a.tanh() * b.tanh(),
    "same": lambda lib, a, b: a.sin() * a.sin(),
}
IN_PLACE = {
    "mul_": lambda a, b: a.mul_(b.detach().tanh()),
    "add_": lambda a, b: a.add_(b),
    "tanh_": lambda a, b: a.tanh_(),
    "half_": lambda a, b: a.mul_(0.5),
    "first_": lambda a, b: a[:2].mul_(b[2:].detach().tanh()),
    "one_": lambda a, b: a[1].add_(b[0]),
}
HOOKS = {
    "double": lambda grad: grad * 2,
    "look": lambda grad: None,
    "sine": lambda grad: grad.sin(),
}

places = st.integers(0, 30)
instructions = st.one_of(
    st.tuples(st.just("unary"), st.sampled_from(sorted(UNARY)), places),
    st.tuples(st.just("binary"), st.sampled_from(sorted(BINARY)), places, places),
    st.tuples(st.just("in place"), st.sampled_from(sorted(IN_PLACE)), places, places),
    st.tuples(st.just("hook"), st.sampled_from(sorted(HOOKS)), places),
    st.tuples(st.just("retain"), places),
    st.tuples(st.just("node hooks"), places),
)
passes = st.sampled_from(["backward", "twice", "inputs", "grad", "second order", "two roots", "packed"])


class Program:
    """One program, written down so that both libraries run the same."""

    def __init__(self, lines, roots, kind):
        self.lines, self.roots, self.kind = lines, roots, kind

    def __repr__(self):
        return "\n".join(map(str, [*self.lines, (self.kind, self.roots)]))

    def __call__(self, lib):
        self.lib, self.trace = lib, []
        self.leaves = [
            lib.tensor([0.1 + 0.3 * number + 0.2 * place for place in range(SIZE)], requires_grad=True)
            for number in range(LEAVES)
        ]
        self.pool = list(self.leaves)
        if self.kind == "packed":
            with lib.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
                self.record()
        else:
            self.record()
        found = self.differentiate()
        retained = [tensor.grad for tensor in self.pool if tensor.is_leaf or tensor.retains_grad]
        return [self.trace, found, retained, [tensor.detach() for tensor in self.pool]]

    def pick(self, place):
        return self.pool[place % len(self.pool)]

    def record(self):
        for kind, *rest in self.lines:
            getattr(self, kind.replace(" ", "_"))(*rest)

    def unary(self, name, place):
        self.pool.append(UNARY[name](self.lib, self.pick(place)))

    def binary(self, name, a, b):
        self.pool.append(BINARY[name](self.lib, self.pick(a), self.pick(b)))

    def in_place(self, name, a, b):
        target = self.pick(a)
        if not target.is_leaf and target.requires_grad:
            IN_PLACE[name](target, self.pick(b))

    def hook(self, name, place):
        tensor = self.pick(place)
        # torch 2.13 crashes if the base of a view was written and nobody has read its history since.
        if tensor.requires_grad and (tensor.is_leaf or tensor.grad_fn is not None):
            position = len(self.trace)
            tensor.register_hook(
                lambda grad: (self.trace.append((position, grad.detach().clone())), HOOKS[name](grad))[1]
            )

    def retain(self, place):
        tensor = self.pick(place)
        if tensor.requires_grad:
            tensor.retain_grad()

    def node_hooks(self, place):
        node = self.pick(place).grad_fn
        if node is not None:
            node.register_prehook(lambda grads: self.trace.append("before"))
            node.register_hook(lambda results, grads: self.trace.append("after"))

    def differentiate(self):
        grad = self.lib.autograd.grad
        roots = [self.pick(-1 - place) for place in self.roots]
        loss = (roots[0] * roots[0]).sum()
        if self.kind in ("backward", "packed"):
            return loss.backward()
        if self.kind == "twice":
            return [loss.backward(retain_graph=True), loss.backward()]
        if self.kind == "inputs":
            return loss.backward(inputs=[self.leaves[0], self.pick(self.roots[1])])
        if self.kind == "grad":
            return grad(loss, [*self.leaves, self.pick(self.roots[1])], allow_unused=True)
        if self.kind == "two roots":
            ones = [self.lib.ones(SIZE), self.lib.ones(SIZE)]
            return self.lib.autograd.backward([root * 1 for root in roots], ones)
        first = grad(loss, self.leaves, create_graph=True, allow_unused=True)
        total = sum((one * one).sum() for one in first if one is not None)
        return first, grad(total, self.leaves, allow_unused=True)


def plain(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return list(map(plain, value))
    return value


def run(program, lib):
    try:
        return plain(program(lib))
    except RuntimeError as error:
        return "in place" if "inplace" in str(error).replace("in-place", "inplace") else "error"


def is_close(ours, theirs):
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(is_close, ours, theirs))
    if isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-3, abs_tol=1e-4) or (
            math.isnan(ours) and math.isnan(theirs)
        )
    return ours == theirs


@pytest.mark.slow
@pytest.mark.spec("E.2", "E.3", "E.7", "001.7", "001.8", "000.14")
@hypothesis.settings(max_examples=EXAMPLES)
@hypothesis.given(st.lists(instructions, min_size=2, max_size=14), st.tuples(places, places), passes)
def test_random_programs_do_what_they_do_on_torch(lines, roots, kind):
    torch = pytest.importorskip("torch")
    program = Program(lines, roots, kind)
    counts["random programs"] += 1
    theirs, ours = run(program, torch), run(program, oplib)
    assert is_close(ours, theirs), f"{program}\ntorch: {theirs}\noplib: {ours}"
