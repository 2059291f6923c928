"""What every store answers; a new one adds a line to ``STORES``."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epochal.errors import MetricNotFoundError, RunNotFoundError, UsageError
from epochal.hub.cluster_inbox import ClusterInbox
from epochal.hub.ledger import Ledger
from epochal.journal.layout import run_folders
from epochal.query.condition import Condition
from epochal.shipping.client import HubClient
from epochal.shipping.worker import ship_now
from epochal.store.bucket import open_bucket
from epochal.store.cluster.catalog import ClusterCatalog
from epochal.store.cluster.database import Database
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.local.catalog import folder_store
from epochal.store.remote.catalog import http_store
from epochal.store.store import Store
from epochal.store.wait import wait_for_run
from tests.doubles.hub_in_process import HubInProcess
from tests.hub.hub_process import serving_hub
from tests.server.live import serving
from tests.servers.postgres import new_database, postgres_address
from tests.store.journals import Journal, settle
from tests.store.sealing import seal_all


def sealed(root: Path) -> Store:
    seal_all(root)
    return folder_store(root)


def indexed(root: Path) -> Store:
    """What another process has learnt is all that this one has to read."""
    settle(root)
    with folder_store(root, cache=root.parent / f"{root.name}-cache") as before:
        for run in before.runs():
            for metric in run.metrics():
                run.summary(metric.name, rank=metric.ranks[0], axis=metric.axis)
    return folder_store(root, cache=root.parent / f"{root.name}-cache")


def in_place(root: Path) -> Store:
    """The same records in files that are not ours: what one writer wrote, line by line."""
    lines = root.with_name(f"{root.name}-lines")
    for journal in root.glob("*/*/journal/loop.0001.0000.jsonl"):
        run = journal.parent.parent
        link = lines / run.parent.name / f"{run.name}.jsonl"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(journal)
    return folder_store(lines, follow_links=True)


_SERVERS = contextlib.ExitStack()


@pytest.fixture(autouse=True)
def end_servers() -> Iterator[None]:
    yield
    _SERVERS.close()


def remote(root: Path) -> Store:
    """The folder is another machine's: a server has it, and only its address is known."""
    server = _SERVERS.enter_context(serving(root))
    cache = root.parent / f"{root.name}-remote"
    return _SERVERS.enter_context(http_store(f"http://127.0.0.1:{server.port}", cache=cache))


def hub(root: Path) -> Store:
    """A hub received the runs from the machine that recorded them."""
    there = root.parent / f"{root.name}-hub"
    there.mkdir()
    ledger = _SERVERS.enter_context(contextlib.closing(Ledger(there)))
    writing, reading = ledger.add_token("machine", "write"), ledger.add_token("person", "admin")
    url = f"http://127.0.0.1:{_SERVERS.enter_context(serving_hub(there, ledger)).port}"
    with contextlib.closing(HubClient(url, writing)) as client:
        for folder in run_folders(root):
            ship_now(folder, client)
    cache = root.parent / f"{root.name}-hub-cache"
    return _SERVERS.enter_context(http_store(url, token=reading, cache=cache))


def cluster(root: Path) -> Store:
    """Hubs that share a database and a bucket received the runs."""
    database = Database(new_database(postgres_address()))
    _SERVERS.callback(database.close)
    database.prepare()
    runs = ClusterRuns(database, open_bucket(str(root.parent / f"{root.name}-bucket")))
    inbox = ClusterInbox(runs, collect_s=0.0)
    _SERVERS.callback(inbox.close)
    there = root.parent / f"{root.name}-shared"
    with contextlib.closing(HubInProcess(there, inbox=inbox)) as client:
        for folder in run_folders(root):
            ship_now(folder, client)
    cache = root.parent / f"{root.name}-shared-cache"
    return _SERVERS.enter_context(Store(ClusterCatalog(runs, cache=cache)))


