"""A Tensor that is computed inside from numbers of Python only has a value while the function is traced."""

from types import SimpleNamespace

import pytest

import oplib
import oplib.nn.functional as F
from oplib.errors import ConcreteValueError, TracingError
from oplib.tensor.storage.known import Computation

pytestmark = pytest.mark.spec("J.18")

buffer = oplib.ones(3)
config = SimpleNamespace(rate=2.0)


def read_pairs(x):
    return oplib.ones(3, 3).triu().nonzero()


def read_item(x):
    return x * oplib.tensor(0.5).item()


def read_list(x):
    value, order = (oplib.tensor([3.0, 1.0, 2.0]) + 1).sort()
    return x * value.tolist()[0] + order.tolist()[0]


def choose(x):
    total = oplib.arange(4).float().sum() * 2
    return x if total > 11 else x * 2


def repeat_while(x):
    count = oplib.tensor(0)
    while count < 5:
        count = count + 1
    return x * int(count)


def read_written(x):
    held = oplib.zeros(4)
    held[1:3] = 5
    held.add_(1)
    held[held > 5] = 7.0
    return x * held.tolist()[2]


def read_view(x):
    rows = oplib.arange(6.0).view(2, 3).t()
    return x * rows[1].tolist()[1] + rows.expand(2, 3, 2).sum().item()


def read_recorded(x):
    weight = oplib.tensor(0.5, requires_grad=True)
    return x * (weight * 3).item()


def read_shared(x):
    held = oplib.zeros(2)
    held.data = oplib.ones(2)
    held.detach().mul_(3)
    return x * held.sum().item()


def read_like(x):
    return x * (oplib.ones_like(x) + x.new_tensor([1, 2, 3]) + oplib.full((), oplib.tensor(2))).sum().item()


def read_joined(x):
    first, second = oplib.tensor(1.0), oplib.eye(2)[0]
    joined = oplib.cat([first[None], second]).long()
    return x * oplib.tensor([first, second.sum()]).sum().item() + joined.sum().item()


def use_as_dim(x):
    return x.sum(oplib.tensor(0)) * oplib.arange(oplib.tensor(3) + 1).sum()


def use_as_mask(x):
    return x[oplib.tensor([True, False, True])]


def use_as_counts(x):
    return x.repeat_interleave(oplib.tensor([1, 2, 0])) + x.split(oplib.tensor([1, 2]).tolist())[0]


def use_as_classes(x):
    return F.one_hot(oplib.tensor([0, 2])) * len(oplib.tensor([3, 1, 1]).unique())


def compare(x):
    same = oplib.equal(oplib.ones(2), oplib.ones(2)) and oplib.allclose(oplib.ones(2), oplib.ones(2))
    return x if same else x * 2


def iterate(x):
    return sum(x * float(f"{number:.1f}") for number in oplib.arange(3.0))


def read_numpy(x):
    return x * float(oplib.arange(3).numpy().sum())


def read_in_map(x):
    return oplib.vmap(lambda row: row * oplib.tensor(2.0).item() * oplib.ones(2).nonzero().shape[0])(x)


def read_in_loop(x):
    def body(carry, row):
        held = oplib.zeros(3)
        held[1:] = 2
        leaf = oplib.tensor(1.5, requires_grad=True)
        number = (oplib.tensor(2.0) * 3 + oplib.ones(3)).sum().item() + held.tolist()[1] + (leaf * 2).item()
        return carry + row * number, carry

    return oplib.scan(body, x.sum() * 0, x)[0]


def read_in_autocast(x):
    with oplib.inference_mode(), oplib.autocast("cpu", dtype=oplib.bfloat16):
        number = (oplib.ones(2, 2) @ oplib.ones(2, 2)).sum().item()
    return x * number


