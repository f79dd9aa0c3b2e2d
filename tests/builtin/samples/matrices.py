"""Samples of products, decompositions, normalisation, losses, convolution and pooling."""

from __future__ import annotations

import numpy as np

from .drawing import POSITIVE, Sample, X, draw, draw_places, shift

CUBE = draw(2, 3, 4)
DUAL = draw(2, 5, 4), draw(2, 5, 3)
SQUARE = draw(3, 3) + 3.0 * np.eye(3)
SQUARES = draw(2, 2, 2) + 3.0 * np.eye(2)
SYMMETRIC = SQUARE + SQUARE.T + np.diag([0.0, 1.5, 4.0])
POSITIVE_DEFINITE = SQUARE @ SQUARE.T + np.eye(3)
TALL = draw(4, 2)

PRODUCTS: dict[str, list[Sample]] = {
    "bmm": [Sample((CUBE, draw(2, 4, 5)))],
    "mv": [Sample((X, draw(3)))],
    "dot": [Sample((draw(3), shift(draw(3))))],
    "vdot": [Sample((draw(3), shift(draw(3))))],
    "inner": [Sample((X, draw(4, 3))), Sample((draw(3), shift(draw(3)))), Sample((draw(), X))],
    "outer": [Sample((draw(2), draw(3)))],
    "kron": [Sample((X, draw(2, 2))), Sample((draw(2), draw(3)))],
    "tensordot": [Sample((CUBE, draw(4, 3), [2, 1], [0, 1])), Sample((X, draw(3), [1], [0]))],
    "einsum": [
        Sample(("ij,jk->ik", [X, draw(3, 4)])),
        Sample(("...i,...i->...", [X, shift(X)])),
        Sample(("ii->i", [SQUARE])),
    ],
    "linalg_multi_dot": [
        Sample(([X, draw(3, 4)],)),
        Sample(([draw(2), X, draw(3, 4), draw(4, 3), draw(3)],)),
    ],
    "linalg_cross": [Sample((draw(2, 3), shift(X)))],
    "trace": [Sample((X,)), Sample((SQUARE,))],
    "addmm": [
        Sample((draw(2, 4), X, draw(3, 4))),
        Sample((draw(4), X, draw(3, 4)), {"beta": 0.5, "alpha": 2.0}),
        Sample((draw(4), X, draw(3, 4)), {"beta": 0}),
    ],
    "addmv": [Sample((draw(2), X, draw(3)))],
    "addr": [Sample((X, draw(2), draw(3)), {"alpha": 0.5})],
    "baddbmm": [Sample((draw(2, 3, 5), CUBE, draw(2, 4, 5)))],
    "addbmm": [Sample((draw(3, 5), CUBE, draw(2, 4, 5)))],
    "linear": [Sample((X, draw(4, 3))), Sample((CUBE, draw(5, 4), draw(5)))],
    "bilinear": [Sample((X, draw(2, 4), draw(5, 3, 4), draw(5)))],
    "cdist": [Sample((X, draw(4, 3))), Sample((X, draw(4, 3), 1.0))],
}

DECOMPOSITIONS: dict[str, list[Sample]] = {
    **{f"linalg_{name}": [Sample((SQUARE,)), Sample((SQUARES,))] for name in ("inv", "det", "slogdet")},
    "linalg_matrix_exp": [Sample((draw(2, 2),))],
    "logdet": [Sample((POSITIVE_DEFINITE,))],
    **{
        name: [
            Sample((SQUARE, draw(3, 2))),
            Sample((SQUARE, draw(3))),
            Sample((SQUARE, draw(2, 3)), {"left": False}),
        ]
        for name in ("linalg_solve", "linalg_solve_ex")
    },
    "linalg_solve_triangular": [Sample((np.triu(SQUARE), draw(3, 2)), {"upper": True})],
    "linalg_pinv": [Sample((TALL,)), Sample((TALL,), {"atol": 0.01, "rtol": 0.1})],
    "linalg_pinv_bounded": [Sample((TALL, None, np.array([0.1])))],
    "linalg_lstsq": [Sample((TALL, draw(4, 3)))],
    "linalg_matrix_power": [Sample((SQUARE, 3)), Sample((SQUARE, -1)), Sample((SQUARE, 0))],
    "linalg_cholesky": [Sample((POSITIVE_DEFINITE,)), Sample((POSITIVE_DEFINITE,), {"upper": True})],
    "linalg_cholesky_ex": [Sample((POSITIVE_DEFINITE,)), Sample((POSITIVE_DEFINITE,), {"upper": True})],
    "linalg_qr": [Sample((TALL,))],
    "linalg_svd": [Sample((TALL, False))],
    "linalg_svdvals": [Sample((TALL,))],
    **{
        name: [Sample((0.2 * SQUARE + np.diag([1.0, 4.0, 9.0]),))]
        for name in ("linalg_eig", "linalg_eigvals")
    },
    "linalg_eigh": [Sample((SYMMETRIC,))],
    "linalg_eigvalsh": [Sample((SYMMETRIC,))],
    "linalg_matrix_norm": [Sample((X, 2)), Sample((X, 1)), Sample((CUBE, np.inf, [0, 2], True))],
    "linalg_matrix_norm.str_ord": [Sample((X,)), Sample((X, "nuc"))],
}

