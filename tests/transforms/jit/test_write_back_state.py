"""State that a compiled function reads and writes: captured Tensors, gradients, Generators, attributes."""

import dataclasses
import pickle
from collections import OrderedDict
from types import SimpleNamespace

import pytest

import oplib
import oplib.nn.functional as F
from oplib.errors import TracingError

STEPS = 4


@dataclasses.dataclass
class Options:
    level: int


class Layer:
    """A weight and a bias, made from a seed."""

    def __init__(self, seed: int = 0) -> None:
        generator = oplib.Generator().manual_seed(seed)
        self.weight = oplib.randn(3, 2, generator=generator).requires_grad_()
        self.bias = oplib.zeros(2, requires_grad=True)

    def __call__(self, x: oplib.Tensor) -> oplib.Tensor:
        return x @ self.weight + self.bias

    @property
    def parameters(self) -> list[oplib.Tensor]:
        return [self.weight, self.bias]


def make_step(layer: Layer, momenta: list[oplib.Tensor]):
    def step(x, y):
        for parameter in layer.parameters:
            parameter.grad = None
        loss = ((layer(x) - y) ** 2).mean()
        loss.backward()
        with oplib.no_grad():
            for parameter, momentum in zip(layer.parameters, momenta, strict=True):
                momentum.mul_(0.9).add_(parameter.grad)
                parameter.sub_(momentum, alpha=0.1)
        return loss.detach()

    return step


@pytest.mark.spec("J.2", "J.5")
def test_a_training_step_leaves_what_the_uncompiled_one_leaves():
    x, y = oplib.randn(5, 3), oplib.randn(5, 2)
    eager, compiled = Layer(), Layer()
    momenta = [[oplib.zeros_like(one) for one in layer.parameters] for layer in (eager, compiled)]
    plain = make_step(eager, momenta[0])
    step = oplib.jit(make_step(compiled, momenta[1]))
    for _ in range(STEPS):
        assert step(x, y).item() == pytest.approx(plain(x, y).item(), rel=1e-6)
        for mine, theirs in zip(
            [*compiled.parameters, *momenta[1]], [*eager.parameters, *momenta[0]], strict=True
        ):
            assert oplib.allclose(mine.detach(), theirs.detach(), rtol=1e-5)
            assert mine._version == theirs._version
            assert (mine.grad is None) == (theirs.grad is None)
    assert all(
        oplib.allclose(mine.grad, theirs.grad, rtol=1e-5)
        for mine, theirs in zip(compiled.parameters, eager.parameters, strict=True)
    )
    assert step.compilations == 1  # gradients from before are not read


@pytest.mark.spec("J.2")
def test_a_gradient_that_accumulates_stays_the_same_object():
    weight = oplib.ones(2, requires_grad=True)
    step = oplib.jit(lambda x: (x * weight).sum().backward())
    step(oplib.ones(2))
    grad = weight.grad
    step(oplib.ones(2))
    assert weight.grad is grad
    assert grad.tolist() == [2, 2]
    assert grad._version == 1


@pytest.mark.spec("J.2")
def test_assigning_data_counts_for_the_tensor():
    weight = oplib.ones(2, requires_grad=True)

    def double(x):
        weight.data = weight.data * 2 + x

    step = oplib.jit(double)
    step(oplib.ones(2))
    step(oplib.ones(2))
    assert weight.tolist() == [7, 7]
    assert weight.requires_grad
    assert weight._version == 0


@pytest.mark.spec("J.2")
def test_a_write_through_a_view_reaches_its_base():
    base = oplib.zeros(3, 2)
    row = base[1]
    step = oplib.jit(lambda x: (row.add_(x), base * 2)[1])
    for _ in range(2):
        doubled = step(oplib.ones(2))
    assert base.tolist() == [[0, 0], [2, 2], [0, 0]]
    assert row.tolist() == [2, 2]
    assert doubled[1].tolist() == [4, 4]
    assert base._version == row._version == 2


