# Made from the tables of oplib/builtin by `make generate`.
from typing import Any, TypeVar, overload

from jax import Array
from oplib.tensor import Tensor
from oplib.builtin.functions.registry import adaptive_avg_pool1d as adaptive_avg_pool1d
from oplib.builtin.functions.registry import adaptive_avg_pool2d as adaptive_avg_pool2d
from oplib.builtin.functions.registry import adaptive_avg_pool3d as adaptive_avg_pool3d
from oplib.builtin.functions.registry import adaptive_max_pool1d as adaptive_max_pool1d
from oplib.builtin.functions.registry import adaptive_max_pool2d as adaptive_max_pool2d
from oplib.builtin.functions.registry import adaptive_max_pool3d as adaptive_max_pool3d
from oplib.builtin.functions.registry import affine_grid as affine_grid
from oplib.builtin.functions.registry import alpha_dropout as alpha_dropout
from oplib.builtin.functions.registry import avg_pool1d as avg_pool1d
from oplib.builtin.functions.registry import avg_pool2d as avg_pool2d
from oplib.builtin.functions.registry import avg_pool3d as avg_pool3d
from oplib.builtin.functions.registry import batch_norm as batch_norm
from oplib.builtin.functions.registry import bilinear as bilinear
from oplib.builtin.functions.registry import binary_cross_entropy as binary_cross_entropy
from oplib.builtin.functions.registry import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from oplib.builtin.functions.registry import celu_ as celu_
from oplib.builtin.functions.registry import channel_shuffle as channel_shuffle
from oplib.builtin.functions.registry import conv1d as conv1d
from oplib.builtin.functions.registry import conv2d as conv2d
from oplib.builtin.functions.registry import conv3d as conv3d
from oplib.builtin.functions.registry import conv_transpose1d as conv_transpose1d
from oplib.builtin.functions.registry import conv_transpose2d as conv_transpose2d
from oplib.builtin.functions.registry import conv_transpose3d as conv_transpose3d
from oplib.builtin.functions.registry import cosine_embedding_loss as cosine_embedding_loss
from oplib.builtin.functions.registry import cosine_similarity as cosine_similarity
from oplib.builtin.functions.registry import cross_entropy as cross_entropy
from oplib.builtin.functions.registry import ctc_loss as ctc_loss
from oplib.builtin.functions.registry import dropout as dropout
from oplib.builtin.functions.registry import dropout1d as dropout1d
from oplib.builtin.functions.registry import dropout2d as dropout2d
from oplib.builtin.functions.registry import dropout3d as dropout3d
from oplib.builtin.functions.registry import embedding as embedding
from oplib.builtin.functions.registry import embedding_bag as embedding_bag
from oplib.builtin.functions.registry import feature_alpha_dropout as feature_alpha_dropout
from oplib.builtin.functions.registry import fractional_max_pool2d as fractional_max_pool2d
from oplib.builtin.functions.registry import fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices
from oplib.builtin.functions.registry import fractional_max_pool3d as fractional_max_pool3d
from oplib.builtin.functions.registry import fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices
from oplib.builtin.functions.registry import gaussian_nll_loss as gaussian_nll_loss
from oplib.builtin.functions.registry import gelu as gelu
from oplib.builtin.functions.registry import glu as glu
from oplib.builtin.functions.registry import grid_sample as grid_sample
from oplib.builtin.functions.registry import group_norm as group_norm
from oplib.builtin.functions.registry import gumbel_softmax as gumbel_softmax
from oplib.builtin.functions.registry import hardshrink as hardshrink
from oplib.builtin.functions.registry import hinge_embedding_loss as hinge_embedding_loss
from oplib.builtin.functions.registry import huber_loss as huber_loss
from oplib.builtin.functions.registry import instance_norm as instance_norm
from oplib.builtin.functions.registry import interpolate as interpolate
from oplib.builtin.functions.registry import kl_div as kl_div
from oplib.builtin.functions.registry import l1_loss as l1_loss
from oplib.builtin.functions.registry import layer_norm as layer_norm
from oplib.builtin.functions.registry import linear as linear
from oplib.builtin.functions.registry import local_response_norm as local_response_norm
from oplib.builtin.functions.registry import log_softmax as log_softmax
from oplib.builtin.functions.registry import logsigmoid as logsigmoid
from oplib.builtin.functions.registry import lp_pool1d as lp_pool1d
from oplib.builtin.functions.registry import lp_pool2d as lp_pool2d
from oplib.builtin.functions.registry import lp_pool3d as lp_pool3d
from oplib.builtin.functions.registry import margin_ranking_loss as margin_ranking_loss
from oplib.builtin.functions.registry import max_pool1d as max_pool1d
from oplib.builtin.functions.registry import max_pool2d as max_pool2d
from oplib.builtin.functions.registry import max_pool3d as max_pool3d
from oplib.builtin.functions.registry import max_unpool1d as max_unpool1d
from oplib.builtin.functions.registry import max_unpool2d as max_unpool2d
from oplib.builtin.functions.registry import max_unpool3d as max_unpool3d
from oplib.builtin.functions.registry import mse_loss as mse_loss
from oplib.builtin.functions.registry import multi_head_attention_forward as multi_head_attention_forward
from oplib.builtin.functions.registry import multi_margin_loss as multi_margin_loss
from oplib.builtin.functions.registry import multilabel_margin_loss as multilabel_margin_loss
from oplib.builtin.functions.registry import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from oplib.builtin.functions.registry import nll_loss as nll_loss
from oplib.builtin.functions.registry import normalize as normalize
from oplib.builtin.functions.registry import one_hot as one_hot
from oplib.builtin.functions.registry import pad as pad
from oplib.builtin.functions.registry import pairwise_distance as pairwise_distance
from oplib.builtin.functions.registry import pdist as pdist
from oplib.builtin.functions.registry import pixel_shuffle as pixel_shuffle
from oplib.builtin.functions.registry import pixel_unshuffle as pixel_unshuffle
from oplib.builtin.functions.registry import poisson_nll_loss as poisson_nll_loss
from oplib.builtin.functions.registry import prelu as prelu
from oplib.builtin.functions.registry import relu_ as relu_
from oplib.builtin.functions.registry import rms_norm as rms_norm
from oplib.builtin.functions.registry import rrelu as rrelu
from oplib.builtin.functions.registry import scaled_dot_product_attention as scaled_dot_product_attention
from oplib.builtin.functions.registry import selu_ as selu_
from oplib.builtin.functions.registry import sigmoid as sigmoid
from oplib.builtin.functions.registry import smooth_l1_loss as smooth_l1_loss
from oplib.builtin.functions.registry import soft_margin_loss as soft_margin_loss
from oplib.builtin.functions.registry import softmax as softmax
from oplib.builtin.functions.registry import softmin as softmin
from oplib.builtin.functions.registry import softplus as softplus
from oplib.builtin.functions.registry import softshrink as softshrink
from oplib.builtin.functions.registry import softsign as softsign
from oplib.builtin.functions.registry import tanh as tanh
from oplib.builtin.functions.registry import tanhshrink as tanhshrink
from oplib.builtin.functions.registry import threshold_ as threshold_
from oplib.builtin.functions.registry import triplet_margin_loss as triplet_margin_loss
from oplib.builtin.functions.registry import triplet_margin_with_distance_loss as triplet_margin_with_distance_loss
from oplib.builtin.functions.registry import upsample as upsample
from oplib.builtin.functions.registry import upsample_bilinear as upsample_bilinear
from oplib.builtin.functions.registry import upsample_nearest as upsample_nearest

