"""What functions capture: the Tensors to which they lead, and the way to each of them."""
