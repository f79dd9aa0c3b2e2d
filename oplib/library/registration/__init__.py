"""Registering: `custom_op`, `define`, `register_*`, `Library`, and the registry that they fill."""