FACTORS = np.array([[4.0, -1.2, 0.7], [0.3, 3.1, 1.4], [-0.6, 0.2, 2.3]])
PIVOTS = np.array([3, 3, 3], np.int32)
INDEFINITE = np.array([[0.0, 2.1, -0.4], [2.1, 0.3, 1.7], [-0.4, 1.7, 1.2]])
PAIRED = np.array([-3, -3, 3], np.int32)  # pivots of a block of two
TRIANGLES: dict[str, list[Sample]] = {
    **{
        name: [Sample((SQUARE,)), Sample((SQUARES[:, :, :1],)), Sample((SQUARES[:, :1],))]
        for name in ("linalg_lu_factor", "linalg_lu_factor_ex")
    },
    "lu_unpack": [Sample((FACTORS, PIVOTS)), Sample((FACTORS[:, :2], PIVOTS[:2]))],
    "linalg_lu_solve": [
        Sample((FACTORS, PIVOTS, draw(3, 2))),
        Sample((FACTORS, PIVOTS, draw(2, 2, 3)), {"left": False}),
        Sample((FACTORS, PIVOTS, draw(3, 1)), {"adjoint": True}),
    ],
    **{
        name: [Sample((INDEFINITE,)), Sample((SYMMETRIC,)), Sample((SQUARES,), {"hermitian": True})]
        for name in ("linalg_ldl_factor", "linalg_ldl_factor_ex")
    },
    "linalg_ldl_solve": [
        Sample((FACTORS, PAIRED, draw(3, 2))),
        Sample((FACTORS, PIVOTS, draw(2, 3, 1)), {"hermitian": True}),
    ],
    "linalg_inv_ex": [Sample((SQUARE,))],
    "linalg_householder_product": [Sample((TALL, draw(2))), Sample((draw(2, 3, 3), draw(2, 2)))],
    "linalg_vander": [Sample((draw(3),)), Sample((X,), {"N": 4})],
}

BATCH = draw(2, 4, 3)
LOGITS = draw(3, 5)
CLASSES = draw_places(3, below=5)
SHARES = draw(2, 3, low=0.1, high=0.9)


def losses(*targets: np.ndarray, **options: object) -> list[Sample]:
    """Returns the three reductions of a loss."""
    return [
        Sample((X, *targets), {"reduction": reduction, **options}) for reduction in ("mean", "sum", "none")
    ]


