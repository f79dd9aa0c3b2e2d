"""Transformations of functions of Tensors: ``vmap``, ``checkpoint``, ``jit`` and control flow."""

from oplib.torch_names import make_dir as _make_dir

__all__: list[str] = []  # the functions are names of oplib
__dir__ = _make_dir(globals())
