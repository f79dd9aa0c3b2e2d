"""Two worlds, one answer: what the tape knows of a value or a call holds under every transformation too.

The matrix has a row for each thing that the tape knows (``rows.py``) and a column for each way to run code
(``columns.py``). ``test_matrix.py`` runs each cell, and compares it with the row op by op.

To add a row, write a function of a Tensor with two floats in ``rows.py`` with ``@row``. It returns a Tensor.
The tape says what its value and derivatives are. If a ruling excepts a column, give code that has the
derivatives of that column: ``@row(instead={"dual level": lambda t: t * t})``. ``may_refuse`` lists the
columns that may raise. A row may have effects if it undoes them.

To add a column, write a function in ``columns.py`` with ``@column``. It gets the code of a row, and returns
what its world computes of the sum of the sines of the result: ``value``, ``gradient``, ``hessian`` or
``slope``, which is the derivative along ``DIRECTION``.
"""
