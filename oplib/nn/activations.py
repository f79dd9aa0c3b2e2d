"""The activations that torch's ``nn.functional`` also writes in place, where ``inplace=True`` asks for it.

At the root each has its parameters without ``inplace``, as in torch.
"""

from __future__ import annotations

from typing import Any

from oplib.tensor import upcalls

__all__ = [
    "celu",
    "elu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "mish",
    "relu",
    "relu6",
    "selu",
    "silu",
    "threshold",
]


def relu(input: Any, inplace: bool = False) -> Any:  # noqa: A002  torch's name, here and below
    """``max(x, 0)``, item by item.

    Args:
        input: any shape, real.
        inplace: write the result into ``input``, which must be a Tensor that may be written, and return it.

    Returns:
        The result, of the shape and dtype of ``input``.

    Raises:
        ArgumentTypeError: ``inplace`` for what is no Tensor.
        AutogradError: ``inplace`` for a leaf that requires grad, while grad mode is on.

    Gradient:
        That of the op of the name; 0 at the kink.

    Source:
        ``torch.nn.functional.relu`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> import oplib.nn.functional as F
        >>> x = oplib.tensor([-1.0, 2.0])
        >>> F.relu(x, inplace=True) is x
        True
        >>> x
        tensor([0., 2.])
    """
    return upcalls.relu_(input) if inplace else upcalls.relu(input)


