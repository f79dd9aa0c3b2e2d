"""Scripts whose errors ``test_tracebacks.py`` reads. Run as a program, it prints each as a script would.

The output is JSON: by the setting of ``oplib.config.traceback`` and the script, the text that Python prints.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import oplib
from oplib.generated_code import register_source

# An error in the arguments of a call: the user's line, one line of oplib, and the message.
ARGUMENTS = {
    "shapes": "oplib.mul(oplib.ones(2), oplib.ones(3))",
    "operator": "oplib.ones(2) * oplib.ones(3)",
    "dim": "oplib.ones(2).sum(dim=5)",
    "axis": "oplib.ones(2).std(axis=7)",
    "gradient": "(leaf * leaf).backward(oplib.ones(3))",
    "grad": "oplib.autograd.grad(leaf * leaf, leaf, oplib.ones(3))",
    "option": "oplib.nn.functional.gelu(oplib.ones(2), approximate='exact')",
    "keyword": "oplib.ones(2).sum(dims=0)",
    "data": "oplib.tensor([[1, 2], [3]])",
    "index": "oplib.ones(2)[5]",
    "view": "oplib.ones(2, 3).view(7)",
    "reshape": "oplib.ones(2, 3).reshape(7)",
    "expand": "oplib.ones(2, 3).expand(7)",
    "permute": "oplib.ones(2, 3).permute(0, 5)",
    "manual seed": "oplib.manual_seed('a')",
    "finfo": "oplib.finfo(3)",
    "default dtype": "oplib.set_default_dtype(3)",
    "scan": "oplib.scan(1, oplib.ones(2), oplib.ones(2))",
    "cond": "oplib.cond(True, 1, 2)",
    "while loop": "oplib.while_loop(1, 2, oplib.ones(2))",
    "vmap": "oplib.vmap(oplib.sin)(3)",
    "jit": "oplib.jit(3)",
    "subscript": "oplib.ones(2)['a']",
    "device": "oplib.ones(2).to('bogus')",
    "out": "oplib.mul(leaf, leaf, out=3)",
    "list": "oplib.std([1.0, 2.0])",
    "type": "oplib.ops.tracebacks.double('a')",
    "overload": "oplib.ops.oplib.add.Tensor(oplib.ones(2), oplib.ones(3))",
    "equation": "oplib.einsum('ij,k', oplib.ones(2), oplib.ones(2))",
    "join": "oplib.cat([oplib.ones(2, 2), oplib.ones(3, 3)], 1)",
    "number of a factory": "oplib.arange('x')",
    "shape of a factory": "oplib.zeros('x')",
    "value of a factory": "oplib.zeros_like(3)",
    "random factory": "oplib.randint(3, 'x')",
    "factory method": "leaf.new_zeros('x')",
    "random fill": "oplib.ones(2).normal_(0, -1)",
    "in place": "oplib.ones(2).cumsum_(5)",
    "turned in place": "oplib.ones(2).transpose_(0, 5)",
    "twice": "y = leaf.exp().sum(); y.backward(); y.backward()",
}
# An error in a registration: as in a call.
REGISTRATIONS = {
    "name": "oplib.custom_op('tracebacks', fail)",
    "annotations": "oplib.custom_op('tracebacks::bare', lambda x: x, mutates_args=())",
    "annotations of a decorated": "oplib.custom_op('tracebacks::bare', mutates_args=())(lambda x: x)",
    "schema": "oplib.library.define('tracebacks::new', '(Tenso x) -> Tensor')",
    "schema of a library": "oplib.library.Library('tracebacks', 'FRAGMENT').define('new(Tenso x) -> Tensor')",
    "parsed schema": "oplib.library.parse_schema('new(Tenso x) -> Tensor')",
    "kind of a library": "oplib.library.Library('tracebacks', 'BOTH')",
    "impl": "oplib.library.impl('tracebacks::double', 'abacus', fail)",
    "impl of a library": "oplib.library.Library('tracebacks', 'IMPL').impl('double', 3)",
    "device": "oplib.library.register_kernel('tracebacks::double', 'abacus', fail)",
    "fake": "oplib.library.register_fake('tracebacks::no_op', fail)",
    "fake of another form": "double.register_fake(lambda: 0)",
    "formula": "double.register_autograd(3)",
    "formula of a decorated": "double.register_autograd(setup_context=3)(fail)",
    "jvp": "double.register_jvp(3)",
    "vmap": "double.register_vmap(3)",
    "sharding": "double.register_sharding(3)",
    "inferred schema": "oplib.library.infer_schema(lambda x: x, mutates_args=())",
    "handle": "oplib.library.get_kernel('tracebacks::double', 'abacus')",
}
# An error in the user's code, in a function `fail`: it ends there.
USERS = {
    "kernel": "oplib.ops.tracebacks.kernel(oplib.ones(2))",
    "kernel on an array": "oplib.ops.tracebacks.kernel(jax.numpy.ones(2))",
    "kernel in jit": "jax.jit(oplib.ops.tracebacks.kernel)(jax.numpy.ones(2))",
    "value of a tracer": "oplib.ops.tracebacks.branch(oplib.ones(2))",
    "eager kernel": "oplib.ops.tracebacks.eager(oplib.ones(2))",
    "host kernel": "oplib.ops.tracebacks.host(oplib.ones(2))",
    "formula": "oplib.ops.tracebacks.double(leaf).sum().backward()",
    "formula in jax.grad": "jax.grad(lambda x: oplib.ops.tracebacks.double(x).sum())(jax.numpy.ones(2))",
    "forward": "Forward.apply(leaf)",
    "backward": "Backward.apply(leaf).sum().backward()",
    "hook": "y = leaf * 2; y.register_hook(fail); y.sum().backward()",
    "hook before a node": "y = leaf * 2; y.grad_fn.register_prehook(fail); y.sum().backward()",
    "hook after accumulation": "leaf.register_post_accumulate_grad_hook(fail); leaf.sum().backward()",
    "saved hook": "with oplib.autograd.graph.saved_tensors_hooks(fail, fail): leaf * leaf",
    "mapped function": "oplib.vmap(fail)(oplib.ones(2, 2))",
    "checkpoint": "checkpoint(fail, leaf, use_reentrant=False)",
    "checkpoint again": "checkpoint(lambda x: Backward.apply(x), leaf, use_reentrant=False).sum().backward()",
    "jacobian": "oplib.autograd.functional.jacobian(fail, leaf)",
}
PRELUDE = """
import jax, numpy, oplib
from oplib.utils.checkpoint import checkpoint

