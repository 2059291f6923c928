"""Judges the health rules on runs nobody tuned to: `python -m benchmarks.health`.

`families/` draws healthy runs, `faults/` plants one fault in them, `render.py` writes them down as
journal records, `judge.py` feeds those to `epochal.health.Health` and counts. The families
under `heldout/` are for judging: drawn up without a look at the rules, and judged before any rule
was touched for what they showed.
"""