NETWORKS: dict[str, list[Sample]] = {
    **{name: [Sample((X, 0)), Sample((CUBE, -1))] for name in ("softmax", "log_softmax", "softmin")},
    "layer_norm": [Sample((X, [3])), Sample((CUBE, [3, 4], draw(3, 4), shift(draw(3, 4))))],
    "rms_norm": [Sample((X, [3])), Sample((X, [3], draw(3), 0.1))],
    "group_norm": [Sample((BATCH, 2)), Sample((BATCH, 4, draw(4), shift(draw(4))))],
    "native_instance_norm": [Sample((BATCH, draw(4), shift(draw(4))))],
    "native_batch_norm": [Sample((BATCH,)), Sample((BATCH, draw(4), shift(draw(4))))],
    "fixed_batch_norm": [Sample((BATCH, draw(4), draw(4, **POSITIVE), draw(4), shift(draw(4))))],
    "normalize": [Sample((X,)), Sample((X, 1.0, 0))],
    "sdpa": [
        Sample((CUBE, draw(2, 5, 4), draw(2, 5, 3)), {"is_causal": False, "scale": 0.5, "enable_gqa": False}),
        Sample(
            (CUBE, draw(2, 3, 4), draw(2, 3, 5), np.tril(np.ones((3, 3), bool))),
            {"is_causal": False, "scale": 0.5, "enable_gqa": False},
        ),
        Sample((CUBE, CUBE + 0.1, CUBE - 0.2), {"is_causal": True, "scale": 0.3, "enable_gqa": False}),
    ],
    "flash_attention": [
        Sample((CUBE, draw(5, 4), draw(5, 3), False, 0.5)),
        Sample((draw(2, 2, 3, 4), draw(2, 3, 4), draw(2, 3, 5), True, 0.3)),
    ],
    "flash_attention_backward": [
        Sample((draw(2, 1, 3, 4), *DUAL, draw(2, 1, 3), shift(draw(2, 1, 3)), draw(2, 1, 3, 3), False, 0.5)),
    ],
    **{name: losses(shift(X[::-1])) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")},
    "kl_div": [*losses(SHARES), *losses(shift(X[::-1]), log_target=True)],
    "binary_cross_entropy": [Sample((SHARES, SHARES[::-1].copy())), Sample((SHARES, SHARES + 0.05, draw(3)))],
    "binary_cross_entropy_with_logits": [
        Sample((X, SHARES)),
        Sample((X, SHARES, draw(3), draw(3, **POSITIVE)), {"reduction": "sum"}),
    ],
    "nll_loss": [
        Sample((LOGITS, CLASSES)),
        Sample((LOGITS, CLASSES, draw(5, **POSITIVE)), {"ignore_index": int(CLASSES[0])}),
        Sample((draw(5), np.asarray(2, np.int32))),
    ],
    "cross_entropy": [
        Sample((LOGITS, CLASSES)),
        Sample((LOGITS, CLASSES, draw(5, **POSITIVE)), {"label_smoothing": 0.1}),
        Sample((LOGITS, draw(3, 5, low=0.1, high=0.4)), {"reduction": "none"}),
        Sample((draw(2, 3, 4), draw_places(2, 4, below=3))),
    ],
    "cosine_similarity": [Sample((X, shift(X[::-1]))), Sample((X, draw(3), 0))],
}

IMAGE = draw(1, 4, 5, 5)
SIGNAL = draw(2, 4, 7)
VOLUME = draw(1, 2, 4, 4, 4)

ADAPTIVE = (("adaptive_avg_pool", ""), ("adaptive_max_pool", "_with_indices"))

CONVOLUTIONS: dict[str, list[Sample]] = {
    "conv1d": [
        Sample((SIGNAL, draw(6, 4, 3))),
        Sample((SIGNAL, draw(6, 2, 3), draw(6), 2, 1, 2, 2)),
        Sample((SIGNAL[0], draw(6, 4, 3))),
    ],
    "conv2d": [Sample((IMAGE, draw(2, 4, 3, 3), draw(2), [2, 1], [1, 0]))],
    "conv3d": [Sample((VOLUME, draw(3, 2, 2, 2, 2)))],
    "conv1d.padding": [Sample((SIGNAL, draw(6, 4, 4), draw(6), 1, "same"))],
    "conv2d.padding": [Sample((IMAGE, draw(2, 4, 3, 3), None, 1, "same", 2))],
    "conv3d.padding": [Sample((VOLUME, draw(3, 2, 2, 2, 2), None, 1, "valid"))],
    "conv_transpose1d": [Sample((SIGNAL, draw(4, 3, 3), draw(6), 2, 1, 1, 2, 2))],
    "conv_transpose2d": [Sample((IMAGE, draw(4, 2, 3, 3), draw(2), [2, 1], 1))],
    "conv_transpose3d": [Sample((VOLUME, draw(2, 1, 2, 2, 2)))],
    "max_pool1d_with_indices": [Sample((SIGNAL, 3)), Sample((SIGNAL, 3, 2, 1, 2, True))],
    "max_pool2d_with_indices": [Sample((IMAGE, 2)), Sample((IMAGE, [3, 2], 2, 1, 1, True))],
    "max_pool3d_with_indices": [Sample((VOLUME, 2))],
    "avg_pool1d": [Sample((SIGNAL, 3)), Sample((SIGNAL, 3, 2, 1, True, False))],
    "avg_pool2d": [Sample((IMAGE, 2, 2, 1, True)), Sample((IMAGE, [3, 2], 1, 0, False, True, 5))],
    "avg_pool3d": [Sample((VOLUME, 2))],
    **{f"{name}1d{suffix}": [Sample((SIGNAL, 3))] for name, suffix in ADAPTIVE},
    **{
        f"{name}2d{suffix}": [Sample((IMAGE, [2, 3])), Sample((IMAGE[0], [6, 1]))]
        for name, suffix in ADAPTIVE
    },
    **{f"{name}3d{suffix}": [Sample((VOLUME, 2))] for name, suffix in ADAPTIVE},
    "sampled_max_pool2d": [
        Sample((IMAGE, 2, 3, draw(IMAGE.shape[0], IMAGE.shape[1], 2, low=0.01, high=0.95))),
        Sample((IMAGE[0], [3, 1], [2, 4], draw(1, IMAGE.shape[1], 2, low=0.01, high=0.95))),
    ],
    "sampled_max_pool3d": [
        Sample((VOLUME, 1, 2, draw(*VOLUME.shape[:2], 3, low=0.01, high=0.95))),
    ],
    "im2col": [Sample((IMAGE, 2)), Sample((IMAGE[0], [2, 3], 2, [1, 0], 2))],
    "col2im": [Sample((draw(1, 8, 4), 3, 2)), Sample((draw(8, 4), [4, 5], [2, 2], 1, [0, 1], [2, 3]))],
    "interpolate": [
        Sample((IMAGE, [7, 3])),
        Sample((IMAGE, None, [2.0, 1.5], "bilinear"), {"align_corners": False}),
        Sample((IMAGE, [8, 9], None, "bicubic", True)),
        Sample((SIGNAL, [4], None, "linear", False)),
        Sample((IMAGE, [2, 3], None, "area")),
        Sample((SIGNAL, [11], None, "nearest-exact")),
        Sample((IMAGE, [2, 3], None, "bilinear", None, None, True)),
        Sample((IMAGE, None, [0.4, 1.3], "bicubic", None, None, True)),
    ],
}

MATRICES = {**PRODUCTS, **DECOMPOSITIONS, **TRIANGLES, **NETWORKS, **CONVOLUTIONS}
