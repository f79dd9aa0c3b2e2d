"""Calls of ops on Tensors or arrays: the complete path and the fast path."""
