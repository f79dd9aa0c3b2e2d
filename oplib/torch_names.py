"""Names of torch and JAX that oplib does not have, and what a program uses instead: texts of errors."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Mapping
from types import FrameType, MappingProxyType
from typing import Any, NoReturn

import jax
import numpy as np

_TABLE = """
oplib
  compile: Use oplib.jit, which compiles a function of Tensors.
  func: Use oplib.vmap, oplib.autograd.functional, or the transformations of JAX.
  export: Use jax.export of a function of arrays.
  profiler: Use oplib.visual.profile, and jax.profiler for compiled programs.
  cuda: Use Tensor.device, and jax.devices('gpu') for the devices.
  xpu mps mtia: Use Tensor.device, and jax.devices() for the devices.
  synchronize: Use jax.block_until_ready(tensor.array).
  empty_cache memory_allocated max_memory_allocated: Use jax.devices()[0].memory_stats().
  backends cudnn: XLA chooses its kernels, see jax.config and XLA_FLAGS.
  hub: There are no models: read weights as numpy arrays, and use oplib.from_numpy.
  state_dict load_state_dict: Use oplib.save and oplib.load with a dictionary of Tensors.
  multiprocessing: Use Python's, and send numpy arrays.
  onnx: Use jax.export of a function of arrays.
  quantization ao quantize_per_tensor quantize_per_channel dequantize int_repr q_scale q_zero_point: There
      is none: write an op of your own (oplib.custom_op).
  fake_quantize_per_tensor_affine fake_quantize_per_channel_affine: Write it as an op of your own, which
      rounds and clamps, with register_autograd(..., surrogate=True) (oplib.custom_op).
  nested: There are no ragged tensors: use oplib.nn.utils.rnn.pad_sequence and a mask.
  version: Use oplib.__version__.
  manual_seed_all: Use oplib.manual_seed.
  clip_grad_norm_ clip_grad_value_: Use oplib.nn.utils.{}.
  Dataset TensorDataset DataLoader: There are no data loaders: index Tensors by parts of oplib.randperm, or
      use a library.
  F functional: Use oplib.nn.functional.
  to: Use Tensor.to.
  astype: Use Tensor.to with a dtype.
  power=pow expand_dims=unsqueeze: Use oplib.{}.
  jnp: It is JAX's: use jax.numpy.
  Mesh NamedSharding PartitionSpec: It is JAX's: use jax.sharding.{}.
  pallas: It is JAX's: use jax.experimental.pallas in a kernel of oplib.custom_op.
  jax flax linen nnx haiku equinox: Import the library itself: its functions of arrays can call
      ops of oplib.
  distributed pmap shard_map: Spread arrays over devices with jax.sharding, see Tensor.sharding.
  distributions: For draws use oplib.randn, oplib.multinomial and in-place ones such as
      Tensor.exponential_; for densities write the formula, or an op of your own with jax.scipy.stats
      (oplib.custom_op).
  get_device: Use Tensor.device.
  asarray: Use oplib.as_tensor.
  frombuffer: Use oplib.from_numpy(numpy.frombuffer(...)).
  range: Use oplib.arange, which leaves the end out.
  matrix_rank solve symeig=eigh eig: Use oplib.linalg.{}.
  set_num_threads set_num_interop_threads: XLA chooses the number of threads, see XLA_FLAGS.
  set_default_device: Use jax.default_device, or give device=.
  set_default_tensor_type: Use oplib.set_default_dtype.
  set_float32_matmul_precision get_float32_matmul_precision: Set
      jax.config.update('jax_default_matmul_precision', ...).
  sparse sparse_coo_tensor sparse_csr_tensor sparse_coo sparse_csr: There are no sparse tensors: use a
      dense one and a mask, or Tensor.index_add with indices and values.
  GradScaler: bfloat16 needs none; multiply the loss, and divide the gradients.
  clear_autocast_cache is_autocast_cache_enabled set_autocast_cache_enabled: Leave it out: autocast keeps
      no casts.
  lstm gru rnn_tanh rnn_relu lstm_cell gru_cell: There is none: write the cell with
      oplib.nn.functional.linear, and loop, or use oplib.scan.
  Storage FloatStorage UntypedStorage TypedStorage: There are no storages: a tensor holds a jax.Array,
      tensor.array. Tensors share memory if one is a view of the other or of its _base; for sizes use
      tensor.nbytes, and for files oplib.save.
  _inductor: Use oplib.jit, which traces a function of Tensors and compiles it by XLA.
  int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7: Keep such numbers in
      oplib.uint8, and pack them by shifts.
  _C: It is torch's C++: use the public name.
  Parameter Variable: Use oplib.tensor(..., requires_grad=True).
  Function: Use oplib.autograd.Function.
  backward: Use tensor.backward() or oplib.autograd.backward.
  grad: Use oplib.autograd.{} of results, or jax.{} of a function.
  value_and_grad: Use loss.backward(), or jax.{} of a function.
  jvp vjp hessian: Use oplib.autograd.functional.{} of a function of Tensors, or jax.{} of one of arrays.
  jacrev jacfwd: Use oplib.autograd.functional.jacobian of a function of Tensors, or jax.{} of one of
      arrays.
  array ndarray Array: Use oplib.tensor; its class is oplib.Tensor.
  numpy: It is JAX's: use jax.{}.
  tree: Use oplib.pytree.
  PRNGKey key: Use oplib.Generator or oplib.manual_seed.
  device_put device_get: Use Tensor.to and Tensor.numpy.
  devices: Use jax.{}(), and Tensor.to.
  checkpoint remat: Use oplib.utils.checkpoint.checkpoint.
  custom_vjp custom_jvp custom_gradient: Use oplib.library.custom_op, or oplib.autograd.Function for a
      function without a schema.
  fori_loop switch associative_scan: Use oplib.while_loop or oplib.scan, or jax.lax.{} of arrays.
  stop_gradient: Use Tensor.detach.
  block_until_ready: Use jax.{}(tensor.array).
