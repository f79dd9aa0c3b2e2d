"""The functions of networks under torch's names; each is the op of its name, some also with ``inplace``.

Example:
    >>> import oplib
    >>> import oplib.nn.functional as F
    >>> F.relu(oplib.tensor([-1.0, 2.0]))
    tensor([0., 2.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.builtin.functions.names import name_function
from oplib.builtin.functions.registry import COMPOSED, FUNCTIONS, IN_PLACE, NETWORKS_IN_PLACE, ROWS, UPCALLS

from . import activations
from .activations import *  # noqa: F403  the names that its own list has

_COMPOSED_OF_NETWORKS = (
    *(f"adaptive_max_pool{rank}d" for rank in (1, 2, 3)),
    *("batch_norm", "dropout", "embedding", "instance_norm", "max_pool1d", "max_pool2d", "max_pool3d"),
    *("dropout1d", "dropout2d", "dropout3d", "one_hot", "scaled_dot_product_attention"),
    *("gumbel_softmax", "triplet_margin_with_distance_loss"),
)
_ALSO_AT_THE_ROOT = (
    *("sigmoid", "tanh", "softmax", "log_softmax"),
    *(name for name in COMPOSED if name in _COMPOSED_OF_NETWORKS),
)
_OF_NETWORKS = (row.op for row in ROWS if row.origin.startswith("torch.nn.functional."))
_NAMES = (*activations.__all__, *_ALSO_AT_THE_ROOT, *_OF_NETWORKS)
_OTHERWISE_NAMED = {"fold": "col2im", "unfold": "im2col"}  # as a method of Tensor unfold is something else
_PLAIN = [name for name in _NAMES if name in FUNCTIONS]
__all__ = sorted({*_OTHERWISE_NAMED, *_PLAIN, *NETWORKS_IN_PLACE})  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables


def __getattr__(name: str) -> Callable[..., Any]:
    """Finds the function of an op when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _OTHERWISE_NAMED:
        function = name_function(UPCALLS[_OTHERWISE_NAMED[name]], name)
        function.__module__ = __name__
    else:
        function = IN_PLACE[name] if name in NETWORKS_IN_PLACE else FUNCTIONS[name]
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
