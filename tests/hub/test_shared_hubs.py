"""Two hubs over one database and one bucket, with a real training and real commands."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub.shared_hubs import SharedHub
from tests.servers.postgres import new_database
from tests.servers.s3 import S3Server

TRAINING = """
import sys, time, epochal

with epochal.init("vision", "first", config={"lr": 1e-3}, companion=True) as run:
    for step in range(int(sys.argv[1])):
        run.log({"loss": 1.0 / (step + 1)}, step=step)
        time.sleep(0.005)
"""
WAIT_S = 120.0


@pytest.fixture
def hubs(postgres: str, s3: S3Server, tmp_path: Path) -> Iterator[tuple[SharedHub, SharedHub]]:
    catalog, bucket = new_database(postgres), s3.make_bucket(f"b-{secrets.token_hex(4)}")
    made = [
        SharedHub(catalog, f"{bucket}/team", tmp_path / f"cache-{number}", s3.environment)
        for number in range(2)
    ]
    with contextlib.ExitStack() as stack:
        for hub in made:
            stack.callback(hub.stop)
            hub.start()
        yield made[0], made[1]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.1)


def epochal(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "epochal", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=WAIT_S,
    )


def test_what_one_hub_receives_the_other_shows_also_when_the_first_is_killed(
    hubs: tuple[SharedHub, SharedHub], tmp_path: Path
) -> None:
    first, second = hubs
    token = first.first_token
    assert token is not None
    assert second.first_token is None  # tokens belong to all hubs
    steps = 600
    training = subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(steps)],
        env={
            **os.environ,
            "EPOCHAL_DIR": str(tmp_path / "runs"),
            "EPOCHAL_HUB": first.url,
            "EPOCHAL_HUB_TOKEN": token,
        },
    )

    def rows() -> list[dict[str, object]]:
        found: list[dict[str, object]] = second.ask("/api/runs", token)["rows"]
        return found

    wait_until(lambda: bool(rows()))
    (row,) = rows()
    assert (row["name"], row["project"]) == ("first", "vision")

    first.kill()
    wait_until(lambda: training.poll() is not None)
    assert training.returncode == 0
    first.start()  # at its old port: the companion comes back to it
    pushed = epochal(
        *("hub", "push", "vision/first", "--to", second.url),
        EPOCHAL_DIR=str(tmp_path / "runs"),
        EPOCHAL_HUB_TOKEN=token,
    )
    assert "the hub has everything" in pushed.stdout, pushed.stderr

    printed = epochal(
        *("series", "vision/first", "loss", "--csv", "--points", "5", "--hub", first.url),
        EPOCHAL_HUB_TOKEN=token,
        EPOCHAL_CACHE_DIR=str(tmp_path / "reader"),
    )
    assert printed.stdout.splitlines()[-1] == f"loss,{steps - 1},{1 / steps:.6g}", printed

    added = epochal("hub", "token", "add", "reader", "--role", "read", "--hub", first.catalog)
    wait_until(lambda: bool(second.ask("/api/runs", added.stdout.strip())["rows"]))
