"""Generator: the state of a source of random numbers, which holds a JAX key."""

from __future__ import annotations

import secrets
import threading
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import get_opaque_trace_state

from oplib.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, TracingError, describe
from oplib.modes import modes
from oplib.protocols import Values
from oplib.tensor.devices.device import Device
from oplib.tensor.devices.forked import check_process, is_orphan
from oplib.tensor.storage.map_level import MapLevel
from oplib.tensor.storage.overlay import overlays
from oplib.tracebacks import entry_point

from .draw_log import births, note_draw

_DEFAULT_SEED = 67280421310721  # torch's value, so that an unseeded Generator repeats itself as in torch
_WORD = 2**32


class Generator:
    """Returns a new ``jax.random`` key at each draw, by counting.

    A Generator belongs to the trace in which it was made. A draw from it inside another trace would give the
    same numbers at every later call of the compiled function, so it raises. Inside a trace, make a Generator
    from a key that is an argument. Inside ``oplib.vmap`` the ``randomness`` of the map decides.

    Args:
        device: torch's argument. It is stored and has no effect.

    Example:
        >>> from oplib.tensor.random.factories import rand
        >>> generator = Generator().manual_seed(0)
        >>> first = rand(2, generator=generator).tolist()
        >>> first == rand(2, generator=generator).tolist()
        False
        >>> first == rand(2, generator=Generator().manual_seed(0)).tolist()
        True
    """

    device: Device

    @entry_point
    def __init__(self, device: Any = "cpu") -> None:
        self.device = device if isinstance(device, Device) else Device(device)
        self._seed = _DEFAULT_SEED
        self._key: Any = None  # made at the first draw, because importing oplib must start no backend
        self._count = 0
        self._is_of_call = False
        # for a shadow: its key, and the count that it continues from
        self._base: tuple[Any, Any] | None = None
        self._seeded_key: Any = None  # the key that was last made from the seed
        # a key, its numbers with a place for the count, and its kind
        self._unwrapped: tuple[Any, Any, Any] = (None, None, None)
        self._birth = next(births)
        self._lock = threading.RLock()
        self._trace: object = get_opaque_trace_state()

    def __repr__(self) -> str:
        return f"<Generator on {self.device}, seed {self._seed}>"

    @staticmethod
    def from_key(key: Any) -> Generator:
        """Makes a Generator from a JAX key, which may be traced.

        Args:
            key: a key of ``jax.random.key``, shape ``()``.

        Returns:
            A Generator. Its draws are functions of the key.

        Raises:
            ArgumentError: the argument is not such a key.

        Example:
            >>> import jax
            >>> from oplib.tensor.random.factories import rand
            >>> draw = jax.jit(lambda key: rand(2, generator=Generator.from_key(key)).array)
            >>> draw(jax.random.key(0)).shape
            (2,)
        """
        if not is_key(key):
            raise ArgumentError(
                f"Generator.from_key: expected a key. Got {describe(key)} of type "
                f"{type(key).__name__}. Make one with "
                "jax.random.key(seed), or of such numbers with jax.random.wrap_key_data(numbers)."
            )
        generator = Generator()
        generator._key = key
        return generator

    def make_shadow(self, key: Any, count: Any) -> Generator:
        """Makes the shadow of this Generator for a trace of ``oplib.jit``.

        Args:
            key: the traced key.
            count: the number of draws so far, a traced uint32. The shadow adds its own draws to it.
        """
        shadow = Generator(self.device)
        shadow._seed, shadow._key = self._seed, key
        shadow._base = (key, count)
        return shadow

    @property
    def start(self) -> tuple[Any, int]:
        """The key, which is made if necessary, and the number of draws."""
        with self._lock:
            if self._key is None:
                self._key = _make_key(self._seed)
            return self._key, self._count

    @property
    def is_at_base(self) -> bool:
        """Whether this shadow still has the key that it was made with."""
        return self._base is not None and self._key is self._base[0]

    def read_state(self) -> tuple[int, Any, int]:
        """Returns the state of a shadow, without a key that was made from the seed."""
        return (self._seed, None if self._key is self._seeded_key else self._key, self._count)

    def _resolve(self) -> Generator:
        """Returns this Generator, or its shadow if a trace of this thread has one."""
        overlay = overlays.current
        return self if overlay is None else overlay.shadows.get(self, self)

    def manual_seed(self, seed: int) -> Generator:
        """Sets the seed, restarts the Generator, and returns it.

        Args:
            seed: any integer from -2**63 to 2**64 - 1. As in torch, negative ones count from above.

        Raises:
            ArgumentError: the seed is not an integer, or is outside of this range.
        """
        if not isinstance(seed, (int, np.integer)):  # pyright: ignore[reportUnnecessaryIsInstance]  callers without types
            raise ArgumentError(f"manual_seed: expected an integer. Got {describe(seed)}. Write int(seed).")
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise ArgumentValueError(f"manual_seed: a seed has 64 bits. Got {seed}. Choose a smaller one.")
        here = self._resolve()
        here._refuse_other_trace("manual_seed")
        here._seed, here._key, here._count = seed % 2**64, None, 0
        return self

    def seed(self) -> int:
        """Restarts the Generator from a seed of the operating system, and returns the seed."""
        self.manual_seed(secrets.randbits(64))
        return self._resolve()._seed

    def initial_seed(self) -> int:
        """Returns the current seed."""
        return self._resolve()._seed

    def get_state(self) -> tuple[int, Any, int]:
        """Returns the state for :meth:`set_state`."""
        here = self._resolve()
        return (here._seed, here._key, here._count)

    def set_state(self, state: tuple[int, Any, int]) -> Generator:
        """Sets a state that :meth:`get_state` returned, and returns the Generator.

        Raises:
            ArgumentTypeError: it is something else.
        """
        if not _is_state(state):
            raise ArgumentTypeError(
                f"set_state: expected a state from get_state. Got {describe(state)}. Keep what get_state "
                "returns, and pass it as it is."
            )
        here = self._resolve()
        here._refuse_other_trace("set_state")
        here._seed, here._key, here._count = state
        return self

    def clone_state(self) -> Generator:
        """Returns a separate Generator that will draw the same numbers."""
        return Generator(self.device).set_state(self.get_state())

    def __copy__(self) -> Generator:
        return self.clone_state()

    def __deepcopy__(self, memo: dict[int, Any]) -> Generator:
        return memo.setdefault(id(self), self.clone_state())

    def __reduce__(self) -> Values:
        """Pickles the Generator. The unpickled one draws the numbers that this one would draw.

        Raises:
            TracingError: its key is traced.
        """
        seed, key, count = self.get_state()
        if isinstance(key, Tracer):
            raise TracingError(
                f"Generator: a traced key cannot be pickled. Got {describe(key)}. Pickle the Generator "
                "outside of the trace."
            )
        if key is None or isinstance(key, tuple):  # as it was unpickled
            return _restore, (str(self.device), seed, key, count)
        plain = (str(jax.random.key_impl(key)), np.asarray(jax.random.key_data(key)))
        return _restore, (str(self.device), seed, plain, count)

    def next_key(self) -> Any:
        """Advances the Generator and returns a new key; see :meth:`advance`."""
        return _fold(*self.advance())

    def advance(self) -> tuple[Any, Any]:
        """Advances the Generator and returns a key, and a number to fold into it, a uint32.

        A compiled draw folds the number in by itself, which is twice as fast as :meth:`next_key`.

        Inside ``oplib.vmap``, its ``randomness`` decides whether all examples get the same key.

        Raises:
            TracingError: the Generator was made outside the current trace, or the map forbids draws.
        """
        key, count = self._count_draw()
        return key, (np.uint32(count) if count.__class__ is int else count)

    def _count_draw(self) -> tuple[Any, Any]:
        """Advances the Generator as :meth:`advance` does. The number is an int or, in a trace, an array."""
        check_process()
        if overlays.current is not None and (shadow := self._resolve()) is not self:
            return shadow._count_draw()
        self._refuse_other_trace("a draw")
        levels = () if self._is_of_call else modes.state.map_levels
        for level in levels:
            _refuse_drawing(level)
        with self._lock:  # threads share the global Generator and must not draw the same numbers
            if self._key is None:
                self._key = self._seeded_key = _make_key(self._seed)
            if modes.state.draw_logs:
                note_draw(self, self._birth, (self._seed, self._key, self._count))
            self._count += 1
            key, count = self._key, self._count
        if self._base is not None and key is self._base[0]:
            count = self._base[1] + np.uint32(count)
        for level in levels:
            if level.randomness == "different":
                key = jax.random.fold_in(key, level.index)
        return key, count

    def draw(self) -> tuple[Any, Any]:
        """Advances the Generator as :meth:`advance` does, and returns the key in a form that is fast to pass.

        JAX takes a typed key apart in Python at each compiled call, and moves each operand by itself.

        Returns:
            One array of the numbers of a key and, at its end, a number to fold into it, and the kind of key
            for ``wrap_key_data``, see ``read_draw``. For a key that is traced, has dimensions or is
            committed to devices, where the draw runs: the key with the number, and None as its kind.
        """
        key, count = self._count_draw()
        held, words, kind = self._unwrapped  # read at once: another thread may replace it
        if held is not key:
            if isinstance(key, Tracer) or key.ndim or key.committed:
                return (key, count), None
            data, kind = jax.random.key_data(key), jax.random.key_impl(key)
            if isinstance(data, Tracer):  # a key from outside of the current trace
                return (key, count), None
            words = np.append(np.asarray(data), np.uint32(0))
            self._unwrapped = key, words, kind
        if count.__class__ is not int:
            return (key, count), None
        drawn = words.copy()
        drawn[-1] = count
        return drawn, kind

    def _refuse_other_trace(self, what: str) -> None:
        """Raises in another trace than the one in which the Generator was made.

        ``oplib.vmap`` runs its function each time, so a draw there does not repeat itself.
        """
        here = get_opaque_trace_state()
        if here == self._trace:
            return
        for level in reversed(modes.state.map_levels):
            if here == self._trace or here != level.inside:
                break
            here = level.outside
        if here != self._trace and modes.region is not None:
            raise TracingError(
                f"Generator: {what} inside the body of a scan, while_loop or cond would change a Generator "
                "made outside of it. The body is traced once, so each run of it would repeat the same "
                "numbers. Carry a key, give oplib.scan one for each turn as xs, made by "
                "jax.random.split(key, turns), or make it an operand of cond; use "
                "oplib.Generator.from_key(key) inside."
            )
        if here != self._trace:
            raise TracingError(
                f"Generator: {what} inside a trace would change a Generator made outside of it. "
                f"The compiled function would repeat the same numbers at each call. "
                f"Pass a key as an argument and use oplib.Generator.from_key(key) inside."
            )


