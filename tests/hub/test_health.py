"""A hub says whether it can store anything, and what it does."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

import pytest

from epochal.errors import EpochalError
from epochal.hub.cluster_inbox import ClusterInbox
from epochal.hub.counters import Counter, Histogram, HubCounters
from epochal.hub.folder_inbox import FolderInbox
from epochal.hub.ledger import Ledger
from epochal.hub.limits import Budget, FullError, Limits
from epochal.hub.serving import FolderRuns, SharedRuns
from epochal.shipping.client import HubClient, HubError
from epochal.store.bucket import open_bucket
from epochal.store.cluster.database import Database
from epochal.store.cluster.documents import ClusterDocuments
from epochal.store.cluster.runs import ClusterRuns
from tests.hub.hub_process import serving_hub
from tests.hub.test_inbox import IDENTITY, STEM, lines
from tests.hub.test_shipping import wait_until
from tests.servers.postgres import new_database
from tests.servers.s3 import S3Server


def test_a_folder_that_is_full_or_cannot_be_written_is_not_ready(tmp_path: Path) -> None:
    free = [1 << 40]
    with contextlib.closing(Ledger(tmp_path)) as ledger:
        clock = iter(range(0, 10_000, 10))
        budget = Budget(
            tmp_path, ledger, Limits(), clock=lambda: float(next(clock)), free=lambda _path: free[0]
        )
        inbox = FolderInbox(tmp_path, charge=budget.charge)
        assert inbox.readiness() == ((), ())
        free[0] = 0
        with pytest.raises(FullError) as caught:
            budget.charge("one", 1)
        assert inbox.readiness().missing == (str(caught.value),)
    gone = FolderInbox(tmp_path / "gone")
    assert gone.readiness().missing == ("the folder cannot be written: No such file or directory.",)


def test_a_cluster_needs_its_database_and_says_when_its_bucket_is_away(
    postgres: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    bucket, address = s3.make_bucket(f"b-{secrets.token_hex(4)}"), new_database(postgres)
    with contextlib.closing(Database(address)) as database:
        database.prepare()
        runs = ClusterRuns(database, open_bucket(f"{bucket}/runs"))
        with contextlib.closing(ClusterInbox(runs)) as inbox:
            missing, notes = inbox.readiness()
            assert missing == ()
            assert [note for note in notes if "no synchronous standby" in note]
            name = str(psycopg.conninfo.conninfo_to_dict(address)["dbname"])
            with psycopg.connect(postgres, autocommit=True) as other:
                other.execute(f"alter database {name} set default_transaction_read_only = on")
            database.close()
    with contextlib.closing(Database(address)) as database:
        runs = ClusterRuns(database, open_bucket(f"{bucket}-that-is-not-there/runs"))
        with contextlib.closing(ClusterInbox(runs)) as inbox:
            missing, notes = inbox.readiness()
    assert missing == ("the database cannot be reached, or takes no changes.",)
    assert notes == ("the bucket cannot be reached: sealing and files wait.",)


def test_a_folder_as_a_bucket_is_missed(tmp_path: Path) -> None:
    bucket = open_bucket(str(tmp_path / "bucket"))
    assert [*bucket.list("ready/")] == []
    (tmp_path / "bucket").rmdir()
    with pytest.raises(EpochalError, match="is not there"):
        next(iter(bucket.list("ready/")))


def test_anybody_may_ask_whether_a_hub_is_ready(tmp_path: Path) -> None:
    runs = FolderRuns(tmp_path / "hub")
    with (
        contextlib.closing(Ledger(tmp_path / "hub")) as ledger,
        serving_hub(runs, ledger) as server,
    ):
        answer = server.ask("/readyz")
        assert (answer.status, answer.json) == (200, {"ready": True, "missing": [], "notes": []})
        (tmp_path / "hub").rename(tmp_path / "away")
        wait_until(lambda: server.ask("/readyz").status == 503)
        assert server.ask("/readyz").json["missing"] == [
            "the folder cannot be written: No such file or directory."
        ]
        (tmp_path / "away").rename(tmp_path / "hub")
        wait_until(lambda: server.ask("/readyz").status == 200)
        assert server.ask("/healthz").status == 200


def test_the_counters_of_a_hub_need_a_token(tmp_path: Path) -> None:
    runs = FolderRuns(tmp_path / "hub")
    with (
        contextlib.closing(Ledger(tmp_path / "hub")) as ledger,
        serving_hub(runs, ledger) as server,
    ):
        assert server.ask("/api/hub/metrics").status == 401
        writer = HubClient(f"http://127.0.0.1:{server.port}", ledger.add_token("m", "write"))
        reader = ledger.add_token("prometheus", "read", projects=["other"])
        with contextlib.closing(writer):
            writer.register("one", IDENTITY)
            writer.append("one", STEM, first=0, lines=lines(0, 3))
            with pytest.raises(HubError):
                writer.append("two", STEM, first=0, lines=lines(0, 3))
        text = server.ask("/api/hub/metrics", headers={"Authorization": f"Bearer {reader}"})
    found = dict(line.rsplit(" ", 1) for line in text.body.decode().splitlines() if line[:1] != "#")
    assert found['epochal_hub_requests_total{outcome="accepted"}'] == "2"
    assert found['epochal_hub_requests_total{outcome="refused"}'] == "1"
    assert found["epochal_hub_lines_total"] == "3"
    assert found["epochal_hub_line_bytes_total"] == str(len(lines(0, 3)))
    assert found["epochal_hub_commit_seconds_count"] == "1"
    assert found["epochal_hub_queue_requests"] == "0"
    assert found["epochal_hub_event_streams"] == "0"
    assert float(found["epochal_hub_received_age_seconds"]) >= 0


def test_counters_in_the_text_format() -> None:
    counters = HubCounters(clock=lambda: 5.0)
    assert "\nepochal_hub_received_age_seconds " not in counters.text()
    counters.gauge("leases", "Leases that this hub has.", lambda: 2)
    text = counters.text()
    assert "# HELP epochal_hub_leases Leases that this hub has.\n" in text
    assert "# TYPE epochal_hub_leases gauge\nepochal_hub_leases 2\n" in text
    counter = Counter("outcome")
    counter.add(label="busy")
    counter.add(2.5, label="accepted")
    assert [*counter.samples()] == [
        ("", '{outcome="accepted"}', 2.5),
        ("", '{outcome="busy"}', 1.0),
    ]
    histogram = Histogram((1.0, 10.0))
    for value in (0.5, 1.0, 3.0, 30.0):
        histogram.add(value)
    assert [*histogram.samples()] == [
        ("_bucket", '{le="1"}', 2),
        ("_bucket", '{le="10"}', 3),
        ("_bucket", '{le="+Inf"}', 4),
        ("_sum", "", 34.5),
        ("_count", "", 4),
    ]


def test_a_hub_whose_database_is_away_knows_its_tokens(postgres: str, tmp_path: Path) -> None:
    import psycopg

    address = new_database(postgres)
    name = str(psycopg.conninfo.conninfo_to_dict(address)["dbname"])
    with contextlib.closing(Database(address)) as database:
        database.prepare()
        runs = SharedRuns(
            ClusterRuns(database, open_bucket(str(tmp_path / "bucket"))), cache=tmp_path / "cache"
        )
        ledger = Ledger(ClusterDocuments(database))
        headers = {"Authorization": f"Bearer {ledger.add_token('reader', 'read')}"}
        with serving_hub(runs, ledger) as server:
            assert server.ask("/api/runs", headers=headers).status == 200
            with psycopg.connect(postgres, autocommit=True) as other:
                other.execute(f"alter database {name} allow_connections false")
                ours = f"select pid from pg_stat_activity where datname = '{name}'"
                other.execute(f"select pg_terminate_backend(pid) from ({ours}) as ours")
                for _ in range(3):
                    assert server.ask("/readyz").status == 503
                    answer = server.ask("/api/hub/runs/one", headers=headers)
                    assert (answer.status, "retry-after" in answer.headers) == (503, True)
                    assert (
                        server.ask("/api/runs", headers={"Authorization": "Bearer x"}).status == 401
                    )
                    assert server.ask("/healthz").status == 200
                other.execute(f"alter database {name} allow_connections true")
            wait_until(lambda: server.ask("/readyz").status == 200)
            wait_until(lambda: server.ask("/api/runs", headers=headers).status == 200)
