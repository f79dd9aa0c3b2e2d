"""Settings of the whole process. Assign to them: ``oplib.config.compile_kernels = False``.

Attributes:
    compile_kernels: with False, kernels and rules annotated ``jax.Array`` run as plain Python on every call
        instead of as one cached ``jax.jit``: slow, but every line can be stepped through in a debugger.
"""

compile_kernels: bool = True
