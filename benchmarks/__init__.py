"""What oplib costs: ``python -m benchmarks`` prints one row for each bound that the design sets itself.

How to read a row::

    on Tensors, recording                  1.52  (1.49..1.58)  1.70  reached   13.1 us   8.6 us  bare jit

- *ratio* is the median, over many short rounds, of subject over control. In each round both are timed one
  right after the other, in changing order, so that a machine that slows down slows both. In brackets stand
  the quartiles of the rounds: where they are far apart, the machine was busy, and the row is worth running
  again.
- *bound* is what the ratio shall not exceed, and *verdict* says whether it does. A row without a bound is
  reported because somebody will ask. What cannot run here (no torch) says so, and counts as neither.
- *subject* and *control* are microseconds, medians as well. The control is bare: the same mathematics on the
  same operands without oplib, named in the last column. Trust the ratios; microseconds are this machine's.
- *minima* is the ratio of the fastest rounds: what the code costs where nothing else runs. It agrees with the
  median on a quiet machine; where the two disagree, believe neither before a second run.

The clock is the wall clock, because that is what a user waits for. ``--clock process`` counts processor time
of all threads instead, for machines that are shared. Python's garbage collector stays on: a tape lives with
it. All run on one core, torch and XLA alike, unless ``--cores`` says otherwise: what waits for a second core
measures the scheduler.

Each file is one group of rows, read from top to bottom as the table is printed.
"""
