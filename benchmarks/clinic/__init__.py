"""Judges the health rules on real trainings: `python -m benchmarks.clinic run`, then `judge`.

`kinds/` are small trainings, `faults/` mistakes that are planted in them, `harness.py` the one loop
that trains and records them. `runner.py` runs them and keeps their records as evidence.
`verdict.py` passes the evidence to the rules and compares the findings with `accepted.py`. Rules
are tuned on one half of the kinds and judged on the other. Blind kinds are for a verdict before
any rule is changed because of them: `run --tier all --half blind8` records the newest. `blind3` to
`blind7` are those before, of which a verdict is known, and rules were changed because of them. Two
blind groups before these are in the unseen half. `rates` proves
that healthy trainings are healthy: neither a third of the rate nor three times of it is better.
`run --device cuda` trains on a GPU, and `both` on the cores beside it as well.
"""