# Each is given a folder of runs to answer about.
GROWING: dict[str, Callable[[Path], Store]] = {
    "local": folder_store,
    "indexed": indexed,
    "remote": remote,
}
STORES = {**GROWING, "sealed": sealed, "hub": hub, "cluster": cluster}
# What has one writer and one attempt can also lie in another program's files.
FOREIGN: dict[str, Callable[[Path], Store]] = {"in place": in_place}
OPENERS: dict[str, dict[str, Callable[[Path], Store]]] = {
    "open_at": STORES,
    # Stores that may erase: nobody erases runs of another machine.
    "open_owned": {
        name: STORES[name] for name in STORES if name not in ("remote", "hub", "cluster")
    },
    "open_growing": GROWING,
    "open_any": STORES | FOREIGN,
    "open_any_growing": GROWING | FOREIGN,
}
contract = pytest.mark.contract


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the contract to every store that its opener stands for, and the rest to the local one.

    Ways to follow a run that grows differ most, so these tests are for all that grow.
    """
    is_contract = any(mark.name == "contract" for mark in metafunc.definition.iter_markers())
    for name in OPENERS.keys() & set(metafunc.fixturenames):
        is_for_all = is_contract or "growing" in name
        stores = OPENERS[name] if is_for_all else {"local": folder_store}
        metafunc.parametrize(name, list(stores.values()), ids=list(stores))


Open = Callable[[Path], Store]


@contract
def test_points_are_exact(open_any: Open, tmp_path: Path) -> None:
    Journal(tmp_path).metrics(0, loss=0.1).metrics(1, loss=1e-300).metrics(2, loss=7)
    series = open_any(tmp_path).run("x").series("loss")
    assert series.steps.tolist() == [0, 1, 2]
    assert series.values.tolist() == [0.1, 1e-300, 7.0]
    assert series.times.tolist() == [1001.0, 1002.0, 1003.0]


@contract
def test_steps_in_any_order_come_back_sorted(open_any: Open, tmp_path: Path) -> None:
    Journal(tmp_path).metrics(5, a=5).metrics(1, a=1).metrics(3, a=3)
    assert open_any(tmp_path).run("x").series("a").values.tolist() == [1, 3, 5]


@contract
def test_the_last_value_of_a_step_stands_and_is_counted(open_any: Open, tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, a=1).metrics(1, a=2).metrics(2, a=3)
    series = open_any(tmp_path).run("x").series("a")
    assert (series.values.tolist(), series.duplicates) == ([2, 3], 1)


@contract
def test_a_newer_attempt_hides_what_it_overtakes(open_at: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(10):
        journal.metrics(step, a=1.0)
        journal.metrics(step, a=1.0, writer="rank-0001")
    journal.add({"log": "resume", "attempt": 2, "step": 4}, attempt=2).metrics(4, a=2.0, attempt=2)
    run = open_at(tmp_path).run("x")
    assert run.series("a").values.tolist() == [1, 1, 1, 1, 2]
    assert run.series("a").hidden == 6
    assert run.series("a", rank=1).steps.tolist() == [0, 1, 2, 3]
    assert run.info.step == 4


def test_goodput_counts_the_steps_that_a_newer_attempt_repeats(
    open_at: Open, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    for step in range(10):  # from 1001 to 1010
        journal.metrics(step, a=1.0)
    journal.t += 20
    journal.add({"log": "resume", "attempt": 2, "step": 4}, attempt=2)
    for step in range(4, 10):  # from 1032 to 1037
        journal.metrics(step, a=2.0, attempt=2)
    goodput = open_at(tmp_path).run("x").goodput()
    assert goodput is not None
    assert (goodput.lost_steps, goodput.lost_s, goodput.restarts) == (6, 6.0, 1)
    assert (goodput.wall_s, goodput.productive_s, goodput.down_s) == (37.0, 10.0, 20.0)


def test_a_third_attempt_that_goes_further_back_hides_both(open_at: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for attempt, first in ((1, 0), (2, 6), (3, 2)):
        if attempt > 1:
            journal.add({"log": "resume", "attempt": attempt, "step": first}, attempt=attempt)
        for step in range(first, 8):
            journal.metrics(step, a=attempt, attempt=attempt)
    assert open_at(tmp_path).run("x").series("a").values.tolist() == [1, 1, 3, 3, 3, 3, 3, 3]


def test_telemetry_is_never_hidden(open_at: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path).add({"log": "gpu", "step": 9, "id": 0, "power": 5})
    journal.add({"log": "resume", "attempt": 2, "step": 1}, attempt=2)
    series = open_at(tmp_path).run("x").series("gpu/0/power")
    assert (series.axis, series.values.tolist(), series.at.tolist()) == ("time", [5], [1001.0])


@contract
def test_texts_of_overtaken_steps_are_hidden(open_at: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in (1, 5):
        journal.add({"log": "text", "step": step, "name": "s", "text": f"old {step}"})
    journal.add({"log": "resume", "attempt": 2, "step": 3}, attempt=2)
    journal.add({"log": "text", "step": 4, "name": "s", "text": "new"}, attempt=2)
    texts = open_at(tmp_path).run("x").texts("s")
    assert [entry.record["text"] for entry in texts] == ["old 1", "new"]


@contract
def test_epochs_of_an_older_attempt_are_hidden(open_at: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for epoch in (1, 2, 3, 4):
        journal.epoch(epoch, loss=1.0)
    journal.epoch(2, loss=0.5, attempt=2)
    run = open_at(tmp_path).run("x")
    assert run.series("loss").values.tolist() == [1.0, 0.5]
    assert len(run.entries("epoch")) == 2


def test_a_name_on_two_axes_is_two_series(open_any: Open, tmp_path: Path) -> None:
    Journal(tmp_path).epoch(1, loss=0.5).metrics(7, loss=0.7)
    run = open_any(tmp_path).run("x")
    assert run.series("loss").steps.tolist() == [7]
    assert run.series("loss", axis="epoch").values.tolist() == [0.5]


@contract
def test_typed_and_free_values_of_one_name_are_one_series(open_any: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path).add({"log": "step", "step": 1, "loss": 1.0})
    journal.add({"log": "metrics", "step": 2, "m": {"train/loss": 2.0}})
    assert open_any(tmp_path).run("x").series("train/loss").values.tolist() == [1.0, 2.0]


@contract
def test_nan_and_infinity_are_kept(open_any: Open, tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, a=math.nan).metrics(2, a=-math.inf).metrics(3, a=1.0)
    series = open_any(tmp_path).run("x").series("a")
    assert math.isnan(series.values[0])
    assert series.values[1] == -math.inf
    assert (series.summary.nonfinite, series.summary.min) == (2, 1.0)


@contract
def test_children_fill_in_where_rank_0_is_silent(open_at: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    journal.metrics(1, a=9, writer="child-77").metrics(2, a=2, writer="child-77")
    assert open_at(tmp_path).run("x").series("a").values.tolist() == [1, 2]


@contract
def test_ranks_do_not_mix(open_at: Open, tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, a=1).metrics(1, a=2, writer="rank-0003")
    run = open_at(tmp_path).run("x")
    assert run.series("a", rank=3).values.tolist() == [2]
    assert [metric.ranks for metric in run.metrics()] == [(0, 3)]


def test_an_epochs_resources_are_series(open_any: Open, tmp_path: Path) -> None:
    epoch = {"log": "epoch", "epoch": 1, "duration_s": 2.5, "m": {}, "resources": {"cpu_pct": 50.0}}
    Journal(tmp_path).add(epoch)
    run = open_any(tmp_path).run("x")
    assert run.series("resources/cpu_pct").values.tolist() == [50.0]
    assert run.series("epoch/duration_s").axis == "epoch"


def test_definitions_and_guesses_give_roles_and_goals(open_any: Open, tmp_path: Path) -> None:
    define = {"log": "define", "name": "nll", "role": "loss", "unit": "nats"}
    Journal(tmp_path).add(define).metrics(1, nll=3, loss=2, lr=0.1).metrics(2, nll=1, loss=5, lr=0)
    run = open_any(tmp_path).run("x")
    loss, lr = run.role("loss"), run.role("lr")
    assert loss is not None
    assert (loss.name, loss.unit, loss.goal) == ("nll", "nats", "min")
    assert run.series("nll").best == (2, 1.0)
    assert lr is not None
    assert lr.name == "lr"


def test_buckets_keep_a_one_step_spike(open_any: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(500):
        journal.metrics(step, a=99.0 if step == 333 else 1.0)
    buckets = open_any(tmp_path).run("x").series("a").buckets(10)
    assert (buckets.max.max(), len(buckets)) == (99.0, 10)


def test_a_formula_is_a_name(open_at: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "runs", created=1000.0)
    journal.add({"log": "metrics", "step": 0, "m": {"train/loss": 3.0, "eval/loss": 5.0}})
    journal.add({"log": "metrics", "step": 1, "m": {"train/loss": 2.0, "log(x)": 7.0}})
    journal.add({"log": "metrics", "step": 4, "m": {"train/loss": 1.0, "eval/loss": 4.0}})
    journal.add({"log": "metrics", "step": 0, "m": {"train/loss": 9.0}}, writer="rank-0001")
    run = open_at(tmp_path / "runs").run("x")
    text = "eval/loss - loss"
    series = run.series(text)
    assert (series.name, series.axis, series.steps.tolist()) == (text, "step", [0, 4])
    assert series.values.tolist() == [2.0, 3.0]
    assert series.reindex("progress", run).at.tolist() == [20.0, 100.0]
    assert run.summary(text).max == 3.0
    metric = run.metric("ema(loss, 0.5)")
    assert metric is not None
    assert (metric.ranks, metric.goal) == ((0, 1), "min")
    assert run.series("loss * 2", rank=1).values.tolist() == [18.0]
    # A metric of exactly that name wins.
    assert run.series("log(x)").values.tolist() == [7.0]
    assert run.metric("eval/los - loss") is None
    with pytest.raises(MetricNotFoundError, match="Did you mean 'eval/loss'"):
        run.series("eval/los - loss")
    with pytest.raises(MetricNotFoundError, match="on rank 1"):
        run.series(text, rank=1)


def test_the_metrics_of_a_formula_have_one_axis(open_any: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "runs").epoch(1, total=4, acc=0.5, loss=2.0)
    journal.metrics(10, loss=1.0, lr=0.1).epoch(2, total=4, acc=0.75, loss=1.0)
    run = open_any(tmp_path / "runs").run("x")
    series = run.series("acc / loss")
    assert (series.axis, series.steps.tolist()) == ("epoch", [1, 2])
    assert series.values.tolist() == [0.25, 0.75]
    assert series.reindex("progress", run).at.tolist() == [25.0, 50.0]
    assert run.series("acc / epoch").values.tolist() == [0.5, 0.375]
    with pytest.raises(MetricNotFoundError, match="'acc' was logged by epoch, 'lr' was logged"):
        run.series("acc / lr")
    with pytest.raises(MetricNotFoundError, match="`step` cannot be used"):
        run.series("acc / step")


def test_an_unknown_metric_names_near_ones(open_any: Open, tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, val_loss=1, loss=1)
    run = open_any(tmp_path).run("x")
    for name in ("val_los", "loss_val"):
        with pytest.raises(MetricNotFoundError, match=r"Did you mean 'val_loss'( or 'loss')?\?"):
            run.series(name)


def test_new_records_show_after_refresh(open_any_growing: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    store = open_any_growing(tmp_path)
    run = store.run("x")
    assert len(run.series("a")) == 1
    journal.metrics(2, a=2)
    assert len(run.series("a")) == 1
    assert run.refresh()
    assert len(run.series("a")) == 2
    assert not run.refresh()


def test_a_store_says_which_runs_have_changed(open_growing: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path, "a").metrics(1, a=1)
    Journal(tmp_path, "b").metrics(1, a=1).finish()
    store = open_growing(tmp_path)
    store.refresh()
    assert store.refresh() == set()
    journal.metrics(2, a=2)
    store.run("a").refresh()
    Journal(tmp_path, "c").metrics(1, a=1)
    assert store.refresh() == {"id-a", "id-c"}
    store.remove(store.run("b"))
    assert store.refresh() == {"id-b"}


def test_an_id_finds_its_run_and_nothing_else_does(open_at: Open, tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, a=1)
    store = open_at(tmp_path)
    found = store.find("id-x")
    assert found is not None
    assert found.id == found.info.id == "id-x"
    assert [store.find(key) for key in ("x", "id-", "p/x", str(tmp_path / "p/x"), "")] == [None] * 5
    store.close()


def test_records_go_on_from_a_position_without_gap_or_repeat(
    open_growing: Open, tmp_path: Path
) -> None:
    journal = Journal(tmp_path)
    for step in range(600):
        journal.metrics(step, a=step)
    run = open_growing(tmp_path).run("x")
    assert sum(1 for _ in run.records()) == 601
    end = run.end()
    journal.metrics(600, a=1).metrics(0, a=2, writer="rank-0001")
    run.refresh()
    news = [(str(position), record["log"]) for position, record in run.records(end)]
    assert news == [
        ("loop.0001.0000.601", "metrics"),
        ("rank-0001.0001.0000.0", "run"),
        ("rank-0001.0001.0000.1", "metrics"),
    ]


def test_raw_records_hide_nothing(open_at: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1).metrics(1, a=2)
    journal.add({"log": "resume", "attempt": 2, "step": 0}, attempt=2)
    kinds = [record["log"] for _, record in open_at(tmp_path).run("x").records()]
    assert kinds == ["run", "metrics", "metrics", "run", "resume"]


@contract
def test_options_set_later_are_part_of_the_configuration(open_at: Open, tmp_path: Path) -> None:
    Journal(tmp_path, config={"lr": 1, "depth": 2}).add({"log": "option", "name": "lr", "value": 3})
    assert open_at(tmp_path).run("x").config == {"lr": 3, "depth": 2}


def test_messages_of_all_ranks_come_by_time(open_at: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path).add({"log": "message", "text": "a"})
    journal.add({"log": "message", "text": "b"}, writer="rank-0001")
    journal.add({"log": "message", "text": "c"})
    texts = [entry.record["text"] for entry in open_at(tmp_path).run("x").messages()]
    assert texts == ["a", "b", "c"]


@contract
def test_only_blobs_that_a_record_names_are_handed_out(open_at: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path).add({"log": "blob", "step": 1, "name": "i", "file": "a.png"})
    journal.add({"log": "blob", "step": 2, "name": "i", "file": "../run.json"})
    journal.folder.blobs.mkdir()
    (journal.folder.blobs / "a.png").write_bytes(b"png")
    run = open_at(tmp_path).run("x")
    assert run.blob("a.png") == b"png"
    for file in ("b.png", "../run.json"):
        with pytest.raises(UsageError):
            run.blob(file)


def test_runs_are_listed_newest_first_and_at_most_so_many(open_at: Open, tmp_path: Path) -> None:
    for number in range(4):
        Journal(tmp_path, f"r{number}", created=1000.0 + number)
    store = open_at(tmp_path)
    names = [run.info.name for run in store.runs(limit=3)]
    assert names == ["r3", "r2", "r1"]


def test_a_key_that_fits_several_runs_lists_them(open_at: Open, tmp_path: Path) -> None:
    Journal(tmp_path, "same", project="p1", id="aaa")
    Journal(tmp_path, "same", project="p2", id="aab")
    store = open_at(tmp_path)
    with pytest.raises(UsageError, match=r"p1/same \(id aaa\)"):
        store.run("same")
    with pytest.raises(UsageError, match="fits 2 runs"):
        store.run("aa")
    assert store.run("p2/same").info.id == store.run("aab").info.id == "aab"


def test_a_key_that_fits_none_suggests_the_nearest(open_at: Open, tmp_path: Path) -> None:
    Journal(tmp_path, "resnet")
    with pytest.raises(RunNotFoundError, match="Did you mean 'resnet'"):
        open_at(tmp_path).run("resnot")


def test_latest_is_the_newest_run(open_at: Open, tmp_path: Path) -> None:
    for number, name in enumerate(["a", "latest-but-one", "c"]):
        Journal(tmp_path, name, project=f"p{number % 2}", created=1000.0 + number)
    store = open_at(tmp_path)
    named = {key: store.run(key).info.name for key in ("latest", "latest:p1", "latest:p0")}
    assert named == {"latest": "c", "latest:p1": "latest-but-one", "latest:p0": "c"}
    with pytest.raises(RunNotFoundError, match="Did you mean 'latest:p1'"):
        store.run("latest:p11")


def test_a_run_that_is_called_latest_is_found(open_at: Open, tmp_path: Path) -> None:
    for created, name in enumerate(["latest", "b"]):
        Journal(tmp_path, name, created=1000.0 + created)
    assert open_at(tmp_path).run("latest").info.name == "latest"


def test_a_run_is_waited_for(open_at: Open, tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=2.5).finish()
    store = open_at(tmp_path)
    assert wait_for_run(store, "latest", until=Condition("loss < 3")).event == "until"
    assert wait_for_run(store, "p/x", until=Condition("loss < 2")).status == "finished"


@contract
def test_a_removed_run_is_in_the_trash_until_it_is_restored(open_at: Open, tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=2.5).finish()
    store = open_at(tmp_path)
    moved = store.remove(store.run("x"))
    assert list(store.runs()) == []
    assert [run.name for run in store.trash.runs()] == ["x"]
    store.trash.restore(store.trash.find("p/x"))
    store.refresh()
    assert store.run(moved.id).summary("loss").last == 2.5
    assert list(store.trash.runs()) == []


def test_an_erased_run_cannot_be_restored(open_owned: Open, tmp_path: Path) -> None:
    Journal(tmp_path).finish()
    store = open_owned(tmp_path)
    moved = store.remove(store.run("x"))
    store.trash.erase(moved)
    assert list(store.trash.runs()) == []
    with pytest.raises(RunNotFoundError, match="no longer in the trash"):
        store.trash.restore(moved)


def test_a_live_run_cannot_be_removed(open_at: Open, tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=2.5)
    store = open_at(tmp_path)
    with pytest.raises(UsageError, match="a live run cannot be deleted"):
        store.remove(store.run("x"))
    assert [run.info.name for run in store.runs()] == ["x"]


@contract
def test_a_summary_is_what_the_points_amount_to(open_any: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=3).metrics(2, loss=math.nan).metrics(4, loss=1)
    journal.metrics(3, loss=2).metrics(3, loss=5)
    run = open_any(tmp_path).run("x")
    summary = run.summary("loss")
    assert summary == run.series("loss").summary
    assert (summary.last, summary.last_step, summary.min, summary.max) == (1.0, 4, 1.0, 5.0)
    assert (summary.best("min"), summary.count, summary.nonfinite) == ((4, 1.0), 4, 1)
    with pytest.raises(MetricNotFoundError, match="lozz"):
        run.summary("lozz")


def test_a_number_that_the_program_set_is_a_summary_like_any_other(
    open_any: Open, tmp_path: Path
) -> None:
    for name, value in (("a", 0.95), ("b", 0.85)):
        journal = Journal(tmp_path, name).metrics(1, loss=3)
        journal.add({"log": "define", "name": "score", "goal": "max"})
        journal.add({"log": "summary", "name": "score", "value": value})
        journal.add({"log": "summary", "name": "test", "value": {"acc": value}})
        journal.add({"log": "summary", "name": "note", "value": name})
        journal.add({"log": "summary", "name": "loss", "value": 2})
    Journal(tmp_path, "c").metrics(1, loss=1)
    Journal(tmp_path, "d").add({"log": "summary", "name": "loss", "value": 0.5})
    store = open_any(tmp_path)

    def found(query: str | None, order: str | None = None) -> list[str]:
        return [run.info.name for run in store.runs(query, order=order)]

    for word in ("score", "score.last", "score.max", "score.mean", "score.last@3", "test.acc.last"):
        assert found(f"summary.{word} > 0.9") == ["a"], word
    assert found("best.score > 0.9") == ["a"]
    assert found("summary.note.last == 'b'") == ["b"]
    assert found(None, "summary.score.last,name") == ["b", "a", "c", "d"]
    assert found("summary.loss.last == 2 and summary.loss.max == 3", "name") == ["a", "b"]
    run = store.run("a")
    assert [(m.name, m.axis, m.goal) for m in run.set_metrics()] == [
        ("score", "none", "max"),
        ("test.acc", "none", "max"),
    ]
    assert [metric.name for metric in run.metrics()] == ["loss"]
    assert run.metric("score") in run.set_metrics()
    summary = run.summary("score", axis="none")
    assert (summary.last, summary.last_step, summary.best("max")) == (0.95, None, (None, 0.95))
    with pytest.raises(MetricNotFoundError, match=r"was set with run\.summary"):
        run.series("score", axis="none")
    assert (store.run("d").latest("loss"), store.run("a").latest("loss")) == (0.5, 2.0)


def test_a_summary_follows_new_points(open_any_growing: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=3)
    run = open_any_growing(tmp_path).run("x")
    assert run.summary("loss").last == 3
    journal.metrics(2, loss=2)
    run.refresh()
    assert run.summary("loss").last == 2


def test_a_short_name_means_a_metric(open_any: Open, tmp_path: Path) -> None:
    journal = Journal(tmp_path).add({"log": "step", "step": 1, "loss": 1.0, "lr": 0.1})
    journal.add({"log": "eval", "step": 1, "loss": 2.0}).metrics(1, a=1.0)
    run = open_any(tmp_path).run("x")
    found = {name: run.metric(name) for name in ("a", "loss", "eval_loss", "lr", "b")}
    names = {key: None if metric is None else metric.name for key, metric in found.items()}
    assert names == {
        "a": "a",
        "loss": "train/loss",
        "eval_loss": "eval/loss",
        "lr": "train/lr",
        "b": None,
    }


@contract
def test_runs_are_selected_and_ordered(open_at: Open, tmp_path: Path) -> None:
    for number in range(4):
        journal = Journal(tmp_path, f"r{number}", config={"lr": number}, tags=[f"t{number % 2}"])
        journal.metrics(1, loss=10 - number)
    store = open_at(tmp_path)
    found = store.runs("config.lr >= 1 and summary.loss.min < 10", order="-config.lr", limit=2)
    assert [run.info.name for run in found] == ["r3", "r2"]
    assert [run.info.name for run in store.runs("'t1' in tags", order="summary.loss")] == [
        "r3",
        "r1",
    ]
    with pytest.raises(UsageError, match=r"\^$"):
        store.runs("config.lr >")


def test_the_status_is_asked_alone(open_any: Open, tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, a=1).finish("failed")
    run = open_any(tmp_path).run("x")
    assert run.status == run.info.status
    assert run.status.state == "failed"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ('text ~ "(?i)BIG"', {"big-Model", "small"}),  # a name, and a tag
        ('text ~ "(?i)id-s"', {"small"}),
        ('text ~ "(?i)fail"', {"small"}),
        ('text !~ "(?i)big"', {"other"}),
        ('text ~ "(?i)größe"', {"other"}),
        ('not hidden and text ~ "(?i)model"', {"big-Model"}),
    ],
)
def test_words_are_found_in_names_ids_tags_and_states(
    open_at: Open, tmp_path: Path, query: str, found: set[str]
) -> None:
    Journal(tmp_path, "big-Model").finish()
    Journal(tmp_path, "small", tags=["Bigger"]).finish("failed")
    Journal(tmp_path, "other", tags=["GRÖSSE", "Größe"]).finish()
    assert {run.info.name for run in open_at(tmp_path).runs(query)} == found
