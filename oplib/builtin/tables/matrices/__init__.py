"""Products, decompositions and transforms."""
