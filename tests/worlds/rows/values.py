"""Rows: what the tape knows of a value."""

from __future__ import annotations

import oplib
from tests.worlds.row import row


def _triple_and_double(t, square):
    return square(t) * 3 + t * 2


def _triple_of_double(t, square):
    y = square(t)
    return y * 5 * y


DUAL = {"dual level": _triple_and_double}  # D.48: tangents pass through no_grad there


@row
def nothing(t, square):
    """Shows that the columns are right."""
    return square(t) * 3 + t * 2


@row
def detach(t, square):
    return (square(t) * 3).detach() + t * 2


@row
def detach_of_an_argument(t, square):
    return t.detach() * t


@row
def oplib_detach(t, square):
    return oplib.detach(square(t) * 3) + t * 2


@row
def detach_in_place(t, square):
    return (square(t) * 3).detach_() + t * 2


@row
def data(t, square):
    return (square(t) * 3).data + t * 2


@row
def detach_of_a_view(t, square):
    y = square(t)
    return y[:1].detach() * t + y[1:].data


@row
def view_of_a_detached_tensor(t, square):
    return (square(t)).detach()[:1] * t


@row
def straight_through(t, square):
    y = square(t)
    return y + (y.round() - y).detach()


@row
def detach_made_of_a_half(t, square):
    return (t.half() * 2).detach().float() * t


@row
def detach_of_integers(t, square):
    return (t * 4).to(oplib.int32).detach() * t


@row
def detach_of_an_item(t, square):
    return (t.sum() * 3).detach() * t


@row(instead=DUAL)
def no_grad(t, square):
    with oplib.no_grad():
        y = square(t) * 3
    return y + t * 2


@row(instead=DUAL)
def no_grad_as_decorator(t, square):
    return oplib.no_grad()(lambda t: square(t) * 3)(t) + t * 2


@row
def inference_mode(t, square):
    with oplib.inference_mode():
        y = square(t) * 3
    return y + t * 2


@row(instead=DUAL)
def set_grad_enabled(t, square):
    with oplib.set_grad_enabled(False):
        y = square(t) * 3
    return y + t * 2


@row(instead=DUAL)
def set_grad_enabled_without_a_block(t, square):
    oplib.set_grad_enabled(False)
    y = square(t) * 3
    oplib.set_grad_enabled(True)
    return y + t * 2


@row
def enable_grad_inside(t, square):
    with oplib.no_grad(), oplib.enable_grad():
        y = square(t) * 3
    return y + t * 2


@row(instead={"dual level": lambda t, _: t[1:] * t})
def view_under_no_grad(t, square):
    with oplib.no_grad():
        view = t[1:]
    return view * t


@row(instead={"dual level": _triple_of_double})
def write_under_no_grad(t, square):
    y = square(t)
    with oplib.no_grad():
        x = y.clone()
        y.mul_(5)
    return y * x


@row
def write_through_detach(t, square):
    y = square(t)
    y.detach().mul_(5)
    return y * t


@row
def write_through_data(t, square):
    y = square(t)
    y.data.mul_(5)
    return y * t


@row
def data_assigned(t, square):
    y = square(t)
    y.data = t.detach() * 7
    return y * y


@row
def write_into_a_detached_tensor(t, square):
    y = square(t)
    x = y.detach()
    x.mul_(t)
    return x + y * 2


@row
def buffer_that_was_detached_first(t, square):
    y = oplib.zeros(2)
    x = y.detach()
    y.add_(square(t))
    return x * t + y


@row
def write_into_the_result_of_an_op(t, square):
    return oplib.ones(2).clone().mul_(square(t))


@row(instead={"dual level": lambda t, _: oplib.stack([t[1] * t[1] * 5, t[1] * t[1]])})
def write_of_a_part_under_no_grad(t, square):
    y = square(t)
    with oplib.no_grad():
        y[0] = t[1] * t[1] * 5
    return y


@row(instead={"dual level": lambda t, _: t * t * t})
def scan_under_no_grad(t, square):
    with oplib.no_grad():
        y, _ = oplib.scan(lambda c, _: (square(c), None), t, None, length=1)
    return y * t


@row(instead={"dual level": lambda t, _: t * t * t})
def vmap_under_no_grad(t, square):
    with oplib.no_grad():
        y = oplib.vmap(square)(t)
    return y * t


@row(refuses={"records nothing": "does not require grad", "reentrant": "does not require grad"})
def gradient_taken_inside(t, square):
    x = t.detach().requires_grad_()
    (gradient,) = oplib.autograd.grad((x * x * x).sum(), x)
    return gradient * t