def relu6(input: Any, inplace: bool = False) -> Any:  # noqa: A002
    """``min(max(x, 0), 6)``, item by item.

    Args:
        input: any shape, real.
        inplace: as for :func:`relu`, whose errors it has too.

    Returns:
        The result, of the shape and dtype of ``input``.

    Gradient:
        That of the op of the name.

    Source:
        ``torch.nn.functional.relu6`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> relu6(oplib.tensor([-1.0, 7.0]))
        tensor([0., 6.])
    """
    return upcalls.relu6_(input) if inplace else upcalls.relu6(input)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:  # noqa: A002
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below.

    Args:
        input: any shape, floating.
        alpha: the bound below is ``-alpha``.
        inplace: as for :func:`relu`, whose errors it has too.

    Returns:
        The result, of the shape and dtype of ``input``.

    Gradient:
        That of the op of the name.

    Source:
        ``torch.nn.functional.elu`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> elu(oplib.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    return upcalls.elu_(input, alpha) if inplace else upcalls.elu(input, alpha)


def selu(input: Any, inplace: bool = False) -> Any:  # noqa: A002
    """The self-normalising ``elu``.

    Args:
        input: any shape, floating.
        inplace: as for :func:`relu`, whose errors it has too.

    Returns:
        The result, of the shape and dtype of ``input``.

    Gradient:
        That of the op of the name.

    Source:
        ``torch.nn.functional.selu`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> selu(oplib.tensor([-1.0, 2.0]))
        tensor([-1.1113,  2.1014])
    """
    return upcalls.selu_(input) if inplace else upcalls.selu(input)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:  # noqa: A002
    """``x`` above 0, ``alpha * (exp(x / alpha) - 1)`` below.

    Args:
        input: any shape, floating.
        alpha: the bound below is ``-alpha``.
        inplace: as for :func:`relu`, whose errors it has too.

    Returns:
        The result, of the shape and dtype of ``input``.

    Gradient:
        That of the op of the name.

    Source:
        ``torch.nn.functional.celu`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> celu(oplib.tensor([-1.0, 2.0]), 2.0)
        tensor([-0.7869,  2.0000])
    """
    return upcalls.celu_(input, alpha) if inplace else upcalls.celu(input, alpha)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:  # noqa: A002
    """``x`` above 0, ``negative_slope * x`` below.

    Args:
        input: any shape, floating.
        negative_slope: the slope below 0.
        inplace: as for :func:`relu`, whose errors it has too.

    Returns:
        The result, of the shape and dtype of ``input``.

    Gradient:
        That of the op of the name; ``negative_slope`` at 0.

    Source:
        ``torch.nn.functional.leaky_relu`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> leaky_relu(oplib.tensor([-1.0, 2.0]), 0.1)
        tensor([-0.1000,  2.0000])
    """
    return (
        upcalls.leaky_relu_(input, negative_slope) if inplace else upcalls.leaky_relu(input, negative_slope)
    )


def silu(input: Any, inplace: bool = False) -> Any:  # noqa: A002
    """``x * sigmoid(x)``, item by item.

    Args:
        input: any shape, floating.
        inplace: as for :func:`relu`, whose errors it has too.

    Returns:
        The result, of the shape and dtype of ``input``.

    Gradient:
        That of the op of the name.

    Source:
        ``torch.nn.functional.silu`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> silu(oplib.tensor([-1.0, 2.0]))
        tensor([-0.2689,  1.7616])
    """
    return upcalls.silu_(input) if inplace else upcalls.silu(input)


def mish(input: Any, inplace: bool = False) -> Any:  # noqa: A002
    """``x * tanh(softplus(x))``, item by item.

    Args:
        input: any shape, floating.
        inplace: as for :func:`relu`, whose errors it has too.

    Returns:
        The result, of the shape and dtype of ``input``.

    Gradient:
        That of the op of the name.

    Source:
        ``torch.nn.functional.mish`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> mish(oplib.tensor([-1.0, 2.0]))
        tensor([-0.3034,  1.9440])
    """
    return upcalls.mish_(input) if inplace else upcalls.mish(input)


def hardtanh(
    input: Any,  # noqa: A002
    min_val: float = -1.0,
    max_val: float = 1.0,
    inplace: bool = False,
) -> Any:
    """``x``, bounded by ``min_val`` and ``max_val``.

    Args:
        input: any shape, real.
        min_val: the lower bound.
        max_val: the upper bound.
        inplace: as for :func:`relu`, whose errors it has too.

    Returns:
        The result, of the shape and dtype of ``input``.

    Gradient:
        That of the op of the name; 0 at the bounds.

    Source:
        ``torch.nn.functional.hardtanh`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> hardtanh(oplib.tensor([-3.0, 0.5]))
        tensor([-1.0000,  0.5000])
    """
    return (
        upcalls.hardtanh_(input, min_val, max_val) if inplace else upcalls.hardtanh(input, min_val, max_val)
    )


def hardswish(input: Any, inplace: bool = False) -> Any:  # noqa: A002
    """``x * min(max(x + 3, 0), 6) / 6``, item by item.

    Args:
        input: any shape, floating.
        inplace: as for :func:`relu`, whose errors it has too.

    Returns:
        The result, of the shape and dtype of ``input``.

    Gradient:
        That of the op of the name.

    Source:
        ``torch.nn.functional.hardswish`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> hardswish(oplib.tensor([-1.0, 2.0]))
        tensor([-0.3333,  1.6667])
    """
    return upcalls.hardswish_(input) if inplace else upcalls.hardswish(input)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:  # noqa: A002
    """``(x + 3) / 6``, kept between 0 and 1.

    Args:
        input: any shape, floating.
        inplace: as for :func:`relu`, whose errors it has too.

    Returns:
        The result, of the shape and dtype of ``input``.

    Gradient:
        That of the op of the name.

    Source:
        ``torch.nn.functional.hardsigmoid`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> hardsigmoid(oplib.tensor([-4.0, 0.0]))
        tensor([0.0000, 0.5000])
    """
    return upcalls.hardsigmoid_(input) if inplace else upcalls.hardsigmoid(input)


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:  # noqa: A002
    """``x`` above a threshold, and a value elsewhere.

    Args:
        input: any shape, real.
        threshold: items above it stay.
        value: what stands in the place of the others.
        inplace: as for :func:`relu`, whose errors it has too.

    Returns:
        The result, of the shape and dtype of ``input``.

    Gradient:
        That of the op of the name.

    Source:
        ``torch.nn.functional.threshold`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> threshold(oplib.tensor([-1.0, 2.0]), 0.5, 9.0)
        tensor([9., 2.])
    """
    return (
        upcalls.threshold_(input, threshold, value) if inplace else upcalls.threshold(input, threshold, value)
    )
