"""``Function``: the base class of a forward and its backward, written in Python."""

from __future__ import annotations

from typing import Any, ClassVar

from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.gradient_representation import is_array_class
from oplib.autograd.tangents import find_tangents
from oplib.errors import AutogradError, GradientTypeError, MissingRuleError
from oplib.hooks import refuse_later, require_parameters
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor import Tensor, upcalls
from oplib.tracebacks import refine_error, warn_user

from .function_call import Binding, are_traced
from .function_node import BackwardCFunction
from .recording import finish_call
from .trees import NO_SPECS, PLAIN, flatten_values, unflatten_values

_new: Any = object.__new__


class FunctionMeta(type):
    """Makes the node class of each Function."""

    _backward_cls: type[BackwardCFunction]
    _binding_cache: Binding | None
    _checked_binding: Binding | None  # None until a call has shown which gradients backward gets

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        base = getattr(cls, "_context_base", BackwardCFunction)
        node_class: Any = type(f"{name}Backward", (base,), {"_forward_cls": cls})
        cls._backward_cls = node_class
        cls._binding_cache = cls._checked_binding = None
        hints = dict(getattr(namespace.get("forward"), "__annotations__", {}))
        is_annotated = any(hint not in (Any, "Any") for hint in hints.values())
        if getattr(cls, "_takes_arrays", False) or (is_annotated and not cls.__module__.startswith("oplib.")):
            upcalls.read_annotations(cls)


