"""Running a kernel on arrays or tracers, whatever kind it is of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import MissingRuleError, ResultError, TracingError, describe
from oplib.tensor import Tensor, box

from .kernel_choice import missing_kernel
from .layout import Layout
from .record import Record
from .results import check_results
from .structure import Structure, make_structure
from .tracing import grad_off, running_rule, tracing

Flat = tuple[Structure, list[Any]]

_CONCRETIZATION = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


def run_kernel(record: Record, layout: Layout, arrays: Sequence[Any]) -> Flat:
    """Runs the kernel of a record under a trace and takes its results apart."""
    if record.kind == "host":
        return run_host_callback(record, layout, arrays)
    choose = _run_array_kernel if record.kind == "array" else run_tensor_kernel_on_arrays
    kernels = record.kernels
    only = kernels.get("default") or kernels.get("composite")
    if only is not None and len(kernels) == 1:
        return choose(record, only, layout, arrays)
    return _run_for_platform(record, choose, layout, arrays)


def _run_for_platform(
    record: Record, run: Callable[..., Flat], layout: Layout, arrays: Sequence[Any]
) -> Flat:
    """Leaves the choice of kernel to lowering, when the platform is known."""
    if not record.kernels:
        raise missing_kernel(record, None)
    structures: list[Structure] = []

    def branch(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any) -> tuple[Any, ...]:
            structure, flat = run(record, kernel, layout, values)
            structures.append(structure)
            return tuple(flat)

        return call

    branches = {_platform(name): branch(kernel) for name, kernel in record.kernels.items()}
    default = branches.pop("default", None)
    flat = jax.lax.platform_dependent(*arrays, default=default, **branches)
    return structures[0], list(flat)


def _platform(device: str) -> str:
    return "cuda" if device == "gpu" else device


def _run_array_kernel(
    record: Record, kernel: Callable[..., Any], layout: Layout, arrays: Sequence[Any]
) -> Flat:
    args, kwargs = layout.split(layout.rebuild(arrays))
    try:
        with tracing(record.name):
            result = kernel(*args, **kwargs)
    except _CONCRETIZATION as error:
        raise _needs_value(record, layout, error) from error
    return flatten_array_results(record, layout, result)


def _needs_value(record: Record, layout: Layout, error: Exception) -> TracingError:
    """The error for a compiled kernel that reads a value, with the cures."""
    found = re.search(r"arrays\[(\d+)\]", str(error))
    subject = (
        f"argument '{layout.find_argument(int(found[1]))}'"
        if found
        else "a value computed from its arguments"
    )
    return TracingError(
        f"{record.name}: the kernel needs the concrete value of {subject} while it is compiled. "
        f"{str(error).splitlines()[0]} Make the argument static (annotate it int, float, bool or str), or "
        "write the kernel with jax.lax control flow, or define the op with compile=False to run it as plain "
        "Python."
    )


def written_places(layout: Layout) -> list[int]:
    """The places of the arguments that the op writes."""
    return [place for place, argument in enumerate(layout.schema.arguments) if argument.is_written]


def flatten_array_results(record: Record, layout: Layout, result: Any) -> Flat:
    """Takes apart what an array kernel returned: new values of written arguments first, then the returns."""
    written = written_places(layout)
    # A return that is a written argument, as Tag.inplace and Tag.out declare, is no value of its own.
    returns = [
        output for output in layout.schema.returns if not (output.alias_info and output.alias_info.is_write)
    ]
    if not written:
        values = check_results(layout.schema)(result)
        return make_structure([as_array(value) for value in values], 0, _is_array)
    slots = len(written) + len(returns)
    given = (result,) if slots == 1 else result
    if not isinstance(given, (tuple, list)) or len(given) != slots:
        raise ResultError(
            f"{record.name}: the kernel returned {describe(result)}. A kernel on arrays returns the new "
            f"value of each written argument, then its declared results: {slots} in all. Return a tuple of "
            f"{slots}."
        )
    declared = tuple(given[len(written) :])
    values = []
    if returns or not layout.schema.returns:
        values = check_results(layout.schema)(
            declared[0] if len(returns) == 1 else declared if returns else None
        )
    written_values = [
        list(value) if isinstance(value, (tuple, list)) else value for value in given[: len(written)]
    ]
    return make_structure([as_array(value) for value in (*written_values, *values)], len(written), _is_array)


def as_array(value: Any) -> Any:
    """Turns numpy results of an array kernel into arrays; the rest is left as it is."""
    if isinstance(value, (list, tuple)):
        return type(value)(as_array(member) for member in value)
    return jnp.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else value


def _is_array(value: object) -> bool:
    return isinstance(value, jax.Array)


# Kernels on Tensors -----------------------------------------------------------------------------------------


def run_tensor_kernel_on_arrays(
    record: Record, kernel: Callable[..., Any], layout: Layout, arrays: Sequence[Any]
) -> Flat:
    """Runs an eager kernel on boxes around arrays or tracers."""
    boxes = [box(jnp.asarray(value)) for value in arrays]
    values = layout.rebuild(boxes)
    args, kwargs = layout.split(values)
    with grad_off():
        result = kernel(*args, **kwargs)
    returned = check_results(layout.schema)(result)
    written = [values[place] for place in written_places(layout)]
    structure, flat = make_structure(
        [*written, *returned], len(written), lambda value: isinstance(value, Tensor)
    )
    return structure, [tensor._storage.array for tensor in flat]


# Kernels on the host ----------------------------------------------------------------------------------------


def run_host_kernel(
    record: Record, kernel: Callable[..., Any], layout: Layout, arrays: Sequence[Any]
) -> Flat:
    """Runs a host kernel now, on numpy arrays; written ones are copies that it may write into."""
    values = layout.rebuild([np.asarray(value) for value in arrays])
    places = written_places(layout)
    for place in places:
        values[place] = _writable(values[place])
    args, kwargs = layout.split(values)
    returned = check_results(layout.schema)(kernel(*args, **kwargs))
    results = [*(values[place] for place in places), *returned]
    return make_structure(results, len(places), lambda value: isinstance(value, (np.ndarray, np.generic)))


def _writable(value: Any) -> Any:
    if isinstance(value, list):
        return [None if member is None else np.array(member) for member in value]
    return None if value is None else np.array(value)


def host_kernel(record: Record) -> Callable[..., Any]:
    """The kernel that a host op runs: on the host there is only one platform."""
    kernel = record.kernels.get("default") or record.kernels.get("cpu")
    if kernel is None:
        raise missing_kernel(record, "cpu")
    return kernel


def run_host_callback(record: Record, layout: Layout, arrays: Sequence[Any]) -> Flat:
    """Makes a host kernel part of a trace as a callback, with the shapes of its fake kernel."""
    if record.fake is None and layout.schema.returns:
        raise MissingRuleError(
            f"{record.name}: no fake impl registered, and a host kernel under a trace needs one. The trace "
            "must know the shapes of the results before the kernel runs. Register one with "
            f"{record.name}.register_fake."
        )
    structure, shapes = jax.eval_shape(lambda *values: run_fake_kernel(record, layout, values), *arrays)
    kernel = host_kernel(record)

    def call(*values: Any) -> list[Any]:
        _, flat = run_host_kernel(record, kernel, layout, values)
        return [np.asarray(value) for value in flat]

    return structure, list(jax.pure_callback(call, list(shapes), *arrays, vmap_method="sequential"))


# Fake kernels -----------------------------------------------------------------------------------------------


def run_fake_kernel(
    record: Record, layout: Layout, arrays: Sequence[Any]
) -> tuple[Structure, tuple[Any, ...]]:
    """Runs the shape rule under an abstract trace: written arguments keep their shapes."""
    places = written_places(layout)
    returned: tuple[Any, ...] = ()
    if record.fake is not None:
        boxed = record.kind == "tensor"
        args, kwargs = layout.split(layout.rebuild([box(value) for value in arrays] if boxed else arrays))
        with running_rule(record.name, eager=boxed):
            returned = tuple(check_results(layout.schema)(record.fake(*args, **kwargs)))
    values = layout.rebuild(arrays)
    results = [*(values[place] for place in places), *map(_materialize, returned)]
    structure, flat = make_structure(results, len(places), _is_array)
    return structure, tuple(flat)


def _materialize(value: Any) -> Any:
    """Turns what a fake kernel may return (shapes, numpy arrays, Tensors) into abstract arrays."""
    if isinstance(value, (list, tuple)):
        return type(value)(_materialize(member) for member in value)
    if isinstance(value, Tensor):
        return value._storage.array
    if isinstance(value, (jax.ShapeDtypeStruct, np.ndarray, np.generic)):
        return jnp.zeros(value.shape, value.dtype)
    return value
