"""Calls that torch refuses: bad inputs of random numbers."""

from __future__ import annotations

import numpy as np

from .refusals import Refusal, X, at, each, real

RANDOM = [
    Refusal("bernoulli", "Expected p_in >=", np.array([-10.0, 0.0, 10.0], np.float32)),
    Refusal("bernoulli", "probabilities are floating numbers", at(0, 1, 2)),
    *each("bernoulli Tensor.geometric_ Tensor.bernoulli_", "expects p to be in", X, 2.0),
    Refusal("multinomial", "probability tensor contains either", real(3), 1),
    Refusal("multinomial", "cannot sample n_sample > prob_dist.size", np.array([2.0, 2.0], np.float32), 5),
    Refusal("multinomial", "cannot sample n_sample <=", np.array([2.0, 0.0, 2.0], np.float32), 0),
    Refusal("multinomial", "invalid multinomial distribution", np.array([0.0, 0.0, 0.0], np.float32), 1),
    Refusal("multinomial", "probability tensor contains either", real(2, 2, 2), 1),
    Refusal("multinomial", "not implemented for int", at(0, 1, 2), 1),
    Refusal("normal", "expects std >=", 0.0, -1.0, (2,)),
    Refusal("normal", "expects all elements of std >=", X, real(4)),
    Refusal("Tensor.normal_", "expects std >=", X, 0.0, -1.0),
    Refusal("Tensor.uniform_", "expects to return a", X, 1.0, 0.0),
    Refusal("Tensor.exponential_", "expects lambda >", X, -1.0),
    *each("Tensor.exponential_ Tensor.normal_", "not implemented for", at(0, 1, 2)),
    Refusal("Tensor.cauchy_", "expects sigma >", X, 0.0, -1.0),
    Refusal("Tensor.log_normal_", "expects std > 0.0, but found std=-1.0", X, 0.0, -1.0),
    Refusal("randint", "'low' must be less than 'high'", 5, 2, (2,)),
    Refusal("randint", "'low' must be less than 'high'", 0, (2,)),
    *each("randperm rand", "no dimension has a negative length", -1),
    Refusal("randn", "argument 'size' is made of integers", 2.5),
    Refusal("rand", "only floating and complex dtypes have such numbers", 2, dtype=np.dtype("int64")),
    Refusal("randn_like", "only floating and complex dtypes have such numbers", at(0, 1, 2)),
    Refusal("randint", "argument 'size' is made of integers", 3, 2.5),
    Refusal("randperm", "argument 'n' is an integer", 2.5),
    Refusal("Tensor.random_", "'low' must be less than 'high'", X, 3, 1),
]