oplib.nn
  Module Parameter Sequential ModuleList ModuleDict ParameterDict ParameterList: There are no modules: use
      a class or dictionary of your own with Tensors that require grad.
  LSTM GRU RNN LSTMCell GRUCell RNNCell: There is none: write the cell with oplib.nn.functional.linear,
      and loop, or use oplib.scan.
  Linear=linear Bilinear=bilinear Embedding=embedding EmbeddingBag=embedding_bag LayerNorm=layer_norm
      RMSNorm=rms_norm GroupNorm=group_norm MultiheadAttention=multi_head_attention_forward
      Dropout=dropout ReLU=relu GELU=gelu SiLU=silu Softmax=softmax LogSoftmax=log_softmax
      CrossEntropyLoss=cross_entropy NLLLoss=nll_loss MSELoss=mse_loss L1Loss=l1_loss
      SmoothL1Loss=smooth_l1_loss KLDivLoss=kl_div BCELoss=binary_cross_entropy
      BCEWithLogitsLoss=binary_cross_entropy_with_logits CTCLoss=ctc_loss Upsample=interpolate
      Conv1d=conv1d Conv2d=conv2d Conv3d=conv3d ConvTranspose1d=conv_transpose1d
      ConvTranspose2d=conv_transpose2d ConvTranspose3d=conv_transpose3d MaxPool1d=max_pool1d
      MaxPool2d=max_pool2d MaxPool3d=max_pool3d AvgPool1d=avg_pool1d AvgPool2d=avg_pool2d
      AvgPool3d=avg_pool3d BatchNorm1d=batch_norm BatchNorm2d=batch_norm BatchNorm3d=batch_norm
      InstanceNorm1d=instance_norm InstanceNorm2d=instance_norm InstanceNorm3d=instance_norm
      LeakyReLU=leaky_relu ELU=elu HuberLoss=huber_loss CosineSimilarity=cosine_similarity
      PixelShuffle=pixel_shuffle Hardtanh=hardtanh Softplus=softplus ReLU6=relu6 Dropout1d=dropout1d
      Dropout2d=dropout2d Dropout3d=dropout3d AdaptiveAvgPool1d=adaptive_avg_pool1d
      AdaptiveAvgPool2d=adaptive_avg_pool2d AdaptiveAvgPool3d=adaptive_avg_pool3d
      AdaptiveMaxPool2d=adaptive_max_pool2d PReLU=prelu Mish=mish Hardswish=hardswish
      TripletMarginLoss=triplet_margin_loss: There are no modules: use oplib.nn.functional.{} with Tensors
      of your own.
  Sigmoid=sigmoid Tanh=tanh Flatten=flatten Unflatten=unflatten: There are no modules: use oplib.{}.
  Identity: There are no modules: use the Tensor itself.
  Transformer TransformerEncoder TransformerEncoderLayer TransformerDecoder TransformerDecoderLayer: There
      are no modules: write it with oplib.nn.functional.multi_head_attention_forward or
      scaled_dot_product_attention.
  attention: Leave it out: oplib.nn.functional.scaled_dot_product_attention chooses its way.
  init initializers: Use in-place draws under oplib.no_grad, such as Tensor.uniform_ and Tensor.normal_.
  DataParallel parallel: Spread arrays over devices with jax.sharding, see Tensor.sharding.