_TensorOrArray = TypeVar("_TensorOrArray", Tensor, Array)

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

@overload
def celu(input: _TensorOrArray, alpha: Any = ..., inplace: Any = ...) -> _TensorOrArray: ...
@overload
def celu(input: Any, alpha: Any = ..., inplace: Any = ...) -> Any: ...
@overload
def elu(input: _TensorOrArray, alpha: Any = ..., inplace: Any = ...) -> _TensorOrArray: ...
@overload
def elu(input: Any, alpha: Any = ..., inplace: Any = ...) -> Any: ...
def elu_(input: Any, alpha: Any = ..., scale: Any = ..., input_scale: Any = ...) -> Tensor: ...
@overload
def fold(input: _TensorOrArray, output_size: Any, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...) -> _TensorOrArray: ...
@overload
def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...) -> Any: ...
@overload
def hardsigmoid(input: _TensorOrArray, inplace: Any = ...) -> _TensorOrArray: ...
@overload
def hardsigmoid(input: Any, inplace: Any = ...) -> Any: ...
@overload
def hardswish(input: _TensorOrArray, inplace: Any = ...) -> _TensorOrArray: ...
@overload
def hardswish(input: Any, inplace: Any = ...) -> Any: ...
@overload
def hardtanh(input: _TensorOrArray, min_val: Any = ..., max_val: Any = ..., inplace: Any = ...) -> _TensorOrArray: ...
@overload
def hardtanh(input: Any, min_val: Any = ..., max_val: Any = ..., inplace: Any = ...) -> Any: ...
def hardtanh_(input: Any, min_val: Any = ..., max_val: Any = ...) -> Tensor: ...
@overload
def leaky_relu(input: _TensorOrArray, negative_slope: Any = ..., inplace: Any = ...) -> _TensorOrArray: ...
@overload
def leaky_relu(input: Any, negative_slope: Any = ..., inplace: Any = ...) -> Any: ...
def leaky_relu_(input: Any, negative_slope: Any = ...) -> Tensor: ...
@overload
def mish(input: _TensorOrArray, inplace: Any = ...) -> _TensorOrArray: ...
@overload
def mish(input: Any, inplace: Any = ...) -> Any: ...
@overload
def relu(input: _TensorOrArray, inplace: Any = ...) -> _TensorOrArray: ...
@overload
def relu(input: Any, inplace: Any = ...) -> Any: ...
@overload
def relu6(input: _TensorOrArray, inplace: Any = ...) -> _TensorOrArray: ...
@overload
def relu6(input: Any, inplace: Any = ...) -> Any: ...
@overload
def selu(input: _TensorOrArray, inplace: Any = ...) -> _TensorOrArray: ...
@overload
def selu(input: Any, inplace: Any = ...) -> Any: ...
@overload
def silu(input: _TensorOrArray, inplace: Any = ...) -> _TensorOrArray: ...
@overload
def silu(input: Any, inplace: Any = ...) -> Any: ...
@overload
def threshold(input: _TensorOrArray, threshold: Any, value: Any, inplace: Any = ...) -> _TensorOrArray: ...
@overload
def threshold(input: Any, threshold: Any, value: Any, inplace: Any = ...) -> Any: ...
@overload
def unfold(input: _TensorOrArray, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...) -> _TensorOrArray: ...
@overload
def unfold(input: Any, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...) -> Any: ...
