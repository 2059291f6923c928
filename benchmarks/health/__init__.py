"""Judges the health rules on runs nobody tuned to: `python -m benchmarks.health`.

`families/` draws healthy runs, `faults/` plants one fault in them, `render.py` writes them down as
journal records, `judge.py` feeds those to `epochal.health.Health` and counts. The families and
strengths under `heldout/` are for judging only: thresholds are never set by looking at them.
"""
