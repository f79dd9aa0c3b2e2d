"""``oplib.compiler.is_compiling`` is True wherever oplib traces the user's code."""

import importlib
import subprocess
import sys

import jax
import pytest

import oplib


@pytest.mark.spec("J.22")
@pytest.mark.parametrize(
    ("run", "is_traced"),
    [
        (lambda note: note(oplib.ones(2)), False),
        (lambda note: oplib.jit(note)(oplib.ones(2)), True),
        (lambda note: oplib.vmap(note)(oplib.ones(2)), True),
        (lambda note: oplib.cond(oplib.tensor(True), note, note, oplib.ones(2)), True),
        (lambda note: oplib.scan(lambda c, x: (note(c), None), oplib.ones(()), oplib.ones(2)), True),
        (lambda note: oplib.while_loop(lambda c: c < 8, note, oplib.ones(())), True),
        (lambda note: jax.jit(note)(jax.numpy.ones(2)), True),
    ],
)
def test_traced_code_finds_that_it_is_compiled(run, is_traced):
    seen = []
    run(lambda x: [seen.append(oplib.compiler.is_compiling()), x * 2][1])
    assert set(seen) == {is_traced}


class _Noting(oplib.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * (2 if oplib.compiler.is_compiling() else 3)


@pytest.mark.spec("J.22")
def test_a_backward_finds_that_it_is_compiled():
    x = oplib.ones(1, requires_grad=True)
    _Noting.apply(x).backward()
    assert x.grad.item() == 3
    assert oplib.autograd.grad(oplib.jit(_Noting.apply)(x), x)[0].item() == 2


def test_marks_for_the_compilers_of_torch_do_nothing():
    for module in (oplib.compiler, oplib._dynamo):
        for mark in (module.disable, module.allow_in_graph, module.disable(recursive=False)):
            assert mark(min) is min
    assert oplib._dynamo.is_compiling() is oplib.compiler.is_compiling() is False
    assert oplib._dynamo.graph_break() is None
    assert oplib.compiler.is_exporting() is oplib.jit.is_scripting() is False
    assert oplib.fx.wrap(min) is oplib.jit.ignore(min) is oplib.jit.unused(min) is min
    assert oplib.jit.ignore(drop=True)(min) is min
    oplib.fx.wrap("len")
    seen = []
    oplib.jit(lambda x: [seen.append(oplib.jit.is_tracing()), x][1])(oplib.ones(1))
    assert (seen, oplib.jit.is_tracing()) == ([True], False)


@pytest.mark.parametrize("path", ["_dynamo", "fx", "types", "utils._pytree"])
def test_a_path_of_torch_can_be_imported_first(path):
    code = f"import oplib.{path} as found, oplib; assert found is oplib.{path}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_for_annotations_are_those_of_torch():
    found = importlib.import_module("oplib.types")
    assert isinstance(2, found.Number)
    assert isinstance("cpu", found.Device)
    assert isinstance(oplib.device("cpu"), found.Device)


@pytest.mark.parametrize(("name", "level"), [("default", 0), ("warn", 1), ("error", 2)])
def test_the_switch_for_deterministic_algorithms_has_three_levels(name, level):
    torch = pytest.importorskip("torch")
    try:
        for lib, given in ((torch, name), (oplib, name), (torch, level), (oplib, level)):
            lib.set_deterministic_debug_mode(given)
            assert lib.get_deterministic_debug_mode() == level
            assert lib.are_deterministic_algorithms_enabled() is (level > 0)
            assert lib.is_deterministic_algorithms_warn_only_enabled() is (level == 1)
    finally:
        torch.use_deterministic_algorithms(False)
        oplib.use_deterministic_algorithms(False)
    for wrong in ("often", 1.5, [1]):
        with pytest.raises(TypeError, match="'debug_mode' must be one of"):
            oplib.set_deterministic_debug_mode(wrong)
