"""Linear algebra that is made of several ops."""

from . import factors, linalg, older_linalg, triangles

SUBJECTS = (factors, linalg, older_linalg, triangles)
