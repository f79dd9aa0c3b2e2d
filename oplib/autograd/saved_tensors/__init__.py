"""Values saved for the backward pass, hooks on them, and the permission to write them in place."""
