"""The node of a user's Function. The node is also its ``ctx``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import get_ident
from time import sleep
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import jax

from oplib.autograd.array_functions.array_function import ArrayFunction, Mask
from oplib.autograd.array_functions.masks import map_given, spread
from oplib.autograd.engine.validation import check_count
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.creation import tell_creation
from oplib.autograd.nodes.error import Error
from oplib.autograd.nodes.node import Gradients, SavedArray, SavedState, TapeNode
from oplib.autograd.recording.origins import number_node
from oplib.autograd.saved_tensors.saved_tensor import SavedTensor, link, second_pass_error
from oplib.errors import AutogradError, MissingAttributeError, SavedTensorError
from oplib.hooks import require_parameters
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor import Storage, Tensor, box, upcalls
from oplib.tracebacks import warn_user

from .context import FunctionCtx, find_unpacking
from .traceable import describe_backward, trace_backward
from .trees import NO_SPECS, Specs, flatten_gradients, unflatten_values

if TYPE_CHECKING:
    from oplib.autograd.nodes.backward_run import BackwardRun


_new: Any = object.__new__
_NONE = type(None)
_GRADIENTS = {Tensor, _NONE}


class BackwardCFunction(TapeNode, FunctionCtx):
    """Base of the node classes made for user Functions: ``<Name>Backward``.

    Attributes:
        needs_input_grad: whether each argument needs a gradient. For a container of tensors it is the same
            container with a flag for each leaf.
    """

    runs_without_gradients = True
    follows_jax = True  # in a trace of JAX its rule is the user's backward

    _forward_cls: ClassVar[Any]  # the user's subclass of Function, whose module imports this one

    needs_input_grad: Values = ()
    _saved: tuple[SavedTensor | None, ...] | None = ()
    _are_shown: bool = False  # somebody may hold the saved values themselves
    _saved_for_jvp: tuple[Tensor | None, ...] | None = None  # while jvp runs
    _argument_count: int = 1
    _argument_specs: Specs = NO_SPECS
    _tensor_flags: Sequence[bool] = ()  # whether each flat argument is a tensor, and so has an edge
    _output_count: int = 1
    _output_specs: Specs = NO_SPECS
    _keeps_constants: bool = False  # it saved what forward computed, which the tape has not recorded
    _runner: int | None = None  # the thread that runs its backward
    _has_warned: ClassVar[bool] = False  # of that

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The arguments of ``save_for_backward``, with history; in jvp, those of ``save_for_forward``.

        Raises:
            SavedTensorError: a value is freed, or has been written in place. In jvp: only
                ``save_for_backward`` was called.
        """
        if self._saved_for_jvp is not None:
            if not self._saved_for_jvp and self.to_save:
                raise SavedTensorError(
                    f"{self._forward_cls.__name__}: its jvp reads saved_tensors, which holds what "
                    f"save_for_forward got. Got nothing; save_for_backward got {len(self.to_save)}. Call "
                    "ctx.save_for_forward as well, where save_for_backward is called."
                )
            return self._saved_for_jvp
        if self._saved is None:
            raise second_pass_error(self.name())
        return tuple([None if saved is None else saved.unpack(self) for saved in self._saved])

    @saved_tensors.setter
    def saved_tensors(self, value: object) -> NoReturn:  # noqa: ARG002  it is refused
        raise MissingAttributeError(
            f"{self.name()}: ctx.saved_tensors was set. Tensors that are saved are checked for changes. Call "
            "ctx.save_for_backward(x, y)."
        )

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """The old name of ``saved_tensors``. Reading it warns.

        Raises:
            SavedTensorError: a value is freed, or has been written in place.
        """
        warn_user(f"{self.name()}: 'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor | None, ...]:
        """The saved values, each of which accepts hooks. Freed ones raise SavedTensorError."""
        if self._saved is None:
            raise second_pass_error(self.name())
        self._are_shown = True
        return self._saved

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:
        """Calls the user's backward with Tensors, and returns one gradient for each tensor argument."""
        boxing = run.representation
        if _NONE in map(type, grads):
            grads = boxing.fill(grads, self.input_metadata) if self.materialize_grads else grads
            boxed: Sequence[Any] = map_given(boxing.box, grads)
        else:
            boxed = list(map(boxing.box, grads))
        if self.output_grad_dtypes is not None:
            boxed = cast_gradients(boxed, self.output_grad_dtypes)
        if self._output_specs:
            boxed = unflatten_values(boxed, self._output_count, self._output_specs)
        function, state, me = self._forward_cls, modes.state, get_ident()
        # most Functions have no vjp; the call for the others would cost a frame
        backward = function.backward if function.vjp is function._root.vjp else self._get_user_fn()
        if self._keeps_constants and run.create_graph and not self._has_warned:
            self._warn_of_constants(backward)
        # Threads that run a node at once would share the user's state on ctx. A lock would cost more. No
        # other thread runs between the test and the assignment, see Storage.exchange.
        while (runner := self._runner) is not None and runner != me:
            sleep(0.001)
        self._runner = me
        try:
            results = backward(self, *boxed)
        except TypeError:
            self._check_backward(len(boxed))
            raise
        except (ValueError, IndexError) as error:
            if self._saved == () and (kind := find_unpacking(error)):
                raise kind(
                    f"{self.name()}: ctx.saved_tensors is empty in backward. Nothing was saved. Call "
                    "ctx.save_for_backward in forward, or in setup_context."
                ) from error
            raise
        finally:
            self._runner = runner
            state.grad_enabled = run.create_graph
        flat = self._flat_results(results)
        return (
            flat if boxing.tensor_mode else [None if grad is None else grad._storage.array for grad in flat]
        )

    def read_operands(self, operands: list[Any]) -> Any:  # noqa: D102  described in TapeNode
        is_traced = self._forward_cls.is_traceable and self._saved is not None
        return describe_backward(self, operands) if is_traced else None

    def find_function(self, present: Mask) -> ArrayFunction:  # noqa: D102  described in TapeNode
        return trace_backward(self, present)

    def read_saved(self) -> SavedState:  # noqa: D102  described in TapeNode
        if self._saved is None:
            return SavedState(None, is_freed=True)
        tensors = [saved.unpack(self) for saved in self._saved if saved is not None]
        values = [(tensor._storage, gradient_edge(tensor)) for tensor in tensors]
        return SavedState(None, [SavedArray(kept.array, kept, kept.version, edge) for kept, edge in values])

    def with_arrays(self, arrays: Sequence[Any]) -> BackwardCFunction:  # noqa: D102  described in TapeNode
        twin, rest = _new(type(self)), iter([SavedTensor.of_value(array, Storage(array)) for array in arrays])
        vars(twin).update(vars(self), _runner=None)
        twin._saved = tuple([None if saved is None else next(rest) for saved in self._saved or ()])
        return twin

    def _warn_of_constants(self, backward: Any) -> None:
        if getattr(backward, "is_once_differentiable", False):
            return
        type(self)._has_warned = True
        warn_user(
            f"{self.name()}: it kept a value that forward computed, and its backward is recorded. The value "
            f"is a constant of the second derivative of {self._forward_cls.__name__}. Return it as a result, "
            "or compute it in backward, or make an op of it, whose setup_context computes the value. If it "
            "is meant as a constant, keep value.detach()."
        )

    def _flat_results(self, results: Any) -> Sequence[Tensor | None]:
        """Checks the results of the user's backward, and picks the gradients of tensor arguments."""
        listed = results if isinstance(results, tuple) else (results,)
        count = self._argument_count
        if len(listed) != count:
            check_count(listed, count, self.name, "argument of forward")
        leaves: Sequence[Any] = listed[:count]
        if self._argument_specs:
            leaves = flatten_gradients(leaves, self._argument_specs, self.name())
        elif _GRADIENTS.issuperset(map(type, leaves)) and False not in self._tensor_flags:
            return leaves
        picked: list[Tensor | None] = []
        for position, (leaf, is_tensor) in enumerate(zip(leaves, self._tensor_flags, strict=True)):
            if leaf is not None and not isinstance(leaf, Tensor):
                raise AutogradError(
                    f"{self.name()}: expected Variable or None (a Tensor or None) as the gradient at "
                    f"position {position}. Got {type(leaf).__name__}. Return a Tensor; Tensor.from_array "
                    f"makes one of an array."
                )
            if is_tensor:
                picked.append(leaf)
            elif leaf is not None:
                raise AutogradError(
                    f"{self.name()}: it returned a gradient different than None at position {position}, but "
                    "the corresponding forward input was not a Tensor. Return None there."
                )
        return picked

    @classmethod
    def _get_user_fn(cls) -> Any:
        """Returns the user's backward, under either of its names."""
        function = cls._forward_cls
        root = function._root
        backward = function.backward
        if backward is root.backward:
            return backward if function.vjp is root.vjp else function.vjp
        if function.vjp is not root.vjp:
            raise AutogradError(
                f"{function.__name__}: implementing both 'backward' and 'vjp' is not allowed. They are two "
                "names of the same rule. Keep one."
            )
        return backward

    @classmethod
    def _check_backward(cls, count: int) -> None:
        """Raises if the user's backward does not take this number of gradients."""
        names = [f"grad_{position}" for position in range(count)]
        subject = f"{cls._forward_cls.__name__}: its backward"
        require_parameters(cls._get_user_fn(), subject, "ctx", *names)

    def _arrange(self, values: Iterable[Any]) -> Values:
        """Puts a value for each Tensor argument at its place. Other arguments get None."""
        leaves = spread(values, self._tensor_flags)
        return unflatten_values(leaves, self._argument_count, self._argument_specs)

    def release(self) -> None:
        """Frees the saved tensors. Attributes that the user set stay."""
        if self._are_shown:
            for saved in self._saved or ():
                if saved is not None:
                    saved.free()
        self._saved = None

    maybe_clear_saved_tensors = release


def cast_gradients(grads: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    """Casts each gradient to its dtype; None leaves it as it is."""
    return [
        grad if grad is None or dtype is None else upcalls.to_dtype(grad, dtype)
        for grad, dtype in zip(grads, dtypes, strict=True)
    ]


def refuse_gradients(values: Sequence[Any], message: str) -> list[Any]:
    """Returns tensors of the same values, with one node, which raises if one of them is differentiated.

    The graph is that of torch's ``DelayedError``: each edge leads to a leaf of the same value.
    """
    node = Error()
    node.message = message
    tensors = [value if isinstance(value, Tensor) else None for value in values]
    node.input_metadata = tuple(
        [None if source is None else jax.typeof(source._storage.array) for source in tensors]
    )
    node.edges = tuple([None if source is None else gradient_edge(_copy_leaf(source)) for source in tensors])
    number_node(node, modes.state)
    tell_creation(node)
    return [
        value if tensor is None else _attach(tensor, node, slot)
        for slot, (value, tensor) in enumerate(zip(values, tensors, strict=True))
    ]


def _copy_leaf(tensor: Tensor) -> Tensor:
    leaf = tensor._share()
    leaf._requires_grad = True
    return leaf


def _attach(tensor: Tensor, node: Error, slot: int) -> Tensor:
    barred = box(tensor._storage.array)
    barred._trace = tensor._trace
    link(barred, (node, slot))
    return barred
