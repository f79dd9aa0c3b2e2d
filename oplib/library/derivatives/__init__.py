"""The registered derivatives of an op, as pure functions of arrays."""
