"""The record of a public function that is made of several ops: what a row is for a single op."""

from __future__ import annotations

from oplib.frozen import frozen

from .row import Function, name_in_torch


@frozen
class Composed:
    """A public function that is made of several ops.

    Attributes:
        function: it calls ops through ``single_ops``. The name of a function of linalg or fft begins
            with ``linalg_`` or ``fft_``.
        name: of the public function, if it is not that of ``function``.
        is_method: it is a method of Tensor too.
        in_place: there is a method that writes the result into the first argument, ``float_power_``.
        out: the function, not the method, takes ``out=``. All functions of linalg and fft do.
        is_exact: the tensor that these two forms write must have the dtype of the result.
        aliases: names at the root of a function of linalg.
        in_networks: ``nn.functional`` has it, and so has torch's.
        returns: what it returns, as in a schema; "Any" where that depends on more than ``deciding``. By
            default what the op of the same name returns, or a Tensor.
        deciding: parameters without which it returns one Tensor; with them it depends on their values.
        makes: it makes a Tensor from numbers.
    """

    function: Function
    name: str = ""
    is_method: bool = False
    in_place: bool = False
    out: bool = False
    is_exact: bool = False
    aliases: tuple[str, ...] = ()
    in_networks: bool = False
    returns: str = ""
    deciding: tuple[str, ...] = ()
    makes: bool = False

    @property
    def origin(self) -> str:
        """Torch's function of this name, whose contract it follows if its docstring says nothing else."""
        return f"torch.nn.functional.{self.op}" if self.in_networks else name_in_torch(self.op)

    @property
    def op(self) -> str:
        """The name by which it is registered."""
        return self.name or self.function.__name__
