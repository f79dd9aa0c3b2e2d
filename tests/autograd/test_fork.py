"""The engine in a forked child."""

import os
import subprocess
import sys

import pytest

from oplib.autograd import fork, run
from oplib.errors import AutogradError

SCRIPT = """
import os
import oplib
from oplib.autograd import fork

if {parent_runs}:
    x = oplib.tensor([1.0], requires_grad=True)
    (x * x).sum().backward()
child = os.fork()
if child:
    assert not fork._must_reset
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    fork.check()
except RuntimeError as error:
    os._exit(7 if "spawn" in str(error) else 1)
os._exit(0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize(("parent_runs", "code"), [(False, 0), (True, 7)])
def test_a_child_starts_afresh_and_raises_where_jax_had_run_in_the_parent(parent_runs, code):
    script = SCRIPT.format(parent_runs=parent_runs)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=False, timeout=60)
    assert done.returncode == code


def test_the_flag_is_acted_upon_once(monkeypatch):
    monkeypatch.setattr(fork, "_must_reset", True)
    monkeypatch.setattr(fork, "_parent_had_run", False)
    monkeypatch.setattr(fork, "reset", lambda: True)
    with pytest.raises(AutogradError, match=r"get_context\('spawn'\)"):
        fork.check()
    assert not fork._must_reset
    assert run.running.run is None
