"""Names of torch and JAX that oplib does not have: the error says what to use instead."""

from __future__ import annotations

import _thread
import functools
import importlib
import importlib.util
import queue
import re
import sys
from types import FrameType
from typing import Any

import jax
import jax.nn
import jax.numpy as jnp
import jax.random
import pytest

import oplib
import oplib.nn.functional
from oplib.torch_names import HINTS

CASES = [(place, name) for place, hints in HINTS.items() for name in hints]
PATH = re.compile(r"\boplib(?:\.\w+)+")


def find_place(place: str) -> Any:
    if place == "Optimizer":
        optax = pytest.importorskip("optax")
        return oplib.optim.Optimizer(optax.sgd(1.0), [oplib.ones(1, requires_grad=True)])
    return oplib.ones(1) if place == "Tensor" else importlib.import_module(place)


def find_place_of_torch(place: str) -> Any:
    torch = pytest.importorskip("torch")
    if place == "Optimizer":
        return torch.optim.SGD([torch.ones(1)])
    return torch.Tensor if place == "Tensor" else importlib.import_module(place.replace("oplib", "torch"))


@pytest.mark.parametrize(("place", "name"), CASES)
def test_a_name_is_absent_and_its_error_ends_with_the_hint(place: str, name: str) -> None:
    where = find_place(place)
    assert not hasattr(where, name)
    assert name not in dir(where)
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'. {re.escape(HINTS[place][name])}$"):
        getattr(where, name)


@pytest.mark.parametrize(("place", "name"), [case for case in CASES if case[0].startswith("oplib")])
def test_python_finds_no_module_of_a_missing_name(place: str, name: str) -> None:
    assert importlib.util.find_spec(f"{place}.{name}") is None
    with pytest.raises(ModuleNotFoundError, match=rf"^No module named '{place}\.{name}'"):
        importlib.import_module(f"{place}.{name}")


@pytest.mark.parametrize(("place", "name"), [case for case in CASES if case[0].startswith("oplib")])
def test_the_error_of_an_import_ends_with_the_hint(place: str, name: str) -> None:
    text = f"cannot import name '{name}' from '{place}'. {re.escape(HINTS[place][name])}$"
    with pytest.raises(ImportError, match=text):
        exec(f"from {place} import {name}", {})


def test_an_import_is_seen_among_many_names_and_in_a_traced_program() -> None:
    text = "There are no modules"
    names = ", ".join(f"x{index}" for index in range(300))  # the index of the next one takes two bytes
    with pytest.raises(ImportError, match=text):
        exec(f"if skipped:\n    {names}\nfrom oplib.nn import Module", {"skipped": False})
    lines: list[int] = []

    def trace(frame: FrameType, *_: Any) -> Any:
        lines.append(frame.f_lineno)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with pytest.raises(ImportError, match=text):
            exec("from oplib.nn import Module", {})
    finally:
        sys.settrace(before)
    assert lines


