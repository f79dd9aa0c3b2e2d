"""The program of two processes, which ``test_two_processes`` starts. Arguments: a port and the process.

Each check is a function. They run in their order, in both processes at once, so the last may diverge.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import oplib
from oplib import Tensor
from oplib.errors import DataError, DeviceError

X = np.arange(64, dtype=np.float32).reshape(8, 8) / 8


def place(value: np.ndarray[Any, Any], *spec: Any) -> Tensor:
    """Returns a Tensor of which each process makes its part."""
    sharding = NamedSharding(mesh, P(*spec))
    return Tensor.from_array(jax.make_array_from_callback(value.shape, sharding, value.__getitem__))


def read(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Returns all values of a Tensor that processes share."""
    return np.asarray(jax.device_put(tensor.detach().array, NamedSharding(mesh, P())))


def catch(kind: type[Exception], run: Callable[[], Any], *patterns: str) -> None:
    """Raises unless a call raises an error of a kind, with these patterns in its text."""
    with pytest.raises(kind) as caught:
        run()
    missing = [pattern for pattern in patterns if not re.search(pattern, str(caught.value))]
    assert not missing, (missing, str(caught.value))


class Training:
    """A step, and what must be as before after an error."""

    def __init__(self) -> None:
        self.weight = place(X, "i").requires_grad_()
        self.optimizer = oplib.optim.Optimizer(optax.adam(0.1), {"weight": self.weight})
        self.step = oplib.jit(self.run)

    def run(self, x: Tensor) -> Tensor:
        loss = (x @ self.weight).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def look(self) -> list[Any]:
        return [read(tensor).tolist() for tensor in (self.weight, *self.optimizer.state)]


def check_that_a_write_keeps_the_layout() -> None:
    """Also where the value is in another layout, or on one device."""
    rows = NamedSharding(mesh, P("i"))
    writes = {
        "fill_": (lambda x: x.fill_(2.0), np.full((8, 8), 2)),
        "copy_": (lambda x: x.copy_(place(X.T, None, "i")), X.T),
        "add_": (lambda x: x.add_(place(X, None, "i")), X * 2),
        "[...] =": (lambda x: x.__setitem__(..., 3.0), np.full((8, 8), 3)),
    }
    for name, (write, right) in writes.items():
        tensor = place(X, "i")
        write(tensor)
        assert tensor.sharding.is_equivalent_to(rows, 2), (name, tensor.sharding)
        np.testing.assert_allclose(read(tensor), right)
    tensor = place(X, "i").normal_()
    assert tensor.sharding.is_equivalent_to(rows, 2)


def check_that_a_shared_array_is_not_saved() -> None:
    """The error names the place of the Tensor and where it lies; one that is whole everywhere is saved."""
    file = io.BytesIO()
    tree = {"params": [place(X, "i")]}
    told = (
        r"save: the tree\['params'\]\[0\] is spread over the devices of several processes",
        r"f32\[8,8\] laid out as P\('i',\) over \(i=4\)",
        "by orbax, see the page 'Saving'",
    )
    catch(DataError, lambda: oplib.save(tree, file), *told)
    assert file.getvalue() == b""
    oplib.save({"whole": place(X)}, file)
    file.seek(0)
    np.testing.assert_array_equal(oplib.load(file)["whole"].numpy(), X)


def check_that_a_state_is_restored_on_the_mesh() -> None:
    """The state of an Optimizer on one device cannot take one that no process has whole."""
    training, alone = Training(), oplib.ones(8, 8, requires_grad=True)
    other = oplib.optim.Optimizer(optax.adam(0.1), {"weight": alone})
    state = training.optimizer.state_dict()
    catch(DeviceError, lambda: other.load_state_dict(state), "no process has all of .*mu.*weight")
    assert all(not tensor.numpy().any() for tensor in other.state)
    training.optimizer.load_state_dict(other.state_dict())
    assert training.optimizer.state[1].sharding.is_equivalent_to(training.weight.sharding, 2)


def check_that_processes_with_other_operands_raise() -> None:
    """Both raise before anything is compiled or written, and the same step works after it."""
    training = Training()
    before = training.look()
    x = place(X[: 4 + 4 * jax.process_index()], None)
    told = ("^run: .* compile different programs", f"differs from process {1 - jax.process_index()}")
    catch(DeviceError, lambda: training.step(x), *told)
    assert training.look() == before
    losses = [training.step(place(X)).item() for _ in range(2)]
    assert losses[1] < losses[0]


def check_that_processes_with_other_code_raise() -> None:
    """A branch on the index of the process makes another program of the same operands."""
    x = place(X, "i")
    branch = oplib.jit(lambda x: x.sum() if jax.process_index() else x.sum() * 2)
    catch(DeviceError, lambda: branch(x), "compile different programs")


def check_that_a_program_of_one_process_asks_no_other() -> None:
    """Nothing waits for the process that does not call it."""
    if jax.process_index() == 0:
        assert oplib.jit(lambda x: x * 2)(oplib.ones(2)).tolist() == [2, 2]


def check_that_a_step_that_one_process_calls_ends() -> None:
    """It raises in the time that the setting allows, and changes nothing. The other process is elsewhere."""
    training = Training()
    training.step(place(X))
    before = training.look()
    oplib.config.process_timeout = 1.5
    if jax.process_index() == 1:
        return
    told = (
        "^run: the processes that share the mesh do not all compile this program",
        r"Process 0 compiles it because argument 'x' is f32\[[0-9,]+\], and was f32\[8,8\]",
        r"has waited \d+(\.\d+)? s for process 1",
        "No Tensor has been changed",
    )
    started = time.monotonic()
    catch(DeviceError, lambda: training.step(place(X[:4])), *told)
    assert 1.4 < time.monotonic() - started < 120  # and not the ten minutes of the default
    own = [tensor.array.addressable_shards for tensor in (training.weight, *training.optimizer.state)]
    for parts, right in zip(own, before, strict=True):
        for part in parts:
            np.testing.assert_array_equal(part.data, np.asarray(right, np.float32)[part.index])


if __name__ == "__main__":
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"localhost:{sys.argv[1]}", num_processes=2, process_id=int(sys.argv[2]))
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            check()
            sys.stdout.write(f"{time.process_time():.1f} s after {name}\n")
            sys.stdout.flush()
    if jax.process_index() == 1:
        sys.stdin.read()  # until the other process has ended, which JAX would end together with this one
    os._exit(0)  # the thread that waits for this process would not let the other one end in order
