"""Changes of the class of Tensors and storages."""

import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

import oplib
from oplib.tensor.storage.class_changes import change_class
from oplib.tensor.storage.fresh import make_fresh
from oplib.tensor.storage.overlay import observe, stop_observing
from oplib.tensor.storage.storage import Storage


def test_an_object_keeps_its_attributes_under_another_class():
    class Named(oplib.Tensor):
        pass

    tensor = oplib.tensor([1.0, 2.0])
    change_class(tensor, Named)
    assert type(tensor) is Named
    assert tensor.tolist() == [1.0, 2.0]


def test_no_other_module_assigns_the_class_of_an_object():
    modules = Path(oplib.__file__).parent.rglob("*.py")
    assert [str(one) for one in modules if re.search(r"\.__class__ = ", one.read_text())] == []


# Storages that a trace observes ----------------------------------------------------------------------------


def test_a_thread_without_an_overlay_writes_what_a_trace_of_another_observes():
    storage, observed = Storage(jnp.zeros(2)), []
    observe([storage], observed)
    assert type(storage) is not Storage
    storage.array, storage.version = jnp.ones(2), 3
    stop_observing(observed)
    assert type(storage) is Storage
    assert (storage.array.tolist(), storage.version) == ([1.0, 1.0], 3)


@pytest.mark.parametrize("is_fresh", [False, True])
@pytest.mark.parametrize(("name", "value"), [("array", jnp.ones(2)), ("version", 3)])
def test_a_write_that_began_while_a_trace_observed_ends_in_the_class_of_now(name, value, is_fresh):
    """Another thread looks the property up; then the trace ends, and a program may make the storage fresh."""
    storage, observed = Storage(jnp.zeros(2)), []
    observe([storage], observed)
    looked_up: Any = getattr(type(storage), name)
    stop_observing(observed)
    if is_fresh:
        make_fresh(storage, jnp.zeros(2), 1)
    looked_up.__set__(storage, value)
    assert getattr(storage, name) is looked_up.__get__(storage) is value
