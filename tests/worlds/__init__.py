"""Two worlds, one answer: what the tape knows of a value or a call holds under every transformation too.

The matrix has a row for each thing that the tape knows (``rows/``) and a column for each way to run code
(``columns.py``). Some columns have a cell for each kind of op (``kinds.py``). ``test_matrix.py`` runs each
cell, and compares its value, derivatives and effects with those of the row op by op.

To add a row, write a function of a Tensor with two floats and of an op in a file of ``rows/`` with ``@row``.
It returns a Tensor. The op computes ``x * x``, or what ``rules`` say. The tape says what the value and the
derivatives of the row are. ``before`` and ``after`` set back and read its effects, ``around`` is a block in
which its cells run. No cell is left out: if a ruling excepts cells, give code (``instead``) or a change of
the effects (``effects``) that says what they give, or the text with which they raise (``refuses``), and name
the ruling. ``known_defects`` are cells that are wrong.

To add a column, write a function in ``columns.py`` with ``@column``. It gets the code of a row, and returns
what its world computes of the sum of the sines of the result: ``value``, ``gradient``, ``hessian`` or
``slope``, which is the derivative along ``DIRECTION``. Its tags name it in the exceptions of rows.
"""
