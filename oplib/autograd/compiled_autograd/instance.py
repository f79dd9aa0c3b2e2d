"""The capture of one program, under torch's names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from oplib.autograd.array_functions.array_function import shape_of
from oplib.autograd.engine.run import Run
from oplib.config import config
from oplib.tensor import Tensor

from .capture import Skeleton
from .compilers import check_compiler, compile_segment
from .host_calls import BackwardState, unboxed
from .loggers import log, verbose_log
from .program import BackwardProgram
from .program_cache import programs
from .script import Script
from .segment import SegmentCompiler
from .state import Compiler, counters, thread_state
from .steps import HostStep, Value, Values, arguments_of

CompiledFunction = Callable[[list[Any], Sequence[int], Sequence[Any]], list[Any]]


def snapshot_cudagraph_enabled() -> bool:
    """Returns whether numbers on the host are staged on the accelerator. The name is torch's."""
    return config.stage_host_scalars


def maybe_clone(x: Tensor | None) -> Tensor | None:
    """Returns a new Tensor of the same values, without history; None for None."""
    return None if x is None else x.detach().clone()


class AutogradCompilerInstance:
    """Captures one program.

    Attributes:
        compiler_fn: compiles the function of a segment.
        stack: the contexts of the capture; ``close`` leaves them.
        hooks_proxy: a list of the indices of hooks that the program calls; None before ``begin_capture``.
    """

    def __init__(self, compiler_fn: Compiler) -> None:
        check_compiler(compiler_fn)
        self.compiler_fn = compiler_fn
        self.stack = contextlib.ExitStack()
        self.close = self.stack.close
        self.hooks_proxy: list[int] | None = None
        self._script = Script(())
        self._proxies: dict[Any, Any] = {}
        self._skeleton: Skeleton | None = None
        self._idle: Sequence[int] = ()
        self._arrays: Sequence[Any] = ()

    def wrap_fake(self, x: Any, source: tuple[str, int]) -> Value:
        """Returns a value with the shape and dtype of a tensor.

        Args:
            x: a Tensor or array.
            source: where it comes from, see :meth:`source`.
        """
        assert isinstance(x, (Tensor, jax.Array)), f"{source}: expected a tensor, got {type(x).__name__}"
        return self._script.make_value(shape_of(unboxed(x)))

    @staticmethod
    def source(name: str, idx: int) -> tuple[str, int]:
        """Returns the origin of a value: item ``idx`` of the local ``name``."""
        return name, idx

    def begin_capture(self, inputs: Sequence[Any], sizes: Sequence[int]) -> tuple[list[Value], list[int]]:
        """Starts the capture.

        Args:
            inputs: root gradients and operands.
            sizes: numbers, which are static.

        Returns:
            A value for each input, and the sizes.
        """
        counters["compiled_autograd"]["captures"] += 1
        self._script = Script(())
        self.hooks_proxy = []
        self._arrays = [unboxed(one) for one in inputs]
        values = [self._script.make_value(shape_of(array)) for array in self._arrays]
        self.bind_tensors_to_proxies(values, values)
        return values, list(sizes)

    def capture_graph(self, run: Run, skeleton: Skeleton) -> list[Any]:
        """Records all steps of a graph, and returns the captured gradients.

        Args:
            run: the run, which gets the node at which an error occurs.
            skeleton: the stand-ins of the graph.
        """
        try:
            recorder = skeleton.record_all(self._script)
        except BaseException:
            run.node = skeleton.node  # the error names it
            raise
        self._skeleton, self._idle = skeleton, recorder.idle
        return recorder.captured

    def proxy_call_backward(
        self,
        inputs: Values,
        output_metadatas: Sequence[Any],
        saved_tensors: Values,
        backward_idx: int,
    ) -> tuple[Value | None, ...]:
        """Records a call of the backward of a Function. It runs when the program runs.

        Args:
            inputs: the gradients of its outputs.
            output_metadatas: for each result ``(layout, device, dtype, size)``, or None.
            saved_tensors: the saved values.
            backward_idx: the index of the node among the hooks.

        Returns:
            A value for each result.
        """
        outputs = [
            None if one is None else self._script.make_value(jax.ShapeDtypeStruct(tuple(one[3]), one[2]))
            for one in output_metadatas
        ]
        arguments = tuple(self.to_proxy(list(saved_tensors))), tuple(self.to_proxy(list(inputs)))
        self._record("call_backward", backward_idx, arguments, outputs)
        return tuple(outputs)

    def proxy_call_hook(self, hook: int, *args: Any) -> Value | None:
        """Records a call of a hook, by its index, and returns what stands for its result."""
        outputs = self._script.make_alike(args[:1])
        self._record("call_hook", hook, (tuple(self.to_proxy(list(args))),), outputs)
        return outputs[0]

    def tensor_pre_hook(self, inputs: list[Any], hook_id: int, i: int) -> list[Any]:
        """Records a hook on one gradient, which it may replace."""
        inputs[i] = self.proxy_call_hook(hook_id, inputs[i])
        return inputs

    def pre_hook(self, inputs: Sequence[Any], hook_id: int) -> list[Any]:
        """Records a hook before a node, which may replace all gradients."""
        return self._record_all(hook_id, tuple(inputs))

    def post_hook(self, outputs: Sequence[Any], inputs: Sequence[Any], hook_id: int) -> list[Any]:
        """Records a hook after a node, which may replace its results."""
        return self._record_all(hook_id, tuple(outputs), tuple(inputs))

    def post_acc_grad_hook(self, input: Any, hook_id: int) -> list[Any]:  # noqa: A002  torch's name
        """Records a hook on a leaf, after its accumulation."""
        assert isinstance(input, (Value, Tensor)), f"expected a tensor, got {type(input).__name__}"
        outputs = self._script.make_alike([self.to_proxy(input)])
        self._record("call_post_acc", hook_id, ((self.to_proxy(input),),), outputs)
        return outputs

    def _record_all(self, hook_id: int, *arguments: Values) -> list[Value | None]:
        outputs = self._script.make_alike(arguments[0])
        self._record("call_hooks", hook_id, arguments, outputs)
        return outputs

    def _record(self, kind: str, index: int, arguments: tuple[Values, ...], outputs: Values) -> None:
        assert self.hooks_proxy is not None, "begin_capture was not called"
        self.hooks_proxy.append(index)
        self._script.emit(HostStep(kind, index, self._script.label, arguments, outputs))

    def move_graph_nodes_to_cuda(self, graph: BackwardProgram) -> list[int]:
        """Returns the inputs that are numbers on the host and are read by segments only.

        They are moved if another input is on an accelerator. The name is torch's.
        """
        on_host = [_platform(array) == "cpu" for array in self._arrays]
        if all(on_host):
            return []
        host_steps = [item[1] for item in graph.items if isinstance(item, tuple)]
        read = {value.number for step in host_steps for value in arguments_of(step)}
        return [
            number
            for number, (array, is_on_host) in enumerate(zip(self._arrays, on_host, strict=True))
            if is_on_host and array.ndim == 0 and number not in read
        ]

    def end_capture(self, outputs: Sequence[Any]) -> tuple[Callable[..., list[Any]], BackwardProgram]:
        """Compiles what was captured.

        Args:
            outputs: the values that the program returns.

        Returns:
            A function ``(compiled_fn, inputs, sizes, hooks)`` that runs the program, and the program.

        Raises:
            AutogradError: the compiler returned no callable, or one with other results.
        """
        self.close()
        self.reorder_accumulate_grad_nodes()
        compiler = SegmentCompiler(partial(compile_segment, self.compiler_fn), programs.take_number)
        program = BackwardProgram(
            self._script, self.to_proxy(list(outputs)), compiler, self._skeleton, self._idle
        )
        staged = self.move_graph_nodes_to_cuda(program) if snapshot_cudagraph_enabled() else []
        for function in program.functions:
            log.info("%s", function)
            verbose_log.debug(
                "%s on %s", function.__name__, sorted({_platform(array) for array in self._arrays})
            )
        self._arrays = ()

        def runtime_wrapper(
            compiled_fn: CompiledFunction, inputs: list[Any], sizes: Sequence[int], hooks: Sequence[Any]
        ) -> list[Any]:
            state = thread_state
            before = state.in_region, state.is_suspended
            try:
                state.in_region = state.is_suspended = True
                for number in staged:
                    inputs[number] = jax.device_put(inputs[number])
                return compiled_fn(inputs, sizes, hooks)
            finally:
                state.in_region, state.is_suspended = before

        return runtime_wrapper, program

    def reorder_accumulate_grad_nodes(self) -> None:
        """Moves each accumulation right behind the step that makes its gradient, as the eager run has it."""
        if self._skeleton is None:  # the engine has ordered the steps of a graph
            self._script.move_accumulations()

    def to_proxy(self, t: Any) -> Any:
        """Returns what stands for a value in the program; of a list or tuple for each item.

        None and numbers stand for themselves.
        """
        if t is None or isinstance(t, (Value, int)):
            return t
        if isinstance(t, (list, tuple)):
            return type(t)(map(self.to_proxy, t))
        assert isinstance(t, Tensor), f"expected a tensor, got {type(t).__name__}"
        assert t in self._proxies, "the tensor is not bound to a value of the program"
        return self._proxies[t]

    def bind_tensors_to_proxies(self, tensors: Sequence[Any], proxies: Any) -> None:
        """Notes what stands for tensors in the program.

        Args:
            tensors: the tensors.
            proxies: one for each of them, or a single one whose items stand for them.
        """
        if isinstance(proxies, Value):
            proxies = [proxies] * len(tensors)
        assert len(tensors) == len(proxies), f"{len(tensors)} tensors and {len(proxies)} proxies"
        self._proxies.update(zip(tensors, proxies, strict=True))

    def bind_backward_state(self, index: int) -> BackwardState:
        """Returns a new, empty ``BackwardState``, which item ``index`` of the hooks stands for."""
        assert self.hooks_proxy is not None, "begin_capture was not called"
        self.hooks_proxy.append(index)
        return BackwardState()

    def set_node_origin(self, node_name: str, node_index: int) -> None:
        """Labels the steps that are recorded next with a node and the number of its call."""
        self._script.label = f"{node_name} (NodeCall {node_index})"


def _platform(array: Any) -> str:
    return next(iter(array.devices())).platform if isinstance(array, jax.Array) else "cpu"
