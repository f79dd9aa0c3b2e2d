"""The tensor floor: the class Tensor, its storage, and the ways of data in and out.

``__all__`` lists the names that are also names of ``oplib``.
"""

from . import jax_node as jax_node
from .devices.determinism import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from .devices.device import Device
from .dtypes.limits import finfo, iinfo
from .dtypes.promotion import can_cast, promote_types, result_dtype as result_dtype, result_type
from .dtypes.rules import (
    default_complex_dtype as default_complex_dtype,
    default_int_dtype as default_int_dtype,
    get_default_dtype,
    normalize_dtype as normalize_dtype,
    scalar_dtype as scalar_dtype,
    set_default_dtype,
)
from .factories.creation import arange, empty, eye, full, linspace, logspace, ones, zeros
from .factories.from_data import as_tensor, from_dlpack, from_numpy, tensor
from .factories.likeness import empty_like, full_like, ones_like, zeros_like
from .factories.typed import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
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
from .storage.storage import Storage as Storage
from .tensor import Tensor, box as box, needs_grad as needs_grad, read_array as read_array
from .upcalls import upcalls as upcalls

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "Device",
    "DoubleTensor",
    "FloatTensor",
    "Generator",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "MemoryFormat",
    "MemoryLayout",
    "ShortTensor",
    "Size",
    "Tensor",
    "allclose",
    "arange",
    "are_deterministic_algorithms_enabled",
    "as_tensor",
    "can_cast",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "default_generator",
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
    "get_deterministic_debug_mode",
    "get_rng_state",
    "iinfo",
    "initial_seed",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_tensor",
    "linspace",
    "logspace",
    "manual_seed",
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
    "result_type",
    "seed",
    "set_default_dtype",
    "set_deterministic_debug_mode",
    "set_printoptions",
    "set_rng_state",
    "strided",
    "tensor",
    "use_deterministic_algorithms",
    "zeros",
    "zeros_like",
]
