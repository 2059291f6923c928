"""What an Aim repository answers after a run was sent to it."""

from tests.exchange.sinks.member import Member

# A repository that no Aim server has looked after is indexed before it can be queried.
SERIES = """
import json, sys
from aim import Repo
repo = Repo(sys.argv[1])
repo._recreate_index()
found = {}
for run in repo.query_metrics("True", report_mode=0).iter_runs():
    for metric in run:
        steps, (values, *_) = metric.data.items_list()
        found[metric.name] = [[int(step), float(value)] for step, value in zip(steps, values)]
print(json.dumps(found))
"""
MEMBER = Member(reader=SERIES, package="aim", options=lambda folder: {"aim_repo": str(folder)})
