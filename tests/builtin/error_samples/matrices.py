"""Calls that torch refuses: bad inputs of linear algebra."""

from __future__ import annotations

import numpy as np

from .refusals import Refusal, X, at, each, mask, real

SQUARE = np.array([[1.0, -0.667], [0.667, 5.0]], np.float32)

MATRICES = [
    *each("matmul mm", "the shapes cannot be multiplied", X, X),
    Refusal("matmul", "both arguments need to be at least", X, real()),
    Refusal("matmul", "both arguments need to be at least", real(), real()),
    Refusal("matmul", "expected all operands to have the same dtype", X, real(3, dtype="float64")),
    Refusal("matmul", "Expected a value of type 'Tensor'", X, 2.0),
    *each("matmul kron nn.functional.linear", "expected a value of type 'Tensor'", X, None),
    Refusal("matmul", "the sizes of the axes before the last", real(2, 2, 3), real(3, 3, 2)),
    Refusal("matmul", "expected a value of type 'Tensor'", X, [1.0]),
    Refusal("matmul", "not implemented for bool", mask(2, 2), mask(2, 2)),
    Refusal("mm", "both arguments are matrices", X, real(3)),
    Refusal("mm", "both arguments are matrices", real(2, 2, 2), real(2, 2, 2)),
    *each("bmm dot", "expected operands with", X, X),
    Refusal("bmm", "the shapes cannot be multiplied", real(2, 2, 3), real(3, 3, 2)),
    Refusal("bmm", "the shapes cannot be multiplied", real(2, 2, 3), real(2, 2, 2)),
    Refusal("mv", "the shapes cannot be multiplied", X, real(2)),
    Refusal("mv", "expected operands with", real(3), real(3)),
    *each("linalg.cross cross", "the same number of dimensions", real(3), X),
    *each("linalg.cross cross", "must have length 3", real(2, 1), X),
    Refusal("linalg.cross", "must have length 3", real(4, 3), real(3, 4)),
    *each("linalg.norm", "the input must be 1D or 2D", real(), 2),
    *each("linalg.norm linalg.matrix_norm", "Choose a positive order", real(3, 0), -2),
    *each("linalg.norm linalg.matrix_norm", "Choose a positive order", real(0, 3), float("-inf")),
    Refusal("norm", "dim must be a 2-tuple", real(2, 2, 2), "nuc"),
    *each("dot vdot", "the shapes cannot be multiplied", real(3), real(2)),
    Refusal("dot", "expected all operands to have the same dtype", real(3), at(0, 1, 2)),
    Refusal("inner", "the last axes must have the same size", X, real(2)),
    Refusal("inner", "expected all operands to have the same dtype", X, at(0, 1, 2)),
    Refusal("outer", "expected two vectors", X, real(2)),
    Refusal("outer", "expected a value of type 'Tensor'", real(2), None),
    Refusal("trace", "expected a matrix", real(3)),
    Refusal("trace", "expected a matrix", real(2, 2, 2)),
    Refusal("addmm", "does not broadcast to the product f32[", real(7), X, real(3, 4)),
    Refusal("addmm", "the shapes cannot be multiplied", real(1), real(3, 4), real(3, 4)),
    Refusal("addmm", "expected all operands to have the same dtype", real(1, dtype="float64"), X, real(3, 4)),
    Refusal("addmm", "expected a value of type 'Scalar'", real(1), X, real(3, 4), beta="a"),
    *each("addmm addmv", "expected a value of type 'Tensor'", real(1), X, None),
    Refusal("addmv", "does not broadcast to the product f32[", real(7), X, real(3)),
    Refusal("addmv", "expected operands with", real(1), real(3), real(3)),
    Refusal("addmv", "expected all operands to have the same dtype", real(1, dtype="float64"), X, real(3)),
    Refusal("addmv", "expected a value of type 'Scalar'", real(1), X, real(3), beta="a"),
    Refusal("addr", "does not broadcast to the product f32[", real(7), real(2), real(3)),
    Refusal("addr", "expected two vectors", real(1), X, real(3)),
    Refusal("addr", "expected a value of type 'Scalar'", real(1), real(2), real(3), beta="a"),
    Refusal("addr", "expected a value of type 'Tensor'", real(1), real(2), None),
    *each(
        "baddbmm addbmm",
        "does not broadcast to the product f32[",
        real(7),
        real(2, 2, 3),
        real(2, 3, 4),
    ),
    *each("baddbmm addbmm", "the shapes cannot be multiplied", real(1), real(2, 3, 4), real(2, 3, 4)),
    *each(
        "baddbmm addbmm",
        "expected all operands to have the same dtype",
        real(1, dtype="float64"),
        real(2, 2, 3),
        real(2, 3, 4),
    ),
    *each(
        "baddbmm addbmm", "expected a value of type 'Scalar'", real(1), real(2, 2, 3), real(2, 3, 4), beta="a"
    ),
    *each("baddbmm addbmm", "expected a value of type 'Tensor'", real(1), real(2, 2, 3), None),
    Refusal(
        "addr",
        "for integral input tensors, beta and alpha must not",
        at([0, 1, 2], [3, 4, 5]),
        at(0, 1),
        at(0, 1, 2),
        alpha=0.5,
    ),
    Refusal("einsum", "the equation does not fit the operands", "ij,jk->ik", X, X),
    Refusal("einsum", "the equation does not fit the operands", "ij,jk", X),
    Refusal("linalg.multi_dot", "expected at least 2 tensors but got 0", []),
    Refusal("linalg.multi_dot", "expected at least 2 tensors but got 1", [X]),
    Refusal("linalg.multi_dot", "the first and the last may be vectors", [X, real(3, 2, 2)]),
    Refusal("linalg.multi_dot", "the first and the last may be vectors", [X, real(3), real(3)]),
    Refusal("linalg.multi_dot", "the shapes cannot be multiplied", [X, X]),
    Refusal("einsum", "the equation does not fit the operands", "ijk", X),
    Refusal("einsum", "the equation does not fit the operands", "ij->z", X),
    Refusal("einsum", "the subscripts are letters", "i1", X),
    Refusal("einsum", "the equation does not fit the operands", "ij->ii", X),
    Refusal("einsum", "the equation does not fit the operands", "...,...", X),
    Refusal("einsum", "the equation does not fit the operands", "ii->i", real(3, 1)),
    Refusal("einsum", "the equation does not fit the operands", "i...i", real(1, 2, 3)),
    Refusal("tensordot", "contracted dimensions need to match", X, real(4, 2), 1),
    Refusal("tensordot", "expects dims >=", X, X, -1),
    Refusal("tensordot", "contracted dimensions need to match", X, X, ([0], [1])),
    Refusal("tensordot", "dimension out of range", X, X, ([5], [1])),
    Refusal("tensordot", "contracted dimensions need to match", X, X, ([0, 1], [1])),
    Refusal("tensordot", "dimension out of range", X, X, 3),
    Refusal("cross", "the sizes of the operands must match, or be", X, real(4, 3)),
    *each("cross linalg.cross", "inputs dimension -", real(2, 2), real(2, 2)),
    Refusal("linalg.cross", "dimension out of range", X, X, dim=4),
    Refusal("cdist", "the tensors need at least two axes, and the same", X, real(2, 2)),
    Refusal("cdist", "the tensors need at least two axes, and the same", real(3), X),
    Refusal("cdist", "only supports non-negative p", X, X, -1.0),
    Refusal("cdist", "not implemented for int", at([0, 1, 2], [3, 4, 5]), at([0, 1, 2], [3, 4, 5])),
    Refusal(
        "nn.functional.linear",
        "linear: the input has 3 features, and the weight f32[4,2] takes 2. Got input f32[2,3]",
        X,
        real(4, 2),
    ),
    Refusal(
        "nn.functional.linear",
        "the bias does not broadcast to the product f32[",
        X,
        real(4, 3),
        real(5),
    ),
    Refusal(
        "matmul",
        "the size of the first must equal that of the second. Got self f32[2], other f32[3]. Cut",
        real(2),
        real(3),
    ),
    Refusal("matmul", "the last axis of the first must equal that of the second. Got", X, real(2)),
    Refusal("matmul", "the last axis of the first must equal the last axis but one of the second", X, X),
    Refusal("mm", "mm: the shapes cannot be multiplied", X, X),
    Refusal(
        "nn.functional.linear",
        "expected all operands to have the same dtype",
        X,
        at([0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]),
    ),
    Refusal("nn.functional.linear", "the shapes cannot be multiplied", X, real(2, 4, 3)),
    Refusal("nn.functional.bilinear", "bias size does not", X, real(2, 4), real(5, 3, 4), real(1)),
    Refusal("nn.functional.bilinear", "the inputs do not fit the weight", X, real(2, 4), real(5, 4, 3)),
    Refusal(
        "nn.functional.bilinear",
        "the inputs must have the same sizes except in the",
        X,
        real(3, 4),
        real(5, 3, 4),
    ),
    Refusal(
        "nn.functional.bilinear",
        "bias size does not match weight size",
        X,
        real(2, 4),
        real(5, 3, 4),
        real(3),
    ),
    *each(
        (
            "linalg.inv linalg.det linalg.slogdet linalg.cholesky linalg.eigh linalg.eigvalsh "
            "linalg.matrix_exp logdet"
        ),
        "the tensor must be batches of square matrices, with",
        X,
    ),
    *(
        Refusal(f"linalg.{op}", "the tensor must be batches of square matrices, with", real(3))
        for op in ["inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "matrix_exp"]
    ),
    *(
        Refusal(f"linalg.{op}", "not implemented for int", at([0, 1], [2, 3]))
        for op in ["inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "matrix_exp", "matrix_norm"]
    ),
    *(
        Refusal(f"linalg.{op}", "expected a value of type 'Tensor'", None)
        for op in ["inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh", "matrix_exp"]
    ),
    *(
        Refusal(
            f"linalg.{op}",
            "not implemented for half",
            np.array([[1.0, -0.666015625], [0.666015625, 5.0]], np.float16),
        )
        for op in ["inv", "det", "slogdet", "cholesky", "eigh", "eigvalsh"]
    ),
    *(
        Refusal(f"linalg.{op}", "the tensor must be batches of matrices, with at least", real(3))
        for op in ["qr", "svd", "svdvals", "pinv", "matrix_norm"]
    ),
    *(
        Refusal(f"linalg.{op}", "not implemented for int", at([0, 1, 2], [3, 4, 5]))
        for op in ["qr", "svd", "svdvals", "pinv"]
    ),
    Refusal("linalg.solve", "the right side has another number of rows", SQUARE, real(3)),
    Refusal("linalg.solve", "the tensor must be batches of square matrices, with", X, real(2)),
    Refusal("linalg.solve", "expected all operands to have the same dtype", SQUARE, at(0, 1)),
    Refusal("linalg.solve", "the right side has another number of rows", SQUARE, real(3, 2)),
    Refusal("linalg.solve", "or is a vector on the left", SQUARE, real(2), left=False),
    Refusal("linalg.solve", "the sizes of the axes before the last", real(2, 2, 2), real(3, 2, 2)),
    Refusal(
        "linalg.solve_triangular",
        "incompatible shapes for AX = B, or B has fewer than",
        SQUARE,
        real(3, 2),
        upper=True,
    ),
    Refusal(
        "linalg.solve_triangular",
        "incompatible shapes for AX = B, or B has fewer than",
        SQUARE,
        real(2),
        upper=True,
    ),
    Refusal(
        "linalg.solve_triangular",
        "the tensor must be batches of square matrices, with",
        X,
        real(2, 2),
        upper=True,
    ),
    Refusal("linalg.lstsq", "input.size(-2) should match other.size(-2)", X, real(3, 1)),
    Refusal("linalg.lstsq", "input must have at least", real(3), real(3)),
    Refusal("linalg.lstsq", "expected all operands to have the same dtype", X, at([0], [1])),
    Refusal("linalg.matrix_power", "the tensor must be batches of square matrices, with", X, 2),
    Refusal("linalg.matrix_power", "expected a value of type 'int'", SQUARE, 0.5),
    Refusal("linalg.matrix_power", "a negative power needs an inverse, and so float", at([0, 1], [2, 3]), -1),
    Refusal("linalg.qr", "expected mode to be", X, mode="full"),
    *(
        Refusal(f"linalg.{op}", "expected UPLO argument to be", SQUARE, UPLO="X")
        for op in ["eigh", "eigvalsh"]
    ),
    Refusal("linalg.matrix_norm", "this order is not supported", X, 3),
    Refusal("linalg.matrix_norm", "this order is not supported", X, "abc"),
    Refusal("linalg.matrix_norm", "dim must be a 2-tuple", X, 2, (0, 0)),
    Refusal("linalg.matrix_norm", "dim must be a 2-tuple", X, 2, (0,)),
    Refusal("linalg.matrix_norm", "dimension out of range", X, 2, (0, 5)),
    Refusal("linalg.svd", "expected a value of type 'bool'", X, full_matrices="a"),
    Refusal("linalg.svd", "keyword argument `driver=` is only supported on CUDA", X, driver="gesvd"),
    Refusal("linalg.svdvals", "keyword argument `driver=` is only supported on CUDA", X, driver="gesvd"),
    Refusal("linalg.pinv", "the tensor must be batches of square matrices, with", X, hermitian=True),
    Refusal(
        "linalg.inv",
        "the matrix is singular, or one of them is, and has no",
        np.array([[0.0, 0.0], [0.0, 0.0]], np.float32),
    ),
    Refusal(
        "linalg.cholesky",
        "the matrix is not positive definite, or one of them",
        np.array([[-1.0, -0.0], [-0.0, -1.0]], np.float32),
    ),
    Refusal(
        "linalg.solve",
        "the matrix is singular, or one of them is, and has no",
        np.array([[0.0, 0.0], [0.0, 0.0]], np.float32),
        real(2),
    ),
    Refusal(
        "linalg.inv",
        "the matrix is singular, or one of them is, and has no",
        np.array([[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]], np.float32),
    ),
    *each("linalg.lu_factor lu linalg.lu_factor_ex linalg.lu", "LU without pivoting", X, pivot=False),
    *each("linalg.lu_factor linalg.lu", "the tensor must be batches of matrices, with", real(3)),
    Refusal("linalg.lu_factor", "U[1,1] is zero, counted from 1", np.zeros((2, 2), np.float32)),
    Refusal("linalg.lu_factor_ex", "U[1,1] is zero", np.zeros((2, 2), np.float32), check_errors=True),
    Refusal("linalg.ldl_factor", "D[1,1] is zero or nan, counted from 1", np.zeros((2, 2), np.float32)),
    Refusal("linalg.ldl_factor_ex", "D[1,1] is zero", np.zeros((2, 2), np.float32), check_errors=True),
    *each("linalg.ldl_factor linalg.ldl_factor_ex", "the tensor must be batches of square matrices", X),
    Refusal(
        "linalg.ldl_solve", "incompatible shapes for AX = B", SQUARE, at(1, 2, dtype="int32"), real(3, 1)
    ),
    Refusal("linalg.ldl_solve", "pivots should be integers", SQUARE, real(2), real(2, 1)),
    Refusal("linalg.inv_ex", "U[1,1] is zero", np.zeros((2, 2), np.float32), check_errors=True),
    Refusal("linalg.inv_ex", "the tensor must be batches of square", X),
    Refusal("linalg.solve_ex", "U[1,1] is zero", np.zeros((2, 2), np.float32), real(2), check_errors=True),
    Refusal(
        "linalg.cholesky_ex",
        "the leading minor of order 2 is not positive definite",
        np.array([[1.0, 2.0], [2.0, 1.0]], np.float32),
        check_errors=True,
    ),
    Refusal("lu_unpack", "pivots should be int32", SQUARE, at(1, 2)),
    Refusal("linalg.lu_solve", "B has fewer than 2 dimensions", SQUARE, at(1, 2, dtype="int32"), real(2)),
    Refusal("linalg.lu_solve", "incompatible shapes for AX = B", SQUARE, at(1, 2, dtype="int32"), real(3, 1)),
    Refusal("linalg.householder_product", "as many rows as columns", X, real(2)),
    Refusal("chain_matmul", "expected one or more matrices", real(3)),
    Refusal("vander", "x must be a one-dimensional tensor", X),
    Refusal("linalg.vander", "N must be greater than 1", X, N=1),
]
