"""Linear algebra that is made of several ops."""

from . import factors, linalg, low_rank, older_linalg, triangles

SUBJECTS = (factors, linalg, low_rank, older_linalg, triangles)
