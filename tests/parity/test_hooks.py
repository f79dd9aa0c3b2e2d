"""Traces of hooks: which run, in which order, with what, on torch and oplib side by side."""

import itertools

import pytest

from .programs import Programs, leaf, make_function


class Trace:
    """Writes down every hook that runs on the tensors and nodes of a program."""

    def __init__(self, lib):
        self.lib = lib
        self.lines = []
        self.held = []  # accumulators live as long as somebody holds them

    def show(self, value):
        if isinstance(value, tuple):
            return tuple(self.show(item) for item in value)
        if value is None:
            return None
        return [round(number, 4) for number in value.detach().reshape((-1,)).tolist()], value.requires_grad

    def note(self, what, *values):
        mode = self.lib.is_grad_enabled()
        self.lines.append((what, mode, *(self.show(value) for value in values)))

    def tensor(self, name, tensor, change=None):
        """A hook of a tensor; ``change`` makes the gradient that it returns."""

        def hook(grad):
            self.note(f"tensor {name}", grad)
            return None if change is None else change(grad)

        return tensor.register_hook(hook)

    def node(self, name, tensor, before=None, after=None):
        """Pre- and post-hooks of the node at which the gradient of a tensor arrives."""
        node = self.lib.autograd.graph.get_gradient_edge(tensor).node
        self.held.append(node)

        def prehook(grads):
            self.note(f"before {name}", grads)
            return None if before is None else before(grads)

        def posthook(results, grads):
            self.note(f"after {name}", results, grads)
            return None if after is None else after(results)

        return node.register_prehook(prehook), node.register_hook(posthook)

    def leaf(self, name, tensor):
        """All that can be hung on a leaf."""
        self.tensor(name, tensor)
        tensor.register_post_accumulate_grad_hook(lambda leaf: self.note(f"accumulated {name}", leaf.grad))
        self.node(name, tensor)

    def everything(self, **tensors):
        for name, tensor in tensors.items():
            if tensor.is_leaf:
                self.leaf(name, tensor)
            else:
                self.tensor(name, tensor)
                tensor.retain_grad()
                self.node(name, tensor)


def plus_one(grad):
    return grad + 1


# Graphs: each returns what to start from, the leaves, and all tensors by name


def chain(lib):
    x = leaf(lib, 1, 2)
    y = x * 3
    z = y.exp()
    return z.sum(), [x], {"x": x, "y": y, "z": z}


def diamond(lib):
    x, w = leaf(lib, 1, 2), leaf(lib, 3, 4)
    y = x * w
    p, q = y.sin(), y.cos()
    return (p * q).sum(), [x, w], {"x": x, "w": w, "y": y, "p": p, "q": q}


def siblings(lib):
    both = make_function(lib, lambda ctx, x: (x * 2, x * 3), lambda ctx, g, h: g * 2 + h * 3)
    x = leaf(lib, 1, 2)
    p, q = both.apply(x)
    return p.sum(), [x], {"x": x, "p": p, "q": q}


def leaf_alone(lib):
    x = leaf(lib, 5)
    return x.sum(), [x], {"x": x}


def twice(lib):
    x = leaf(lib, 2.0, 3.0)
    y = x * x
    return (y * y).sum(), [x], {"x": x, "y": y}


GRAPHS = {one.__name__: one for one in (chain, diamond, siblings, leaf_alone, twice)}

CALLS = {
    "backward": lambda lib, root, leaves: root.backward(),
    "backward twice": lambda lib, root, leaves: [root.backward(retain_graph=True), root.backward()],
    "backward for one input": lambda lib, root, leaves: root.backward(inputs=[leaves[-1]]),
    "grad": lambda lib, root, leaves: lib.autograd.grad(root, leaves),
    "grad, recorded": lambda lib, root, leaves: lib.autograd.grad(root, leaves, create_graph=True),
    "backward, recorded": lambda lib, root, leaves: root.backward(create_graph=True),
    "grad by the root": lambda lib, root, leaves: lib.autograd.grad(root, [root, *leaves]),
}


@pytest.mark.spec("E.3", "000.7", "000.8")
@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize(("graph", "call"), list(itertools.product(GRAPHS, CALLS)))
def test_all_hooks_run_as_in_torch(assert_agrees, graph, call):
    def program(lib):
        root, leaves, tensors = GRAPHS[graph](lib)
        trace = Trace(lib)
        trace.everything(root=root, **tensors)
        found = CALLS[call](lib, root, leaves)
        grads = {name: tensor.grad for name, tensor in (*tensors.items(), ("root", root))}
        return trace.lines, found, grads

    assert_agrees(program)


PROGRAMS = Programs()


@PROGRAMS.add
@pytest.mark.spec("000.7")
def changes_flow_on(lib):
    x = leaf(lib, 1, 2)
    y = x * 3
    trace = Trace(lib)
    trace.tensor("y", y, plus_one)
    trace.tensor("y again", y, lambda grad: grad * 10)
    trace.node(
        "y", y, before=lambda grads: (grads[0] + 5,), after=lambda results: (results[0] * 7, *results[1:])
    )
    trace.node("y again", y, before=lambda grads: (grads[0] * 2,))
    trace.tensor("x", x, plus_one)
    trace.node("x", x, before=lambda grads: (grads[0] * 100,))
    y.retain_grad()
    y.sum().backward()
    return trace.lines, x.grad, y.grad


