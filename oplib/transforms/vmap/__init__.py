"""``vmap`` of functions of Tensors, and the graph that a mapped function leaves on the tape."""