oplib.nn.utils
  clip_grad_norm: Use oplib.nn.utils.clip_grad_norm_.
  spectral_norm weight_norm parametrize parametrizations: There are no modules: write its formula as a
      function of your Tensors.
oplib.nn.utils.rnn
  PackedSequence pack_sequence unpack_sequence pack_padded_sequence pad_packed_sequence: There are no
      packed sequences: use oplib.nn.utils.rnn.pad_sequence and a mask.
oplib.amp
  GradScaler: bfloat16 needs none; multiply the loss, and divide the gradients.
oplib.compiler
  compile: Use oplib.jit, which traces a function of Tensors and compiles it by XLA.
oplib._dynamo
  optimize export: Use oplib.jit, which traces a function of Tensors and compiles it by XLA.
oplib.fx
  symbolic_trace Tracer GraphModule: Use oplib.jit, which traces a function of Tensors, or jax.make_jaxpr.
oplib.autograd
  profiler_util: Use oplib.visual.profile.
oplib.autograd.profiler
  emit_nvtx emit_itt load_nvprof parse_nvprof_trace EventList FunctionEvent KinetoStepTracker: Use
      oplib.visual.profile, and jax.profiler for compiled programs.
oplib.utils
  data: There are no data loaders: index Tensors by parts of oplib.randperm, or use a library.
  tensorboard: Import the writer itself, and give it tensor.item() and tensor.numpy().
  dlpack: Use oplib.from_dlpack and Tensor.__dlpack__.
  cpp_extension: Register the compiled function with jax.ffi, and call it in the kernel of an op
      (oplib.custom_op).
  benchmark: Use timeit, and tensor.array.block_until_ready() at the end.
oplib.random
  PRNGKey key split fold_in: Use oplib.Generator or oplib.manual_seed, or jax.random of arrays.
  normal=randn uniform=rand randint choice=multinomial categorical=multinomial permutation=randperm
      bernoulli: Use oplib.{}, or jax.random of arrays.
oplib.library
  triton_op wrap_triton: Use oplib.custom_op with a kernel for jax.Array that calls Pallas or jax_triton.
  defvjp defjvp: Use register_autograd and register_jvp of an op.
oplib.utils.checkpoint
  GraphExecGroup: Give all results to one oplib.autograd.backward: it computes a region again once.
  set_checkpoint_debug_enabled: Print in the function, which runs as Python in both computations.
oplib.optim
  Adam=adam AdamW=adamw SGD=sgd RMSprop=rmsprop Adagrad=adagrad Adadelta=adadelta Adamax=adamax
      NAdam=nadam RAdam=radam LBFGS=lbfgs: Use oplib.optim.Optimizer(optax.{}(...), parameters).
  swa_utils: Average parameters under oplib.no_grad by Tensor.lerp_, or optax.incremental_update.
  lr_scheduler: Give the transformation a schedule, such as optax.cosine_decay_schedule.
  sgd adam adamw rmsprop adagrad lion chain: It is optax's: use optax.{} in oplib.optim.Optimizer.
  apply_updates: It is optax's: oplib.optim.Optimizer.step calls it.
