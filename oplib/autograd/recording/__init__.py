"""Recording: the nodes of compiled calls and views, and in-place writes on the tape."""