@pytest.mark.spec("J.2", "J.4")
def test_arguments_that_share_memory_have_a_program_of_their_own():
    add = oplib.jit(lambda a, b: (a.add_(1), a + b)[1])
    a, b = oplib.zeros(2), oplib.zeros(2)
    assert add(a, b).tolist() == [1, 1]
    assert add(a, a).tolist() == [4, 4]
    rows = oplib.zeros(2, 2)
    assert add(rows[0], rows[0]).tolist() == [2, 2]
    assert add(rows[0], rows[1]).tolist() == [2, 2]
    assert rows.tolist() == [[2, 2], [0, 0]]


@pytest.mark.spec("J.4")
def test_other_arguments_that_share_memory_have_a_program_of_their_own():
    def add(a, b, c):
        a.add_(1)
        return oplib.stack([a, b, c])

    compiled, tensor = oplib.jit(add), oplib.zeros(2)
    first = compiled(tensor, tensor.detach(), oplib.zeros(2))
    assert first.tolist() == [[1, 1], [1, 1], [0, 0]]
    second = compiled(oplib.zeros(2), tensor, tensor.detach())
    assert second.tolist() == [[1, 1], [1, 1], [1, 1]]
    assert tensor.tolist() == [1, 1]
    assert compiled.compilations == 2


@pytest.mark.spec("J.2")
def test_data_that_is_assigned_after_a_write_through_it_counts_for_the_old_memory():
    def run(compile_function):
        def step():
            target.add_(1)
            target.data = source

        target, source = oplib.zeros(2), oplib.tensor([5.0, 6.0])
        run_step = compile_function(step)
        for _ in range(3):
            run_step()
        return target.tolist(), source.tolist(), target._version, source._version

    assert run(oplib.jit) == run(lambda step: step)


@pytest.mark.spec("J.2")
def test_an_argument_that_is_captured_too_is_one_tensor():
    weight = oplib.ones(2)
    step = oplib.jit(lambda x: (weight.add_(1), x * 2)[1])
    assert step(oplib.ones(2)).tolist() == [2, 2]
    assert step(weight).tolist() == [6, 6]


@pytest.mark.spec("J.3")
def test_dropout_draws_the_numbers_of_the_uncompiled_run():
    def noisy(x):
        return F.dropout(x, 0.5) + oplib.rand(4)

    x, compiled = oplib.ones(4), oplib.jit(noisy)
    with oplib.random.fork_rng():
        oplib.manual_seed(3)
        expected = [noisy(x).tolist() for _ in range(3)]
        state = oplib.get_rng_state()
        oplib.manual_seed(3)
        assert [compiled(x).tolist() for _ in range(3)] == expected
        assert oplib.get_rng_state()[2] == state[2]
    assert compiled.compilations == 1


@pytest.mark.spec("J.3")
def test_a_seed_set_inside_is_set_at_every_call():
    generator = oplib.Generator()

    def draw():
        generator.manual_seed(7)
        return oplib.rand(2, generator=generator)

    step = oplib.jit(draw)
    assert step().tolist() == step().tolist() == draw().tolist()


@pytest.mark.spec("J.3")
def test_an_attribute_that_counts_is_refused_and_left_alone():
    class Optimizer:
        def __init__(self):
            self.moment, self.t = oplib.zeros(2), 0

        def step(self, x):
            self.t += 1
            self.moment.add_(x)

    optimizer = Optimizer()
    with pytest.raises(TracingError, match=r"t was changed from 0 to 1 while .* traced"):
        oplib.jit(optimizer.step)(oplib.ones(2))
    assert optimizer.t == 0
    assert optimizer.moment.tolist() == [0, 0]


@pytest.mark.spec("J.7")
def test_results_keep_their_tree_and_outside_tensors_their_identity():
    weight = oplib.ones(2)
    step = oplib.jit(lambda x: (x, weight, 3, None, {"k": [x * 2]}))
    for _ in range(2):
        x = oplib.ones(2)
        first, second, number, nothing, more = step(x)
        assert first is x
        assert second is weight
        assert (number, nothing) == (3, None)
        assert more["k"][0].tolist() == [2, 2]


