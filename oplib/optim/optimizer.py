"""``Optimizer``: a transformation of optax that updates Tensors in place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.masks import Mask, mask_given, pick_true, spread
from oplib.autograd.grad_mode import enable_grad, recording_off
from oplib.autograd.nodes.accumulate import refuse_old_gradient
from oplib.autograd.recording.in_place import write_values
from oplib.errors import ArgumentTypeError, ArgumentValueError, describe
from oplib.modes import modes
from oplib.protocols import AnyFunction
from oplib.pytree import tree_flatten, tree_structure, tree_unflatten
from oplib.tensor import Tensor
from oplib.tensor.devices.layout import (
    Space,
    find_on_mesh,
    find_space,
    have_no_layout,
    move_to_space,
    replicate_on_mesh,
)
from oplib.tensor.views.view_storage import refuse_shared_memory, refuse_writes
from oplib.torch_names import HINTS
from oplib.tracebacks import entry_point

from .hyperparameters import Hyperparameters
from .placement import bring_to_place, check_devices

_MISSING = re.compile(r"missing \d+ required keyword-only arguments?: '(\w+)'")
_get_shape = attrgetter("aval.shape")  # of an array; its own shape takes five times as long
Update = Callable[..., tuple[list[Any], list[Any]]]


class Optimizer:
    """Updates parameters in place by their gradients, as a transformation of optax says.

    A step is one compiled call. The state stands in Tensors, so a compiled training step finds it. A step
    leaves a parameter without ``grad`` alone, and its part of the state too. The state that all parameters
    share, such as the count of steps, is updated.

    Args:
        transformation: of optax, such as ``optax.adam(1e-3)``.
        params: the parameters: leaves of the tape, in any containers, or from any iterable. Pairs of a name
            and a parameter, such as ``parameters.items()``, stand for a dictionary.

    Raises:
        ImportError: optax is not installed.
        ArgumentTypeError: ``transformation`` is none or has a line search, or a parameter is no Tensor; or
            there are further options.
        ArgumentValueError: there is no parameter, one is given twice, or one is no leaf; or a name is given
            twice, or to some parameters only.
        DeviceError: two parameters are on different devices, or on two meshes.

    Example:
        >>> import optax
        >>> import oplib
        >>> w = oplib.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = oplib.optim.Optimizer(optax.sgd(0.1), [w])
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w
        tensor([0.8000, 1.6000], requires_grad=True)
    """

    @entry_point
    def __init__(self, transformation: Any, params: Any = None, **options: Any) -> None:
        _import_optax()
        if options:
            name, value = next(iter(options.items()))
            raise ArgumentTypeError(
                f"Optimizer: options belong to the transformation. Got {name}={describe(value)}. Write "
                "Optimizer(optax.adam(learning_rate), params)."
            )
        if not all(callable(getattr(transformation, name, None)) for name in ("init", "update")):
            raise ArgumentTypeError(
                f"Optimizer: 'transformation' is not one of optax. Got {describe(transformation)}. Give the "
                "result of a function such as optax.adam(1e-3)."
            )
        self.transformation = transformation
        leaves, self._spec = tree_flatten(_read_iterable(params))
        self.params = _check_params(leaves)
        self._flags = mask_given(leaves)
        arrays = self._arrange([move_to_space(param.array, Space.Device) for param in self.params])
        check_devices(arrays)
        self._shapes = [param.shape for param in self.params]
        state = self._place(_run_transformation(transformation.init, arrays), arrays)
        flat, self._structure = jax.tree_util.tree_flatten(state)
        self._owners = self._find_owners(state)
        self.state = [Tensor.from_array(jnp.asarray(leaf)) for leaf in flat]
        self.hyperparams = Hyperparameters(self.state, self._structure)
        self._updates: dict[tuple[Mask, Any], Update] = {}

    if not TYPE_CHECKING:  # a type checker then still finds misspelled names

        def __getattr__(self, name: str) -> NoReturn:
            hint = HINTS["Optimizer"].get(name)
            text = f"'Optimizer' object has no attribute {name!r}" + (f". {hint}" if hint else "")
            raise AttributeError(text, name=name, obj=self)

    def __repr__(self) -> str:
        return f"Optimizer({len(self.params)} parameters, {len(self.state)} Tensors of state)"

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients of all parameters.

        Args:
            set_to_none: set them to None; otherwise write zeros into them.

        Example:
            >>> import optax
            >>> import oplib
            >>> w = oplib.ones(1, requires_grad=True)
            >>> (w * 2).sum().backward()
            >>> oplib.optim.Optimizer(optax.sgd(0.1), [w]).zero_grad()
            >>> w.grad is None
            True
        """
        for param in self.params:
            if set_to_none:
                param.grad = None
            elif param.grad is not None:
                with recording_off():
                    grad = param.grad
                    cut = (
                        grad.requires_grad_(False) if grad.grad_fn is None else grad.detach_()
                    )  # a view has none
                    cut.zero_()

    @entry_point
    def step(self, closure: Callable[[], Any] | None = None, **extra: Any) -> Any:
        """Updates the parameters that have a gradient.

        Args:
            closure: computes the loss and its gradients before the update, as in torch.
            **extra: what the transformation reads besides, such as ``value`` of the loss: Tensors or arrays.

        Returns:
            What the closure returns.

        Raises:
            ArgumentTypeError: the transformation reads something that is not given, such as ``value``.
            TracingError: a trace of JAX would update parameters or a state that were made outside of it.

        Example:
            >>> import optax
            >>> import oplib
            >>> w = oplib.ones(1, requires_grad=True)
            >>> optimizer = oplib.optim.Optimizer(optax.sgd(0.5), [w])
            >>> (w * 2).sum().backward()
            >>> optimizer.step()
            >>> w.tolist()
            [0.0]
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        held = [param.grad for param in self.params]
        mask = mask_given(held)
        if True not in mask:
            return loss
        extra = {name: value.array if isinstance(value, Tensor) else value for name, value in extra.items()}
        params, grads, state = map(_read_arrays, (self.params, held, self.state))
        written = pick_true(self.params, mask)
        refuse_writes(written, "Optimizer.step")
        refuse_shared_memory(written, "Optimizer.step")
        self._check_shapes(params, grads)
        arrays, state = self._find_update(mask, params, state)(params, grads, state, extra)
        with recording_off():
            write_values([*written, *self.state], [*arrays, *state], "Optimizer.step")
        return loss

    def state_dict(self, *, copy: bool = False) -> dict[str, Any]:
        """Returns the state, which :func:`oplib.save` can store.

        Args:
            copy: return copies on the same devices. Otherwise these are the Tensors that the next step
                writes, as in torch.

        Example:
            >>> import optax
            >>> import oplib
            >>> optimizer = oplib.optim.Optimizer(optax.adam(0.1), [oplib.ones(1, requires_grad=True)])
            >>> sorted(optimizer.state_dict()["state"])
            ['[0].count', '[0].mu[0]', '[0].nu[0]']
        """
        state = [tensor.detach().clone() for tensor in self.state] if copy else self.state
        return {"state": dict(zip(self._names(), state, strict=True))}

    def load_state_dict(self, state_dict: Mapping[str, Any], *, strict: bool = True) -> None:
        """Writes a state into that of this optimizer, all of it or nothing.

        Args:
            state_dict: what :meth:`state_dict` has returned, of an optimizer with the same transformation
                and parameters of the same shapes.
            strict: False leaves parts of the state as they are that the given state lacks, and skips parts
                that this optimizer lacks.

        Raises:
            ArgumentValueError: it is not that; the differing name is given.
            DeviceError: no process has all of an entry, and the state of this optimizer is not on a mesh.

        Example:
            >>> import optax
            >>> import oplib
            >>> optimizer = oplib.optim.Optimizer(optax.adam(0.1), [oplib.ones(1, requires_grad=True)])
            >>> optimizer.load_state_dict(optimizer.state_dict())
        """
        is_state = isinstance(state_dict, Mapping)  # pyright: ignore[reportUnnecessaryIsInstance]
        entries = state_dict.get("state") if is_state else None
        names = self._names()
        if not isinstance(entries, Mapping) or (strict and set(entries) != set(names)):
            raise ArgumentValueError(
                "load_state_dict: it is the state of another transformation. Got "
                f"{_compare(state_dict, names)}. Give what state_dict() has returned for the same "
                "transformation and parameters, or strict=False for parts of it."
            )
        own = {name: tensor for name, tensor in zip(names, self.state, strict=True) if name in entries}
        for name, tensor in own.items():
            other = entries[name]
            if not isinstance(other, Tensor) or other.shape != tensor.shape or other.dtype != tensor.dtype:
                raise ArgumentValueError(
                    f"load_state_dict: {name!r} does not fit. Got {describe(other)} for {describe(tensor)}. "
                    "Give the state of an optimizer whose parameters have the same shapes and dtypes."
                )
        arrays = [
            bring_to_place(name, entries[name].detach().clone().array, tensor.array)
            for name, tensor in own.items()
        ]
        with recording_off():
            write_values([*own.values()], arrays, "load_state_dict")

    def _check_shapes(self, params: Sequence[Any], grads: Sequence[Any]) -> None:
        """Raises if a parameter has got another shape than its ``grad``, or than that of its state."""
        shapes = list(map(_get_shape, params))
        own = [one if grad is None else _get_shape(grad) for one, grad in zip(shapes, grads, strict=True)]
        if own == shapes == self._shapes:
            return
        for index, (param, grad) in enumerate(zip(params, grads, strict=True)):
            if grad is not None and grad.shape != param.shape:
                refuse_old_gradient("Optimizer.step", grad, param)
            if param.shape != self._shapes[index] and index in self._owners:
                raise ArgumentValueError(
                    "Optimizer.step: the state of a parameter is from before the parameter got another shape "
                    f"by .data. Got {describe(param)}, number {index}, with a state for the shape "
                    f"{list(self._shapes[index])}. Make a new Optimizer where you assign .data."
                )

    # The transformation ------------------------------------------------------------------------------------

    def _arrange(self, values: Sequence[Any]) -> Any:
        """Puts one value for each parameter into the containers of the parameters."""
        return tree_unflatten(spread(values, self._flags), self._spec)

    def _names(self) -> list[str]:
        tree = jax.tree_util.tree_unflatten(self._structure, range(len(self.state)))
        return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]

    def _place(self, state: Any, arrays: Any) -> Any:
        """Lays out the parts of the state that belong to a spread parameter as that is, others on its mesh.

        A step would move these to the mesh, and the next one would be compiled for that.
        """
        spread = [sharding for param in self.params if (sharding := find_on_mesh(param.array)) is not None]
        if not spread:
            return state
        whole = replicate_on_mesh(spread[0])

        def place(part: Any, array: Any = None) -> Any:
            own = None if array is None or part.shape != array.shape else find_on_mesh(array)
            return part if (own or whole) is None else jax.device_put(part, own or whole)

        return self._map_params(place, state, arrays, place)

    def _find_owners(self, state: Any) -> list[int]:
        """For each leaf of the state, the number of the parameter to which it belongs; -1 if to none."""
        numbers = self._arrange(range(len(self.params)))
        owners = self._map_params(lambda _, number: number, state, numbers, lambda _: -1)
        return jax.tree_util.tree_leaves(owners)

    def _map_params(self, function: Any, state: Any, other: Any, of_others: Any) -> Any:
        """Maps the parts of a state that belong to parameters, and leaves the places of masked ones."""
        masked = _import_optax().MaskedNode  # stands for a parameter, or for a container of parameters

        def apply(part: Any, value: Any) -> Any:
            return part if isinstance(part, masked) else function(part, value)

        try:
            return _import_optax().tree_utils.tree_map_params(
                self.transformation,
                apply,
                state,
                other,
                transform_non_params=of_others,
                is_leaf=lambda part: isinstance(part, masked),
            )
        except IndexError:
            raise ArgumentTypeError(
                "Optimizer: the transformation has a state that cannot be divided among parameters, such as "
                f"that of a line search. Got {_shorten([type(part).__name__ for part in state])}. Use one "
                "without a line search, such as optax.lbfgs(0.1, linesearch=None)."
            ) from None

    def _find_update(self, mask: Mask, params: list[Any], state: list[Any]) -> Update:
        """Returns the step in which just these parameters have gradients, and which keeps their layouts."""
        layouts: Any = None
        if not have_no_layout(params) and any(find_on_mesh(param) is not None for param in params):
            written = pick_true(params, mask)
            layouts = tuple(map(find_on_mesh, written)), tuple(map(find_on_mesh, state))
        update = self._updates.get((mask, layouts))
        if update is None:
            update = self._updates[mask, layouts] = self._make_update(mask, layouts)
        return update

    def _make_update(self, mask: Mask, layouts: Any) -> Update:
        """Compiles a step.

        Args:
            mask: which parameters have gradients.
            layouts: the shardings of these, and of the state; None where all are on one device.
        """

        def update(params: list[Any], grads: list[Any], state: list[Any], extra: dict[str, Any]) -> Any:
            spaces = [list(map(find_space, arrays)) for arrays in (params, state)]
            params, state = (
                [move_to_space(array, Space.Device) for array in arrays] for arrays in (params, state)
            )
            grads = [None if grad is None else move_to_space(grad, Space.Device) for grad in grads]
            filled = [
                jnp.zeros_like(param) if grad is None else grad
                for param, grad in zip(params, grads, strict=True)
            ]
            tree = self._arrange(params)
            old = jax.tree_util.tree_unflatten(self._structure, state)
            changes, new = _run_transformation(
                self.transformation.update, self._arrange(filled), old, tree, **extra
            )
            updated = jax.tree_util.tree_leaves(_import_optax().apply_updates(tree, changes))
            kept = [
                before if owner >= 0 and not mask[owner] else after.astype(before.dtype)
                for before, after, owner in zip(
                    state, jax.tree_util.tree_leaves(new), self._owners, strict=True
                )
            ]
            written = [
                move_to_space(updated[index], space)
                for index, space, has in zip(indices, spaces[0], mask, strict=True)
                if has
            ]
            return written, list(map(move_to_space, kept, spaces[1]))

        numbers = jax.tree_util.tree_leaves(self._arrange(range(len(mask))))  # JAX sorts dictionaries
        indices = [numbers.index(number) for number in range(len(mask))]
        shardings = layouts and tuple(map(list, layouts))
        return jax.jit(update, inline=True, out_shardings=shardings)


def _import_optax() -> Any:
    try:
        import optax  # noqa: PLC0415  an optional dependency
    except ImportError as error:
        raise ImportError(
            "Optimizer: optax is not installed. The optimizers of oplib are its transformations. Install it: "
            "pip install optax, which is the extra 'optim' of oplib."
        ) from error
    return optax


def _read_arrays(tensors: Sequence[Tensor | None]) -> list[Any]:
    """Returns the arrays of Tensors; None for None. Nothing donates them or writes into them."""
    state = modes.state
    if state.region is None and state.tracing is None:
        return [None if tensor is None else tensor._storage.array for tensor in tensors]
    return [None if tensor is None else tensor.array for tensor in tensors]


def _run_transformation(function: AnyFunction, *args: Any, **kwargs: Any) -> Any:
    """Runs a function of the transformation; an error keeps its type and text, and gets a note."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        if isinstance(error, TypeError) and (missing := _MISSING.search(str(error))) is not None:
            raise ArgumentTypeError(
                f"Optimizer.step: the transformation reads '{missing[1]}', which is missing. Got "
                f"{_shorten(list(kwargs)) or 'none'}. Write optimizer.step({missing[1]}=...)"
                f"{', with the loss' if missing[1] == 'value' else ''}."
            ) from None
        error.add_note(
            "Raised in the transformation of the Optimizer. Correct its options, such as the learning rate, "
            "or the arguments of step()."
        )
        raise


