"""``torch.nn.utils`` for a list of parameters: gradient clipping, and conversion to one vector.

Example:
    >>> import oplib
    >>> w = oplib.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> oplib.nn.utils.clip_grad_norm_([w], max_norm=1.0)
    tensor(10.)
    >>> w.grad
    tensor([0.6000, 0.8000])
"""

import typing as _typing

from oplib.torch_names import make_dir as _make_dir, make_getattr as _make_getattr

from . import rnn
from .clip_grad import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist
    __getattr__ = _make_getattr(globals())

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "rnn",
    "vector_to_parameters",
]
__dir__ = _make_dir(globals())
