"""What mypy and pyright say of programs that make ops: the right ones pass, each mistake is found."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oplib.command_line.new_package import write_files
from tests.documents import FENCE, has_pairs, read_examples, read_pairs

ROOT = Path(__file__).parent.parent
RIGHT = """
from typing import Any, assert_type

import jax
import jax.numpy as jnp
import numpy as np

import oplib
from oplib.library import Context, register_kernel, register_sharding, register_vmap


@oplib.custom_op("typed::softclip")
def softclip(x: jax.Array, limit: float = 1.0) -> jax.Array:
    return limit * jnp.tanh(x / limit)


def save(ctx: Context, inputs: tuple[jax.Array, float], output: jax.Array) -> None:
    ctx.save_for_backward(output)
    ctx.limit = inputs[1]


@softclip.register_autograd(setup_context=save)
def softclip_backward(ctx: Context, g: jax.Array) -> tuple[jax.Array, None]:
    (y,) = ctx.saved_tensors
    return g * (1 - (y / ctx.limit) ** 2), None


@oplib.custom_op("typed::total", autograd="derive", operand=("scale",))
def total(xs: list[jax.Array], scale: float = 1.0) -> tuple[jax.Array, jax.Array]:
    return scale * jnp.stack(xs).sum(), jnp.stack(xs)


@oplib.custom_op("typed::host")
def host(x: np.ndarray[Any, Any], times: int = 1) -> np.ndarray[Any, Any]:
    return np.asarray(x * times)


@host.register_fake
def host_shapes(x: Any, times: int = 1) -> Any:
    return x


@softclip.register_kernel("tpu")
def softclip_on_tpu(x: jax.Array, limit: float = 1.0) -> jax.Array:
    return x


softclip.register_jvp(lambda primals, tangents: (primals[0], tangents[0]))
softclip.register_sharding("... -> ...")


@register_vmap("typed::softclip")
def map_softclip(info: Any, in_dims: Any, x: jax.Array, limit: float) -> tuple[jax.Array, int]:
    return softclip(x, limit), 0


@register_kernel(softclip, "tpu")
def softclip_again(x: jax.Array, limit: float = 1.0) -> jax.Array:
    return x


total.register_autograd("derive")
a, t = jnp.ones(3), oplib.tensor([1.0, 2.0])
assert_type(softclip(a, 2.0), jax.Array)
assert_type(softclip(x=a, limit=2.0), jax.Array)
assert_type(softclip(t), oplib.Tensor)
assert_type(softclip(t, limit=2.0), oplib.Tensor)
assert_type(total([a, a]), tuple[jax.Array, jax.Array])
assert_type(total([t, t]), oplib.Tensor)
assert_type(host(a), jax.Array)
assert_type(host(np.ones(2)), np.ndarray[Any, Any])
assert_type(softclip_backward(Context(), a), tuple[jax.Array, None])
assert_type(map_softclip(None, (0,), a, 1.0), tuple[jax.Array, int])
assert_type(softclip_again(a), jax.Array)
assert_type(register_sharding(softclip, "... -> ..."), str)
assert_type(softclip.__name__, str)


@oplib.custom_op("typed::eager")
def eager(x: oplib.Tensor, by: float = 2.0) -> oplib.Tensor:
    return x * by


assert_type(eager(t, 3.0), oplib.Tensor)
assert_type(eager(a, by=3.0), jax.Array)


def step(x: oplib.Tensor, n: int, *, scale: float = 1.0) -> tuple[oplib.Tensor, int]:
    return x * scale, n


@oplib.jit(static_argnames="scale")
def scaled(x: oplib.Tensor, scale: float) -> oplib.Tensor:
    return x * scale


class Model:
    @oplib.jit
    def forward(self, x: oplib.Tensor) -> oplib.Tensor:
        return x


assert_type(oplib.jit(step)(t, 2, scale=2.0), tuple[oplib.Tensor, int])
assert_type(scaled(t, 2.0), oplib.Tensor)
assert_type(Model().forward(t), oplib.Tensor)
assert_type(Model().forward.compilations, int)
assert_type(oplib.ones(3), oplib.Tensor)
assert_type(oplib.zeros((2, 3), dtype=oplib.float32), oplib.Tensor)
assert_type(oplib.rand(3, requires_grad=True), oplib.Tensor)
assert_type(oplib.randn_like(t), oplib.Tensor)
assert_type(oplib.ones_like(t), oplib.Tensor)
"""
START = """
import jax
import jax.numpy as jnp
import oplib
from oplib.library import Context

@oplib.custom_op("typed::softclip")
def softclip(x: jax.Array, limit: float = 1.0) -> jax.Array:
    return limit * jnp.tanh(x / limit)

