"""Matrix products, decompositions and Fourier transforms."""

from . import decompositions, fourier, ldl, matmul, products, pseudoinverse, triangles, with_status

FAMILIES = (matmul, products, decompositions, pseudoinverse, triangles, ldl, with_status, fourier)
