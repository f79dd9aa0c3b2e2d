"""A graph of two branches, and the order in which a backward goes through it."""

from __future__ import annotations

from typing import Any


def run_two_branches(lib: Any) -> list[str]:
    """Returns the names of the nodes and leaves of ``exp(x * 2) + sin(y * 3)`` as they run.

    Args:
        lib: oplib, or torch, which must agree.
    """
    x, y = (lib.tensor([value], requires_grad=True) for value in (1.0, 2.0))
    p = x * 2
    q = p.exp()
    r = y * 3
    s = r.sin()
    t = q + s
    order: list[str] = []
    for name, tensor in {"t": t, "s": s, "r": r, "q": q, "p": p}.items():
        tensor.grad_fn.register_prehook(lambda _, name=name: order.append(name))
    for name, leaf in {"y": y, "x": x}.items():
        leaf.register_hook(lambda _, name=name: order.append(name))
    t.backward(lib.ones(1))
    return order
