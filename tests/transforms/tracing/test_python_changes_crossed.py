"""Kinds of change crossed with kinds of reading and with places: each program is right, or refused."""

import itertools
import re
from collections import deque

import pytest

import oplib
from oplib.errors import TracingError

SEQUENCE_READS = [
    "len(h)",
    "h[0]",
    "h[-1]",
    "sum(h)",
    "max(h)",
    "2.0 in h",
    "[*h][-1]",
    "next(iter(h))",
    "bool(h)",
]
KINDS = {
    "list": (
        "[1.0, 2.0]",
        (
            "h.append(3.0); h.extend([4.0]); h.insert(0, 5.0); h.pop(); del h[0]; h[0] = h[0] + 1; "
            "h += [7.0]; h[:] = [9.0]; h[1] = 8.0; h.reverse(); h.sort(reverse=True); h.clear(); "
            "h.remove(h[0]); h[0] += 1"
        ),
        [
            *SEQUENCE_READS,
            "h.count(2.0)",
            "sorted(h)[0]",
            "dict(enumerate(h)).get(0, 0)",
            "str(h) == '[1.0, 2.0]'",
        ],
    ),
    "dict": (
        "{'a': 1.0, 'b': 2.0}",
        (
            "h['c'] = 3.0; h['a'] = h['a'] + 4; h.pop('a'); del h['b']; h.update(c=3.0); "
            "h.setdefault('c', 4.0); h.clear(); h |= {'c': 1.0}; h.popitem(); h['a'] += 1; "
            "h[len(h)] = 1.0"
        ),
        ["len(h)", "h['a']", "h.get('c', 0.0)", "'c' in h", "next(iter(h)) == 'a'", "list(h).index('b')"],
    ),
    "deque": (
        "deque([1.0, 2.0], maxlen=2)",
        "h.append(3.0); h.appendleft(3.0); h.rotate(1); h.pop(); h.extend([5.0]); h.clear(); h[0] = 9.0",
        SEQUENCE_READS,
    ),
    "set": (
        "{1.0, 2.0}",
        "h.add(3.0); h.discard(1.0); h |= {4.0}; h.pop(); h.clear(); h -= {1.0}; h.add(float(len(h) + 5))",
        ["len(h)", "sum(h)", "max(h)", "3.0 in h", "sorted(h)[0]", "h == {1.0, 2.0}"],
    ),
    "tuple": ("(1.0, 2.0)", "h = h[::-1]; h += (3.0,); h = (h[0] + 1, 2.0)", SEQUENCE_READS),
    "number": ("1.0", "h += 1; h = h * 2", ["h", "h == 1.0", "str(h) == '1.0'", "[h][0]"]),
    "object": (
        "Box(a=1.0, t=(1.0, 2.0))",
        (
            "h.a += 1; h.a = 5.0; h.b = 2.0; h.t = h.t[::-1]; setattr(h, 'a', 7.0); "
            "h.__dict__.update(a=8.0); "
            "del h.a; h.t += (3.0,); vars(h)['a'] = 4.0"
        ),
        [
            "h.a",
            "getattr(h, 'a', 0.0)",
            "getattr(h, 'b', 0.0)",
            "hasattr(h, 'b')",
            "vars(h)['a']",
            "sum(h.t)",
        ],
    ),
}
PLACES = {
    "global": ("h = {}", "h", "global h"),
    "closure": ("h = {}", "h", "nonlocal h"),
    "attribute": ("o = Box(h={})", "o.h", "pass"),
    "item": ("d = {{'k': {}}}", "d['k']", "pass"),
    "class": ("C = type('C', (), {{'h': {}}})", "C.h", "pass"),
}


class Box:
    """An object with attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def make_function(place, initial, lines):
    """Returns a function of a Tensor that changes ``h`` in a place, and reads it."""
    setup, name, declaration = PLACES[place]
    renamed = [re.sub(r"\bh\b", name, line) for line in lines]
    body = "".join(f"    {line}\n" for line in [declaration, *renamed, "return x * float(v)"])
    source = f"{setup.format(initial)}\ndef f(x):\n{body}"
    if place == "closure":
        source = "def make():\n" + "".join(f"    {line}\n" for line in [*source.splitlines(), "return f"])
        source += "f = make()\n"
    namespace = {"__name__": "crossed", "deque": deque, "Box": Box}
    exec(compile(source, "<crossed>", "exec"), namespace)
    return namespace["f"]


def call_often(function):
    results = []
    for _ in range(3):
        try:
            results.append(function(oplib.ones(1)).item())
        except Exception as error:  # noqa: BLE001  also those of the uncompiled run
            return [*results, "refused" if isinstance(error, TracingError) else type(error).__name__]
    return results


@pytest.mark.slow
@pytest.mark.spec("J.23")
@pytest.mark.parametrize("kind", KINDS)
def test_each_change_is_done_again_or_refused_however_it_is_read(kind):
    initial, changes, reads = KINDS[kind]
    for change, read, place, is_first in itertools.product(changes.split("; "), reads, PLACES, (False, True)):
        lines = [f"v = {read}", change] if is_first else [change, f"v = {read}"]
        right = call_often(make_function(place, initial, lines))
        found = call_often(oplib.jit(make_function(place, initial, lines)))
        if found[-1] == "refused":
            found, right = found[:-1], right[: len(found) - 1]
        assert (place, lines, found) == (place, lines, right)
