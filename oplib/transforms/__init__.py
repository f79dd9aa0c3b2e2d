"""Transformations of functions of Tensors: ``vmap``, ``checkpoint``, ``jit`` and control flow."""
