"""Every public function is pickled by the name under which it is public, and comes back as itself."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import oplib
import oplib.nn.functional
import oplib.utils.checkpoint
import oplib.visual

MODULES: list[ModuleType] = [
    *(oplib, oplib.nn.functional, oplib.linalg, oplib.autograd, oplib.autograd.functional),
    *(oplib.autograd.forward_ad, oplib.autograd.graph, oplib.library, oplib.pytree),
    *(oplib.utils.checkpoint, oplib.visual),
]
OPS = [getattr(oplib.ops.oplib, name) for name in ("add", "exp", "sum", "im2col")]


def list_public(module: ModuleType) -> Iterator[Any]:
    for name in getattr(module, "__all__", None) or [name for name in vars(module) if name[0] != "_"]:
        value = getattr(module, name)
        if callable(value) and getattr(value, "__module__", "oplib").startswith("oplib"):
            yield value


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_each_public_function_and_class_of_a_module_is_pickled_by_name(module: ModuleType) -> None:
    found = list(list_public(module))
    assert found
    assert [one for one in found if pickle.loads(pickle.dumps(one)) is not one] == []


def test_each_method_of_tensor_is_pickled_by_name_before_and_after_its_op_was_used() -> None:
    oplib.ones(1) + 1 * oplib.ones(1)
    names = [
        name
        for name in dir(oplib.Tensor)
        if callable(getattr(oplib.Tensor, name, None)) and name != "__class__"
    ]
    assert len(names) > 500
    methods = [getattr(oplib.Tensor, name) for name in names]
    assert [one for one in methods if pickle.loads(pickle.dumps(one)) != one] == []


@pytest.mark.parametrize("op", OPS, ids=str)
def test_an_op_is_pickled_by_name(op: Any) -> None:
    assert pickle.loads(pickle.dumps(op)) is op
    for name in op.overloads():
        overload = getattr(op, name)
        assert pickle.loads(pickle.dumps(overload)) is overload


@pytest.mark.slow
def test_another_process_unpickles_the_objects() -> None:
    chosen = [oplib.Tensor.det, oplib.Tensor.sum, oplib.sum, oplib.relu_, oplib.nn.functional.fold]
    text = f"import pickle; print([one.__name__ for one in pickle.loads({pickle.dumps(chosen)!r})])"
    answer = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "['linalg_det', 'sum', 'sum', 'relu_', 'fold']"
