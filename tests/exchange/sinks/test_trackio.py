"""What Trackio's own storage answers after a run was sent to it."""

from tests.exchange.sinks.member import Member

SERIES = """
import json, sys
from trackio.sqlite_storage import SQLiteStorage
found = {}
for row in SQLiteStorage.get_logs("tests", sys.argv[1]):
    for name, value in row.items():
        if name not in ("step", "timestamp"):
            found.setdefault(name, []).append([row["step"], value])
print(json.dumps(found))
"""
MEMBER = Member(
    reader=SERIES,
    package="trackio",
    environment=lambda folder: {"TRACKIO_DIR": str(folder)},
    argument=lambda _folder, run: run.name,
)