Optimizer
  param_groups: Use optimizer.hyperparams, and optax.multi_transform for parts of the parameters.
  add_param_group: Give all parameters at first, and freeze some by requires_grad_(False).
  defaults: Use optimizer.hyperparams.
  init update: Use optimizer.step after a backward: the optimizer keeps the state of optax.
Tensor
  zero_grad: Assign tensor.grad = None, or use Optimizer.zero_grad.
  at: Write tensor[index] = value, or use Tensor.index_put.
  astype: Use Tensor.to with a dtype.
  block_until_ready: Use tensor.array.block_until_ready().
  weak_type: Use tensor.array.weak_type.
  data_ptr: Arrays have no stable address; compare tensors by oplib.equal, or views by their _base.
  storage untyped_storage _typed_storage: There are no storages: a tensor holds a jax.Array, tensor.array.
      Tensors share memory if one is a view of the other or of its _base; for sizes use tensor.nbytes, and
      for files oplib.save.
  pin_memory: Leave it out: jax.device_put copies asynchronously.
  share_memory_: Leave it out: arrays cannot be shared by processes; send numpy arrays.
  as_subclass: Assign to tensor.__class__.
  record_stream: Leave it out: XLA orders its computations.
  map_ apply_: Use a function of tensors, which computes all items at once.
  to_sparse to_sparse_csr to_dense coalesce indices: There are no sparse tensors: use a dense one and a
      mask, or Tensor.index_add with indices and values.
"""


_ARRAY_TABLE = """
jax.Array
  unsqueeze: Use jax.numpy.expand_dims(x, dim)
  view_as: Use x.reshape(shape)
  permute: Use x.transpose(dims)
  expand expand_as: Use jax.numpy.broadcast_to(x, shape)
  detach: Use jax.lax.stop_gradient(x)
  dim: Use x.ndim
  numel nelement: Use x.size
  contiguous cpu cuda: Leave it out
  to type float double half bfloat16 long int short bool type_as: Use x.astype(dtype)
  numpy: Use x, or annotate numpy.ndarray
  masked_fill: Use jax.numpy.where(mask, value, x)
  chunk unbind: Use jax.numpy.split(x, parts)
  index_select gather: Use jax.numpy.take_along_axis(x, index, axis), or jax.numpy.take
  scatter scatter_add index_add index_put: Use x.at[index].set(y) or x.at[index].add(y)
  at: Write y = x.copy(), and y[index] = value
  mm bmm: Use jax.numpy.matmul(x, y)
  norm: Use jax.numpy.linalg.norm(x)
  requires_grad requires_grad_ grad grad_fn backward: Register a formula, register_autograd
