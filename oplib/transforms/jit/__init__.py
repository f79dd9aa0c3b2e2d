"""``oplib.jit``: a function over Tensors, with the Tensors that it captures, as one compiled program."""
