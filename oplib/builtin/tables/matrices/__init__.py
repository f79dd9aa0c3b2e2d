"""Matrix products, decompositions and Fourier transforms."""

from . import decompositions, fourier, matmul, products, triangles

FAMILIES = (matmul, products, decompositions, triangles, fourier)
