"""Runs written by 0.1.0 get the same JSON from every endpoint as 0.1.0 itself gave.

``answers.json.gz`` holds what 0.1.0 answered about the two runs in ``runs.tar.gz``: the golden run
of journal format 1, and one with every kind of record, two ranks and two attempts.
"""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.server.live import Server

RELEASE = Path(__file__).parent / "golden" / "release-0.1.0"
# Keys that answers have gained since, by what they mean.
ADDED = {
    "ends_at": "when the run is expected to end",
    "partial": "whether only identity and newest records were read so far",
    "pending": "how many runs were not read whole yet",
    "group": "the group of runs it belongs to",
    "job_type": "what it does in its group",
    "fork": "the run that it was forked from",
    "owner": "whose run it is",
    "unfinished": "how far a run is that has not finished, null of one that has",
    "summary": "what the program set as its summary",
    "groups": "groups of runs, null unless they were requested",
    "host": "the machine of a live run",
    "phase": "what the training of a live run is doing",
    "num_metrics": "how many metrics a run has; of a wide run not all are listed",
    "stored": "how many runs there are whatever the query, null unless requested",
    "projects": "the names of all projects, null unless requested",
    "sections": "the sections of its metrics, with how many each has",
}
# Values that 0.1.0 had wrong, by the end of their path: what it answered, what is right.
CORRECTED = {
    "golden warnings": (0, 1)  # the list left out how the run ended; doctor counted it
}
# Texts for people that were reworded since.
REWORDED = {
    f"attempt 2 goes on from step {step}": f"attempt 2 resumes from step {step}"
    for step in (2, 200)
} | {
    # Of a loss that is lost within the first steps, before which there is no checkpoint.
    "Go back to the last checkpoint before it; lower the learning rate, clip gradients, and look "
    "for a division by zero, log(0) or overflow in float16.": "It came within the first steps: "
    "check the initialisation, the inputs for values that are not finite or far too large, and "
    "overflow in float16; then lower the learning rate and warm it up."
}


def test_every_endpoint_answers_as_the_release_did(tmp_path: Path, server: Server) -> None:
    with tarfile.open(RELEASE / "runs.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads(gzip.decompress((RELEASE / "answers.json.gz").read_bytes()))
    for path, before in expected.items():
        query: dict[str, Any] = {"config": "1"} if path == "/api/runs" else {}
        answer = server.ask(path, **query)
        assert answer.status == 200, path
        differences = list(compare(before, answer.json, path))
        assert not differences, f"{path}: {differences[:5]}"


def compare(before: Any, after: Any, where: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            if key not in after:
                yield f"{where}.{key} is gone"
            elif key not in before:
                if key not in ADDED:
                    yield f"{where}.{key} is new"
            elif key == "folder":
                if not str(after[key]).endswith(str(before[key]).removeprefix("runs")):
                    yield f"{where}.{key}: {before[key]!r}, now {after[key]!r}"
            elif not is_corrected(key, before, after):
                yield from compare(before[key], after[key], f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from compare(old, new, f"{where}[{index}]")
    elif before != after and not (isinstance(before, str) and REWORDED.get(before) == after):
        yield f"{where}: {before!r:.80}, now {after!r:.80}"


def is_corrected(key: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    pair = CORRECTED.get(f"{before.get('project')} {key}")
    return pair == (before[key], after[key])