@pytest.mark.spec("J.7")
def test_a_dataclass_is_made_anew_and_one_without_tensors_comes_back_as_it_is():
    @dataclasses.dataclass
    class Output:
        logits: oplib.Tensor
        loss: oplib.Tensor | None
        options: object

    options = Options(3)
    weight = oplib.ones(2, requires_grad=True)
    step = oplib.jit(lambda x: (Output(x * weight, None, options), options))
    for number in (1.0, 2.0):
        found, same = step(oplib.full((2,), number))
        assert isinstance(found, Output)
        assert found.logits.tolist() == [number] * 2
        assert found.loss is None
        assert found.options is same is options
        assert oplib.autograd.grad(found.logits.sum(), weight)[0].tolist() == [number] * 2


class ModelOutput(OrderedDict):
    """As in transformers: each value is a field and an item."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            self[field.name] = getattr(self, field.name)


@dataclasses.dataclass
class Classified(ModelOutput):
    logits: object = None
    hidden: object = None


@pytest.mark.spec("J.1", "J.7")
def test_a_dataclass_that_is_a_dictionary_is_argument_and_result():
    weight = oplib.full((2,), 3.0, requires_grad=True)
    classify = oplib.jit(lambda x: Classified(x * weight, (x, [x + 1])))
    double = oplib.jit(lambda out: Classified(out.logits * 2, out["hidden"]))
    for number in (1.0, 2.0):
        first = classify(oplib.full((2,), number))
        out = double(first)
        assert type(out) is Classified
        assert out.logits is out["logits"]
        assert out.logits.tolist() == [6 * number] * 2
        assert out["hidden"][1][0].tolist() == [number + 1] * 2
        assert out.hidden[0] is first.hidden[0]
        assert oplib.autograd.grad(out.logits.sum(), weight)[0].tolist() == [2 * number] * 2
    assert classify.compilations == double.compilations == 1


@pytest.mark.spec("J.7")
def test_a_returned_view_of_an_outside_tensor_is_such_a_view():
    base = oplib.zeros(2, 3)
    row, shared = oplib.jit(lambda: (base[1], base.detach()))()
    row.add_(1)
    assert row._base is base
    assert base.tolist() == shared.tolist() == [[0, 0, 0], [1, 1, 1]]


@pytest.mark.spec("J.9")
def test_an_attribute_that_held_a_tensor_gets_a_new_one_after_each_call():
    class Cell:
        hidden = None

    cell = Cell()
    cell.hidden = oplib.zeros(2)

    def advance(x):
        cell.hidden = cell.hidden * 0.5 + x
        return cell.hidden.sum()

    step = oplib.jit(advance)
    totals = [step(oplib.ones(2)).item() for _ in range(3)]
    assert totals == [2, 3, 3.5]
    assert cell.hidden.tolist() == [1.75, 1.75]
    assert step.compilations == 1


@pytest.mark.spec("J.9")
def test_a_tensor_kept_in_a_list_raises_where_it_is_used():
    kept = []
    oplib.jit(lambda x: kept.append(x * 2))(oplib.ones(2))
    with pytest.raises(TracingError, match="made inside a compiled function is used outside"):
        kept[0] + 1


@pytest.mark.spec("J.8")
def test_an_error_while_tracing_leaves_everything_as_it_was():
    weight = oplib.ones(2, requires_grad=True)

    def fail(x):
        (x * weight).sum().backward()
        with oplib.no_grad():
            weight.add_(oplib.rand(2))
        raise ValueError("mine")

    state = oplib.get_rng_state()
    with pytest.raises(ValueError, match="mine"):
        oplib.jit(fail)(oplib.ones(2))
    assert weight.grad is None
    assert weight.tolist() == [1, 1]
    assert weight._version == 0
    assert oplib.get_rng_state() == state


@pytest.mark.spec("J.8")
def test_a_value_that_is_needed_is_an_error_with_the_line():
    def choose(x):
        if x.sum() > 0:  # this line
            return x
        return -x

    with pytest.raises(TracingError, match=r"choose: .*test_write_back_state.py:\d+: `if x.sum\(\) > 0:"):
        oplib.jit(choose)(oplib.ones(2))


@pytest.mark.spec("J.4")
def test_a_tensor_that_nothing_leads_to_is_refused():
    import itertools

    tensors = itertools.repeat(oplib.ones(2))
    with pytest.raises(TracingError, match="reads a Tensor that nothing leads to"):
        oplib.jit(lambda x: x * next(tensors))(oplib.ones(2))


@pytest.mark.spec("J.2")
def test_a_class_whose_module_is_no_string_stands_in_nobodys_way():
    class Compiled(type):
        @property
        def __module__(cls):
            return None

    class Helper(metaclass=Compiled):
        pass

    helper, weight = Helper(), oplib.ones(2)
    assert oplib.jit(lambda x: (helper, x * weight)[1])(oplib.ones(2)).tolist() == [1, 1]


@pytest.mark.spec("J.7")
def test_a_tensor_that_a_call_has_written_is_pickled_as_any():
    weight = oplib.zeros(2)
    oplib.jit(lambda: (weight.add_(1), None)[1])()
    assert pickle.loads(pickle.dumps(weight)).tolist() == [1, 1]


@pytest.mark.spec("J.4")
def test_a_tensor_of_which_only_the_kind_is_read_is_compared():
    weight = oplib.ones(2, requires_grad=True)
    holder = SimpleNamespace(table=oplib.ones(3))

    def step(x):
        with oplib.no_grad():
            if weight.grad is not None:
                weight.sub_(weight.grad)
        return x * len(holder.table)

    compiled = oplib.jit(step)
    assert compiled(oplib.ones(1)).item() == 3
    weight.grad = oplib.ones(2)
    assert compiled(oplib.ones(1)).item() == 3
    assert weight.tolist() == [0, 0]
    holder.table = oplib.ones(4)
    assert compiled(oplib.ones(1)).item() == 4


@pytest.mark.spec("J.2")
def test_a_gradient_may_be_accumulated_after_data_was_assigned():
    weight = oplib.ones(2, requires_grad=True)

    @oplib.jit
    def step(x):
        weight.data = weight.data * 2
        (weight * weight * x).sum().backward()

    step(oplib.ones(2))
    assert (weight.tolist(), weight.grad.tolist()) == ([2, 2], [4, 4])


@pytest.mark.spec("J.6")
def test_a_leaf_without_a_gradient_gets_none_and_its_hooks_do_not_run():
    weight, other = oplib.ones(2, requires_grad=True), oplib.ones(2, requires_grad=True)
    other.register_hook(lambda grad: grad * 2)
    oplib.jit(lambda x: (x * weight + other.detach(), other * 1)[0])(oplib.ones(2)).sum().backward()
    assert weight.grad.tolist() == [1, 1]
    assert other.grad is None


@pytest.mark.spec("J.7")
def test_a_result_has_the_version_of_the_uncompiled_run():
    result = oplib.jit(lambda x: x.clone().add_(1).mul_(2))(oplib.ones(2))
    assert (result.tolist(), result._version) == ([4, 4], 2)


@pytest.mark.spec("J.2")
def test_writes_before_and_after_data_was_assigned_are_counted():
    def step(weight):
        with oplib.no_grad():
            weight.mul_(2)
            weight.data = weight.detach() + 1
            weight.mul_(2)

    plain, held = oplib.ones(2, requires_grad=True), oplib.ones(2, requires_grad=True)
    compiled = oplib.jit(lambda: step(held))
    for _ in range(3):
        step(plain)
        compiled()
        assert (held.tolist(), held._version) == (plain.tolist(), plain._version)


@pytest.mark.spec("J.7")
@pytest.mark.parametrize("order", [1, -1])
def test_a_returned_view_of_a_returned_tensor_is_such_a_view(order):
    weight = oplib.ones(2, requires_grad=True)

    def make(x):
        rows = x * weight
        return (rows, rows[1])[::order]

    rows, row = oplib.jit(make)(oplib.full((3, 2), 2.0))[::order]
    assert row._base is rows
    row.mul_(3)
    assert rows.tolist() == [[2, 2], [6, 6], [2, 2]]
    rows.sum().backward()
    assert weight.grad.tolist() == [10, 10]


@pytest.mark.spec("J.4")
@pytest.mark.parametrize("alias", [lambda leaf: leaf.detach(), lambda leaf: leaf[:]])
def test_a_captured_tensor_that_shares_no_memory_any_more_is_noticed(alias):
    def make():
        leaf = oplib.ones(2)
        return SimpleNamespace(leaf=leaf, kept=alias(leaf))

    def write(holder):
        holder.leaf.sub_(1)
        holder.kept.mul_(2)

    mine, theirs = make(), make()
    step = oplib.jit(lambda: write(mine))
    for turn in range(4):
        if turn == 2:
            mine.kept, theirs.kept = oplib.ones(2), oplib.ones(2)
        step()
        write(theirs)
        assert mine.leaf.tolist() == theirs.leaf.tolist()
        assert mine.kept.tolist() == theirs.kept.tolist()
        assert (mine.leaf._version, mine.kept._version) == (theirs.leaf._version, theirs.kept._version)
    assert step.compilations == 2


@pytest.mark.spec("J.7")
@pytest.mark.parametrize("compile_", [lambda function: function, oplib.jit])
def test_a_kept_view_shares_memory_with_a_returned_tensor(compile_):
    world = SimpleNamespace(weight=oplib.ones(2, 3), row=oplib.zeros(3))

    def run():
        product = world.weight * 2
        world.row = product[0].detach()
        return product.detach()

    result = compile_(run)()
    result.add_(1)
    assert (world.row.tolist(), world.row._version) == ([3, 3, 3], 1)


@pytest.mark.spec("J.7")
def test_a_returned_view_of_a_no_grad_block_is_refused_as_in_the_plain_run():
    weight = oplib.ones(2, 2, requires_grad=True)

    def take():
        with oplib.no_grad():
            return weight[0]

    for run in (take, oplib.jit(take)):
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
            run().mul_(2)


def test_a_write_through_data_leaves_a_view_of_a_no_grad_block_its_history_as_in_the_plain_run():
    def run(compile_):
        weight = oplib.ones(2, 2, requires_grad=True)
        with oplib.no_grad():
            view = weight[0]
        compile_(lambda: weight.data.mul_(2))()
        return view.requires_grad, view.is_leaf, view.tolist(), weight._version, view._version

    assert run(oplib.jit) == run(lambda function: function) == (True, True, [2, 2], 0, 0)


def test_a_write_into_assigned_data_makes_a_view_of_a_no_grad_block_stale_as_in_the_plain_run():
    def run(compile_):
        weight = oplib.ones(2, 2, requires_grad=True)
        weight.data = oplib.full((2, 2), 3.0)
        with oplib.no_grad():
            view = weight[0]

        def step():
            with oplib.no_grad():
                weight.mul_(2)

        compile_(step)()
        with pytest.raises(oplib.errors.AutogradError, match="created in no_grad mode"):
            _ = view.grad_fn
        return view.tolist(), weight._version, view._version

    assert run(oplib.jit) == run(lambda function: function) == ([6, 6], 1, 1)


@pytest.mark.spec("J.4", "J.7")
def test_a_returned_object_that_was_replaced_is_the_new_one():
    holder = SimpleNamespace(mark=object(), weight=oplib.ones(2))
    step = oplib.jit(lambda: (holder.mark, holder.weight * 2))
    for compilations in (1, 2):
        for _ in range(2):
            mark, result = step()
            assert mark is holder.mark
            assert result.tolist() == [2, 2]
        assert step.compilations == compilations
        holder.mark = object()