def rule(ctx: Context, g: jax.Array) -> jax.Array:
    return g

@oplib.jit
def step(x: oplib.Tensor, n: int) -> oplib.Tensor:
    return x

a, t = jnp.ones(3), oplib.ones(3)
"""
WRONG = [
    'softclip(a, "two")',
    "softclip(a, limt=2.0)",
    "softclip(a, 1.0, 2.0)",
    "softclip()",
    'softclip("a")',
    "softclip.register_autgrad",
    "softclip.register_autograd(rule, setup=rule)",
    "softclip.register_autograd(3)",
    'softclip.register_autograd("drive")',
    'oplib.library.register_vmap("typed::softclip", 3)',
    "oplib.library.register_jvp(softclip, rule, symbolic_zero=True)",
    "number: int = softclip(a)",
    'oplib.custom_op("typed::f", mutate_args=("x",))',
    'oplib.custom_op("typed::f", rule, autograd="drive")',
    "oplib.custom_op(3, rule)",
    "Context().needs_input_grad.first",
    'step(t, "two")',
    "step(t)",
    "step(t, 1).expp",
    "step.lowered(t)",
    "oplib.ones(3).expp",
]


# The programs of these pages stand beside the same ones for torch and JAX, which have no annotations.
COMPARED = {"coming_from_torch", "coming_from_jax"}
# Formulas of solvers are read beside mathematics, and tests of pytest have no annotations.
UNANNOTATED = COMPARED | {"functions", "hijax", "testing"}
BRIEF = (
    "# pyright: standard\n# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, "
    "allow-untyped-decorators, no-warn-return-any\n"
)
# JAX and numpy publish partial types, and some names of torch begin with an underscore.
PYRIGHT = {
    "typeCheckingMode": "strict",
    "reportMissingTypeStubs": False,
    "reportPrivateUsage": False,
    "reportUnknownArgumentType": False,
    "reportUnknownLambdaType": False,
    "reportUnknownMemberType": False,
    "reportUnknownVariableType": False,
}
# Lines of pages at which a checker complains, and why.
EXPLAINED = {
    "class Wave(Base):": "JAX's class has another name in each version",
    "class Bend(Base):": "JAX's class has another name in each version",
    "show(t.grad.tolist())": "grad may be None, and here the backward has run",
    "show(lambda: log1mexp(a, a))": "the page shows the error",
    "show(lambda: mixture(a))  # an array is not a list": "the page shows the error",
    "show(lambda: mixture([a, None]))  # a member is missing": "the page shows the error",
    "def backward(ctx, grad):": "torch's class has the same method with other parameters",
    "return x * weight": "numpy declares Any as the result of an operator on arrays of any dtype",
    'return jax.lax.psum(scaled(x, weight).sum(), "data")': "JAX declares no result of psum",
    "return call(x, y)": "JAX declares Any as the result of pallas_call",
    "return pl.pallas_call(rank_row, shape, grid=grid, in_specs=[row], out_specs=row, interpret=True)(x)": (
        "JAX declares Any as the result of pallas_call"
    ),
    "return jax.lax.fori_loop(0, 20, step, (jnp.zeros_like(x), x))": "JAX declares Any as its result",
    "return by_centred - by_centred.mean() + g.mean / centred.size": "JAX declares Any as the result of mean",
    "return y": "JAX declares Any as the result of fori_loop",
    "return g * y * (1 - y)": "saved values are Any, because ctx does not know their types",
    "return hidden @ w.T": "JAX declares no result of checkpoint_name",
    "return jnp.linalg.solve(a, b)": "JAX declares Any as the result, because the function is a jit",
}
# Functions of JAX without annotations, which mypy --strict does not let an annotated function call.
UNTYPED = {
    "P", "ShapeDtypeStruct", "block_until_ready", "call", "checkpoint_name", "print_saved_residuals", "psum",
    "pycapsule",
}  # fmt: skip


@functools.cache
def list_pages() -> dict[str, str]:
    """Returns the programs of *write an op* by name."""
    found: dict[str, str] = {}
    for page in sorted((ROOT / "docs" / "write_an_op").glob("*.md")):
        text = page.read_text()
        if has_pairs(text):
            programs = [pair.programs[1] for pair in read_pairs(text)]
        else:
            programs = (
                ["\n".join(example.code for example in read_examples(text))] if FENCE.search(text) else []
            )
        for number, program in enumerate(programs):
            if page.stem in UNANNOTATED:
                program = program.replace("\n\n", BRIEF, 1)  # it begins with empty lines
            found[f"page_{page.stem}_{number}"] = program
    return found


def list_programs() -> dict[str, str]:
    """Returns programs by name: the right one, those of pages, and one with all mistakes."""
    first, *others = [example.code for example in read_examples((ROOT / "README.md").read_text())]
    first = first.replace("\n\n", BRIEF, 1)  # a Function as in torch, without annotations
    return {
        "right": RIGHT,
        "readme_0": first,
        "readme": "\n".join(others),
        "wrong": START + "\n".join(WRONG),
        **list_pages(),
    }


def find_checker(name: str) -> str:
    """Returns the path of a type checker, or skips the test."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed: it belongs to the extra `types`")
    return found


