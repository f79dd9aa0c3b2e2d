"""Inputs for the ops that draw random numbers, by row; each gets its Generator from the test."""

from __future__ import annotations

import numpy as np

from .drawing import Sample

HALVES = np.full((3, 4), 0.5, np.float32)
WEIGHTS = np.array([[1, 2, 0, 3], [4, 1, 1, 0.5]], np.float32)
IMAGE = np.arange(1, 49, dtype=np.float32).reshape(2, 3, 2, 4)
QUERY = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
ATTENTION = {"is_causal": False, "scale": 0.5, "enable_gqa": False}

SAMPLES: dict[str, list[Sample]] = {
    "bernoulli": [Sample((HALVES,)), Sample((np.float16(HALVES),))],
    "bernoulli.p": [Sample((HALVES, 0.5)), Sample((np.zeros((3, 4), np.int32), 0.5))],
    "bernoulli.Tensor": [Sample((HALVES, HALVES[0])), Sample((np.zeros((3, 4), bool), HALVES))],
    "multinomial": [
        Sample((WEIGHTS, 2)),
        Sample((WEIGHTS[0], 3)),
        Sample((WEIGHTS, 9, True)),
        Sample((np.ones(1, np.float32), 2, True)),
    ],
    "normal.Tensor_float": [Sample((HALVES, 2.0)), Sample((HALVES * np.complex64(1j), 2.0))],
    "normal.float_Tensor": [Sample((0.5, HALVES))],
    "normal.Tensor_Tensor": [Sample((HALVES, HALVES[0])), Sample((HALVES[:, :1], HALVES))],
    "normal_functional": [Sample((HALVES, 1.0, 2.0)), Sample((HALVES.astype(np.complex64),))],
    "uniform": [Sample((HALVES, -1.0, 2.0)), Sample((HALVES.astype(np.complex64),))],
    "rrelu_with_slopes": [Sample((IMAGE - 20.5, 0.125, 0.5)), Sample((np.float16(-IMAGE), 0.1, 0.2))],
    "poisson": [Sample((HALVES * 9,)), Sample((np.float16(HALVES),))],
    "exponential": [Sample((HALVES, 2.0)), Sample((np.float16(HALVES),))],
    "log_normal": [Sample((HALVES, 0.5, 0.25))],
    "geometric": [Sample((HALVES, 0.25)), Sample((np.zeros((3, 4), np.int8), 0.25))],
    "cauchy": [Sample((HALVES, 1.0, 2.0))],
    "dropout": [Sample((IMAGE, 0.5)), Sample((np.float16(IMAGE), 0.25))],
    "feature_dropout": [Sample((IMAGE, 0.5)), Sample((IMAGE, 0.5, 1))],
    "alpha_dropout": [Sample((IMAGE, 0.5))],
    "feature_alpha_dropout": [Sample((IMAGE, 0.5))],
    "sdpa_dropout": [
        Sample((QUERY, QUERY, QUERY, None, 0.5), ATTENTION),
        Sample((QUERY, QUERY, QUERY, np.eye(3, dtype=bool), 0.5), ATTENTION),
    ],
}
