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

from oplib.torch_names import describe_missing as _describe_missing

from .clip_grad import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters

if not _typing.TYPE_CHECKING:  # a type checker then reports a name that does not exist

    def __getattr__(name: str) -> _typing.NoReturn:
        """Says what stands for a name of torch."""
        raise AttributeError(_describe_missing(__name__, name))


__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]