def run_mypy(folder: Path) -> list[tuple[str, int]]:
    """Returns file and line of each error that ``mypy --strict`` reports in the programs."""
    command = [
        find_checker("mypy"),
        "--strict",
        "--python-executable",
        sys.executable,
        "--cache-dir",
        str(folder / "cache"),
    ]
    done = run([*command, *sorted(map(str, folder.glob("*.py")))], folder, MYPYPATH=str(ROOT))
    found = re.findall(r"^(\w+)\.py:(\d+): error: (.*)", done.replace(f"{folder}{os.sep}", ""), re.MULTILINE)
    assert found, done  # the program with mistakes has some
    return [(name, int(line)) for name, line, text in found if not is_untyped_call(text)]


def is_untyped_call(text: str) -> bool:
    """Tells whether an error of mypy is a call of a function to which JAX gives no annotations."""
    match = re.match(r'Call to untyped function "(\w+)"', text)
    return match is not None and match[1] in UNTYPED


def run_pyright(folder: Path) -> list[tuple[str, int]]:
    """Returns file and line of each error that pyright reports in its strict mode."""
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT))
    command = [find_checker("pyright"), "--outputjson", "--pythonpath", sys.executable]
    done = run(command, folder, PYTHONPATH=str(ROOT))
    _, brace, rest = done.partition("{")  # before it, pyright may tell of a newer version
    assert brace, f"pyright gave no JSON: {done[-500:]}"
    errors = [one for one in json.loads(brace + rest)["generalDiagnostics"] if one["severity"] == "error"]
    return [(Path(one["file"]).stem, one["range"]["start"]["line"] + 1) for one in errors]


def run(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return done.stdout or done.stderr


CHECKERS = {"mypy": run_mypy, "pyright": run_pyright}


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory):
    """Runs a checker once for all programs; gives the lines of errors by program."""

    @functools.cache
    def check_once(checker: str) -> dict[str, list[int]]:
        folder = tmp_path_factory.mktemp(checker)
        programs = list_programs()
        for name, text in programs.items():
            (folder / f"{name}.py").write_text(text)
        found = CHECKERS[checker](folder)
        return {name: [line for file, line in found if file == name] for name in programs}

    return check_once


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("program", ["right", "readme"])
def test_a_right_program_passes(check, checker: str, program: str) -> None:
    lines = list_programs()[program].splitlines()
    assert [(line, lines[line - 1]) for line in check(checker)[program]] == []


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("program", ["readme_0", *list_pages()])
def test_a_program_of_a_page_passes(check, checker: str, program: str) -> None:
    lines = list_programs()[program].splitlines()
    found = [(line, lines[line - 1].strip()) for line in check(checker)[program]]
    assert [(line, text) for line, text in found if text not in EXPLAINED] == []


def test_each_explained_error_stands_on_a_page() -> None:
    lines = {line.strip() for program in list_pages().values() for line in program.splitlines()}
    assert EXPLAINED.keys() - lines == set()


def test_each_function_without_annotations_is_called_on_a_page() -> None:
    called = {name for program in list_pages().values() for name in re.findall(r"(\w+)\(", program)}
    assert UNTYPED - called == set()


def test_only_the_named_pages_are_without_annotations() -> None:
    brief = {name for name, program in list_pages().items() if BRIEF in program}
    assert brief == {name for name in list_pages() if name.removeprefix("page_")[:-2] in UNANNOTATED}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_each_mistake_is_found(check, checker: str) -> None:
    first = START.count("\n") + 1
    told = set(check(checker)["wrong"])
    assert [line for place, line in enumerate(WRONG) if place + first not in told] == []
    assert min(told) >= first


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_package_of_the_command_line_passes(checker, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files("fresh_ops", None)
    found = find_checker(checker)
    command = {
        "mypy": [found, "--python-executable", sys.executable, "--cache-dir", str(tmp_path / "cache"), "."],
        "pyright": [found, "--pythonpath", sys.executable],
    }[checker]
    told = run(command, tmp_path / "fresh_ops", MYPYPATH=str(ROOT), PYTHONPATH=str(ROOT))
    assert re.search("no issues found in 5 source files|^0 errors", told, re.MULTILINE), told
