"""Registration: `custom_op`, `define`, `register_*`, `Library`, and their registry."""
