"""The cost of oplib: ``python -m benchmarks`` prints one row for each bound of the design.

How to read a row::

    on Tensors, recording                  1.52  (1.49..1.58)  1.70  reached   13.1 us   8.6 us  bare jit

- *ratio* is the median, over many short rounds, of subject over control. Each round times both in direct
  succession and alternating order, so that a slowdown of the machine affects both. The quartiles of the
  rounds are in brackets: if they are far apart, the machine was busy, and the row should be measured again.
- *bound* is the largest allowed ratio, and *verdict* says whether it is kept. A row without a bound is for
  information. A row that cannot run (no torch) says so, and is neither reached nor missed.
- *subject* and *control* are medians in microseconds. The control is bare: the same mathematics on the same
  operands without oplib, named in the last column. Trust the ratios; microseconds depend on the machine.
- *minima* is the ratio of the fastest rounds: the cost of the code on an idle machine. On a quiet machine it
  agrees with the median; if the two differ, repeat the measurement.

The clock is the wall clock, because this is the time that a user waits. ``--clock process`` counts the
processor time of all threads instead, for shared machines. Python's garbage collector stays on, as in
programs with a tape. All code, including torch and XLA, runs on one core unless ``--cores`` is given: waiting
for a second core would measure the scheduler.

``GROUPS`` in ``__main__.py`` names the groups, in the order of the printed table, and the module that
measures each. The group ``torch-compile`` takes
minutes and is measured on request only: ``--only torch-compile``. So are ``sizes`` (``make bench-sizes``) and
``accelerator``, which needs one.
"""
