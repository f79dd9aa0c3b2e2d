"""Matrix products, decompositions and Fourier transforms."""

from . import decompositions, fourier, ldl, matmul, products, triangles, with_status

FAMILIES = (matmul, products, decompositions, triangles, ldl, with_status, fourier)
