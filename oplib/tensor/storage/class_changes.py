"""Changes of the class of Tensors and storages that exist: all of them call :data:`change_class`.

An object changes its class where a test in each read would cost more than the rest of the read:

* A storage is fresh until its array is read (``fresh``), and observed while a thread traces (``overlay``).
* A Tensor is observed while a thread traces, and a view is stale until its history is read (``views``).
* The result of an op becomes an inference tensor (``inference``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

change_class: Callable[[Any, type], None] = object.__dict__["__class__"].__set__
"""Gives an object another class.

Python looks for interrupts, and for other threads, after the call and not before. So what is done directly
before belongs to the change: all of it happens, or nothing.
"""