def _restore(device: str, seed: int, plain: tuple[str, np.ndarray[Any, Any]] | None, count: int) -> Generator:
    """Unpickles a Generator. In a forked process, which may not compute, its key stays as it is."""
    generator = Generator(device)
    if plain is None or is_orphan():
        generator._seed, generator._key, generator._count = seed, plain, count
        return generator
    key = jax.random.wrap_key_data(jnp.asarray(plain[1]), impl=plain[0])
    return generator.set_state((seed, key, count))


def _is_state(state: Any) -> bool:
    """Whether a value is what ``get_state`` returns."""
    if not isinstance(state, tuple) or len(state) != 3:
        return False
    seed, key, count = state
    if isinstance(count, jax.Array):
        is_count = count.shape == () and jnp.issubdtype(count.dtype, jnp.integer)
    else:
        is_count = type(count) is int and 0 <= count < _WORD - 1
    return type(seed) is int and 0 <= seed < 2**64 and (key is None or is_key(key)) and is_count


def _refuse_drawing(level: MapLevel) -> None:
    if level.randomness == "error":
        raise TracingError(
            "vmap: called random operation while in randomness error mode. It does not say whether each of "
            f"the {level.size} examples has its own numbers. Give vmap randomness='different' or "
            "'same', or draw outside of it."
        )