def _read_iterable(params: Any) -> Any:
    """Returns containers as they are, other iterables as a list, and pairs with names as a dictionary.

    Raises:
        ArgumentValueError: a name is given twice, or some parameters have none.
    """
    is_container = isinstance(params, Tensor) or not tree_structure(params).is_leaf()
    members: Any = params if is_container or not isinstance(params, Iterable) else list(params)
    if not isinstance(members, (list, tuple)) or not any(map(_is_named, members)):
        return members
    names = [member[0] if _is_named(member) else None for member in members]
    if None in names or len(set(names)) < len(names):
        raise ArgumentValueError(
            f"Optimizer: all parameters should be with or without names, and each with its own. Got "
            f"{describe(names)}. Give each a name, or none."
        )
    return dict(members)


def _is_named(member: Any) -> bool:
    return isinstance(member, tuple) and len(member) == 2 and isinstance(member[0], str)


def _name_way(value: Any) -> str:
    """Returns how the parameters in an object are given."""
    ways = ("parameters", "named_parameters")
    way = next((way for way in ways if callable(getattr(value, way, None))), None)
    return "Tensors that require grad" if way is None else f"its parameters: model.{way}()"


def _check_params(leaves: Sequence[Any]) -> list[Tensor]:
    """Returns the parameters among leaves.

    Raises:
        ArgumentTypeError: one is no Tensor.
        ArgumentValueError: there is none, one is given twice, or one is no leaf.
    """
    params: list[Tensor] = []
    for leaf in leaves:
        if leaf is None:
            continue
        if not isinstance(leaf, Tensor):
            raise ArgumentTypeError(
                f"Optimizer: a parameter is no Tensor. Got {describe(leaf)}, of type {type(leaf).__name__}. "
                f"Give {_name_way(leaf)}."
            )
        if leaf._grad_fn is not None:
            raise ArgumentValueError(
                f"Optimizer: can't optimize a non-leaf Tensor. Got {describe(leaf)}, made by "
                f"{leaf._grad_fn.name()}. Give the leaf that it is computed from, or tensor.detach()."
            )
        if any(leaf is param for param in params):
            raise ArgumentValueError(
                f"Optimizer: a parameter is given twice. Got {describe(leaf)} again. Give it once: its "
                "gradient holds the sum of all its uses."
            )
        params.append(leaf)
    if not params:
        raise ArgumentValueError(
            "Optimizer: optimizer got an empty parameter list. Got no Tensor. Give the Tensors to update."
        )
    return params


def _compare(state_dict: Any, names: Sequence[str]) -> str:
    """Returns how the entries of a state differ from those that an optimizer has."""
    if isinstance(state_dict, Mapping) and "state" not in state_dict:
        return "a dictionary without 'state'"
    entries = state_dict["state"] if isinstance(state_dict, Mapping) else state_dict
    if not isinstance(entries, Mapping):
        return describe(entries)
    missing = [name for name in names if name not in entries]
    foreign = [str(name) for name in entries if name not in names]
    groups = [("no", missing), ("besides", foreign)]
    return ", ".join(f"{word} {_shorten(group)}" for word, group in groups if group)


def _shorten(names: Sequence[str]) -> str:
    more = len(names) - 4
    return ", ".join(names[:4]) + (f" and {more} more" if more > 0 else "")
