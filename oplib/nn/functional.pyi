# Made from the tables of oplib/builtin by `make generate`.
from typing import Any, TypeVar, overload

from jax import Array
from oplib import adaptive_avg_pool1d as adaptive_avg_pool1d
from oplib import adaptive_avg_pool2d as adaptive_avg_pool2d
from oplib import adaptive_avg_pool3d as adaptive_avg_pool3d
from oplib import adaptive_max_pool1d as adaptive_max_pool1d
from oplib import adaptive_max_pool2d as adaptive_max_pool2d
from oplib import adaptive_max_pool3d as adaptive_max_pool3d
from oplib import affine_grid as affine_grid
from oplib import alpha_dropout as alpha_dropout
from oplib import avg_pool1d as avg_pool1d
from oplib import avg_pool2d as avg_pool2d
from oplib import avg_pool3d as avg_pool3d
from oplib import batch_norm as batch_norm
from oplib import bilinear as bilinear
from oplib import binary_cross_entropy as binary_cross_entropy
from oplib import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from oplib import celu_ as celu_
from oplib import channel_shuffle as channel_shuffle
from oplib import conv1d as conv1d
from oplib import conv2d as conv2d
from oplib import conv3d as conv3d
from oplib import conv_transpose1d as conv_transpose1d
from oplib import conv_transpose2d as conv_transpose2d
from oplib import conv_transpose3d as conv_transpose3d
from oplib import cosine_embedding_loss as cosine_embedding_loss
from oplib import cosine_similarity as cosine_similarity
from oplib import cross_entropy as cross_entropy
from oplib import ctc_loss as ctc_loss
from oplib import dropout as dropout
from oplib import dropout1d as dropout1d
from oplib import dropout2d as dropout2d
from oplib import dropout3d as dropout3d
from oplib import embedding as embedding
from oplib import embedding_bag as embedding_bag
from oplib import feature_alpha_dropout as feature_alpha_dropout
from oplib import fractional_max_pool2d as fractional_max_pool2d
from oplib import fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices
from oplib import fractional_max_pool3d as fractional_max_pool3d
from oplib import fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices
from oplib import gaussian_nll_loss as gaussian_nll_loss
from oplib import gelu as gelu
from oplib import glu as glu
from oplib import grid_sample as grid_sample
from oplib import group_norm as group_norm
from oplib import gumbel_softmax as gumbel_softmax
from oplib import hardshrink as hardshrink
from oplib import hinge_embedding_loss as hinge_embedding_loss
from oplib import huber_loss as huber_loss
from oplib import instance_norm as instance_norm
from oplib import interpolate as interpolate
from oplib import kl_div as kl_div
from oplib import l1_loss as l1_loss
from oplib import layer_norm as layer_norm
from oplib import linear as linear
from oplib import local_response_norm as local_response_norm
from oplib import log_softmax as log_softmax
from oplib import logsigmoid as logsigmoid
from oplib import lp_pool1d as lp_pool1d
from oplib import lp_pool2d as lp_pool2d
from oplib import lp_pool3d as lp_pool3d
from oplib import margin_ranking_loss as margin_ranking_loss
from oplib import max_pool1d as max_pool1d
from oplib import max_pool2d as max_pool2d
from oplib import max_pool3d as max_pool3d
from oplib import max_unpool1d as max_unpool1d
from oplib import max_unpool2d as max_unpool2d
from oplib import max_unpool3d as max_unpool3d
from oplib import mse_loss as mse_loss
from oplib import multi_head_attention_forward as multi_head_attention_forward
from oplib import multi_margin_loss as multi_margin_loss
from oplib import multilabel_margin_loss as multilabel_margin_loss
from oplib import multilabel_soft_margin_loss as multilabel_soft_margin_loss
from oplib import nll_loss as nll_loss
from oplib import normalize as normalize
from oplib import one_hot as one_hot
from oplib import pad as pad
from oplib import pairwise_distance as pairwise_distance
from oplib import pdist as pdist
from oplib import pixel_shuffle as pixel_shuffle
from oplib import pixel_unshuffle as pixel_unshuffle
from oplib import poisson_nll_loss as poisson_nll_loss
from oplib import prelu as prelu
from oplib import relu_ as relu_
from oplib import rms_norm as rms_norm
from oplib import rrelu as rrelu
from oplib import scaled_dot_product_attention as scaled_dot_product_attention
from oplib import selu_ as selu_
from oplib import sigmoid as sigmoid
from oplib import smooth_l1_loss as smooth_l1_loss
from oplib import soft_margin_loss as soft_margin_loss
from oplib import softmax as softmax
from oplib import softmin as softmin
from oplib import softplus as softplus
from oplib import softshrink as softshrink
from oplib import softsign as softsign
from oplib import tanh as tanh
from oplib import tanhshrink as tanhshrink
from oplib import threshold_ as threshold_
from oplib import triplet_margin_loss as triplet_margin_loss
from oplib import triplet_margin_with_distance_loss as triplet_margin_with_distance_loss
from oplib import upsample as upsample
from oplib import upsample_bilinear as upsample_bilinear
from oplib import upsample_nearest as upsample_nearest
from oplib.tensor import Tensor

_TensorOrArray = TypeVar("_TensorOrArray", Tensor, Array)

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
