"""What happens when an op is called on Tensors or arrays: the complete path, and the short cut of it."""
