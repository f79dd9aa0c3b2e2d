"""The kinds of op that a row can be run with: operators, Functions, and ops with each kind of kernel."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import pallas

import oplib
from oplib import Tensor
from oplib.autograd import Function

Op = Callable[..., Any]
KINDS: dict[str, Callable[[type[Rules]], Op]] = {}
# What kinds have in common, for the exceptions of rows; the rules of those ``of arrays`` run on arrays.
TAGS_OF_KINDS: dict[str, list[str]] = {}
_numbers = itertools.count()


class Rules:
    """What an op computes, in operators that Tensors, arrays and numpy arrays have.

    A row has a subclass. Its ``jvp`` is derived, as long as it defines none.

    Attributes:
        results: the number of results.
        arguments: the names of the arguments, all of them tensors.
    """

    results: int = 1
    arguments: tuple[str, ...] = ("x",)

    @staticmethod
    def forward(x: Any) -> Any:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * 2 * x


class Square(Rules):
    """The op of most rows: x * x."""


def annotate(function: Op, kind: type, rules: type[Rules]) -> Op:
    """Returns a function of ``rules.arguments`` with annotations, which say what kind of kernel it is."""
    results = kind if rules.results == 1 else tuple[(kind,) * rules.results]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
        for name in rules.arguments
    ]

    def kernel(*arguments: Any) -> Any:
        return function(*arguments)

    kernel.__signature__ = inspect.Signature(parameters, return_annotation=results)  # type: ignore[attr-defined]
    kernel.__annotations__ = dict.fromkeys(rules.arguments, kind) | {"return": results}
    return kernel


def kind(*tags: str) -> Callable[[Callable[..., Op]], Callable[..., Op]]:
    """Adds a kind of op."""

    def add(make: Callable[..., Op]) -> Callable[..., Op]:
        name = make.__name__.replace("_", " ")
        KINDS[name], TAGS_OF_KINDS[name] = make, list(tags)
        return make

    return add


@kind()
def operators(rules):
    """Gives the forward itself where its derivatives are the rules; else the plain Function."""
    return rules.forward if rules is Square else Function_on_Tensors(rules)


@kind()
def Function_on_Tensors(rules):
    return type(rules.__name__, (rules, Function), {"generate_vmap_rule": True}).apply


@kind("of arrays")
def Function_on_arrays(rules):
    forward = staticmethod(annotate(rules.forward, jax.Array, rules))
    return type(rules.__name__, (rules, Function), {"forward": forward}).apply


def _register(rules: type[Rules], kernel: Op, name: str | None = None) -> Op:
    op = oplib.library.custom_op(name, kernel) if name else oplib.library.custom_op(kernel)
    op.register_autograd(rules.backward, setup_context=rules.setup_context)
    return op


def _name() -> str:
    return f"worlds::op{next(_numbers)}"


@kind("an op", "of arrays")
def local_array_op(rules):
    return _register(rules, annotate(rules.forward, jax.Array, rules))


@kind("an op", "of arrays")
def named_array_op(rules):
    return _register(rules, annotate(rules.forward, jax.Array, rules), _name())


@kind("an op", "of arrays", "on the host")
def local_numpy_op(rules, name=None):
    op = _register(rules, annotate(rules.forward, np.ndarray, rules), name)
    due = lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype)  # noqa: E731
    op.register_fake(lambda *given: due(given[0]) if rules.results == 1 else (due(given[0]),) * rules.results)
    return op


@kind("an op", "of arrays", "on the host")
def named_numpy_op(rules):
    return local_numpy_op(rules, _name())


@kind("an op")
def local_Tensor_op(rules):
    return _register(rules, annotate(rules.forward, Tensor, rules))


@kind("an op")
def named_Tensor_op(rules):
    return _register(rules, annotate(rules.forward, Tensor, rules), _name())


@kind("an op", "of arrays")
def Pallas_op(rules):
    def launch(*given):
        def kernel(*refs):
            read, written = refs[: len(given)], refs[len(given) :]
            results = rules.forward(*(ref[...] for ref in read))
            for ref, result in zip(written, results if rules.results > 1 else (results,), strict=True):
                ref[...] = result

        due = jax.ShapeDtypeStruct(given[0].shape, given[0].dtype)
        results = pallas.pallas_call(kernel, out_shape=(due,) * rules.results, interpret=True)(*given)
        return results if rules.results > 1 else results[0]

    return _register(rules, annotate(launch, jax.Array, rules))