@PROGRAMS.add
@pytest.mark.spec("E.3")
def retained_gradient_comes_after_hooks_registered_later(lib):
    x = leaf(lib, 1)
    y = x * 3
    y.retain_grad()
    trace = Trace(lib)
    trace.tensor("y", y, plus_one)
    y.backward()
    return trace.lines, y.grad, x.grad


@PROGRAMS.add
@pytest.mark.spec("D.9")
def captured_before_or_after(lib):
    a = leaf(lib, 2.0, 3.0)
    b = a * 3
    out = b * 4
    trace = Trace(lib)
    trace.tensor("b", b, lambda grad: grad * 100)
    trace.node("b", b, before=lambda grads: (grads[0] * 2,))
    return (
        lib.autograd.grad(out, b, retain_graph=True),
        lib.autograd.grad(out, [b, a], retain_graph=True),
        trace.lines,
    )


@PROGRAMS.add
@pytest.mark.spec("000.7")
def removed_in_between(lib):
    x = leaf(lib, 1)
    y = x * 3
    trace = Trace(lib)
    first = trace.tensor("first", y)
    second, third = trace.node("y", y)
    y.backward(retain_graph=True)
    first.remove()
    second.remove()
    y.backward(retain_graph=True)
    third.remove()
    y.backward()
    return trace.lines, x.grad


@PROGRAMS.add
@pytest.mark.spec("E.3")
def removed_by_a_hook_of_the_same_tensor(lib):
    x = leaf(lib, 1)
    y = x * 3
    trace = Trace(lib)
    handles = []
    y.register_hook(lambda grad: handles[0].remove())
    handles.append(trace.tensor("y", y))
    y.backward(retain_graph=True)
    y.backward()
    return trace.lines


@PROGRAMS.add
@pytest.mark.spec("000.7")
def registered_while_running(lib):
    x = leaf(lib, 1)
    y = x * 3
    z = y * 2
    trace = Trace(lib)
    z.register_hook(lambda grad: trace.tensor("y", y) and None)
    z.grad_fn.register_prehook(lambda grads: trace.node("z", z) and None)
    z.backward()
    return [line[0] for line in trace.lines]


@PROGRAMS.add
@pytest.mark.spec("E.3")
def in_place_moves_the_retained_gradient_and_leaves_the_hooks(lib):
    x = leaf(lib, 2.0, 3.0)
    y = x * 3
    trace = Trace(lib)
    y.retain_grad()
    trace.tensor("before", y)
    y.mul_(5)
    trace.tensor("after", y)
    y.sum().backward()
    return trace.lines, y.grad, x.grad


@PROGRAMS.add
@pytest.mark.spec("E.3")
def a_leaf_and_its_accumulator(lib):
    x = leaf(lib, 1)
    trace = Trace(lib)
    trace.leaf("x", x)
    (x * 2).backward()
    (x * 3).backward()
    x.grad = None
    lib.autograd.grad(x * 5, x)
    return trace.lines, x.grad


@PROGRAMS.add
@pytest.mark.spec("000.7")
def a_dropped_gradient(lib):
    x, w = leaf(lib, 1), leaf(lib, 2.0, 3.0)
    y = x * w
    trace = Trace(lib)
    trace.everything(x=x, w=w)
    trace.node("y", y, after=lambda results: (None, results[1]))
    y.backward()
    return trace.lines, x.grad, w.grad


@PROGRAMS.add
@pytest.mark.spec("E.8")
def nested_runs(lib):
    x = leaf(lib, 1)
    trace = Trace(lib)
    inner = x * 7
    trace.tensor("inner", inner)

    def nest(grad):
        trace.note("nest", grad)
        inner.backward(retain_graph=True)

    y = x * 3
    y.register_hook(nest)
    trace.leaf("x", x)
    y.backward()
    return trace.lines, x.grad


@PROGRAMS.add
@pytest.mark.spec("004.5")
def a_hook_that_fails(lib):
    x = leaf(lib, 1)
    y = x * 3
    z = y * 2
    trace = Trace(lib)
    trace.tensor("z", z)
    trace.leaf("x", x)

    def fail(grad):
        raise KeyError("hook")

    handle = y.register_hook(fail)
    try:
        z.backward(retain_graph=True)
    except KeyError as error:
        trace.lines.append(("error", str(error), lib.is_grad_enabled()))
    handle.remove()
    z.backward()
    return trace.lines, x.grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_trace_is_that_of_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])


@pytest.mark.parametrize("are_read", [False, True])
@pytest.mark.parametrize("names", ["", "A", "AB"])
@pytest.mark.parametrize(("hooked", "written"), [("base", "base"), ("base", "view"), ("view", "base")])
def test_hooks_of_a_tensor_with_a_new_history_run_for_its_new_value(
    assert_agrees, hooked, written, names, are_read
):
    def program(lib):
        trace, x = Trace(lib), leaf(lib, 2.0, 3.0)
        base = x * 1
        tensors = {"base": base, "view": base.view(2)}
        if names:
            trace.tensor("A", tensors[hooked], lambda grad: grad * 2)
        tensors[written].mul_(3)
        results = [tensors["view"].clone()] if are_read else []
        tensors[hooked].grad_fn  # noqa: B018  torch 2.13 crashes where nobody has read it
        trace.tensor("B", tensors[hooked], lambda grad: grad * 5)
        if names == "AB":
            trace.tensor("C", tensors[hooked], lambda grad: grad * 7)
        results.append(tensors["view"] * tensors["base"])
        sum(result.sum() for result in results).backward()
        return [trace.lines, x.grad]

    assert_agrees(program)
