"""``oplib.visual.program``: what a compiled function reads, changes, costs and runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import oplib
from oplib.errors import DataError
from oplib.visual import program


def make_step():
    weight = oplib.ones(3, requires_grad=True)
    rate = oplib.tensor(0.5)

    @oplib.jit
    def step(x):
        weight.grad = None
        loss = (weight * x).sin().sum()
        loss.backward()
        with oplib.no_grad():
            weight.sub_(weight.grad * rate)
        return loss.detach()

    return step, weight


def test_a_report_has_operands_effects_cost_memory_and_jaxpr_and_runs_nothing():
    step, weight = make_step()
    made = program(step, oplib.ones(3))
    assert weight.tolist() == [1.0] * 3
    assert weight.grad is None
    shapes = {name: shape for name, shape, _ in made.operands}
    assert (shapes["weight"], shapes["rate"], shapes["argument 'x'"]) == ("f32[3]", "f32[]", "f32[3]")
    assert made.effects == [("weight", "is written"), ("weight", "gets a grad")]
    assert made.cost["flops"] > 0
    assert made.memory["arguments"] >= 3 * 4 * 2 + 4
    assert "sin" in made.jaxpr
    assert "cos" in made.jaxpr
    text = str(made)
    assert text.startswith("program of step")
    assert "weight  is written" in text


def test_a_written_tensor_that_nobody_else_holds_is_donated():
    step, _ = make_step()
    step(oplib.ones(3))
    step(oplib.ones(3))  # from now on the program writes what the program before has made
    made = program(step, oplib.ones(3))
    assert {name for name, _, donated in made.operands if donated} == {"weight"}
    assert program(oplib.jit(lambda x: x * 2), oplib.ones(3)).effects == []


def test_parameters_have_the_names_by_which_the_function_reaches_them():
    class Optimizer:
        def __init__(self):
            self.params = [oplib.ones(2, requires_grad=True) for _ in range(9)]

        def step(self):
            with oplib.no_grad():
                for param in self.params:
                    param.sub_(1.0)

    opt = Optimizer()
    page = program(oplib.jit(lambda: opt.step())).html()
    assert "<td>opt.params[7]</td><td>f32[2]</td>" in page
    assert "<td>opt.params[7]</td><td>is written</td>" in page
    assert "<tr><th>name</th><th>type</th><th>buffer</th></tr>" in page


def test_the_page_escapes_and_has_every_part(tmp_path):
    step, _ = make_step()
    made = program(step, oplib.ones(3))
    page = made.save(tmp_path / "a.html").read_text(encoding="utf-8")
    assert page == made.html()
    assert all(f"<h2>{title}</h2>" in page for title in ("operands", "effects", "cost", "memory", "jaxpr"))
    assert "<details><summary><h2>jaxpr</h2></summary><pre>" in page  # it is folded
    assert made._write_body() in made._repr_html_()
    assert made.save(tmp_path / "a.txt").read_text(encoding="utf-8") == str(made)


def test_another_function_a_wrong_ending_and_a_bad_path_are_errors(tmp_path):
    with pytest.raises(TypeError, match=r"program: expected a function of oplib.jit. Got .* Give oplib.jit"):
        program(lambda x: x, oplib.ones(3))
    made = program(oplib.jit(lambda x: x * 2), oplib.ones(3))
    with pytest.raises(ValueError, match=r"program.save: the ending .* Choose one of .html, .txt"):
        made.save(tmp_path / "a.pdf")
    with pytest.raises(DataError, match=r"program.save: the file cannot be written"):
        made.save(tmp_path / "none" / "a.txt")


COLOURS = """
import builtins
builtins.get_ipython = type("ZMQInteractiveShell", (), {})  # JAX looks for it when it is imported
import jax, oplib
function = oplib.jit(lambda x: x * 2)
function(oplib.ones(3))
texts = str(jax.make_jaxpr(lambda x: x * 2)(1.0)), oplib.visual.program(function, oplib.ones(3)).jaxpr
print(["\\x1b" in text for text in texts])
"""


def test_the_jaxpr_has_no_colours_in_a_notebook():
    done = subprocess.run([sys.executable, "-c", COLOURS], capture_output=True, text=True, check=True)
    assert done.stdout == "[True, False]\n"  # that of JAX has
