"""Random graphs whose Python code gives None, registers hooks or clears grads end as the eager pass does."""

import pytest

import oplib
from oplib.autograd import Function, grad
from tests.seed import make_random

pytestmark = pytest.mark.spec("D.25", "D.26")


class Choose(Function):
    """A product whose backward gives None for some of its inputs."""

    @staticmethod
    def forward(ctx, x, y, wanted):
        ctx.save_for_backward(x, y)
        ctx.wanted = wanted
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        results = [gradient * y, gradient * x]
        return *[one if has else None for one, has in zip(results, ctx.wanted, strict=True)], None


split = oplib.jit(lambda x, y: (x.sin(), x * y, y.exp()))
"""A compiled call whose second result alone depends on both arguments."""


def build(draw, leaves, log):
    """Returns tensors of a random graph over the leaves, some with hooks that log their names."""
    values = [leaf * 1 for leaf in leaves]
    for number in range(12):
        x, y = draw.choice(values), draw.choice(values)
        kind = draw.randrange(6)
        if kind == 0:
            made = [Choose.apply(x, y, (draw.random() < 0.7, draw.random() < 0.7))]
        elif kind == 1:
            made = list(split(x * 0.5, y * 0.5))
        elif kind == 2:
            made = list((x + y).unbind(0))[:2]
            made = [one * values[0] for one in made]
        else:
            made = [[x + y, x * y * 0.3, x.sin() - y][kind - 3]]
        values += made
        add_hook(draw, draw.choice(made), draw.choice(values), draw.choice(leaves), number, log)
    return values


def scale(gradient, factor):
    """Returns a multiple of a gradient that may be absent."""
    return None if gradient is None else gradient * factor


def add_hook(draw, value, other, leaf, number, log):
    """Gives a value no hook, or one of several kinds."""
    kind = draw.randrange(10)
    if kind == 0:
        value.register_hook(lambda g: log.append(number) or scale(g, 2))
    elif kind == 1:
        value.grad_fn.register_prehook(lambda grads: log.append(number) or (None,) * len(grads))
    elif kind == 2:
        value.grad_fn.register_hook(lambda results, grads: log.append(number))
    elif kind == 3:
        value.register_hook(
            lambda g: log.append(number) or (other.register_hook(lambda g: scale(g, 3)) and None)
        )
    elif kind == 4:

        def clear(gradient):
            log.append(number)
            leaf.grad = None

        value.register_hook(clear)
    elif kind == 5:
        value.retain_grad()


@pytest.mark.parametrize("seed", range(6))
def test_a_random_graph_ends_as_the_eager_pass_does(seed, agree):
    def run(*leaves):
        draw, log = make_random(f"continuation {seed}"), []
        values = build(draw, leaves, log)
        leaves[2].register_post_accumulate_grad_hook(lambda leaf: log.append("leaf"))
        loss = sum(value.sum() for value in values[-4:])
        if seed % 3:
            loss.backward()
            return [log, *[value.grad for value in values if value.retains_grad]]
        return [log, *grad(loss, (values[4], *leaves), allow_unused=True)]

    agree(run)
