"""The built-in ops, and the way to every op: ``oplib.ops.namespace.name.overload``.

The built-in ops stand in tables, one module for each family, and are registered in the namespace ``oplib`` as
any user's. All other modules here have an underscore, since every other attribute is a namespace of ops.

Where a line belongs, from the row of an op to the function that is called:

=====================================  ==================================================================
what an op is: schema, kernel, rules   a table, one for each family: the files with ``ROWS``, which
                                       ``_families`` lists in the order of ``docs/use/ops.md``
what a row may say                     ``_table``; its classes of dtypes in ``_dtype_classes``
what kernels share                     ``_promotion`` (dtypes, broadcasting), ``_dims``, ``_index_rules``,
                                       ``_windows`` (pooling), ``_interpolation``, ``_scatter_product``,
                                       ``_wide_integers``, ``_rational`` and ``_gamma`` (special functions);
                                       ``_flash_kernels`` and ``_flash_sweeps``
gradients of what is picked            ``_shared_gradients``, ``_picked_gradients``
what a view shows of its base          ``_view_rules``, ``_partition_rules``; made a view in ``_viewer``
which overload a call means            ``_operand_choosers`` (tensor or number), ``_form_choosers``,
                                       ``_random_forms``
what is looked at around a call        ``_checked_*``, by what it is; ``_stored_numbers``, ``_untensors``
functions that are made of several     ``_composed*`` by subject, ``_least_squares``, ``_older_linalg``;
                                       those that read values in ``_data_dependent``, by ``_values``;
                                       the ops they are made of they find in ``_single_ops``
``x[...]`` and ``x[...] = value``      ``_subscripts``, ``_subscript_forms``, ``_subscript_window``,
                                       ``_getitem``, ``_setitem``
forms that write                       ``_in_place``, ``_fill_in_place``, ``_random_in_place``, ``_out``
rows to functions                      ``_registrar``, ``_functions``, ``_operators``, ``_placement``
what these say of themselves           ``_description``; words for parameters in ``_explanations``
their names, and those of parameters   ``_names``, ``_parameters``
what is made of the tables             ``_page``; ``_stub``, of which ``_stub_rooms``, ``_stub_forms``,
                                       ``_stub_results``
=====================================  ==================================================================
"""

from __future__ import annotations

from typing import Any

from oplib.library.objects.namespace import ops as _namespaces

from . import _functions as _functions  # registers the built-in ops

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    return getattr(_namespaces, name)


def __dir__() -> list[str]:
    return [*globals(), *_namespaces]
