"""Errors whose text begins with torch's sentence, for programs search for it; paths that programs import."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import oplib

from .programs import Programs, get_edge, leaf

torch = pytest.importorskip("torch")
PROGRAMS = Programs()


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_error_begins_with_the_sentence_of_torch(name: str) -> None:
    texts = []
    for lib in (torch, oplib):
        with pytest.raises((RuntimeError, ValueError)) as caught:
            PROGRAMS[name](lib)
        texts.append(str(caught.value))
    sentence = texts[0].partition(". ")[0].partition(", but got")[0].partition(" (or")[0]
    assert texts[1].startswith(sentence)
    assert len(texts[1]) <= 400


@PROGRAMS.add
def a_second_backward(lib: Any) -> None:
    x = leaf(lib, 1, 2)
    y = (x * x).sum()
    y.backward()
    y.backward()


@PROGRAMS.add
def a_saved_value_of_a_freed_node(lib: Any) -> None:
    x = leaf(lib, 1, 2)
    y = x * x
    y.sum().backward()
    _ = y.grad_fn._saved_self


@PROGRAMS.add
def an_edge_of_a_constant(lib: Any) -> None:
    get_edge(lib, lib.ones(2))


@PROGRAMS.add
def zeros_where_unused_inputs_are_refused(lib: Any) -> None:
    x = leaf(lib, 1, 2)
    lib.autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True)


@PROGRAMS.add
def zeros_for_an_edge(lib: Any) -> None:
    x = leaf(lib, 1, 2)
    lib.autograd.grad(x.sum(), get_edge(lib, leaf(lib, 3)), materialize_grads=True)


@pytest.mark.parametrize("gradient", [3.0, 3, np.float32(3), np.array(3.0)], ids=repr)
def test_a_number_as_gradient_is_the_mistake_of_the_caller(gradient: Any) -> None:
    for lib in (torch, oplib):
        x = leaf(lib, 1, 2)
        for call in (lambda y: y.backward(gradient), lambda y: lib.autograd.grad(y, x, gradient)):  # noqa: B023
            with pytest.raises(TypeError) as caught:
                call(x.sum())
            assert "defect" not in str(caught.value)
    assert "Give a Tensor of the output's shape" in str(caught.value)


def test_an_edge_is_a_pair_with_a_further_attribute() -> None:
    x = leaf(oplib, 1)
    node, nr = get_edge(oplib, x)
    edge = oplib.autograd.graph.GradientEdge(node, nr, "token")
    assert (edge, edge.ownership_token) == (get_edge(oplib, x), "token")
    assert oplib.autograd.grad(x.sum(), edge)[0].tolist() == [1.0]


@pytest.mark.parametrize("lib", [torch, oplib], ids=["torch", "oplib"])
def test_the_modules_of_torch_are_there_beside_the_function_of_the_same_name(lib: Any) -> None:
    found = importlib.import_module(f"{lib.__name__}.autograd.variable")
    assert isinstance(lib.ones(1), found.Variable)
    assert found.Variable is lib.autograd.Variable is lib.autograd.variable.Variable
    assert isinstance(found.Variable, found.VariableMeta)
    with pytest.raises(RuntimeError, match="deprecated"):
        lib.autograd.variable(1)
    with importlib.import_module(f"{lib.__name__}.autograd.profiler").record_function("name"):
        pass


def test_the_profiler_of_torch_names_that_of_oplib() -> None:
    with pytest.raises(RuntimeError, match=r"oplib\.visual\.profile\(step\)"):
        oplib.autograd.profiler.profile()


def test_the_sizes_of_a_context_that_allows_writes_are_those_of_torch() -> None:
    found = []
    for lib in (torch, oplib):
        with lib.autograd.graph.allow_mutation_on_saved_tensors() as ctx:
            seen = []

            def note(ctx: Any = ctx, seen: Any = seen) -> None:
                tables = (ctx.original, ctx.cloned, ctx.tid_to_weakhandle, ctx.sid_to_tid)
                seen.append([len(table) for table in tables])

            a = lib.ones(2, requires_grad=True).clone()
            b = a.sin()
            for step in (
                lambda a: note() or a.mul_(2),
                lambda a: note() or a.cos(),
                lambda a: note() or a.add_(1),
                lambda a: note() or a[0:1].mul_(2),
            ):
                held = step(a)
            note()
            b.sum().backward(retain_graph=True)
            note()
            del b, held
            note()
            found.append(seen)
    assert found[0] == found[1]
