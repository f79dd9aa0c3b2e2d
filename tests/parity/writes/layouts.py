"""Layouts: how the written tensor lies in the memory of a base of twelve items, and its source beside it.

Each layout is an expression of ``lib``, which is torch or oplib, of the base ``d``, and of ``w``, a clone of
the base that requires grad. It gives the target, or target and source.
"""

from __future__ import annotations

from typing import Any

import numpy as np

PLAIN = {
    "dense": "d",
    "view": "d[2:5]",
    "view of view": "d.view(3, 4)[1][1:]",
    "strided": "d[::3]",
    "transposed": "d.view(3, 4).t()",
    "diagonal": "d.view(3, 4).diagonal()",
    "real part": "lib.view_as_complex(d.view(6, 2)).real",
    "imaginary part of a slice": "lib.view_as_complex(d.view(6, 2)).imag[1:4]",
    "windows apart": "d.unfold(0, 3, 3)",
    "item": "d[3]",
    "empty": "d[:0]",
    "empty expanded": "d[:0].view(0, 1).expand(0, 3)",
    "detached": "d.detach()",
    "view of data": "d.data[2:5]",
    "item of expanded": "d[:1].expand(3)[0]",
    "item of detached expanded": "d[:1].expand(3).detach()[0]",
    "item of data of expanded": "d[:1].expand(3).data[0]",
    "column of detached expanded": "d[:3].view(3, 1).expand(3, 4).detach()[:, 1]",
    "column of expanded": "d[:3].view(3, 1).expand(3, 4)[:, 0]",
    "column of overlapping": "d.as_strided((3, 2), (1, 1))[:, 0]",
    "each second window": "d.unfold(0, 3, 2)[::2]",
}
REPEATED = {
    "expanded": "d[:1].expand(3)",
    "expanded item": "d[0].expand(3)",
    "expanded matrix": "d[:3].view(3, 1).expand(3, 4)",
    "detached expanded": "d[:3].view(3, 1).expand(3, 4).detach()",
    "row of detached expanded": "d[:3].view(3, 1).expand(3, 4).detach()[0]",
    "data of expanded": "d[:1].expand(3).data",
    "view of expanded": "d[:1].expand(4).view(2, 2)",
    "part of expanded": "d[:1].expand(4)[1:3]",
    "stride of zero": "d.as_strided((3,), (0,), 2)",
}
OVERLAPPING = {
    "overlapping": "d.as_strided((3, 2), (1, 1))",
    "overlapping windows": "d.unfold(0, 3, 1)",
}
SOURCES = {
    "source is target": "d, d",
    "source is shifted": "d[1:5], d[0:4]",
    "source is an equal view": "d[1:5], d[1:5]",
    "source is transposed": "d[:9].view(3, 3), d[:9].view(3, 3).t()",
    "source is a row": "d.view(3, 4), d.view(3, 4)[1]",
    "source is an item": "d, d[2]",
    "source is a detached part": "d[1:5], d.detach()[0:4]",
    "source is expanded": "d[:4], d[5:6].expand(4)",
    "source of integers": "d[:3], lib.tensor([4, 5, 6]).to(lib.int32)",
    "source of halves": "d[:3], lib.tensor([4.0, 5, 6], dtype=lib.float16)",
    "source of complex numbers": "d[:3], lib.tensor([4.0 + 1j, 5, 6])",
    "source is too large": "d[:3], lib.ones(3, 3)",
    "source requires grad": "d[1:4], lib.tensor([1.0, 2, 3]).requires_grad_()",
    "source of inference mode": "d, in_inference(lambda: d.clone())",
}
DTYPES = {
    "integers": "d.to(lib.int32)[:3]",
    "integers from integers": "d.to(lib.int32)[:3], lib.tensor([4, 5, 6]).to(lib.int32)",
    "halves": "d.to(lib.float16)[:3]",
    "booleans": "(d > 4)[:3]",
}
INFERENCE = {
    "inference tensor": "in_inference(lambda: d.clone())",
    "view of inference tensor": "in_inference(lambda: d.clone())[1:3]",
    "view made in inference mode": "in_inference(lambda: d[1:3])",
}
HISTORIES = {
    "leaf": "w",
    "view of leaf": "w[1:4]",
    "expanded leaf": "w[:1].expand(3)",
    "detached leaf": "w.detach()[1:4]",
    "expanded as leaf": "d[:1].expand(3).detach().requires_grad_()",
    "view as leaf": "d[2:5].detach().requires_grad_()",
    "view with history": "(w * 2)[1:4]",
    "one of several views": "(w * 2).view(3, 4).unbind(0)[1]",
}
LAYOUTS = {**PLAIN, **REPEATED, **OVERLAPPING, **SOURCES, **DTYPES, **INFERENCE, **HISTORIES}
_CODES = {name: compile(code, name, "eval") for name, code in LAYOUTS.items()}


def make(lib: Any, layout: str, d: Any = None) -> dict[str, Any]:
    """Returns the tensors of a layout by name: base, leaf, target, source, and views of the base.

    Args:
        lib: torch or oplib.
        layout: its name.
        d: the base; None for new numbers.
    """
    d = lib.arange(12, dtype=lib.float32) + 1 if d is None else d
    w = d.detach().clone()
    if layout in HISTORIES:
        w.requires_grad_()

    def in_inference(f: Any) -> Any:
        with lib.inference_mode():
            return f()

    made = eval(_CODES[layout], {"lib": lib, "d": d, "w": w, "in_inference": in_inference})
    target, source = made if isinstance(made, tuple) else (made, None)
    if source is None:
        numbers = 3 * np.arange(target.numel(), dtype=np.float32) + 10
        source = lib.tensor(numbers).reshape(tuple(target.shape))
    views = {"row": d.view(3, 4)[1], "expanded": d[0].expand(3), "detached": d.detach()[2]}
    return {"base": d, "leaf": w, "target": target, "source": source, **views}