def fail(*args): raise KeyError("of the user")

def register(name, kind, kernel):
    def run(x): return kernel(x)
    run.__annotations__ = {"x": kind, "return": kind}
    return oplib.custom_op(f"tracebacks::{name}", run, mutates_args=())

register("kernel", jax.Array, fail)
register("eager", oplib.Tensor, fail)
register("host", numpy.ndarray, fail).register_fake(lambda x: x)
register("branch", jax.Array, lambda x: fail() if x.sum() > 0 else x)
double = register("double", jax.Array, lambda x: x * 2)
double.register_autograd(fail)

class Forward(oplib.autograd.Function):
    @staticmethod
    def forward(ctx, x): return fail(x)

class Backward(oplib.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, grad): return fail(grad)
"""


def run(name: str, script: str, names: dict[str, Any]) -> str:
    """Returns what Python prints for the error of a script."""
    file = f"/scripts/{name}.py"
    register_source(script, file)
    names["leaf"] = oplib.ones(2, requires_grad=True)
    try:
        exec(compile(script, file, "exec"), names)
    except Exception as error:  # noqa: BLE001  any error of a script is printed
        error.__traceback__ = error.__traceback__.tb_next
        return "".join(traceback.format_exception(error))
    return "no error"


def main() -> None:
    """Runs all scripts in both settings."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(PRELUDE, "/scripts/prelude.py", "exec"), names)
    texts: dict[str, dict[str, str]] = {}
    for setting in ("short", "full"):
        oplib.config.traceback = setting
        groups = {"call": ARGUMENTS, "registration": REGISTRATIONS, "user": USERS}
        texts[setting] = {
            f"{group}/{name}": run(name, script, names)
            for group, scripts in groups.items()
            for name, script in scripts.items()
        }
    json.dump(texts, sys.stdout)


if __name__ == "__main__":
    main()
