"""Matrix products, decompositions and Fourier transforms."""
