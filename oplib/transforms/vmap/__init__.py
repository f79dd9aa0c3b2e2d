"""``vmap`` of functions of Tensors, and the tape that a mapped function leaves behind."""
