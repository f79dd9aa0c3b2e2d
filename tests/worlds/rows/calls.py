"""Rows: what the rules of a Function or op say of its arguments, results and gradients."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

import oplib
from oplib.autograd import Function
from oplib.autograd.function import once_differentiable
from tests.worlds.kinds import Rules
from tests.worlds.row import WHILE_TRACED, journal, read_events, row

# As in torch: forward mode of the tape takes the jvp of a Function, and derives none. Ops derive it.
NO_JVP = {
    "dual level & operators": "its Function has no jvp",
    "dual level & Function on Tensors": "its Function has no jvp",
}


class Marked(Rules):
    """Its second result is marked as not differentiable."""

    results = 2

    @staticmethod
    def forward(x):
        return x * 2, x * 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        return grad * 2


@row(rules=Marked, refuses=NO_JVP)
def result_marked_as_not_differentiable(t, op):
    doubled, marked = op(t * t)
    return doubled + marked * t


@row(rules=Marked, refuses=NO_JVP)
def result_marked_and_not_used(t, op):
    return op(t * t)[0] * t


class MarkedWithJvp(Function):
    generate_vmap_rule = True
    forward, setup_context, backward = Marked.forward, Marked.setup_context, Marked.backward

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 2, None


@row
def marked_result_of_a_Function_with_a_jvp(t, square):
    doubled, marked = MarkedWithJvp.apply(square(t))
    return doubled + marked * t


class Product(Rules):
    arguments = ("x", "w")

    @staticmethod
    def forward(x, w):
        return x * w


class TwoArguments(Product):
    """Scales each gradient by what needs_input_grad says of the other."""

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        by_x, by_w = ctx.needs_input_grad
        return grad * w * (1 + by_w) if by_x else None, grad * x * (1 + by_x) if by_w else None


@row(rules=TwoArguments, refuses=NO_JVP)
def needs_input_grad_of_both(t, op):
    return op(t * t, t * 3)


@row(rules=TwoArguments, refuses=NO_JVP)
def needs_input_grad_of_one(t, op):
    return op(t * t, oplib.ones(2) * 3) * t


@row(rules=TwoArguments, refuses=NO_JVP)
def needs_input_grad_of_a_detached_argument(t, op):
    return op((t * t).detach(), t * 3) * t


class NoneGradient(Product):
    """Has no gradient for its second argument."""

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[1], None


@row(rules=NoneGradient, refuses=NO_JVP)
def gradient_that_is_None(t, op):
    return op(t * t, t * 3)


class Unmaterialised(Rules):
    """Gets None for the gradient of a result that is not used."""

    results = 2

    @staticmethod
    def forward(x):
        return x * x, x * 3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, first, second):
        (x,) = ctx.saved_tensors
        total = None if first is None else first * 2 * x
        if second is None:
            return total
        return second * 3 if total is None else total + second * 3


@row(rules=Unmaterialised, refuses=NO_JVP)
def gradients_that_are_not_materialised(t, op):
    return op(t * t)[0] * t


@row(rules=Unmaterialised, refuses=NO_JVP)
def gradients_of_which_one_is_not_materialised(t, op):
    first, second = op(t * t)
    return first.detach() * t + second


class Once(Rules):
    """Its backward cannot be differentiated."""

    backward = staticmethod(once_differentiable(Rules.backward))


# On the tape grad() with respect to chosen tensors does not reach the refusal, as in torch.
TWICE = dict.fromkeys(
    [
        "op by op & of arrays",
        "jax hessian",
        "grad of grad",
        "grad of lax scan",
        "grad of oplib scan",
        "records nothing & derived",
    ],
    "differentiate twice a function that was marked",
)


@row(rules=Once, refuses=NO_JVP | TWICE)
def once_differentiable_rule(t, op):
    return op(t) * t


class Kept(Rules):
    """Keeps a value that is neither an input nor an output."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0] * 2)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


# D.51: for a Function on the tape it is a constant; for JAX, and for an op, it has its part.
@row(
    rules=Kept,
    refuses=NO_JVP,
    instead=dict.fromkeys(["jax", "records nothing", "an op", "of arrays"], lambda t, _: t * t * t),
)
def kept_intermediate(t, op):
    return op(t) * t


class Attribute(Rules):
    """Keeps a number as an attribute."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.factor = 2.0

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor * ctx.saved_tensors[0]


@row(rules=Attribute, refuses=NO_JVP)
def attribute_of_ctx(t, op):
    return op(t) * t


class AsksItsArgument(Function):
    """Asks in its forward whether its argument requires grad (D.49)."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.needs = inputs[0].requires_grad
        if ctx.needs:
            ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 * ctx.saved_tensors[0] if ctx.needs else None


@row(refuses=NO_JVP)
def requires_grad_read_in_a_Function(t, square):
    return AsksItsArgument.apply(square(t))


class DirtyScale(Function):
    """Doubles its argument in place."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@row(refuses=NO_JVP)
def dirty_result(t, square):
    y = square(t) * 1
    z = DirtyScale.apply(y)
    return z * y * (2 if z is y else 3)


@row(refuses=NO_JVP)
def dirty_view(t, square):
    y = square(t) * 1
    DirtyScale.apply(y[:1])
    return y * t


class Refuses(Rules):
    """Raises for two dimensions."""

    @staticmethod
    def forward(x):
        if x.ndim > 1:
            raise LookupError("two dimensions")
        return x * x


# In a program the host raises when the program runs.
HOST = dict.fromkeys(["on the host & program", "on the host & jax"], "two dimensions")


@row(rules=Refuses, refuses=NO_JVP | HOST, after=read_events, effects=WHILE_TRACED)
def exception_of_a_kernel_caught(t, op):
    try:
        y = op(t.reshape(1, 2))
    except LookupError as error:
        journal.append(str(error.args[0])[:14])
        y = op(t)
    return y * t


@row
def exception_of_an_op_caught(t, square):
    try:
        y = square(t) + oplib.ones(3)
    except RuntimeError:
        y = square(t) * 2
    return y


@contextmanager
def _recorded():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    journal.extend(str(one.message) for one in caught if str(one.message).startswith("of the"))


@row(around=_recorded, after=read_events, effects=WHILE_TRACED)
def warning(t, square):
    warnings.warn("of the code", UserWarning, stacklevel=1)
    return square(t) * t
