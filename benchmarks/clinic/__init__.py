"""Judges the health rules on real trainings: `python -m benchmarks.clinic run`, then `judge`.

`kinds/` are small trainings, `faults/` mistakes that are planted in them, `harness.py` the one loop
that trains and records them. `runner.py` runs them and keeps their records as evidence.
`verdict.py` passes the evidence to the rules and compares the findings with `accepted.py`. Rules
are tuned on one half of the kinds and judged on the other. A third group, the blind kinds, is for
the last verdict: no rule was changed because of them. `run --half blind5` records the newest.
`blind4` and `blind3` are those before, of which a verdict is known. Two blind groups before these
were judged, rules were changed because of them, and they are in the unseen half. `rates` proves
that healthy trainings are healthy: neither a third of the rate nor three times of it is better.
`run --device cuda` trains on a GPU, and `both` on the cores beside it as well.
"""
