"""How far the walk from a function goes."""

import importlib
import logging
import os
import subprocess
import sys
import threading
from typing import NamedTuple

import numpy as np
import pytest

import oplib
from oplib.transforms.tracing.paths import Walk


def test_objects_of_pythons_own_classes_are_not_looked_into():
    event, logger, weight = threading.Event(), logging.getLogger("places"), oplib.ones(2)

    def step(x):
        logger.debug("a step")
        event.set()
        return x * weight

    walk = Walk(step, [])
    assert [place.value for place in walk.tensors.values()] == [weight]
    assert len(walk.containers) < 20
    assert oplib.jit(step)(oplib.ones(2)).tolist() == [1, 1]
    assert event.is_set()


def test_a_cell_that_is_still_empty_is_passed_over():
    def make():
        def step(x):
            return later(x) if False else x * 2

        compiled = oplib.jit(step)
        result = compiled(oplib.ones(2))
        later = abs
        return result, later

    assert make()[0].tolist() == [2, 2]


def test_the_globals_of_installed_packages_are_not_looked_into():
    def step(x):
        assert x.ndim == 1  # pytest rewrites this to calls of its own functions
        return x * 2

    assert len(Walk(step, []).containers) < 20
    assert oplib.jit(step)(oplib.ones(2)).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("reading", "change"),
    [
        ("NUMBER", "NUMBER = 3.0"),
        ("OPTIONS['scale']", "OPTIONS = {'scale': 3.0}"),
        ("PAIR[1]", "PAIR = (1.0, 3.0)"),
        ("ARRAY[0].item()", "ARRAY = numpy.array([3.0])"),
        ("HOLDER.scale", "HOLDER = SimpleNamespace(scale=3.0)"),
        ("Scaled.scale", "Scaled = type('Scaled', (), {'scale': 3.0})"),
        ("triple(1)", "triple = lambda x: 3.0 * x"),
        ("options.NUMBER", "options.NUMBER = 3.0"),
        ("options.PAIR[1]", "options.PAIR = (1.0, 3.0)"),
        ("options.NUMBER", "options = SimpleNamespace(NUMBER=3.0)"),
    ],
)
@pytest.mark.parametrize("is_named_outside", [False, True])
def test_a_replaced_global_of_an_installed_package_compiles_again(
    tmp_path, monkeypatch, reading, change, is_named_outside
):
    folder = tmp_path / "site-packages" / "an_installed_package"
    folder.mkdir(parents=True)
    held = (
        "NUMBER, OPTIONS, PAIR, ARRAY = 2.0, {'scale': 2.0}, (1.0, 2.0), numpy.array([2.0])\n"
        "HOLDER = SimpleNamespace(scale=2.0)\n"
        "class Scaled:\n    scale = 2.0\n"
        "def triple(x):\n    return 2.0 * x\n"
    )
    head = "import numpy\nfrom types import SimpleNamespace\n"
    (folder / "options.py").write_text(head + held)
    step = f"def step(x):\n    return x * {reading}\n"
    (folder / "__init__.py").write_text(f"{head}from . import options\n{held}{step}")
    monkeypatch.syspath_prepend(folder.parent)
    package = importlib.import_module("an_installed_package")
    try:
        names = {"package": package}
        exec(f"def outside(x):\n    return x * package.{reading}", names)
        step = oplib.jit(names["outside"] if is_named_outside else package.step)
        assert [step(oplib.ones(1)).tolist() for _ in range(2)] == [[2], [2]]
        exec(change, vars(package))
        assert [step(oplib.ones(1)).tolist() for _ in range(2)] == [[3], [3]]
        assert step.compilations == 2
    finally:
        for name in ("an_installed_package", "an_installed_package.options"):
            del sys.modules[name]


class Layers(list):
    def __init__(self, *layers):
        super().__init__(layers)
        self.scale = oplib.full((2,), 2.0)

    def run(self, x):
        for layer in self:
            x = x * layer
        return x * self.scale * weight


class Pair(NamedTuple):
    first: oplib.Tensor
    second: oplib.Tensor

    def run(self, x):
        return x * self.first * self.second * weight


weight = oplib.ones(2)


@pytest.mark.parametrize("holder", [Layers(oplib.ones(2)), Pair(oplib.ones(2), oplib.full((2,), 2.0))])
def test_a_class_that_extends_a_container_may_have_attributes_and_methods(holder):
    step = oplib.jit(lambda x: holder.run(x))
    assert step(oplib.ones(2)).tolist() == [2, 2]
    holder[0].add_(1)
    assert step(oplib.ones(2)).tolist() == [4, 4]
    assert step.compilations == 1


ORDER = """
import oplib
first, second, third, fourth = (oplib.ones(2, requires_grad=True) for _ in range(4))

@oplib.jit
def step(x):
    return first * second + third * fourth * x

print(step.lower(oplib.ones(2)).as_text())
"""


@pytest.mark.slow
def test_a_program_is_the_same_whatever_the_seed_of_hashes():
    def lower(seed):
        command = [sys.executable, "-c", ORDER]
        environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert len({lower(seed) for seed in range(4)}) == 1


def test_of_the_arguments_objects_and_functions_of_the_user_are_looked_at_and_numbers_are_not():
    class Model:
        def __init__(self):
            self.weight = oplib.ones(1)

    model, captured = Model(), oplib.zeros(1)
    found = Walk(lambda: None, [2.0, np.ones(1), slice(3), model, lambda: captured], "leaf {}".format)
    assert {path.name for path in found.tensors.values()} == {"leaf 3.weight", "captured"}
    assert {id(path.value) for path in found.tensors.values()} == {id(model.weight), id(captured)}
    assert not {"leaf 0", "leaf 1", "leaf 2"} & {path.name for path in found.containers.values()}
