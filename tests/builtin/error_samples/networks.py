"""Calls that torch refuses: bad inputs of normalisation, losses and attention."""

from __future__ import annotations

import numpy as np

from .refusals import Refusal, X, at, each, functional, mask, real

PROBABILITIES = np.array([[0.667, 0.4, 0.133], [0.133, 0.4, 0.667]], np.float32)

NETWORKS = [
    *each(
        (
            "nn.functional.mse_loss nn.functional.l1_loss nn.functional.smooth_l1_loss "
            "nn.functional.huber_loss nn.functional.kl_div cosine_similarity"
        ),
        "the sizes of the operands must match, or be",
        X,
        real(4),
    ),
    *each(
        functional(
            "mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy "
            "binary_cross_entropy_with_logits"
        ),
        "'avg' is not a valid value for reduction",
        X,
        X,
        reduction="avg",
    ),
    *each(
        functional(
            "mse_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits"
        ),
        "not implemented for int",
        at(0, 1, 2),
        at(0, 1, 2),
    ),
    Refusal(
        "nn.functional.l1_loss",
        "could not infer output dtype of a mean of integers",
        at(0, 1, 2),
        at(0, 1, 2),
    ),
    *each(functional("kl_div nll_loss cross_entropy"), "expected a value of type 'Tensor'", X, None),
    Refusal(
        "nn.functional.binary_cross_entropy", "using a target size that is different to the input", X, real(4)
    ),
    Refusal(
        "nn.functional.binary_cross_entropy_with_logits",
        "target size must be the same as input size",
        X,
        real(4),
    ),
    Refusal("nn.functional.smooth_l1_loss", "does not support negative values for beta", X, X, beta=-1.0),
    Refusal("nn.functional.huber_loss", "does not support non-positive values for delta", X, X, delta=0.0),
    Refusal(
        "nn.functional.binary_cross_entropy",
        "expected all operands to have the same dtype",
        PROBABILITIES,
        at([0, 1, 0], [1, 0, 1]),
    ),
    Refusal(
        "nn.functional.binary_cross_entropy",
        "the sizes of the operands must match, or be",
        PROBABILITIES,
        PROBABILITIES,
        real(4),
    ),
    Refusal(
        "nn.functional.binary_cross_entropy_with_logits",
        "the sizes of the operands must match, or be",
        X,
        X,
        real(4),
    ),
    Refusal(
        "nn.functional.binary_cross_entropy_with_logits",
        "target size must be the same as input size",
        X,
        real(2, 1),
    ),
    *each(
        functional("nll_loss cross_entropy"),
        "index 3 is out of bounds for a dimension of size 3",
        X,
        at(0, 3),
    ),
    *each(functional("nll_loss cross_entropy"), "expected a target of shape", X, at(0)),
    *each(functional("nll_loss cross_entropy"), "expected a target of shape", X, at([0, 1])),
    Refusal("nn.functional.nll_loss", "expected integers for classes", X, real(2)),
    *each(
        functional("nll_loss cross_entropy"),
        "'avg' is not a valid value for reduction",
        X,
        at(0, 1),
        reduction="avg",
    ),
    *each(
        functional("nll_loss cross_entropy"),
        "weight tensor should be defined either for all",
        X,
        at(0, 1),
        real(2),
    ),
    *each(
        functional("nll_loss cross_entropy"),
        "expected all operands to have the same dtype",
        X,
        at(0, 1),
        real(3, dtype="float64"),
    ),
    *each(
        functional("nll_loss cross_entropy"), "not implemented for int", at([0, 1, 2], [3, 4, 5]), at(0, 1)
    ),
    *each(
        functional("nll_loss cross_entropy"),
        "index -1 is out of bounds for a dimension of size 3",
        X,
        at(-1, 0),
    ),
    *each(functional("nll_loss cross_entropy"), "expected 1 or more dimensions", real(), at(0)),
    *each(
        functional("nll_loss cross_entropy"), "expected a value of type 'int'", X, at(0, 1), ignore_index=0.5
    ),
    Refusal(
        "nn.functional.cross_entropy", "a target of probabilities has the shape of the input", X, real(2)
    ),
    Refusal(
        "nn.functional.cross_entropy", "label_smoothing must be between", X, at(0, 1), label_smoothing=2.0
    ),
    Refusal(
        "nn.functional.cross_entropy", "a target of probabilities has the shape of the input", X, real(2, 2)
    ),
    Refusal(
        "nn.functional.cross_entropy", "ignore_index is not supported for a target of", X, X, ignore_index=1
    ),
    Refusal("cosine_similarity", "dimension out of range", X, X, 3),
    Refusal(
        "cosine_similarity", "not implemented for int", at([0, 1, 2], [3, 4, 5]), at([0, 1, 2], [3, 4, 5])
    ),
    *each(functional("layer_norm rms_norm"), "given normalized_shape=", X, (2,)),
    Refusal("nn.functional.layer_norm", "given normalized_shape=", X, ()),
    Refusal("nn.functional.layer_norm", "expected a value of type 'int[]'", X, 3),
    *each(
        functional("layer_norm rms_norm"), "expected weight and bias of the same shape as", X, (3,), real(2)
    ),
    *each(functional("layer_norm rms_norm"), "not implemented for int", at([0, 1, 2], [3, 4, 5]), (3,)),
    Refusal("nn.functional.layer_norm", "given normalized_shape=", X, (2, 2, 3)),
    Refusal(
        "nn.functional.layer_norm", "expected the parameters to have the dtype of the", X, (3,), at(0, 1, 2)
    ),
    Refusal(
        "nn.functional.group_norm", "expected number of channels in input to be divisible", real(2, 4, 3), 3
    ),
    Refusal("nn.functional.group_norm", "expected number of channels in input to be divisible", real(4), 2),
    Refusal("nn.functional.group_norm", "expected one number for each channel", real(2, 4), 2, real(3)),
    Refusal("nn.functional.batch_norm", "expected one number for each channel", real(2, 4), real(4), real(3)),
    Refusal("nn.functional.batch_norm", "must be defined in evaluation mode", real(2, 4), real(4), None),
    Refusal("nn.functional.batch_norm", "expected at least", real(4), real(4), real(4)),
    Refusal("nn.functional.batch_norm", "expected more than", real(1, 4), None, None, training=True),
    Refusal(
        "nn.functional.batch_norm",
        "expected one number for each channel",
        real(2, 4),
        None,
        None,
        real(3),
        training=True,
    ),
    Refusal("nn.functional.instance_norm", "expected more than", real(2, 4)),
    Refusal("nn.functional.instance_norm", "expected more than", real(1, 2, 1)),
    Refusal(
        "nn.functional.instance_norm", "expected one number for each channel", real(1, 2, 3), weight=real(3)
    ),
    Refusal("nn.functional.normalize", "dimension out of range", X, 2.0, 3),
    Refusal("nn.functional.normalize", "not implemented for int", at([0, 1, 2], [3, 4, 5])),
    Refusal("nn.functional.dropout", "dropout probability has to be between", X, 1.5),
    Refusal("nn.functional.dropout", "dropout probability has to be between", X, -0.1),
    Refusal("nn.functional.dropout", "argument 'p' is a number", X, "a"),
    Refusal("nn.functional.dropout", "it takes a Tensor", None),
    Refusal(
        "nn.functional.scaled_dot_product_attention",
        "the last axes of query and key must have the same",
        X,
        real(2, 4),
        X,
    ),
    Refusal(
        "nn.functional.scaled_dot_product_attention", "there must be one value for each key", X, X, real(3, 3)
    ),
    Refusal(
        "nn.functional.scaled_dot_product_attention",
        "the mask must have a row for each query, and a column",
        X,
        X,
        X,
        mask(2, 3),
    ),
    Refusal(
        "nn.functional.scaled_dot_product_attention",
        "explicit attn_mask should not be set when",
        X,
        X,
        X,
        mask(2, 2),
        is_causal=True,
    ),
    Refusal(
        "nn.functional.scaled_dot_product_attention",
        "expected all operands to have the same dtype",
        X,
        at([0, 1, 2], [3, 4, 5]),
        X,
    ),
    Refusal(
        "nn.functional.scaled_dot_product_attention",
        "the last axes of query and key must have the same",
        real(3),
        real(3),
        real(3),
    ),
    Refusal(
        "nn.functional.scaled_dot_product_attention",
        "expected a mask of bools, or of numbers of the query",
        X,
        X,
        X,
        at([0, 1], [2, 3]),
    ),
    Refusal(
        "nn.functional.scaled_dot_product_attention",
        "dropout probability has to be between",
        X,
        X,
        X,
        dropout_p=2.0,
    ),
    Refusal(
        "nn.functional.scaled_dot_product_attention",
        "the number of heads in key and value must divide that",
        real(1, 3, 2, 4),
        real(1, 2, 2, 4),
        real(1, 2, 2, 4),
        enable_gqa=True,
    ),
]
