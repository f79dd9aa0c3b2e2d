"""Rows: modes of the thread that the code enters or reads, or that surround it."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

import jax

import oplib
from oplib import Tensor
from oplib.autograd import detect_anomaly, grad
from oplib.autograd.graph import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from oplib.utils.checkpoint import checkpoint
from tests.worlds.row import WHILE_TRACED, drop, journal, read_events, row


def _double(t, square):
    return square(t) * 2


def _triple(t, square):
    return square(t) * 3


@row(instead={"records nothing": _triple})
def is_grad_enabled_read(t, square):
    return square(t) * (2 if oplib.is_grad_enabled() else 3)


@row()
def is_grad_enabled_read_in_a_block(t, square):
    with oplib.no_grad():
        factor = 2 if oplib.is_grad_enabled() else 3
    return square(t) * factor


@row(instead={"jax": _triple, "records nothing": _triple, "forward": _triple})  # D.49
def requires_grad_read(t, square):
    return square(t) * (2 if t.requires_grad else 3)


@row(instead={"jax": _triple, "records nothing": _triple, "forward": _triple})  # D.49
def requires_grad_read_of_a_result(t, square):
    y = square(t)
    return y * (2 if y.requires_grad and not y.is_leaf else 3)


@row()
def requires_grad_read_of_a_constant(t, square):
    y = square(t).detach()
    return y * t * (2 if y.requires_grad else 3)


@row()
def inference_mode_read(t, square):
    with oplib.inference_mode():
        y = square(t) * (2 if oplib.is_inference_mode_enabled() else 3)
    return y * (2 if y.is_inference() else 3) + square(t)


def _pack(tensor):
    journal.append("pack")
    return tensor.detach().clone()


def _unpack(kept):
    journal.append("unpack")
    return kept


def _hooks():
    return saved_tensors_hooks(_pack, _unpack)


BODY = dict.fromkeys(["oplib scan", "oplib cond"], "Enter the hooks around the call")
RECORDS_NOTHING = "does not require grad"

# D.52: JAX keeps what its derivatives read, and knows no hooks. So do bodies of control flow.
NO_TAPE = dict.fromkeys(["jax", "forward", "jax jit"], drop)


@row(
    after=read_events,
    effects=NO_TAPE | WHILE_TRACED | dict.fromkeys(["records nothing", "body"], drop),
    refuses=BODY,
)
def saved_tensors_hooks_inside(t, square):
    with _hooks():
        return square(t) * t


@row(around=_hooks, after=read_events, effects=NO_TAPE | {"oplib jit with its gradient": drop})
def saved_tensors_hooks_around(t, square):
    return square(t) * t


@row(refuses=BODY)
def save_on_cpu_inside(t, square):
    with save_on_cpu():
        return square(t) * t


@row(
    around=lambda: disable_saved_tensors_hooks("no hooks here"),
    refuses={"checkpoint around": "no hooks here", "checkpoint of oplib jit": "no hooks here"},
)
def hooks_disabled_around(t, square):
    return square(t) * t


@row(around=lambda: disable_saved_tensors_hooks("no hooks here"), refuses={"*": "no hooks here"})
def hooks_disabled_around_and_used(t, square):
    with _hooks():
        return square(t) * t


@row(after=read_events, effects=WHILE_TRACED)
def hooks_disabled_inside_and_used(t, square):
    try:
        with disable_saved_tensors_hooks("no hooks here"), _hooks():
            return t
    except RuntimeError as error:
        journal.append(str(error)[:13])
    return square(t) * t


# Its pass accumulates into leaves, so grad() refuses it. JAX and forward mode find no rule for its backward.
REENTRANT = "Set use_reentrant=False|its Function has no jvp|must override the setup_context"


def _noted(t, square):
    journal.append("run")
    return square(t) * t


@row(after=read_events, effects=WHILE_TRACED)
def checkpoint_inside(t, square):
    return checkpoint(_noted, t, square, use_reentrant=False) * t


@row(
    instead={"*": lambda t, square: square(t) * t * t},
    refuses=dict.fromkeys(["backward", "compiled backward", "reentrant", "jax jit"]) | {"*": REENTRANT},
)
def reentrant_checkpoint_inside(t, square):
    return checkpoint(_noted, t, square, use_reentrant=True) * t


def _write_a_saved_value(t, square):
    y = square(t)
    z = y * y
    y.mul_(3)
    return z * y


def _write_a_copy(t, square):
    y = square(t)
    return y * y * (y * 3)


@row(around=allow_mutation_on_saved_tensors)
def allowed_mutation_around(t, square):
    return _write_a_saved_value(t, square)


@row(
    refuses={"reentrant": RECORDS_NOTHING, "records nothing": RECORDS_NOTHING},
    instead={"*": lambda t, square: t.detach() ** 5 * 0.3 * t},
)
def allowed_mutation_inside(t, square):
    x = t.detach().requires_grad_()
    with allow_mutation_on_saved_tensors():
        y = square(x)
        z = y * y
        y.mul_(3)
        (gradient,) = grad((z * y).sum() / 60, x)  # of x**6 / 20
    return gradient * t


ON_TAPE = "modified by an inplace operation"


@row(
    # Under JAX and in bodies nothing is overwritten; hooks, as those of checkpoint, give what they kept.
    instead={"*": _write_a_copy},
    refuses={"jax": None, "checkpoint of oplib jit": None}
    | dict.fromkeys(["op by op", "backward", "compiled backward", "reentrant", "program"], ON_TAPE)
    | dict.fromkeys(["oplib vmap", "tape in jax jit"], ON_TAPE),
)
def mutation_that_nothing_allows(t, square):
    return _write_a_saved_value(t, square)


@contextmanager
def _anomaly_mode():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with detect_anomaly():
            yield


@row(around=_anomaly_mode)
def anomaly_mode_around(t, square):
    return square(t) * t


@row()
def anomaly_mode_inside(t, square):
    with _anomaly_mode():
        return square(t) * t


def _autocast():
    return oplib.autocast("cpu", dtype=oplib.bfloat16)


def _read_casts(t, square):
    product = oplib.ones(1, 2) @ oplib.ones(2, 1)
    factor = 2 if product.dtype == oplib.bfloat16 else 3
    return square(t) * factor * (5 if oplib.is_autocast_enabled("cpu") else 7)


@row(around=_autocast)
def autocast_around(t, square):
    return _read_casts(t, square)


@row()
def autocast_inside(t, square):
    with _autocast():
        y = _read_casts(t, square)
    return y + _read_casts(t, square)


@row(around=_autocast)
def autocast_off_inside(t, square):
    with oplib.autocast("cpu", enabled=False):
        return _read_casts(t, square)


@row()
def autocast_of_a_product(t, square):
    with _autocast():
        y = t.reshape(1, 2) @ oplib.ones(2, 2)
    return square(t) * y.float().detach().round().reshape(2)


@contextmanager
def _half():
    before = oplib.get_default_dtype()
    oplib.set_default_dtype(oplib.float16)
    try:
        yield
    finally:
        oplib.set_default_dtype(before)


def _read_dtype(t, square):
    return square(t) * (2 if oplib.ones(2).dtype == oplib.float16 else 3)


@row(around=_half)
def default_dtype_around(t, square):
    return _read_dtype(t, square)


@row()
def default_dtype_inside(t, square):
    with _half():
        y = _read_dtype(t, square)
    return y + _read_dtype(t, square)


@row(around=lambda: jax.default_device(jax.devices()[0]))
def default_device_around(t, square):
    return square(t) * oplib.ones(2)


@row()
def default_device_inside(t, square):
    with jax.default_device(jax.devices()[0]):
        return square(t) * Tensor.from_array(jax.numpy.ones(2))


@row()
def a_block_left_by_an_exception(t, square):
    try:
        with oplib.no_grad():
            raise LookupError
    except LookupError:
        y = square(t)
    return y * t
