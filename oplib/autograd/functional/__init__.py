"""Jacobians, Hessians and their products with vectors, for Python functions of Tensors.

Example:
    >>> import oplib
    >>> from oplib.autograd.functional import jacobian
    >>> jacobian(lambda x: x * x, oplib.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
"""

from oplib.torch_names import make_dir as _make_dir

from .hessian import hessian
from .jacobian import jacobian
from .products import hvp, jvp, vhp, vjp

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
__dir__ = _make_dir(globals())