def read_draw(draw: Any, kind: Any) -> Any:
    """Returns the key of a draw, inside the compiled function; see :meth:`Generator.draw`."""
    key, count = draw if kind is None else (jax.random.wrap_key_data(draw[:-1], impl=kind), draw[-1])
    return jax.random.fold_in(key, count)


def is_key(value: Any) -> bool:
    """Returns whether a value is a key of JAX, or an array of keys."""
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def read_generator(generator: Any) -> Generator:
    """Returns the Generator for an argument: the global one for None, a new one for a key.

    Others raise ArgumentTypeError.
    """
    if isinstance(generator, Generator):
        return generator
    if generator is None:
        return default_generator
    if is_key(generator):
        return begin_at(generator)
    raise ArgumentTypeError(
        f"generator: expected a Generator, or a key of jax.random.key. Got {describe(generator)}, of type "
        f"{type(generator).__name__}. Write generator=oplib.Generator().manual_seed(seed)."
    )


def begin_at(key: Any) -> Generator:
    """Makes a Generator for a key. It ignores maps, because the key already says what differs in them.

    Args:
        key: the key that a call has drawn; in a batching rule one for each example.
    """
    generator = Generator.from_key(key)
    generator._is_of_call = True
    return generator


@partial(jax.jit, inline=True)
def _fold(key: Any, count: Any) -> Any:
    """Folds a number into one key, or into each of several."""
    fold: Any = jax.random.fold_in
    return jax.vmap(fold, (0, None))(key, count) if key.ndim else fold(key, count)


