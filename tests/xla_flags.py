"""The settings of XLA for the tests: the number of devices, and quick compilation."""

from __future__ import annotations

from importlib.metadata import version

# Eight devices in one process cost a call nothing that can be measured.
DEVICES = ("--xla_force_host_platform_device_count=8",)

# Compiling is most of what the tests take, and nobody reads its machine code: LLVM is to make it quickly.
# The optimised programs, which tests do read, are the same.
QUICK_MACHINE_CODE = (
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",
)

# A third of the time again, without MLIR. It fuses less, in programs that tests compare with each other.
# Later versions have no other way and refuse the flag: there the tests see the fusions of every day.
WITHOUT_MLIR = ("--xla_cpu_use_fusion_emitters=false",) if version("jaxlib").startswith("0.10.") else ()


def add_flags(given: str) -> str:
    """Returns XLA's flags for the tests; what the environment gives comes last, and the last holds."""
    return " ".join([*DEVICES, *QUICK_MACHINE_CODE, *WITHOUT_MLIR, given])