"""


def _read_table(table: str) -> dict[str, dict[str, str]]:
    """Returns the hints by place and name. {} in a hint is the name, or what stands behind its "="."""
    hints: dict[str, dict[str, str]] = {}
    place: dict[str, str] = {}
    for line in table.strip().replace("\n      ", " ").splitlines():
        names, _, hint = line.partition(": ")
        if not hint:
            place = hints[line] = {}
        for key in names.split() if hint else ():
            name, _, other = key.partition("=")
            place[name] = hint.replace("{}", other or name)
    return hints


HINTS = _read_table(_TABLE)
OF_ARRAYS = _read_table(_ARRAY_TABLE)["jax.Array"]


def suggest(error: AttributeError) -> str:
    """Returns what a kernel on arrays writes in place of an attribute that its array lacks."""
    name, place = str(error.name), getattr(error.obj, "__name__", "")
    is_numpy = isinstance(error.obj, np.ndarray) or place.startswith("numpy")
    cure = OF_ARRAYS.get(name) or "Use functions of jax.numpy"
    if name.endswith("_") and name not in OF_ARRAYS:
        cure = "Arrays have no in-place methods: use what x + y or x.at[index].set(y) returns"
    elif name not in OF_ARRAYS:
        for other in (np,) if is_numpy else (jax.numpy, jax.nn, jax.lax):
            if hasattr(other, name):
                cure = f"Use {other.__name__}.{name}(x)"
                break
    if is_numpy:
        cure = cure.replace("jax.numpy", "numpy")
    subject = place or f"a {'numpy.ndarray' if is_numpy else 'jax.Array'}"
    return f"{subject} has no {name!r}. {cure}, or annotate oplib.Tensor."


_PLACES = ("oplib.nn.functional", "oplib", "oplib.library", "oplib.autograd", "oplib.pytree")


def _find_hint(module: str, name: str) -> str | None:
    """Returns what a program uses in place of a name: by the table, or where else oplib or JAX have it."""
    if hint := HINTS.get(module, {}).get(name):
        return hint
    for place in _PLACES:
        if name in getattr(sys.modules.get(place), "__all__", ()):
            return f"Use {place}.{name}."
    for place in ("oplib", "oplib.nn", "oplib.optim"):
        if hint := HINTS[place].get(name):
            return hint
    return f"It is JAX's: use jax.{name}." if name[0] != "_" and name in vars(sys.modules["jax"]) else None


def make_missing_error(module: str, name: str) -> AttributeError | ImportError:
    """Returns the error of a module that lacks a name, for the ``__getattr__`` that calls this function.

    ``hasattr`` and ``getattr`` expect an AttributeError. In ``from module import name`` Python would replace
    it by an ImportError without the hint, so this statement gets an ImportError with the hint.

    Args:
        module: the name of the module.
        name: the attribute.

    Example:
        >>> make_missing_error("oplib", "get_device")
        AttributeError("module 'oplib' has no attribute 'get_device'. Use Tensor.device.")
    """
    hint = _find_hint(module, name)
    if hint is not None and _imports_from(sys._getframe(1).f_back):
        return ImportError(f"cannot import name {name!r} from {module!r}. {hint}", name=module)
    return AttributeError(f"module {module!r} has no attribute {name!r}" + (f". {hint}" if hint else ""))


def _imports_from(frame: FrameType | None) -> bool:
    """Returns whether a frame runs ``from module import name``."""
    return frame is not None and frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]


def make_getattr(
    namespace: dict[str, Any], values: Mapping[str, Any] = MappingProxyType({})
) -> Callable[[str], Any]:
    """Makes the ``__getattr__`` of a module, which says what stands for a name of torch."""
    module: str = namespace["__name__"]
    # With a path, as packages have: `importlib.util.find_spec` of a missing name then returns None.
    namespace.setdefault("__path__", [])

    def get(name: str) -> Any:
        if name not in values:
            raise make_missing_error(module, name)
        value = namespace[name] = values[name]
        return value

    return get


def hand_back(fn: Any = None, *args: Any, **options: Any) -> Any:  # noqa: ARG001  torch's options
    """Returns a function as it is, as a mark for torch's compilers, of which oplib has none.

    Args:
        fn: the function; without it the result is the decorator.
        *args: not read.
        **options: not read.

    Example:
        >>> import oplib
        >>> @oplib.compiler.disable(recursive=False)
        ... def double(x):
        ...     return x * 2
        >>> double(3)
        6
    """
    return fn if callable(fn) else hand_back


def no_compiler() -> bool:
    """Returns False: whether a compiler of torch, which oplib does not have, is at work."""
    return False


def make_dir(namespace: Mapping[str, Any], *further: str) -> Callable[[], list[str]]:
    """Makes the ``__dir__`` of a module, which shows Python's names and the public ones, and no imports.

    Args:
        namespace: that of the module.
        *further: public names that ``from module import *`` leaves out, such as modules.
    """
    return lambda: [*{*filter(_is_of_python, tuple(namespace)), *namespace["__all__"], *further}]


def _is_of_python(name: str) -> bool:
    return name.startswith("__")


def make_lookups(
    namespace: dict[str, Any], values: Mapping[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Makes the ``__getattr__`` and the ``__dir__`` of a module with values that are made when asked for."""
    return make_getattr(namespace, values), make_dir(namespace)


class MissingAttribute:
    """A name of torch that a class does not have: reading it raises, and ``hasattr`` is False.

    A descriptor, not ``__getattr__``: that would make every attribute of a Tensor slower to read.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}. {HINTS['Tensor'][self._name]}",
            name=self._name,
            obj=instance,
        )