def _make_key(seed: int) -> Any:
    """Makes a key from all 64 bits of a seed. JAX does so only with x64.

    The key is not committed, because a Generator keeps it. A key of the mesh that is set now would put later
    draws on this mesh.
    """
    key = jax.random.key(seed % _WORD)
    if seed >= _WORD:
        key = jax.random.fold_in(key, seed // _WORD)
    if isinstance(key, Tracer) or not key.committed:
        return key
    words: Any = np.asarray(jax.random.key_data(key))
    return jax.random.wrap_key_data(words, impl=jax.random.key_impl(key))


default_generator = Generator()


@entry_point
def manual_seed(seed: int) -> Generator:
    """Sets the seed of the global Generator, restarts it, and returns it.

    Args:
        seed: as for :meth:`Generator.manual_seed`.

    Example:
        >>> from oplib.tensor.random.factories import rand
        >>> first = manual_seed(7) and rand(2).tolist()
        >>> first == (manual_seed(7) and rand(2).tolist())
        True
    """
    return default_generator.manual_seed(seed)


def initial_seed() -> int:
    """Returns the current seed of the global Generator.

    Source:
        torch.initial_seed

    Example:
        >>> _ = manual_seed(7)
        >>> initial_seed()
        7
    """
    return default_generator.initial_seed()


def seed() -> int:
    """Restarts the global Generator from a seed of the operating system, and returns the seed.

    Source:
        torch.seed

    Example:
        >>> seed() == initial_seed()
        True
    """
    return default_generator.seed()


def get_rng_state() -> tuple[int, Any, int]:
    """Returns the state of the global Generator, for :func:`set_rng_state`.

    Source:
        torch.get_rng_state, which returns a tensor of bytes.

    Example:
        >>> _ = manual_seed(7)
        >>> get_rng_state() == manual_seed(7).get_state()
        True
    """
    return default_generator.get_state()


@entry_point
def set_rng_state(new_state: tuple[int, Any, int]) -> None:
    """Sets a state of the global Generator that :func:`get_rng_state` returned.

    Example:
        >>> from oplib.tensor.random.factories import rand
        >>> state = get_rng_state()
        >>> first = rand(2).tolist()
        >>> set_rng_state(state)
        >>> rand(2).tolist() == first
        True
    """
    default_generator.set_state(new_state)