class Function(metaclass=FunctionMeta):
    """Base class of hand-written differentiable functions. They are called by ``apply``.

    Define ``backward(ctx, *grads)`` and either ``forward(ctx, *args)``, or ``forward(*args)`` and
    ``setup_context(ctx, inputs, output)``. All are static methods. Forward and setup_context run with grad
    mode off, on the given tensors. Backward runs as plain Python each time, and is recorded under
    ``create_graph``.

    Arguments and results may hold Tensors in lists, tuples, dictionaries and dataclasses. The gradient of a
    container is the same container with a Tensor or None for each leaf, or None for the whole. Backward
    returns one gradient for each argument of the call, or, with keyword-only parameters, for each parameter.

    ``apply`` takes Tensors, arrays and both. Without a Tensor it returns arrays. Inside ``jax.jit``,
    ``jax.vmap`` and the like the tape records Tensors that require grad as usual. Where JAX differentiates or
    maps the call, it uses the rules of the class, as those of an op, and never differentiates forward.
    Forward mode without ``jvp`` is derived from backward.

    If all parameters of forward are annotated, and its tensors as ``jax.Array``, then all methods get arrays,
    and are compiled once per signature, as the kernel and rules of ``oplib.custom_op``.

    Example:
        >>> import oplib
        >>> from oplib.autograd import Function
        >>> class Cube(Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x * x
        ...
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return grad * 3 * x * x
        >>> x = oplib.tensor([2.0], requires_grad=True)
        >>> Cube.apply(x).sum().backward()
        >>> x.grad
        tensor([12.])
    """

    generate_vmap_rule: ClassVar[bool] = False
    is_traceable: ClassVar[bool] = False  # True lets compiled autograd trace the backward, once per structure
    _takes_trees: ClassVar[bool] = True
    _op_name: ClassVar[str] = ""  # of the op for which a Function is made
    _takes_arrays: ClassVar[bool] = False  # its methods are annotated jax.Array
    _is_users: ClassVar[bool] = True  # False for Functions made for an op, whose vmap rule is registered
    _surrogates: ClassVar[Any] = tuple  # gives the name of the op, if its formula is a surrogate
    _root: ClassVar[type[Function]]
    _context_base: ClassVar[type[BackwardCFunction]] = BackwardCFunction

    def __init__(self, *args: object, **kwargs: object) -> None:  # noqa: ARG002  as in torch
        warn_user(
            f"{type(self).__name__}: a Function should not be instantiated. Its methods are static and its "
            f"state is ctx. Call {type(self).__name__}.apply(...).",
            DeprecationWarning,
        )

    def __call__(self, *args: object, **kwargs: object) -> Any:  # noqa: ARG002  any call is an error
        """Raises: the call of an instance was the form before static methods.

        Raises:
            AutogradError: always.
        """
        raise AutogradError(
            f"{type(self).__name__}: a Function with a non-static forward method is not supported. An "
            f"instance was called. Make the methods static, and call {type(self).__name__}.apply(...)."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:  # noqa: ARG004  a definition has them
        """Computes the result. Subclasses define it.

        The first argument is ``ctx``, unless ``setup_context`` is defined.
        """
        raise MissingRuleError(
            "Function: it has no forward. apply() was called on a class that does not define it. Define a "
            "static forward(ctx, *args)."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:  # noqa: ARG004  likewise
        """Saves the values for backward, if ``forward`` is defined without ``ctx``."""
        raise MissingRuleError(
            "Function: setup_context is not defined. apply() calls it only if it is. Define it."
        )

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:  # noqa: ARG004  likewise
        """Computes a gradient for each argument of forward from one for each result. Subclasses define it."""
        raise MissingRuleError(
            f"{ctx.name()}: its Function has no backward. A gradient must pass through it. Define a static "
            f"backward(ctx, *grads), or vjp."
        )

    @staticmethod
    def vjp(ctx: Any, *grads: Any) -> Any:
        """Another name of ``backward``. Define one of the two."""
        return Function.backward(ctx, *grads)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:  # noqa: ARG004  likewise
        """Computes a tangent for each result from one for each argument. Forward mode needs it.

        ``ctx.saved_tensors`` then holds the arguments of ``save_for_forward``. An argument without tangent
        gets zeros, or None after ``set_materialize_grads(False)``. An argument that is not a floating or
        complex Tensor gets None.
        """
        raise MissingRuleError(
            f"{ctx.name()}: its Function has no jvp. An argument has a tangent. Define a static "
            f"jvp(ctx, *tangents)."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:  # noqa: ARG004  likewise
        """Computes a whole batch. Define it, or set ``generate_vmap_rule = True``."""
        raise MissingRuleError(
            "Function: it has no vmap rule. vmap was called on it. Define a static "
            "vmap(info, in_dims, *args), or set generate_vmap_rule = True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Calls the function, and records the call if an argument requires grad.

        Args:
            *args: the arguments of forward: Tensors, arrays and other values, also in containers.
            **kwargs: arguments of forward by name.

        Returns:
            The result of forward: Tensors with history if an argument is a Tensor, else arrays.

        Raises:
            TypeError: forward does not accept these arguments.
            AutogradError: forward broke a rule of ``mark_dirty``, or set an attribute that every ctx has.
                Inside ``vmap``: the Function has no rule for it.
        """
        try:
            if modes.state.map_levels and cls._is_users:
                return upcalls.apply_in_map(cls, args, kwargs, cls._apply)
            return cls._apply(args, kwargs)
        except Exception as error:
            if type(error) is TypeError and not kwargs:
                cls._check_forward(len(args))
            if better := refine_error(error):
                raise better from error
            raise

    @classmethod
    def _apply(cls, args: Values, kwargs: dict[str, Any]) -> Any:
        """Calls and records the Function without regard to vmap."""
        if (binding := cls._checked_binding) is None:
            return cls._apply_first(args, kwargs)
        keywords = kwargs
        if kwargs or binding.is_complete:
            args, keywords = binding.bind(args, kwargs)
        values = (*args, *keywords.values()) if keywords else args
        is_plain = not cls._takes_trees or PLAIN.issuperset(map(type, values))
        leaves, specs = (values, NO_SPECS) if is_plain else flatten_values(values)
        flags: list[bool] = []
        needs: list[bool] = []
        inputs: list[Tensor] = []
        for leaf in leaves:  # one loop costs a third of three comprehensions
            is_tensor = leaf.__class__ is Tensor or isinstance(leaf, Tensor)
            flags.append(is_tensor)
            needs.append(is_tensor and leaf._requires_grad)
            if is_tensor:
                inputs.append(leaf)
            elif is_array_class[type(leaf)] and cls._is_users:
                return upcalls.apply_as_op(cls, args, keywords)
        ctx = _new(cls._backward_cls)
        ctx.needs_input_grad = unflatten_values(needs, len(values), specs) if specs else tuple(needs)
        ctx._tensor_flags, ctx._argument_count, ctx._argument_specs = flags, len(values), specs
        state = modes.state
        tangents = None if state.dual_level is None else find_tangents(inputs)
        history = None
        if state.grad_enabled and True in needs and not state.inference:
            # before forward, which may write: this may refuse
            history = tuple(map(gradient_edge, inputs)), state.sequence_nr
            state.sequence_nr += 1
        # JAX differentiates the body of a control flow function, so there JAX gets the rule of each call.
        is_off_tape = history is None or state.region is not None
        if is_off_tape and cls._is_users and tangents is None and are_traced(inputs):
            return upcalls.apply_as_op(cls, args, keywords)
        result = cls._call_forward(ctx, args, keywords)
        return finish_call(ctx, result, inputs, history=history, tangents=tangents)

    @classmethod
    def _apply_first(cls, args: Values, kwargs: dict[str, Any]) -> Any:
        """Makes the first call, and checks that backward takes a gradient for each result."""
        cls._checked_binding = cls._binding()
        try:
            result = cls._apply(args, kwargs)
            cls._backward_cls._check_backward(len(result) if isinstance(result, tuple) else 1)
        except BaseException:
            cls._checked_binding = None
            raise
        return result

    @classmethod
    def _call_forward(cls, ctx: BackwardCFunction, args: Values, keywords: dict[str, Any]) -> Any:
        """Calls forward and setup_context, with recording and forward mode off."""
        state = modes.state
        before = state.grad_enabled, state.forward_enabled
        # As switch_forward_mode does, and without calls: each Function would pay for their frames.
        if state.dual_level is not None:
            state.watchers -= before[1]
        state.grad_enabled = state.forward_enabled = False
        try:
            if cls.setup_context is Function.setup_context:
                return cls.forward(ctx, *args, **keywords)
            result = cls.forward(*args, **keywords)
            extra = {"keyword_only_inputs": keywords} if cls._binding().has_keyword_only else {}
            cls.setup_context(ctx, args, result, **extra)
            return result
        finally:
            if state.dual_level is not None:
                state.watchers += before[1] - state.forward_enabled
            state.grad_enabled, state.forward_enabled = before

    @classmethod
    def _check_forward(cls, count: int) -> None:
        """Raises if forward does not take this number of arguments."""
        names = [] if cls.setup_context is not Function.setup_context else ["ctx"]
        names += [f"arg_{position}" for position in range(count)]
        require_parameters(cls.forward, f"{cls.__name__}: its forward", *names)

    @classmethod
    def _binding(cls) -> Binding:
        if cls._binding_cache is None:
            for name in ("forward", "setup_context", "backward", "vjp", "jvp", "vmap"):
                refuse_later(getattr(cls, name), f"{cls.__name__}: its {name}", GradientTypeError)
            has_setup = cls.setup_context is not Function.setup_context
            binding = Binding(cls.forward, has_setup=has_setup)
            subject, names = f"{cls.__name__}: its", binding.fixed_names
            if has_setup and not binding.has_keyword_only:
                require_parameters(cls.setup_context, f"{subject} setup_context", "ctx", "inputs", "output")
            if names is not None:
                tangents = [f"tangent_{place}" for place in range(len(names))]
                require_parameters(cls.jvp, f"{subject} jvp", "ctx", *tangents)
                require_parameters(cls.vmap, f"{subject} vmap", "info", "in_dims", *names)
            cls._binding_cache = binding
        return cls._binding_cache


Function._root = Function
