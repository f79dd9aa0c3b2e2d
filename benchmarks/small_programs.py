"""Small calls, each beside the same in plain JAX or in torch: the programs of the group ``small``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import oplib

from .rounds import Case
from .steps import make_steps, make_writes

Pair = tuple[Case, Case]
SHAPE = (8, 8)
COUNT = 50

# Against oplib itself, and against plain JAX ----------------------------------------------------------------


def grad_of_one_op() -> Pair:
    """``autograd.grad`` of one op, beside ``backward``."""
    x = oplib.full(SHAPE, 0.5).requires_grad_()

    def backward() -> Any:
        x.grad = None
        x.sin().sum().backward()
        return x.grad

    return Case(lambda: oplib.autograd.grad(x.sin().sum(), x)[0]), Case(backward)


def one_op() -> Pair:
    """A warm call of a program of one op."""
    return Case(oplib.jit(lambda x: x.sin()), oplib.ones(*SHAPE)), Case(jax.jit(jnp.sin), jnp.ones(SHAPE))


def step(number: int) -> Callable[[], Pair]:
    """A training step with so many parameters."""

    def make() -> Pair:
        mine, by_hand = make_steps(number // 2, 8, 16)
        return Case(mine), Case(by_hand)

    return make


def _make_forward() -> tuple[list[oplib.Tensor], oplib.Tensor, Any, Any]:
    weights = [oplib.full((8,), 1.0 + place / 100).requires_grad_() for place in range(COUNT)]
    x = oplib.full((8,), 0.5)

    @oplib.jit
    def forward(x: oplib.Tensor) -> oplib.Tensor:
        for weight in weights:
            x = x * weight
        return x.sum()

    def plain(arrays: list[jax.Array], x: jax.Array) -> jax.Array:
        for array in arrays:
            x = x * array
        return x.sum()

    return weights, x, forward, plain


def recorded_call() -> Pair:
    """A recorded call with 50 parameters."""
    weights, x, forward, plain = _make_forward()
    arrays = [weight.detach().array for weight in weights]
    return Case(forward, x), Case(jax.jit(plain), arrays, x.array)


def backward_outside() -> Pair:
    """A forward inside, its backward outside, with 50 parameters."""
    weights, x, forward, plain = _make_forward()
    arrays = [weight.detach().array for weight in weights]
    by_hand = jax.jit(jax.value_and_grad(plain))

    def run() -> Any:
        for weight in weights:
            weight.grad = None
        forward(x).backward()
        return weights[0].grad

    return Case(run), Case(lambda: by_hand(arrays, x.array)[0])


def optimizer_step() -> Pair:
    """A step of Adam outside of ``oplib.jit``."""
    optax = __import__("optax")  # of the extra that the optimizers need
    weights = [oplib.ones(8).requires_grad_() for _ in range(COUNT)]
    for weight in weights:
        weight.grad = oplib.ones(8)
    optimizer = oplib.optim.Optimizer(optax.adam(1e-3), weights)
    rule, arrays = optax.adam(1e-3), [jnp.ones(8)] * COUNT

    @jax.jit
    def update(arrays: Any, state: Any, grads: Any) -> Any:
        moves, state = rule.update(grads, state, arrays)
        return optax.apply_updates(arrays, moves), state

    held = [arrays, rule.init(arrays)]

    def by_hand() -> Any:
        held[:] = update(*held, arrays)
        return held[0]

    return Case(lambda: (optimizer.step(), weights[0])[1]), Case(by_hand)


def window_write() -> Pair:
    """``x[2:4].fill_(1)``."""
    x, state = oplib.zeros(8, 8), [jnp.zeros((8, 8))]
    put = jax.jit(lambda array: array.at[2:4].set(1), donate_argnums=0)

    def by_hand() -> Any:
        state[0] = put(state[0])
        return state[0]

    return Case(lambda: x[2:4].fill_(1)), Case(by_hand)


def held_write() -> Pair:
    """``fill_`` of a view that is held."""
    view, (_, by_hand) = oplib.zeros(8, 8)[2:4], window_write()
    return Case(lambda: view.fill_(1)), by_hand


def first_stack() -> Pair:
    """The first stack of 100 Tensors of a new shape, with its backward."""
    mine_sizes, its_sizes = count(1), count(1)

    def mine() -> Any:
        size = next(mine_sizes)
        rows = [oplib.ones(size).requires_grad_() for _ in range(100)]
        oplib.stack(rows).sum().backward()
        return rows[0].grad

    def its() -> Any:
        rows = [jnp.ones(next(its_sizes))] * 100
        return jax.grad(lambda rows: jnp.stack(rows).sum())(rows)[0]

    return Case(mine), Case(its)


def new_shapes() -> Pair:
    """A call of a program with a shape that it has not seen."""

    def compute(x: Any) -> Any:
        for _ in range(10):
            x = x * x + 1
        return x.sum()

    def run(jit: Any, ones: Callable[[tuple[int]], Any]) -> Any:
        step = jit(lambda x: compute(x))  # noqa: PLW0108  a function of its own has no programs yet
        return [step(ones((size,))) for size in range(1, 8)][-1]  # the eighth program of one function warns

    return Case(run, oplib.jit, oplib.ones, units=7), Case(run, jax.jit, jnp.ones, units=7)


def lowering() -> Pair:
    """The lowering of a chain of 1,000 ops."""
    sizes = count(1)

    def chain(multiply: Callable[..., Any], wrap: Callable[[Any], Any]) -> Case:
        def run(x: Any) -> Any:
            x = wrap(x)
            for _ in range(1000):
                x = multiply(x, x)
            return getattr(x, "array", x)

        return Case(lambda: jax.jit(run).lower(jnp.ones(next(sizes))))

    return chain(oplib.mul, oplib.Tensor.from_array), chain(jnp.multiply, lambda x: x)


def informed_step() -> Pair:
    """A step of a network that solves an equation: second derivatives in the loss."""
    weights = [oplib.full((16, 1), 0.3), oplib.full((1, 16), 0.2)]
    for weight in weights:
        weight.requires_grad_()
    points = oplib.linspace(0.0, 1.0, 32).reshape(1, 32)

    @oplib.jit
    def mine() -> oplib.Tensor:
        x = points.clone().requires_grad_()
        y = weights[1] @ (weights[0] @ x).tanh()
        (first,) = oplib.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = oplib.autograd.grad(first.sum(), x, create_graph=True)
        loss = ((second + y) ** 2).mean()
        grads = oplib.autograd.grad(loss, weights)
        with oplib.no_grad():
            for weight, grad in zip(weights, grads, strict=True):
                weight.sub_(grad, alpha=0.01)
        return loss.detach()

    def loss(arrays: list[jax.Array], x: jax.Array) -> jax.Array:
        def solve(x: jax.Array) -> jax.Array:
            return (arrays[1] @ jnp.tanh(arrays[0] @ x[None, None]))[0, 0]

        second = jax.vmap(jax.grad(jax.grad(solve)))(x)
        return ((second + jax.vmap(solve)(x)) ** 2).mean()

    @jax.jit
    def descend(arrays: list[jax.Array], x: jax.Array) -> Any:
        value, grads = jax.value_and_grad(loss)(arrays, x)
        return value, [array - 0.01 * grad for array, grad in zip(arrays, grads, strict=True)]

    state = [[weight.detach().array for weight in weights]]

    def its() -> Any:
        value, state[0] = descend(state[0], points.array[0])
        return value

    return Case(mine), Case(its)


def added_gradients() -> Pair:
    """A backward that adds to two gradients, beside one that stores them."""
    x, y = (oplib.ones(*SHAPE).requires_grad_() for _ in range(2))

    def add() -> Any:
        (x * y).sum().backward()
        return x.grad

    def store() -> Any:
        x.grad = y.grad = None
        return add()

    return Case(add), Case(store)


def written_tensors() -> Pair:
    """Writes of 50 Tensors in one program."""
    mine, by_hand = make_writes(COUNT)
    return Case(mine), Case(by_hand)


def large_save() -> Pair:
    """A file of 128 MB, beside ``numpy.savez``."""
    folder = tempfile.TemporaryDirectory()  # removed with the last case that refers to it
    tensor, array = oplib.zeros(32, 2**20), np.zeros((32, 2**20), np.float32)
    return (
        Case(lambda: oplib.save({"weight": tensor}, Path(folder.name) / "mine")),
        Case(lambda: np.savez(Path(folder.name) / "its.npz", weight=array)),
    )


# Against torch ----------------------------------------------------------------------------------------------


def custom_op(torch: Any) -> Pair:
    """A custom op, forward and backward."""

    @oplib.custom_op
    def mine(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    def its(x: Any) -> Any:
        return x.sin()

    its.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    op = torch.library.custom_op("bench_small::sine", its, mutates_args=())

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        del output
        ctx.save_for_backward(*inputs)

    mine.register_autograd(lambda ctx, g: g * jnp.cos(*ctx.saved_tensors), setup_context=save)
    op.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=save)

    def run(library: Any, rule: Any) -> Case:
        x = library.ones(SHAPE).requires_grad_()

        def both() -> Any:
            x.grad = None
            rule(x).backward(x.detach())
            return x.grad

        return Case(both)

    return run(oplib, mine), run(torch, op)


def rollout(torch: Any) -> Pair:
    """A policy of three ops, called 20 times in ``oplib.jit``, and its backward."""

    def run(library: Any, wrap: Callable[[Any], Any]) -> Case:
        weight = library.full((4, 4), 0.1).requires_grad_()
        start = library.ones(4)
        policy = wrap(lambda state: (weight @ state).tanh() + state)

        def roll() -> Any:
            weight.grad = None
            state = start
            for _ in range(20):
                state = policy(state)
            state.sum().backward()
            return weight.grad

        return Case(roll)

    return run(oplib, oplib.jit), run(torch, lambda policy: policy)


def decoding(torch: Any) -> Pair:
    """A token of attention with a cache, op by op."""

    def run(library: Any) -> Case:
        keys, values = library.zeros(64, 16), library.zeros(64, 16)
        token = library.ones(16)

        def decode() -> Any:
            with library.no_grad():
                keys[3] = token
                values[3] = token
                return library.softmax(keys @ token, 0) @ values

        return Case(decode)

    return run(oplib), run(torch)


def compiled_decoding() -> Pair:
    """A token of attention with a cache, in ``oplib.jit`` and in ``jax.jit`` with donation."""
    keys, values, token = oplib.zeros(64, 16), oplib.zeros(64, 16), oplib.ones(16)

    @oplib.jit
    def mine(place: oplib.Tensor) -> oplib.Tensor:
        keys.index_copy_(0, place, token[None])
        values.index_copy_(0, place, token[None])
        return oplib.softmax(keys @ token, 0) @ values

    def decode(keys: Any, values: Any, place: Any, token: Any) -> Any:
        keys, values = (cache.at[place].set(token) for cache in (keys, values))
        return jax.nn.softmax(keys @ token) @ values, keys, values

    its, state = jax.jit(decode, donate_argnums=(0, 1)), [jnp.zeros((64, 16)), jnp.zeros((64, 16))]
    place = oplib.tensor([3])

    def by_hand() -> Any:
        result, *state[:] = its(*state, place.array, token.array)
        return result

    return Case(mine, place), Case(by_hand)


def read_item(torch: Any) -> Pair:
    """``x[0, 0].item()``."""
    mine, its = oplib.ones(8, 8), torch.ones(8, 8)

    def read(tensor: Any) -> Any:
        return tensor[0, 0].item()

    return Case(read, mine), Case(read, its)


def many_loads(torch: Any) -> Pair:
    """A file of 1,000 small Tensors."""
    folder = tempfile.TemporaryDirectory()
    for library, name in ((oplib, "mine"), (torch, "its")):
        library.save({str(place): library.full((4,), 1.0) for place in range(1000)}, Path(folder.name) / name)
    mine, its = (
        partial(library.load, Path(folder.name) / name) for library, name in ((oplib, "mine"), (torch, "its"))
    )
    return Case(lambda: (mine()["0"], folder)[0]), Case(lambda: (its()["0"], folder)[0])
