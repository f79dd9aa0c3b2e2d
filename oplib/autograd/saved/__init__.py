"""Values saved for the backward pass: their hooks, and what may be written meanwhile."""
