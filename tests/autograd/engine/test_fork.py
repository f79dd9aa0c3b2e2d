"""The engine, and everything else that computes, in a forked child."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import oplib
from oplib.autograd.engine import fork, run
from oplib.errors import AutogradError
from oplib.modes import modes
from oplib.tensor.devices import forked

SCRIPT = """
import concurrent.futures, os, signal
import oplib, jax, jax.numpy as jnp

def fork(case):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.alarm(100)
    try:
        case()
    except RuntimeError as error:
        os._exit(7 if "'spawn'" in str(error) else 1)
    os._exit(0)

def define_and_call():
    @oplib.custom_op("test_fork::late")
    def late(x: jax.Array) -> jax.Array:
        return x
    late(a)

def train():
    x = oplib.tensor([1.0], requires_grad=True)
    (x * x).backward()
    assert x.grad.item() == 2

assert fork(train) == 0, "JAX had not run"
a = jnp.ones(2)
exp = oplib.ops.oplib.exp
exp(a), exp(a)
x = oplib.tensor([1.0], requires_grad=True)
y = x * x
CASES = {
    "an op": lambda: x * x,
    "an op of a new thread": lambda: concurrent.futures.ThreadPoolExecutor(1).submit(lambda: x * x).result(),
    "a backward": lambda: y.backward(),
    "a factory": lambda: oplib.ones(2),
    "data": lambda: oplib.tensor([1.0]),
    "random numbers": lambda: oplib.rand(2),
    "an op on arrays": lambda: exp(a),
    "an op defined in the child": define_and_call,
}
for name, case in CASES.items():
    assert fork(case) == 7, name
train()  # the parent goes on
"""


@pytest.mark.slow
@pytest.mark.spec("004.2", "004.17", "D.18")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs os.fork, and names of threads")
def test_the_first_call_in_a_child_raises_where_jax_had_run_in_the_parent():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        check=False,
        timeout=400,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.spec("004.17")
def test_the_flag_is_acted_upon_once(monkeypatch):
    monkeypatch.setattr(fork, "must_reset", True)
    fork.check()
    assert not fork.must_reset
    assert modes.state.run is None


@pytest.mark.spec("D.18")
def test_in_an_orphan_every_use_of_the_engine_raises(monkeypatch):
    monkeypatch.setattr(fork, "must_reset", True)
    monkeypatch.setattr(forked, "_is_orphan", True)
    for _ in range(2):
        with pytest.raises(AutogradError, match=r"get_context\('spawn'\)"):
            fork.check()


@pytest.mark.spec("D.18")
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs names of threads")
def test_whether_jax_has_run_is_seen_by_its_threads(monkeypatch):
    monkeypatch.setattr(forked, "_signs", [])
    oplib.ones(1)
    assert forked._has_jax_run()


def test_whether_a_run_was_made_is_told_without_using_an_id_up():
    before = repr(run._ids)
    assert run.has_run() in (True, False)
    assert repr(run._ids) == before


POOL = """
import multiprocessing, oplib

def keep(x):
    return x

def double(x):
    return x * 2

x = oplib.ones(4, 3)
x + 1
generator = oplib.Generator().manual_seed(3)
oplib.rand(2, generator=generator)
with multiprocessing.get_context("fork").Pool(2) as pool:
    for tensor in (x, x[1], x.data):
        (back,) = pool.map_async(keep, [tensor]).get(100)
        assert back.tolist() == tensor.tolist()
        try:
            pool.map_async(double, [tensor] * 3).get(100)
            raise AssertionError("it computed")
        except RuntimeError as error:
            assert "'spawn'" in str(error)
    (back,) = pool.map_async(keep, [generator]).get(100)
    assert oplib.rand(2, generator=back).tolist() == oplib.rand(2, generator=generator).tolist()
"""


@pytest.mark.slow
@pytest.mark.spec("D.18")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs os.fork, and names of threads")
def test_tensors_reach_forked_processes_of_a_pool_and_the_error_of_an_op_reaches_the_parent():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", POOL],
        check=False,
        timeout=400,
        capture_output=True,
        text=True,
        cwd=Path(oplib.__file__).parents[1],
    )
    assert done.returncode == 0, done.stderr


def test_unpickling_in_a_forked_process_computes_nothing(monkeypatch):
    tensor = oplib.tensor([1.0, 2.0], requires_grad=True)
    text = pickle.dumps([tensor, tensor[1:]])
    monkeypatch.setattr(forked, "_is_orphan", True)
    whole, part = pickle.loads(text)
    assert (whole.shape, part.shape, whole.requires_grad, whole.tolist()) == ((2,), (1,), True, [1.0, 2.0])
    assert isinstance(whole._storage.array, np.ndarray)
    assert pickle.dumps(whole)
