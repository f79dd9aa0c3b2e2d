"""The table of docs/use/jit.md: each row is run, with what it names in several places."""

import array
import ast
import collections
import contextlib
import contextvars
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import io
import itertools
import logging
import math
import operator
import os
import queue
import random
import sys
import threading
import time
import types
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import oplib
from oplib.errors import TracingError

pytestmark = [pytest.mark.spec("J.21"), pytest.mark.spec("J.25")]

PAGE = Path(__file__).parents[3] / "docs" / "use" / "jit.md"
MODULES = (
    array, collections, contextvars, dataclasses, dt, decimal, enum, functools, itertools, logging, math,
    operator, oplib, os, queue, random, sys, threading, time, types, weakref,
)  # fmt: skip
PLACES = ("global", "closure", "attribute", "item", "class", "module")


class Row(NamedTuple):
    """One row: statements before, the code of the function, a change, and what happens then."""

    way: str
    before: str
    code: str
    change: str
    outcome: str


def read_rows():
    """Returns the rows of the table, in which an empty cell of code does nothing."""
    text = PAGE.read_text().partition("| the function reads |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
    return [Row(way, *[cell.strip("`") for cell in cells]) for way, *cells in rows]


ROWS = read_rows()


class Names(ast.NodeTransformer):
    """Lets code read names in another place."""

    def __init__(self, names, place):
        self.names, self.place = names, place

    def visit_Name(self, node):
        if node.id not in self.names or self.place in {"global", "closure"}:
            return node
        text = f"place[{node.id!r}]" if self.place == "item" else f"place.{node.id}"
        return ast.parse(text, mode="eval").body


class Program:
    """A row whose names stand in one place; their values are copied there after each change."""

    def __init__(self, row, place, path):
        self.row, self.place = row, place
        self.scope: dict[str, Any] = {module.__name__: module for module in MODULES}
        self.scope |= {"np": np, "modules": sys.modules, "path": path, "Object": types.SimpleNamespace}
        self.scope["__name__"] = "rows"
        known = {*self.scope, "__builtins__"}
        exec(row.before, self.scope)
        self.names = [name for name in self.scope if name not in known]
        self.scope["place"] = {
            "item": {},
            "class": type("Place", (), {}),
            "module": types.ModuleType("place"),
        }.get(place, types.SimpleNamespace())
        body = row.code if "return" in row.code else f"return {row.code}"
        code = ast.unparse(Names(self.names, place).visit(ast.parse(body))).replace("\n", "; ")
        if place == "closure" and self.names:
            arguments = ", ".join(self.names)
            exec(f"def make({arguments}):\n def f(x): {code}\n return f", self.scope)
            self.scope["f"] = self.scope["make"](*[self.scope[name] for name in self.names])
        else:
            exec(f"def f(x): {code}", self.scope)
        self.copy()

    @property
    def function(self):
        return self.scope["f"]

    def change(self):
        exec(self.row.change, self.scope)
        self.copy()

    def copy(self):
        for name in self.names:
            value = self.scope[name]
            if self.place == "closure":
                cells = dict(
                    zip(self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True)
                )
                if name in cells:
                    cells[name].cell_contents = value
            elif self.place == "item":
                self.scope["place"][name] = value
            elif self.place != "global":
                setattr(self.scope["place"], name, value)


@pytest.fixture(autouse=True)
def put_back(monkeypatch):
    """Keeps what the rows change in the process."""
    monkeypatch.setattr(math, "sqrt", math.sqrt)
    monkeypatch.setitem(os.environ, "RATE", "")
    monkeypatch.setitem(sys.modules, "settings", types.ModuleType("settings"))
    level = logging.getLogger("rates").level
    with decimal.localcontext():
        yield
    logging.getLogger("rates").setLevel(level)


def test_the_table_is_read_whole():
    assert len(ROWS) > 45
    assert {row.outcome for row in ROWS} == {"noticed", "refused", "not noticed"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("row", ROWS, ids=[row.way for row in ROWS])
def test_a_row_says_what_happens(row, place, tmp_path):
    program = Program(row, place, tmp_path / "rate.txt")
    if place != "global" and not program.names:
        return  # nothing stands anywhere
    step, x = oplib.jit(program.function), oplib.ones(2)
    if row.outcome == "refused":
        file = program.scope.get("file", io.StringIO())
        with contextlib.closing(file), pytest.raises(TracingError, match="does not do again"):
            step(x)
        return
    first = step(x).tolist()
    assert step(x).tolist() == first
    assert step.compilations == 1
    program.change()
    expected = program.function(x).tolist()
    assert expected != first
    assert step(x).tolist() == (expected if row.outcome == "noticed" else first)
    if "space" in program.scope:
        program.scope["space"]._destroy()
