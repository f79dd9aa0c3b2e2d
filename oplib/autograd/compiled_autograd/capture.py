"""The capture of calls of hooks and backwards by hand, under torch's names. The engine does not use it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import shape_of
from oplib.errors import AutogradError
from oplib.protocols import AnyFunction
from oplib.tracebacks import warn_user

from .compilers import check_compiler
from .state import Compiler, counters, runtime_wrapper
from .values import Value, Values


class BackwardState(SimpleNamespace):
    """Attributes that a compiled forward sets for its backward."""


class FakeBackwardCFunction:
    """The ctx of a backward in :func:`call_backward`: the real one, with other saved tensors."""

    def __init__(self, real: Any, saved_tensors: Sequence[Any]) -> None:
        self.real = real
        self.saved_tensors = tuple(saved_tensors)

    def __getattr__(self, name: str) -> Any:
        if name == "saved_variables":
            warn_user("ctx.saved_variables is deprecated. Read ctx.saved_tensors.", DeprecationWarning)
            return self.saved_tensors
        return getattr(self.real, name)


def call_hook(hook: AnyFunction, *args: Any, hook_type: str | None = None) -> Any:
    """Calls a hook, and returns its result, or the first argument if it returned None.

    Raises:
        AutogradError: a hook of the type ``"post_acc_grad_hook"`` returned a value.
    """
    result = hook(*args)
    if result is None:
        return args[0]
    if hook_type == "post_acc_grad_hook":
        raise AutogradError(
            f"call_hook: tensor post accumulate grad hooks should return None. Got {type(result).__name__}. "
            "Write into tensor.grad, or assign it."
        )
    return result


def call_backward(node: Any, saved_tensors: Sequence[Any], *grads: Any) -> tuple[Any, ...]:
    """Calls the backward of the node of a Function, and returns the results as a tuple."""
    results = node._get_user_fn()(FakeBackwardCFunction(node, saved_tensors), *grads)
    return results if isinstance(results, tuple) else (results,)


class FakeCompiledAutogradEngine:
    """Callbacks at the end of a program."""

    @staticmethod
    def queue_callback(final_callbacks: list[Callable[[], object]], cb: Callable[[], object]) -> None:
        """Adds a callback to a list."""
        final_callbacks.append(cb)

    @staticmethod
    def exec_final_callbacks(final_callbacks: list[Callable[[], object]]) -> None:
        """Calls all callbacks in order, those that are added meanwhile too, and empties the list."""
        for callback in final_callbacks:
            callback()
        final_callbacks.clear()

    @staticmethod
    def _exec_final_callbacks_stub() -> None:
        """Marks the place of the callbacks. The run of the engine calls them."""


class AutogradCompilerInstance:
    """Captures calls of hooks and backwards, whose order and arguments are known, as a function of tensors.

    Attributes:
        compiler_fn: the compiler.
        stack: the contexts of the capture; ``close`` leaves them.
        hooks_proxy: a list of the indices of hooks that the function calls; None before ``begin_capture``.
    """

    def __init__(self, compiler_fn: Compiler) -> None:
        check_compiler(compiler_fn)
        self.compiler_fn = compiler_fn
        self.stack = contextlib.ExitStack()
        self.close = self.stack.close
        self.hooks_proxy: list[int] | None = None
        self._inputs: list[Value] = []
        self._origin = "CompiledAutograd"
        self._calls: list[Callable[[dict[Value | None, Any], Sequence[Any]], None]] = []

    def begin_capture(self, inputs: Sequence[Any], sizes: Sequence[int]) -> tuple[list[Value], list[int]]:
        """Starts the capture. Returns a value for each input, and the sizes, which are static."""
        counters["compiled_autograd"]["captures"] += 1
        self.hooks_proxy = []
        self._inputs = [Value(number, shape_of(value.array)) for number, value in enumerate(inputs)]
        return list(self._inputs), list(sizes)

    def tensor_pre_hook(self, inputs: list[Any], hook_id: int, i: int) -> list[Any]:
        """Records a hook on one gradient, which it may replace."""
        (inputs[i],) = self._record(hook_id, (inputs[i],), is_alone=True)
        return inputs

    def pre_hook(self, inputs: Sequence[Any], hook_id: int) -> list[Any]:
        """Records a hook before a node, which may replace all gradients."""
        return self._record(hook_id, inputs)

    def post_hook(self, outputs: Sequence[Any], inputs: Sequence[Any], hook_id: int) -> list[Any]:
        """Records a hook after a node, which may replace its results."""
        return self._record(hook_id, outputs, inputs)

    def post_acc_grad_hook(self, input: Any, hook_id: int) -> list[Any]:  # noqa: A002  torch's name
        """Records a hook on a leaf, after its accumulation."""
        assert isinstance(input, Value), f"expected a tensor, got {type(input).__name__}"
        return self._record(hook_id, (input,), is_alone=True, hook_type="post_acc_grad_hook")

    def bind_backward_state(self, index: int) -> BackwardState:
        """Returns a new, empty ``BackwardState``, which item ``index`` of the hooks stands for."""
        assert self.hooks_proxy is not None, "begin_capture was not called"
        self.hooks_proxy.append(index)
        return BackwardState()

    def reorder_accumulate_grad_nodes(self) -> None:
        """Does nothing: the engine's flow has each accumulation right behind its gradient."""

    def end_capture(
        self, outputs: Sequence[Value | None]
    ) -> tuple[Callable[..., list[Any]], Callable[..., list[Any]]]:
        """Ends the capture of a function that returns the outputs.

        Returns:
            A function ``(compiled_fn, inputs, sizes, hooks)`` that calls the captured function inside the
            region of compiled autograd, and what the compiler returned for the captured function. The hooks
            are Python objects, which ``jax.jit`` takes as a static argument.
        """
        self.close()
        starts, calls, wanted = self._inputs, tuple(self._calls), list(outputs)

        def compiled_fn(inputs: list[Any], sizes: Sequence[int], hooks: Sequence[Any]) -> list[Any]:  # noqa: ARG001
            values: dict[Value | None, Any] = {None: None, **dict(zip(starts, inputs, strict=True))}
            for call in calls:
                call(values, hooks)
            return [values[value] for value in wanted]

        return runtime_wrapper, self.compiler_fn(compiled_fn)

    def proxy_call_backward(
        self,
        inputs: Sequence[Any],
        output_metadatas: Sequence[Any],
        saved_tensors: Sequence[Any],
        backward_idx: int,
    ) -> tuple[Value | None, ...]:
        """Records the backward of a Function, whose node is among the hooks.

        Args:
            inputs: the values of its gradients.
            output_metadatas: for each result layout, device, dtype and size; or None.
            saved_tensors: the values that its ctx shows as saved.
            backward_idx: the index of the node.

        Returns:
            A value for each result that is described.
        """
        specs = [None if one is None else jax.ShapeDtypeStruct(one[3], one[2]) for one in output_metadatas]
        results = [None if spec is None else Value(0, spec) for spec in specs]
        return tuple(
            self._add_call(
                backward_idx,
                [saved_tensors, inputs],
                results,
                lambda node, saved, grads: call_backward(node, saved, *grads),
            )
        )

    def set_node_origin(self, node_name: str, node_index: int) -> None:
        """Names the node whose calls are recorded next. Their operations have it as ``jax.named_scope``."""
        self._origin = f"{node_name} (NodeCall {node_index})"

    def _record(
        self, index: int, *arguments: Values, is_alone: bool = False, hook_type: str | None = None
    ) -> list[Value | None]:
        """Records a call of a hook, and returns a value for each of its results.

        A hook of one gradient gets and returns it alone.
        """

        def run(hook: Any, *gradients: Any) -> Any:
            result = call_hook(hook, *(gradients[0] if is_alone else gradients), hook_type=hook_type)
            return (result,) if is_alone else result

        results = [None if value is None else Value(value.number, value.aval) for value in arguments[0]]
        return self._add_call(index, arguments, results, run)

    def _add_call(
        self, index: int, arguments: Sequence[Values], results: list[Value | None], run: AnyFunction
    ) -> list[Value | None]:
        """Records a call of ``run`` with the hook of an index, and the values of the arguments."""
        assert self.hooks_proxy is not None, "begin_capture was not called"
        self.hooks_proxy.append(index)
        read, origin = list(map(tuple, arguments)), self._origin

        def call(values: dict[Value | None, Any], hooks: Sequence[Any]) -> None:
            with jax.named_scope(origin):
                found = run(hooks[index], *[tuple([values[value] for value in inputs]) for inputs in read])
            values.update(zip(results, found, strict=True))
            values[None] = None

        self._calls.append(call)
        return results
