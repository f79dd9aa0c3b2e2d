"""The rows of the matrix: what the tape knows of a value or a call. See the docstring of the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import oplib
from oplib import Tensor
from oplib.autograd import Function

Program = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        name: says what the row shows.
        run: the code.
        instead: for columns that a ruling excepts, code with the derivatives that they have.
        may_refuse: the columns that may raise in place of an answer.
        known_defects: the columns that are short, with the defect. Such a cell fails when it becomes right.
    """

    name: str
    run: Program
    instead: Mapping[str, Program] = field(default_factory=dict)
    may_refuse: Sequence[str] = ()
    known_defects: Mapping[str, str] = field(default_factory=dict)


ROWS: list[Row] = []


def row(program: Any = None, **exceptions: Any) -> Any:
    """Adds a row. The keywords are those of :class:`Row`."""
    if program is None:
        return lambda program: row(program, **exceptions)
    ROWS.append(Row(program.__name__.replace("_", " "), program, **exceptions))
    return program


def _triple_and_double(t: Tensor) -> Tensor:
    return t * t * 3 + t * 2


def _triple_of_double(t: Tensor) -> Tensor:
    y = t * t
    return y * 5 * y


DUAL = {"dual level": _triple_and_double}  # D.48: tangents pass through no_grad there


@row
def nothing(t):
    """Shows that the columns are right."""
    return t * t * 3 + t * 2


@row
def detach(t):
    return (t * t * 3).detach() + t * 2


@row
def detach_of_an_argument(t):
    return t.detach() * t


@row
def oplib_detach(t):
    return oplib.detach(t * t * 3) + t * 2


@row
def detach_in_place(t):
    return (t * t * 3).detach_() + t * 2


@row
def data(t):
    return (t * t * 3).data + t * 2


@row
def detach_of_a_view(t):
    y = t * t
    return y[:1].detach() * t + y[1:].data


@row
def view_of_a_detached_tensor(t):
    return (t * t).detach()[:1] * t


@row
def straight_through(t):
    y = t * t
    return y + (y.round() - y).detach()


@row
def detach_made_of_a_half(t):
    return (t.half() * 2).detach().float() * t


@row
def detach_of_integers(t):
    return (t * 4).to(oplib.int32).detach() * t


@row
def detach_of_an_item(t):
    return (t.sum() * 3).detach() * t


@row(instead=DUAL)
def no_grad(t):
    with oplib.no_grad():
        y = t * t * 3
    return y + t * 2


@row(instead=DUAL)
def no_grad_as_decorator(t):
    return oplib.no_grad()(lambda t: t * t * 3)(t) + t * 2


@row
def inference_mode(t):
    with oplib.inference_mode():
        y = t * t * 3
    return y + t * 2


@row(instead=DUAL)
def set_grad_enabled(t):
    with oplib.set_grad_enabled(False):
        y = t * t * 3
    return y + t * 2


@row(instead=DUAL)
def set_grad_enabled_without_a_block(t):
    oplib.set_grad_enabled(False)
    y = t * t * 3
    oplib.set_grad_enabled(True)
    return y + t * 2


@row
def enable_grad_inside(t):
    with oplib.no_grad(), oplib.enable_grad():
        y = t * t * 3
    return y + t * 2


@row(instead={"dual level": lambda t: t[1:] * t})
def view_under_no_grad(t):
    with oplib.no_grad():
        view = t[1:]
    return view * t


@row(instead={"dual level": _triple_of_double})
def write_under_no_grad(t):
    y = t * t
    with oplib.no_grad():
        x = y.clone()
        y.mul_(5)
    return y * x


@row
def write_through_detach(t):
    y = t * t
    y.detach().mul_(5)
    return y * t


@row
def write_through_data(t):
    y = t * t
    y.data.mul_(5)
    return y * t


@row
def data_assigned(t):
    y = t * t
    y.data = t.detach() * 7
    return y * y


@row
def write_into_a_detached_tensor(t):
    y = t * t
    x = y.detach()
    x.mul_(t)
    return x + y * 2


@row
def buffer_that_was_detached_first(t):
    y = oplib.zeros(2)
    x = y.detach()
    y.add_(t * t)
    return x * t + y


@row
def write_into_the_result_of_an_op(t):
    return oplib.ones(2).clone().mul_(t * t)


@row(instead={"dual level": lambda t: oplib.stack([t[1] * t[1] * 5, t[1] * t[1]])})
def write_of_a_part_under_no_grad(t):
    y = t * t
    with oplib.no_grad():
        y[0] = t[1] * t[1] * 5
    return y


class _Marked(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * 2, x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        return grad * 2

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 2, None


_JVP = "the jvp of a Function with a marked result gives too few tangents in the linear primitive"
_SCAN = "JAX raises KeyError in the second derivative of a scan with a Function"


@row(
    known_defects={
        "jax jvp": _JVP,
        "jax linearize": _JVP,
        "grad of lax scan": _SCAN,
        "grad of oplib scan": _SCAN,
    }
)
def result_marked_as_not_differentiable(t):
    doubled, marked = _Marked.apply(t * t)
    return doubled + marked * t


@row(instead={"dual level": lambda t: t * t * t * t})
def scan_under_no_grad(t):
    with oplib.no_grad():
        y, _ = oplib.scan(lambda c, _: (c * t, None), t, None, length=2)
    return y * t


@row(instead={"dual level": lambda t: t * t * t})
def vmap_under_no_grad(t):
    with oplib.no_grad():
        y = oplib.vmap(lambda x: x * x)(t)
    return y * t


@row(may_refuse=["kernel on Tensors", "backward of a Function"])  # they run with recording off
def gradient_taken_inside(t):
    x = t.detach().requires_grad_()
    (gradient,) = oplib.autograd.grad((x * x * x).sum(), x)
    return gradient * t
