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


# What these modules have on Linux and lack on Windows, where the others do not exist.
AS_ON_WINDOWS = """
import os, signal, sys
import jax, numpy, optree
lacking = {
    os: "chown fchown fork get_blocking geteuid getloadavg getpgid getsid getuid killpg lchown mkfifo nice "
    "O_CLOEXEC posix_ pread pwrite register_at_fork sched_ setsid statvfs sysconf uname wait3 wait4",
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGQUIT SIGTSTP SIGUSR ITIMER alarm getitimer pause "
    "pthread_ setitimer siginterrupt sigpending sigtimedwait sigwait",
}
for module, names in lacking.items():
    for name in dir(module):
        if name.startswith(tuple(names.split())):
            delattr(module, name)
for name in ("resource", "fcntl", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog"):
    sys.modules[name] = None
import oplib
x = oplib.tensor([1.0, 2.0], requires_grad=True)
step = oplib.jit(lambda x: (x * x).sum())
step(x).backward()
big = oplib.ones(2**18).add_(1.0)
oplib.vmap(lambda x: x * 2)(oplib.ones(2))
import oplib.visual, oplib.testing, oplib.optim, oplib.command_line.main
print(x.grad.tolist(), big[0].item())
"""


@pytest.mark.slow
def test_oplib_needs_no_name_that_windows_lacks():
    assert run_python(AS_ON_WINDOWS) == "[2.0, 4.0] 2.0"
