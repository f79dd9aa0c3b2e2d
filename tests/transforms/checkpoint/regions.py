"""Regions of a checkpoint that can be watched, and the gradients they should have."""

from __future__ import annotations

import weakref

import pytest

from oplib.autograd import grad

BOTH = pytest.mark.parametrize("reentrant", [False, True])


class Region:
    """A function that counts its calls and remembers weakly which arrays it has made."""

    def __init__(self):
        self.calls = 0
        self.made = []

    def __call__(self, x, w):
        self.calls += 1
        product = x * w
        sine = product.sin()
        self.made += [weakref.ref(tensor._storage.array) for tensor in (product, sine)]
        return sine * sine

    def alive(self):
        return [reference() is not None for reference in self.made]


def find_gradients(function, *inputs):
    return [gradient.tolist() for gradient in grad(function(*inputs).sum(), inputs)]
