"""What was said about an op's derivatives, as pure functions of arrays."""