def read_in_backward(x):
    class Scale(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * oplib.tensor([2.0, 3.0]).sum().item()

        @staticmethod
        def backward(ctx, grad):
            return grad * (oplib.tensor(7.0) - 2).item()

    x = x.detach().requires_grad_()
    Scale.apply(x).sum().backward()
    return x.grad


def read_setting(x):
    return x * (oplib.tensor(config.rate) + 1).item()


KNOWN = [value for name, value in globals().items() if name.startswith(("read_", "use_"))]
KNOWN += [choose, repeat_while, compare, iterate]


@pytest.mark.parametrize("function", KNOWN, ids=lambda function: function.__name__)
def test_a_tensor_computed_from_numbers_has_a_value(function):
    x = oplib.tensor([1.0, 2.0, 3.0])
    step = oplib.jit(function)
    want = function(x).tolist()
    assert [step(x).tolist(), step(x).tolist()] == [want, want]
    assert step.compilations == 1


def test_a_loop_outside_of_a_compiled_function_has_known_values():
    x = oplib.tensor([1.0, 2.0, 3.0], requires_grad=True)
    read_in_loop(x).backward()
    assert x.grad.tolist() == [26.0] * 3


def ask_for_argument(x):
    return (oplib.ones(3) * x).sum().item()


def ask_for_captured(x):
    return (oplib.ones(3) * buffer).sum().item()


def ask_for_many(x):
    return oplib.ones(4097).sum().item()


def ask_for_draw(x):
    return oplib.rand(3).sum().item()


def ask_for_draw_of_own_generator(x):
    return oplib.rand(3, generator=oplib.Generator().manual_seed(1)).sum().item()


def ask_for_written(x):
    held = oplib.zeros(3)
    held[:1] = x[:1]
    return held[1].item()


def ask_for_assigned(x):
    held = oplib.zeros(3)
    held.data = x * 1
    return held[0].item()


def ask_for_mask(x):
    return x[oplib.ones(3) > x]


def ask_for_gradient(x):
    weight = oplib.ones(3, requires_grad=True)
    (weight * x).sum().backward()
    return weight.grad.tolist()


ASKING = [value for name, value in globals().items() if name.startswith("ask_")]


@pytest.mark.parametrize("function", ASKING, ids=lambda function: function.__name__)
def test_a_tensor_that_depends_on_other_values_has_none(function):
    with pytest.raises((ConcreteValueError, TracingError), match=r"value of a Tensor is needed|is not known"):
        oplib.jit(function)(oplib.ones(3))


def test_a_captured_tensor_of_a_body_has_a_value_in_a_compiled_function_only():
    def branch(x):
        outer = oplib.tensor(2.0) + 1
        return oplib.cond(x.sum() > 0, lambda row: row * (outer + 1).item(), lambda row: row, x)

    assert oplib.jit(branch)(oplib.ones(2)).tolist() == [4, 4]
    with pytest.raises(ConcreteValueError, match="no values yet"):
        branch(oplib.ones(2))  # one program serves all values of what the body captures


def test_a_value_is_computed_when_it_is_asked_for(monkeypatch):
    computed = []
    compute = Computation.compute
    monkeypatch.setattr(
        Computation, "compute", lambda computation: (computed.append(computation), compute(computation))
    )

    @oplib.jit
    def step(x, count):
        held = oplib.ones(3).cumsum(0) * 2
        return x * (held.tolist()[0] + held.tolist()[1]) if count else x * held

    step(oplib.ones(3), 0)
    assert computed == []
    step(oplib.ones(3), 1)
    assert len(computed) == 3


def test_a_long_computation_has_a_value():
    @oplib.jit
    def step(x):
        held = oplib.tensor(0)
        for _ in range(1500):
            held = -held
        return x * (held.item() + 1)

    assert step(oplib.ones(2)).tolist() == [1, 1]


def test_a_value_from_a_setting_is_read_again_when_that_changes(monkeypatch):
    step = oplib.jit(read_setting)
    assert step(oplib.ones(1)).tolist() == [3]
    monkeypatch.setattr(config, "rate", 3.0)
    assert step(oplib.ones(1)).tolist() == [4]
