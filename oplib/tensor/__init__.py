"""The tensor floor: the class Tensor, its storage, and the ways of data in and out."""

from . import jax_node
from .devices.device import Device
from .dtypes import names as dtypes
from .dtypes.limits import finfo, iinfo
from .dtypes.promotion import can_cast, promote_types, result_dtype, result_type
from .dtypes.rules import (
    default_complex_dtype,
    default_int_dtype,
    get_default_dtype,
    normalize_dtype,
    scalar_dtype,
    set_default_dtype,
)
from .factories.creation import arange, empty, eye, full, linspace, logspace, ones, zeros
from .factories.from_data import as_tensor, from_dlpack, from_numpy, tensor
from .factories.likeness import empty_like, full_like, ones_like, zeros_like
from .methods.comparing import allclose, equal
from .methods.print_options import set_printoptions
from .random.factories import rand, rand_like, randint, randint_like, randn, randn_like, randperm
from .random.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .storage.memory_format import (
    MemoryFormat,
    MemoryLayout,
    channels_last,
    channels_last_3d,
    contiguous_format,
    preserve_format,
    strided,
)
from .storage.metadata import is_tensor
from .storage.size import Size
from .storage.storage import Storage
from .tensor import Tensor, box, read_array
from .upcalls import upcalls

__all__ = [
    "Device",
    "Generator",
    "MemoryFormat",
    "MemoryLayout",
    "Size",
    "Storage",
    "Tensor",
    "allclose",
    "arange",
    "as_tensor",
    "box",
    "can_cast",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "default_complex_dtype",
    "default_generator",
    "default_int_dtype",
    "dtypes",
    "empty",
    "empty_like",
    "equal",
    "eye",
    "finfo",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "get_default_dtype",
    "get_rng_state",
    "iinfo",
    "initial_seed",
    "is_tensor",
    "jax_node",
    "linspace",
    "logspace",
    "manual_seed",
    "normalize_dtype",
    "ones",
    "ones_like",
    "preserve_format",
    "promote_types",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "read_array",
    "result_dtype",
    "result_type",
    "scalar_dtype",
    "seed",
    "set_default_dtype",
    "set_printoptions",
    "set_rng_state",
    "strided",
    "tensor",
    "upcalls",
    "zeros",
    "zeros_like",
]
