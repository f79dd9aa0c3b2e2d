"""The library works inside a compiled function: ops, hooks, checkpoints, optimizers."""

import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
import oplib.nn.functional as F
from oplib.autograd import Function
from oplib.autograd.graph import (
    save_on_cpu,
    saved_tensors_hooks,
)
from oplib.errors import DeviceError, TracingError
from oplib.nn.utils import clip_grad_norm_
from oplib.utils.checkpoint import checkpoint

pytestmark = pytest.mark.spec("J.5")

CALLS = 3
ROUNDING = {"mixed precision": 1e-2}  # XLA rounds to bfloat16 less often inside one program


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 5


class World:
    """Parameters, buffers, and ops of each kind of kernel."""

    def __init__(self):
        self.weight = oplib.tensor([[0.5, -1.0], [2.0, 0.25]], requires_grad=True)
        self.bias = oplib.tensor([0.1, -0.2], requires_grad=True)
        self.mean, self.variance = oplib.zeros(2), oplib.ones(2)
        self.trace = oplib.zeros(2)

    @property
    def parameters(self):
        return [self.weight, self.bias]

    @property
    def state(self):
        return [*self.parameters, self.mean, self.variance, self.trace]


@pytest.fixture
def ops(forget_ops):
    """Registers an op of each kind of kernel, and one that writes."""

    def save(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    def multiply(ctx, grad):
        return grad * 3 * ctx.saved_tensors[0] ** 2

    @oplib.custom_op("inside::compiled")
    def compiled(x: jax.Array) -> jax.Array:
        return x**3

    @oplib.custom_op("inside::host")
    def host(x: np.ndarray) -> np.ndarray:
        return x**3

    @oplib.custom_op("inside::eager")
    def eager(x: oplib.Tensor) -> oplib.Tensor:
        return x**3

    host.register_fake(lambda x: x)
    for op in (compiled, host, eager):
        op.register_autograd(multiply, setup_context=save)

    @oplib.custom_op("inside::move_", mutates_args=("p",), donates=("p",))
    def move(p: jax.Array, g: jax.Array) -> jax.Array:
        return p - 0.1 * g

    @oplib.custom_op("inside::move_on_host_", mutates_args=("p",))
    def move_on_host(p: np.ndarray, g: np.ndarray) -> None:
        p -= np.float32(0.1) * g

    move_on_host.register_fake(lambda p, g: None)
    return {"compiled": compiled, "host": host, "eager": eager, "move": move, "move on host": move_on_host}


def finish(world, result):
    loss = (result * result).sum()
    loss.backward()
    return loss.detach()


def descend(world):
    with oplib.no_grad():
        for parameter in world.parameters:
            parameter.sub_(parameter.grad, alpha=0.05)
            parameter.grad = None


def use_op(kind):
    def run(world, ops, x):
        loss = finish(world, ops[kind](x @ world.weight) + world.bias)
        descend(world)
        return loss

    return run


def use_mutable_op(kind):
    def run(world, ops, x):
        loss = finish(world, x @ world.weight + world.bias)
        with oplib.no_grad():
            ops[kind](world.trace, world.bias.grad)
        descend(world)
        return loss

    return run


def use_function(world, ops, x):
    loss = finish(world, Double.apply(x @ world.weight) + world.bias)
    descend(world)
    return loss


def use_tensor_hooks(world, ops, x):
    hidden = x @ world.weight
    hidden.register_hook(lambda grad: grad * 2)
    hidden.retain_grad()
    result = hidden.tanh() + world.bias
    result.grad_fn.register_prehook(lambda grads: tuple(grad * 0.5 for grad in grads))
    result.grad_fn.register_hook(lambda results, grads: None)
    finish(world, result)
    return hidden.grad, world.weight.grad.clone()


def use_checkpoint(reentrant):
    def run(world, ops, x):
        def block(h):
            return (F.dropout(h @ world.weight, 0.5) + world.bias).tanh()

        h = (x * 1).requires_grad_()
        loss = finish(world, checkpoint(block, h, use_reentrant=reentrant))
        descend(world)
        return loss

    return run


def use_saved_tensor_hooks(world, ops, x):
    with saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        result = (x @ world.weight).tanh() * world.bias
    loss = finish(world, result)
    descend(world)
    return loss


def use_dropout(world, ops, x):
    loss = finish(world, F.dropout(x @ world.weight, 0.5) + oplib.rand(2) * world.bias)
    descend(world)
    return loss


def use_batch_norm(world, ops, x):
    result = F.batch_norm(x @ world.weight, world.mean, world.variance, bias=world.bias, training=True)
    loss = finish(world, result.tanh())
    descend(world)
    return loss


def use_clipping(world, ops, x):
    loss = finish(world, x @ world.weight + world.bias)
    norm = clip_grad_norm_(world.parameters, 0.5)
    descend(world)
    return loss, norm


def use_micro_batches(world, ops, x):
    def add(total, rows):
        loss = ((rows @ world.weight + world.bias) ** 2).sum()
        grads = oplib.autograd.grad(loss, world.parameters)
        return [one + grad for one, grad in zip(total, grads, strict=True)], loss.detach()

    start = [oplib.zeros_like(parameter) for parameter in world.parameters]
    grads, losses = oplib.scan(add, start, x.reshape(2, 2, 2))
    for parameter, grad in zip(world.parameters, grads, strict=True):
        parameter.grad = grad
    descend(world)
    return losses


def use_micro_batches_in_python(world, ops, x):
    losses = [finish(world, rows @ world.weight + world.bias) for rows in x.reshape(2, 2, 2)]
    descend(world)
    return losses


def use_mixed_precision(world, ops, x):
    weight, scale = world.weight.to(oplib.bfloat16), 8.0
    loss = ((x.to(oplib.bfloat16) @ weight).to(oplib.float32) + world.bias).square().mean()
    (loss * scale).backward()
    with oplib.no_grad():
        for parameter in world.parameters:
            parameter.grad.div_(scale)
    descend(world)
    return loss.detach()


USES = {
    **{f"op of kind {kind}": use_op(kind) for kind in ("compiled", "host", "eager")},
    "mutable op": use_mutable_op("move"),
    "mutable op on the host": use_mutable_op("move on host"),
    "function": use_function,
    "tensor hooks": use_tensor_hooks,
    "checkpoint": use_checkpoint(reentrant=False),
    "reentrant checkpoint": use_checkpoint(reentrant=True),
    "saved tensor hooks": use_saved_tensor_hooks,
    "dropout": use_dropout,
    "batch norm": use_batch_norm,
    "clipping": use_clipping,
    "micro-batches by scan": use_micro_batches,
    "micro-batches in python": use_micro_batches_in_python,
    "mixed precision": use_mixed_precision,
}


def run(use, ops, *, compiled):
    world, found = World(), []
    oplib.manual_seed(3)

    def call(x):
        return use(world, ops, x)

    step = oplib.jit(call) if compiled else call
    for number in range(CALLS):
        x = oplib.Tensor.from_array(jnp.linspace(-1, 1 + number, 8).reshape(4, 2))
        leaves = oplib.pytree.tree_flatten(step(x))[0]
        tensors = [*leaves, *world.state]
        found.append(([one.detach().numpy().copy() for one in tensors], [one._version for one in tensors]))
    return found, oplib.get_rng_state()[2]


@pytest.mark.parametrize("name", USES)
def test_it_does_inside_what_it_does_outside(name, ops):
    plain, count = run(USES[name], ops, compiled=False)
    compiled, drawn = run(USES[name], ops, compiled=True)
    assert drawn == count
    for (theirs, expected), (mine, versions) in zip(plain, compiled, strict=True):
        assert versions == expected
        for one, right in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(one, right, rtol=ROUNDING.get(name, 2e-5), atol=1e-6)


def test_saved_tensors_may_not_leave_the_device_inside():
    weight = oplib.ones(2, requires_grad=True)

    def step(x):
        with save_on_cpu():
            loss = (x * weight * weight).sum()
        loss.backward()

    try:
        oplib.jit(step)(oplib.ones(2))
    except TracingError:
        assert weight.grad is None
    else:
        assert weight.grad.tolist() == [2, 2]


@pytest.mark.devices(2)
def test_a_tensor_on_another_device_is_refused_by_name():
    first, second = jax.devices()[:2]
    here, there = (oplib.Tensor.from_array(jax.device_put(jnp.ones(2), one)) for one in (first, second))
    with pytest.raises(DeviceError, match=r"Tensors on different devices. Got here on .*, and there on"):
        oplib.jit(lambda: here + there)()


@pytest.mark.spec("J.14")
def test_the_device_of_a_tensor_is_known_inside():
    weight, seen = oplib.ones(2), []

    @oplib.jit
    def move(x):
        seen.extend([weight.device, x.device, (x * weight).device])
        return x.to(weight.device) + oplib.zeros(2, device=x.device)

    assert move(oplib.ones(2)).tolist() == [1, 1]
    assert seen == [weight.device] * 3


@pytest.mark.spec("J.14")
@pytest.mark.devices(2)
def test_the_device_inside_is_abstract_where_operands_are_on_several():
    weight = oplib.Tensor.from_array(jax.device_put(jax.numpy.ones(2), jax.devices()[1]))
    other, seen = oplib.ones(2).to("cpu:0"), []
    step = oplib.jit(lambda: (seen.append((weight.device.type, other.shape)), weight * 2)[1])
    assert step().tolist() == [2, 2]
    assert seen == [("abstract", (2,))]


rate = 2.0


def make_ops():
    """Returns functions of Tensors whose op reads ``rate`` in one part of its code."""

    def define(name, kernel=lambda x: x * 2):
        kernel.__annotations__ = {"x": oplib.Tensor, "return": oplib.Tensor}
        return oplib.custom_op(f"global_numbers::{name}", kernel, mutates_args=())

    def grad(op):
        def run(x):
            w = x.detach().requires_grad_()
            return oplib.autograd.grad(op(w).sum(), [w])[0]

        return run

    def save(ctx, inputs, output):
        ctx.rate = rate

    kernel, formula, setup, tangent, batch, outer = (
        define("kernel", lambda x: x * rate),
        *map(define, ("formula", "setup", "tangent", "batch")),
        define("outer", lambda x: kernel(x) + rate),
    )
    kernel.register_autograd(lambda ctx, grad: grad * rate)
    outer.register_autograd(lambda ctx, grad: kernel(grad))
    formula.register_autograd(lambda ctx, grad: grad * rate)
    setup.register_autograd(lambda ctx, grad: grad * ctx.rate, setup_context=save)
    tangent.register_jvp(lambda primals, tangents: (primals[0] * 2, tangents[0] * rate))
    batch.register_vmap(lambda info, dims, x: (x * rate, dims[0]))
    by_part = {"kernel": kernel, "an op that calls another": outer}
    by_part["vmap"] = lambda x: oplib.vmap(batch)(x[None])[0]
    for name, op in {"formula": formula, "setup_context": setup, "jvp": tangent, "both": outer}.items():
        by_part[f"gradient by {name}"] = grad(op)
    return by_part


@pytest.mark.slow
@pytest.mark.spec("J.21")
@pytest.mark.usefixtures("forget_ops")
def test_code_on_tensors_reads_global_numbers_in_each_trace(monkeypatch):
    forms = {
        "program": oplib.jit,
        "vmap": oplib.vmap,
        "scan": lambda f: lambda x: oplib.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
        "vmap in a program": lambda f: oplib.jit(oplib.vmap(f)),
    }
    by_part = make_ops()
    wrapped = {(part, form): wrap(run) for part, run in by_part.items() for form, wrap in forms.items()}
    for number in (2.0, 3.0):
        monkeypatch.setattr(sys.modules[__name__], "rate", number)
        for (part, form), run in wrapped.items():
            right = by_part[part](oplib.ones(2)).tolist()
            assert (part, form, run(oplib.ones(2)).tolist()) == (part, form, right)


@pytest.mark.usefixtures("forget_ops")
def test_a_kernel_on_tensors_reads_a_global_number_in_each_trace(monkeypatch):
    kernel = make_ops()["kernel"]
    step = oplib.jit(lambda x: kernel(x) + 1)
    for number in (2.0, 3.0, 2.0):
        monkeypatch.setattr(sys.modules[__name__], "rate", number)
        assert (step(oplib.ones(1)).item(), oplib.vmap(kernel)(oplib.ones(1)).item()) == (number + 1, number)


@pytest.mark.spec("J.21")
@pytest.mark.usefixtures("forget_ops")
@pytest.mark.filterwarnings("ignore:numbers_by_name.*Overriding")
def test_an_op_that_is_found_by_its_name_is_noticed_as_its_function_is(monkeypatch):
    library = oplib.library.Library("numbers_by_name", "DEF")
    library.define("scale(Tensor x) -> Tensor")
    library.impl("scale", lambda x: x * rate + shift)
    oplib.custom_op("numbers_by_name::other", make_ops()["kernel"])
    shift = oplib.zeros(1, requires_grad=True)
    ops, packet, names = oplib.ops, oplib.ops.numbers_by_name.scale, ["numbers_by_name", "scale"]
    holder, table = SimpleNamespace(op=packet), {"scale": packet.default}
    forms = [
        lambda x: oplib.ops.numbers_by_name.scale(x),
        lambda x: ops.numbers_by_name.scale.default(x),
        lambda x: getattr(oplib.ops.numbers_by_name, "scale")(x),  # noqa: B009
        lambda x: getattr(getattr(oplib.ops, names[0]), names[1])(x),
        lambda x: holder.op(x),
        lambda x: table["scale"](x),
        lambda x: oplib.ops.numbers_by_name.other(x) + shift,
        packet,
        packet.default,
    ]
    steps = list(map(oplib.jit, forms))
    for number in (2.0, 3.0):
        monkeypatch.setattr(sys.modules[__name__], "rate", number)
        for form, step in zip(forms, steps, strict=True):
            step(oplib.ones(1)).backward()
            found = step(oplib.ones(1)).item(), shift.grad.item(), step.compilations
            shift.grad = None
            assert found == (form(oplib.ones(1)).item(), 1.0, number - 1)
    del steps[6]  # of the other op
    library.impl("scale", lambda x: x * 7)
    assert [step(oplib.ones(1)).item() for step in steps] == [7.0] * len(steps)
