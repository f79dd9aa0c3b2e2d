"""Matrix products, decompositions and Fourier transforms."""

from . import decompositions, fourier, matmul, products, triangles, with_status

FAMILIES = (matmul, products, decompositions, triangles, with_status, fourier)