def test_other_ways_to_ask_for_a_missing_name_get_no_import_error() -> None:
    assert __import__("oplib.nn", fromlist=["Module"]) is oplib.nn
    assert getattr(oplib.nn, "Module", None) is None
    result: queue.Queue[object] = queue.Queue()

    def put(error: sys.UnraisableHookArgs) -> None:
        result.put(error.exc_value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", put)
        _thread.start_new_thread(getattr, (oplib.nn, "Module"))  # no Python code asks
        assert isinstance(result.get(timeout=60), AttributeError)


def test_each_path_that_a_hint_names_exists() -> None:
    texts = {hint for hints in HINTS.values() for hint in hints.values()}
    paths = {path for hint in texts for path in PATH.findall(hint)}
    assert len(paths) > 40
    for path in paths:
        functools.reduce(getattr, path.split(".")[1:], oplib)
    methods = {name for hint in texts for name in re.findall(r"\b[Tt]ensor\.(\w+)", hint)} - {"ones"}
    assert not {name for name in methods if not hasattr(oplib.Tensor, name) and name != "__class__"}


OF_JAX = (jax, jax.numpy, jax.lax, jax.random, jnp.ones(1))


SPELT = {
    "F",
    "jnp",
    "jax",
    "flax",
    "linen",
    "nnx",
    "haiku",
    "equinox",
    "pallas",
    "tensorboard",
}  # as programs call modules


def test_each_name_is_one_of_torch_or_jax() -> None:
    torch = pytest.importorskip("torch")
    optax = pytest.importorskip("optax")
    elsewhere = (  # of a package, sought in its root
        torch.nn,
        torch.nn.functional,
        torch.nn.Module,
        torch.autograd,
        torch.optim.SGD,
        torch.func,
        torch.cuda,
        torch.backends,
        torch.utils,
        torch.utils.data,
        torch.nn.utils,
        jax.custom_vjp,
        jax.custom_jvp,
        jax.sharding,
        jax.nn,
        optax,
        optax.GradientTransformation,
    )
    for place, name in CASES:
        places = (find_place_of_torch(place), *OF_JAX, *elsewhere)
        path = f"{place.replace('oplib', 'torch')}.{name}"  # of a module that only an import loads
        is_known = name in SPELT or any(hasattr(known, name) for known in places)
        assert is_known or importlib.util.find_spec(path), (place, name)


@pytest.mark.parametrize(
    ("place", "name", "hint"),
    [
        ("oplib", "Module", "There are no modules: use a class"),
        ("oplib", "Linear", "use oplib.nn.functional.linear with"),
        ("oplib", "Adam", "Use oplib.optim.Optimizer(optax.adam(...), parameters)."),
        ("oplib", "Library", "Use oplib.library.Library."),
        ("oplib", "register_autograd", "Use oplib.library.register_autograd."),
        ("oplib", "tree_map", "Use oplib.pytree.tree_map."),
        ("oplib", "lax", "It is JAX's: use jax.lax."),
        ("oplib", "pure_callback", "It is JAX's: use jax.pure_callback."),
        ("oplib.nn", "relu", "Use oplib.nn.functional.relu."),
        ("oplib.nn", "linear", "Use oplib.nn.functional.linear."),
        ("oplib.nn.functional", "vmap", "Use oplib.vmap."),
        ("oplib.library", "vmap", "Use oplib.vmap."),
        ("oplib.autograd", "custom_op", "Use oplib.custom_op."),
        ("oplib.linalg", "matmul_", None),
        ("oplib", "_version", None),
    ],
)
def test_a_name_without_a_row_leads_to_where_else_it_is(place, name, hint):
    with pytest.raises(AttributeError) as caught:
        getattr(importlib.import_module(place), name)
    text = str(caught.value)
    assert hint in text if hint else text == f"module '{place}' has no attribute '{name}'"
    if hint:
        with pytest.raises(ImportError, match=re.escape(hint)):
            exec(f"from {place} import {name}", {})


def test_a_name_of_a_row_says_no_other_place():
    for place, name in CASES:
        if place.startswith("oplib"):
            assert name not in getattr(importlib.import_module(place), "__all__", ())


def test_each_transformation_of_optax_exists() -> None:
    optax = pytest.importorskip("optax")
    texts = " ".join(HINTS["oplib.optim"].values())
    assert not [name for name in re.findall(r"optax\.(\w+)", texts) if not hasattr(optax, name)]


def test_a_name_that_nobody_has_gets_no_hint() -> None:
    for where in (oplib, oplib.nn, oplib.nn.functional):
        with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
            where.nothing  # noqa: B018  reading it raises


def test_a_subclass_may_define_a_name_that_is_missing() -> None:
    class Mine(oplib.Tensor):
        to_sparse = False

    x = oplib.ones(1)
    x.__class__ = Mine
    assert getattr(x, "to_sparse") is False  # noqa: B009  a type checker sees a Tensor
    assert getattr(oplib.ones(1), "to_sparse", None) is None
