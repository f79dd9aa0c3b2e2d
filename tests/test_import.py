"""What importing oplib leaves alone."""

import os
import subprocess
import sys

import pytest


def run_python(code: str, **variables: str) -> str:
    """Returns what the code prints in an interpreter of its own."""
    command, environment = [sys.executable, "-c", code], {**os.environ, **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Once a backend runs, JAX refuses to change the number of its devices.
COUNT_DEVICES = """
import jax, {module}
{first}
jax.config.update("jax_num_cpu_devices", 3)
print(jax.device_count())
"""


@pytest.fixture
def without_forced_devices(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")


@pytest.mark.slow
@pytest.mark.usefixtures("without_forced_devices")
def test_importing_oplib_starts_no_backend():
    assert run_python(COUNT_DEVICES.format(module="oplib", first="")) == "3"


@pytest.mark.slow
@pytest.mark.usefixtures("without_forced_devices")
def test_a_started_backend_would_be_noticed():
    with pytest.raises(AssertionError, match="jax_num_cpu_devices"):
        run_python(COUNT_DEVICES.format(module="jax.numpy", first="jax.numpy.zeros(1)"))


COMPARE_SETTINGS = """
import jax, warnings
before, filters = dict(jax.config.values), list(warnings.filters)
import oplib
assert dict(jax.config.values) == before
assert list(warnings.filters) == filters
print("unchanged")
"""


def test_importing_oplib_changes_no_setting_of_jax():
    assert run_python(COMPARE_SETTINGS) == "unchanged"


def test_importing_oplib_needs_none_of_the_extras_and_reaches_its_packages():
    absent = "'torch', 'matplotlib', 'sklearn', 'tqdm', 'hypothesis', 'pytest', 'jaxtyping'"
    read = "oplib.optim, oplib.testing.assert_close, oplib.visual"
    code = f"import sys, oplib; {read}; print([name for name in ({absent}) if name in sys.modules])"
    assert run_python(code) == "[]"


COLLECTS = """
import gc
{first}
import oplib
print(gc.isenabled())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("first", "after"), [("", "True"), ("gc.disable()", "False")], ids=["on", "off"])
def test_importing_oplib_leaves_the_search_for_garbage_as_it_was(first, after):
    assert run_python(COLLECTS.format(first=first)) == after
