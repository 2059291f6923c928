"""Evaluate the health rules on small real trainings: `python -m benchmarks.clinic run`, `judge`.

`task.py` says what a task is and `tasks/` has them. `faults.py` has the mistakes that are put into
a task, and `harness.py` the one training loop that runs and records it. `runner.py` runs many
trainings in forked processes and keeps the journal of each (`journal.py`). `judge.py` passes the
journals to the rules and compares the findings with `accepted.py`. `rule_check.py` replays the
recorded journals of `tests/reference/clinic` and shows what each rule says about them.
"""
