"""Nodes: each is one backward step.

There are two classes, for users and for the tape:

* :class:`Node` is abstract and public. It is for ``isinstance(tensor.grad_fn, Node)``.
* :class:`TapeNode` is the base class of all nodes of oplib. Every recorded call makes one, so making one
  costs an ``object.__new__`` and the few attributes that differ. All other attributes are defaults of the
  class.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from oplib.autograd.array_functions.array_function import ArrayFunction, BackwardPlan, Mask, has_gradient
from oplib.autograd.array_functions.filled_plan import FilledPlan
from oplib.autograd.array_functions.masks import mask_given
from oplib.autograd.array_functions.tokens import next_token
from oplib.autograd.tangents import TangentSlot
from oplib.errors import AutogradError, GradientTypeError
from oplib.hooks import RemovableHandle, require_parameters
from oplib.protocols import AnyFunction
from oplib.tensor import Storage, Tensor

from .locations import locate_line

if TYPE_CHECKING:
    from .backward_run import BackwardRun

Edge = tuple["TapeNode", int]
"""The destination of a gradient: a node, and one of its slots."""

Gradients = Sequence[Any]
"""One gradient for each slot or edge, in the representation of the run; None where there is none."""

Hooks = OrderedDict[int, Callable[..., Any]]

FIRST = 2**64 - 1
"""The sequence number of nodes that run as soon as they are ready."""

builtin_nodes: dict[str, type] = {}
"""The built-in node classes by ``__name__``. They count as nodes without inheriting from ``Node``."""


NOBODY = Storage(None)
"""The storage of saved values that belong to no tensor, such as intermediates. It never changes."""

_plans: WeakValueDictionary[Any, FilledPlan] = WeakValueDictionary()


class SavedArray(NamedTuple):
    """One array that a node has saved.

    Attributes:
        array: the array.
        storage: the storage that it was read from; ``NOBODY`` if it belongs to no tensor.
        version: the version of the storage when the array was saved.
        edge: the edge of its gradient when the backward is differentiated; None if it needs none.
    """

    array: Any
    storage: Storage
    version: int
    edge: Edge | None


class SavedState(NamedTuple):
    """All that a node has saved.

    Attributes:
        plan: the plan of the backward, which reads the values; None if the node runs Python code.
        values: the saved values, in the order of the plan.
        reads: the values from which intermediates are computed again when the backward is differentiated.
        tangents: in forward mode, the tangents of inputs and outputs at the time of the call.
        node_class: the class of a node with other values of this kind; None if it can be any formula node.
        is_freed: whether a backward pass has freed the values.
        is_linked: whether the edges of all values are known. If not, the backward runs, but it cannot be
            differentiated.
    """

    plan: BackwardPlan | None
    values: Sequence[SavedArray] = ()
    reads: Sequence[SavedArray] = ()
    tangents: Sequence[TangentSlot | None] | None = None
    node_class: type[TapeNode] | None = None
    is_freed: bool = False
    is_linked: bool = True


class Node(ABC):
    """One step of a backward graph. The class is abstract.

    The nodes of a graph are reached from ``tensor.grad_fn`` through ``next_functions``.

    Example:
        >>> import oplib
        >>> x = oplib.tensor([1.0], requires_grad=True)
        >>> y = x * 2
        >>> isinstance(y.grad_fn, oplib.autograd.graph.Node)
        True
        >>> y.grad_fn.name()
        'MulBackward0'
    """

    @classmethod
    def __subclasshook__(cls, candidate: type) -> bool:
        """Accepts built-in classes that do not inherit, for ``Node`` itself and not for its subclasses."""
        if cls is Node and builtin_nodes.get(candidate.__name__) is candidate:
            return True
        return NotImplemented

    @abstractmethod
    def name(self) -> str:
        """Returns the name of the step, such as ``MulBackward0``."""

    @property
    @abstractmethod
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The edges of its gradients: a node and a slot for each input; ``(None, 0)`` if none is needed."""

    @property
    @abstractmethod
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for notes of users. It is the same object each time."""

    @property
    @abstractmethod
    def _input_metadata(self) -> Sequence[Any]:
        """The shape and dtype of each gradient slot."""

    @abstractmethod
    def _sequence_nr(self) -> int:
        """Returns the number that orders the nodes made by one thread."""

    @abstractmethod
    def _register_hook_dict(self, tensor: Any) -> None:
        """Runs the hooks of ``tensor``, an output of this step, before this step."""

    @abstractmethod
    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Calls ``fn(grad_inputs, grad_outputs)`` each time this step has run.

        Args:
            fn: receives the results of the step and its gradients, two tuples of Tensors or None. It must not
                change them. If it does not return None, its result replaces ``grad_inputs``.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """

    @abstractmethod
    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Calls ``fn(grad_outputs)`` each time before this step runs.

        Args:
            fn: receives the tuple of Tensors or None that the step will receive. It must not change it. If it
                does not return None, its result replaces the tuple.

        Returns:
            A handle whose ``remove()`` removes the hook.
        """


class TapeNode(Node):
    """The base class of nodes. Subclasses define ``apply``, and ``release`` if they save values.

    Make one with ``object.__new__(cls)`` and set ``edges``, ``input_metadata`` and ``sequence_nr``.

    Attributes:
        edges: the edge of each gradient that ``apply`` returns; None if the gradient is not needed.
        input_metadata: for each gradient that ``apply`` receives, an object with its ``shape`` and ``dtype``.
        paths: for each slot the places in ``edges`` to which its gradient flows; None if each flows to all.
            No gradient, and no None, comes along an edge to which none of those that have arrived flows.
        sequence_nr: ``modes.sequence_nr`` of the thread that made the node. The highest ready one runs first.
        results_are_checked: results always have the right shapes and dtypes, so the engine skips validation.
        has_one_slot: the node receives one gradient, whatever ``input_metadata`` is.
        free_slots: the slots whose gradients keep the dtype with which they arrive.
        runs_at_arrival: nodes of the class have no edges and run before all others, so the engine need not
            queue one whose gradients have arrived.
        runs_without_gradients: the node computes something even if no gradient arrives at any of its slots.
        follows_jax: the derivative that JAX finds for the code that made the node is that of the node, so the
            node may belong to a function that JAX differentiates.
        class_token: stands for the class in keys.
        has_hooks: a hook or retained gradient is registered, so the engine takes the complete path.
    """

    results_are_checked: ClassVar[bool] = False
    has_one_slot: bool = False
    runs_at_arrival: ClassVar[bool] = False
    runs_without_gradients: ClassVar[bool] = False
    follows_jax: ClassVar[bool] = False
    class_token: ClassVar[int] = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.class_token = next_token()

    edges: tuple[Edge | None, ...] = ()
    input_metadata: Sequence[Any] = ()
    paths: Sequence[frozenset[int]] | None = None
    sequence_nr: int = 0
    has_hooks: bool = False
    free_slots: frozenset[int] = frozenset()
    requires_grad: bool = True
    fits_gradients: bool = False  # an output got another shape unrecorded: what arrives must be fitted
    _tensor_pre_hooks: dict[int, Hooks] | None = (
        None  # slot -> the hooks of the tensor that is this output; the dictionary is shared with it
    )
    _retained: dict[int, weakref.ref[Tensor]] | None = None  # slot -> the output that retains its gradient
    _pre_hooks: Hooks | None = None
    _post_hooks: Hooks | None = None
    _metadata: dict[Any, Any] | None = None
    _location: tuple[CodeType, int] | None = None
    _scope: Any = None

    # Called by the engine

    def apply(self, grads: Gradients, run: BackwardRun) -> Gradients:
        """Computes the gradients of the inputs from the gradients of the outputs.

        Args:
            grads: one for each slot, or None, in the representation of the run.
            run: the run of the engine. ``run.representation`` says what ``grads`` holds; ``run.create_graph``
                says whether the results must be differentiable again.

        Returns:
            One gradient, or None, for each edge.
        """
        raise NotImplementedError

    def read_operands(self, operands: list[Any]) -> Any:  # noqa: ARG002  it has none here
        """Checks the saved values, and adds the arrays that the node's formula reads to ``operands``.

        Starts of views are added as tuples of numbers.

        Args:
            operands: receives the arrays.

        Returns:
            A key of the formula: nodes with equal keys have the same formula, which :meth:`find_function`
            returns. None if the node runs Python code that must run each time.

        Raises:
            SavedTensorError: a value is freed, or has been written in place since it was saved.
        """
        return None

    def find_function(self, present: Mask) -> ArrayFunction | None:  # noqa: ARG002  it has none here
        """Returns the formula for some slots: ``(*operands, *given gradients) -> gradients``.

        Args:
            present: for each slot, whether it has a gradient.

        Returns:
            The function, which can be traced; None if the node runs Python code that must run each time.
        """
        return None

    def read_saved(self) -> SavedState:
        """Returns what the node has saved, in one form for all nodes, without a check of versions.

        Here it is the arrays and the formula of :meth:`read_operands` and :meth:`find_function`. A node whose
        formula is differentiated through its arrays overrides this and names their edges.
        """
        operands: list[Any] = []
        key = self.read_operands(operands)
        plan = None if key is None else self._find_plan(key, len(operands))
        if plan is None:
            return SavedState(None)
        arrays = [
            np.asarray(operand, np.int32) if operand.__class__ is tuple else operand for operand in operands
        ]
        values = [SavedArray(array, NOBODY, 0, None) for array in arrays]
        return SavedState(plan, values, is_linked=not any(has_gradient(operand.dtype) for operand in arrays))

    def _find_plan(self, key: Any, count: int) -> BackwardPlan | None:
        """Returns the plan of the formula. Nodes with equal keys and shapes share it while it is used."""
        wanted = mask_given(self.edges)
        metadata = self.input_metadata
        key = key, wanted, tuple([(spec.shape, spec.dtype) for spec in metadata])
        plan = _plans.get(key)
        if plan is None:
            function = self.find_function((True,) * len(metadata))
            if function is not None:
                plan = _plans[key] = FilledPlan(function, wanted, metadata, count)
        return plan

    def with_arrays(self, arrays: Sequence[Any]) -> TapeNode:  # noqa: ARG002  it reads none here
        """Returns a node, with the same hooks, that reads these arrays in place of the saved ones.

        It is asked of nodes without a plan. ``arrays`` are those of :meth:`read_saved`. A node that reads
        others too is returned itself.
        """
        return self

    def release(self) -> None:
        """Frees the saved values. A later ``apply`` that needs them raises ``second_pass_error``."""

    # Called by users

    def name(self) -> str:  # noqa: D102  described in Node, like the methods below
        return type(self).__name__

    def op_name(self) -> str:
        """Returns the name of the op that recorded the node, for errors; empty if ``name()`` says it."""
        return ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self._tell_origin()}>"

    def _tell_origin(self) -> str:
        """Returns the op and the line that recorded the node, as far as it knows them."""
        op = self.op_name()
        told = [f" of {op}"] if op else []
        if self._location is not None:
            code, line = locate_line(self._location)
            told.append(f" at {Path(code.co_filename).name}:{line}")
        return "".join(told)

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:  # noqa: D102
        return tuple((None, 0) if edge is None else edge for edge in self.edges)

    @property
    def metadata(self) -> dict[Any, Any]:  # noqa: D102
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    @property
    def _input_metadata(self) -> Sequence[Any]:
        return self.input_metadata

    def _sequence_nr(self) -> int:
        return self.sequence_nr

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:  # noqa: D102
        require_parameters(fn, f"{self.name()}.register_hook: the hook", "grad_inputs", "grad_outputs")
        if self._post_hooks is None:
            self._post_hooks = OrderedDict()
        return self._enter(self._post_hooks, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:  # noqa: D102
        require_parameters(fn, f"{self.name()}.register_prehook: the hook", "grad_outputs")
        if self._pre_hooks is None:
            self._pre_hooks = OrderedDict()
        return self._enter(self._pre_hooks, fn)

    def _enter(self, hooks: Hooks, fn: AnyFunction) -> RemovableHandle:
        handle = RemovableHandle(hooks)
        hooks[handle.id] = fn
        self.has_hooks = True
        return handle

    def _register_hook_dict(self, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise GradientTypeError(
                f"{self.name()}._register_hook_dict: 'tensor' is not a Tensor. Got {type(tensor).__name__}. "
                f"Give the output of this node whose hooks are to run."
            )
        if tensor._backward_hooks is None:
            raise AutogradError(
                f"{self.name()}._register_hook_dict: 'tensor' has no hooks. Its _backward_hooks is None. "
                f"Use tensor.register_hook(fn), which makes the dictionary and registers it."
            )
        if self._tensor_pre_hooks is None:
            self._tensor_pre_hooks = {}
        self._tensor_pre_hooks[tensor.output_nr] = tensor._backward_hooks
        self.has_hooks = True

    def retain_grad(self, tensor: Tensor) -> None:
        """Stores the gradient of ``tensor``, an output of the node, in ``tensor.grad`` at each run."""
        if self._retained is None:
            self._retained = {}
        self._retained[tensor.output_nr] = weakref.ref(tensor)
        self.has_hooks = True

    def stop_retaining(self, slot: int) -> None:
        """Stores the gradient of an output no more, because the tensor is now the output of another node."""
        if self._retained is not None:
            self._retained.pop(slot, None)
