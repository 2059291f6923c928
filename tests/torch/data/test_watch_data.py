from __future__ import annotations

import math
import pickle
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
    TensorDataset,
    get_worker_info,
)

import epochal
from epochal.errors import UsageError
from epochal.journal.layout import RunFolder
from epochal.journal.reader import read_journal
from epochal.records import Record
from epochal.torch.data.batch import MOST_IDENTITIES, content_hash
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

Pair = tuple[torch.Tensor, torch.Tensor]


def pairs(count: int = 32, *, seed: int = 0) -> TensorDataset:
    chance = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(count, 3, 5, generator=chance), torch.arange(count) % 4)


def data_records(folder: Path) -> list[Record]:
    return of_kind(folder, "data")


class Stream(IterableDataset[Pair]):
    def __init__(self, count: int, *, is_shared_out: bool = True) -> None:
        self.count, self.is_shared_out = count, is_shared_out

    def __iter__(self) -> Iterator[Pair]:
        worker = get_worker_info()
        first, step = 0, 1
        if worker is not None and self.is_shared_out:
            first, step = worker.id, worker.num_workers
        for number in range(first, self.count, step):
            yield torch.full((4,), float(number)) + torch.arange(4.0), torch.tensor(number % 2)


def padded(samples: list[list[int]]) -> dict[str, torch.Tensor]:
    longest = max(map(len, samples))
    ids = torch.tensor([one + [0] * (longest - len(one)) for one in samples])
    mask = torch.tensor([[1] * len(one) + [0] * (longest - len(one)) for one in samples])
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_the_same_batches_and_says_which_samples(
    start_run: StartRun, workers: int
) -> None:
    plain = list(DataLoader(pairs(), batch_size=8))
    run = start_run()
    loader = DataLoader(pairs(), batch_size=8, num_workers=workers)
    watched = epochal.watch_data(loader, "train")
    assert watched is loader
    assert isinstance(loader, DataLoader)
    for batch, expected in zip(watched, plain, strict=True):
        assert isinstance(batch, list)
        assert all(torch.equal(a, b) for a, b in zip(batch, expected, strict=True))
    run.finish()
    (record,) = data_records(run.dir)
    assert record["name"] == "train"
    assert record["indices"] == list(range(32))
    assert record["samples"] == record["dataset_samples"] == 32
    assert len(set(record["hashes"])) == 32
    assert record["hash_indices"] == list(range(32))
    assert Counter(record["hash_labels"]) == {0: 8, 1: 8, 2: 8, 3: 8}
    assert record["labels"] == {"0": 8, "1": 8, "2": 8, "3": 8}
    assert record["sampler"] == "SequentialSampler"
    assert record["ended"] is True
    assert record["complete"] is True


def test_every_pass_is_an_epoch_with_persistent_workers(start_run: StartRun) -> None:
    run = start_run()
    loader = DataLoader(pairs(), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)
    epochal.watch_data(loader)
    seen = [torch.cat([label for _, label in loader]) for _ in range(3)]
    run.finish()
    records = data_records(run.dir)
    assert [record["epoch"] for record in records] == [1, 2, 3]
    for record, labels in zip(records, seen, strict=True):
        assert sorted(record["indices"]) == list(range(32))
        assert [index % 4 for index in record["indices"]] == labels.tolist()
    assert len({record["orders"][-1][-1] for record in records}) == 3


def test_the_same_order_has_the_same_digest(start_run: StartRun) -> None:
    run = start_run()
    loader = epochal.watch_data(DataLoader(pairs(), batch_size=8))
    for _ in range(2):
        list(loader)
    run.finish()
    first, second = data_records(run.dir)
    assert first["orders"] == second["orders"]
    assert [batches for batches, _, _ in first["orders"]] == [1, 2, 4]


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_of_a_stream_are_known_by_their_content(start_run: StartRun, workers: int) -> None:
    run = start_run()
    loader = epochal.watch_data(DataLoader(Stream(40), batch_size=5, num_workers=workers))
    assert sum(len(labels) for _, labels in loader) == 40
    run.finish()
    (record,) = data_records(run.dir)
    assert "indices" not in record
    assert len(set(record["hashes"])) == 40


def test_workers_that_all_read_everything_give_samples_twice(start_run: StartRun) -> None:
    run = start_run()
    stream = Stream(10, is_shared_out=False)
    list(epochal.watch_data(DataLoader(stream, batch_size=5, num_workers=2)))
    run.finish()
    (record,) = data_records(run.dir)
    assert (len(record["hashes"]), len(set(record["hashes"]))) == (20, 10)


def test_batch_samplers_and_subsets_give_indices_of_the_dataset_below(start_run: StartRun) -> None:
    run = start_run()
    data = pairs()
    upper = Subset(data, list(range(20, 32)))
    sampler = BatchSampler(SequentialSampler(upper), batch_size=5, drop_last=False)
    epochal.watch_data(train := DataLoader(upper, batch_sampler=sampler))
    epochal.watch_data(test := DataLoader(data, batch_size=None), "test")
    assert [len(x) for x, _ in train] == [5, 5, 2]
    assert len(list(test)) == 32
    run.finish()
    first, second, _ = data_records(run.dir)
    assert first["indices"] == list(range(20, 32))
    assert second["indices"] == list(range(32))
    assert first["dataset"] == second["dataset"]


def test_the_hash_of_a_sample_does_not_depend_on_its_loader(start_run: StartRun) -> None:
    run = start_run()
    list(epochal.watch_data(DataLoader(pairs(8), batch_size=4)))
    batches = [(pairs(8).tensors[0], pairs(8).tensors[1])]
    watched = epochal.watch_data(batches, "eval")
    assert len(watched) == 1
    assert list(watched) == batches
    run.finish()
    first, second = data_records(run.dir)
    assert first["hashes"] == second["hashes"]


def test_a_generator_and_an_object_with_batches_are_watched(start_run: StartRun) -> None:
    class Batches:
        def __iter__(self) -> Iterator[torch.Tensor]:
            return iter([torch.rand(4, 3)] * 2)

    run = start_run()
    assert len(list(epochal.watch_data(Batches(), "objects"))) == 2
    assert len(list(epochal.watch_data((torch.rand(4, 3) for _ in range(3)), "generator"))) == 3
    run.finish()
    assert [record["samples"] for record in data_records(run.dir)] == [8, 12]


def test_padding_and_lengths_are_read_from_the_mask(start_run: StartRun) -> None:
    run = start_run()
    texts: Any = [[1, 2, 3], [4], [5, 6], [7, 8, 9, 9]]
    loader = DataLoader(texts, batch_size=2, collate_fn=padded)
    list(epochal.watch_data(loader))
    assert loader.collate_fn is padded
    run.finish()
    (record,) = data_records(run.dir)
    assert record["padding"] == pytest.approx(4 / 14)
    assert record["lengths"] == {"mean": 2.5, "up_to": {"1": 1, "2": 1, "4": 2}}


def test_wrong_inputs_are_counted_and_named(start_run: StartRun) -> None:
    run = start_run()
    data = pairs()
    data.tensors[0][7, 0, 0] = math.nan
    data.tensors[0][11] = 0.5
    list(epochal.watch_data(DataLoader(data, batch_size=8)))
    run.finish()
    (record,) = data_records(run.dir)
    assert (record["nonfinite_samples"], record["nonfinite_at"]) == (1, [7])
    assert (record["constant_samples"], record["constant_at"]) == (1, [11])
    assert record["std"] == pytest.approx(1.0, abs=0.2)


def test_rows_of_equal_codes_are_no_empty_samples(start_run: StartRun) -> None:
    run = start_run()
    answers = torch.tensor([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    list(epochal.watch_data([answers], name="answers"))
    list(epochal.watch_data([torch.zeros(4, 3)], name="empty"))
    run.finish()
    counts = {one["name"]: one.get("constant_samples") for one in data_records(run.dir)}
    assert counts == {"answers": None, "empty": 4}


def test_empty_samples_of_sparse_data_are_no_fault(start_run: StartRun) -> None:
    run = start_run()
    words = torch.rand(16, 40).mul(100).round() * (torch.rand(16, 40) < 0.1)
    words[3] = 0
    pictures = torch.randn(16, 40)
    pictures[3] = 0
    list(epochal.watch_data([words], name="words"))
    list(epochal.watch_data([pictures], name="pictures"))
    run.finish()
    counts = {one["name"]: one.get("constant_samples") for one in data_records(run.dir)}
    assert counts == {"words": None, "pictures": 1}


def test_large_sets_are_sampled_by_value(start_run: StartRun) -> None:
    run = start_run()
    ids = torch.arange(20_000).reshape(-1, 1).repeat(1, 2)
    for name in ("train", "eval"):
        loader = DataLoader(TensorDataset(ids), batch_size=500, shuffle=name == "train")
        list(epochal.watch_data(loader, name))
    run.finish()
    kept = {}
    for name in ("train", "eval"):
        records = [one for one in data_records(run.dir) if one["name"] == name]
        assert [one["batches"] for one in records] == [32, 8]
        assert 100 < len(records[0]["indices"]) <= MOST_IDENTITIES
        assert all(one["index_bits"] > 0 for one in records)
        kept[name] = {index for one in records for index in one["indices"]}
    assert kept["train"] == kept["eval"]


def test_the_first_record_comes_after_the_first_batches(start_run: StartRun) -> None:
    run = start_run()
    loader = epochal.watch_data(DataLoader(pairs(256), batch_size=2))
    for number, _ in enumerate(loader, 1):
        assert len(data_records(run.dir)) == (number >= 32)
    run.finish()
    first, last = data_records(run.dir)
    assert (first["batches"], last["batches"]) == (32, 96)
    assert first["targets"]["samples"] == 64


def test_many_short_epochs_stay_small(start_run: StartRun) -> None:
    run = start_run()
    loader = epochal.watch_data(DataLoader(pairs(256), batch_size=64))
    for _ in range(300):
        list(loader)
    run.finish()
    records = data_records(run.dir)
    assert sum(len(str(record)) for record in records) < 150_000
    assert len(records) < 300


def test_a_loop_that_leaves_early_ends_an_incomplete_epoch(start_run: StartRun) -> None:
    run = start_run()
    loader = epochal.watch_data(DataLoader(pairs(), batch_size=8))
    next(iter(loader))
    run.finish()
    (record,) = data_records(run.dir)
    assert (record["batches"], record["complete"]) == (1, False)


def test_the_loader_goes_on_after_the_run(start_run: StartRun) -> None:
    run = start_run()
    loader = epochal.watch_data(DataLoader(pairs(), batch_size=8))
    run.finish()
    assert all(isinstance(batch, list) for batch in loader)
    assert data_records(run.dir) == []


def test_a_loader_is_watched_for_the_last_call(start_run: StartRun) -> None:
    loader = DataLoader(pairs(), batch_size=8)
    first, second = start_run("a"), start_run("b")
    epochal.watch_data(loader, run=first)
    epochal.watch_data(loader, run=second)
    list(loader)
    for run in (first, second):
        run.finish()
    assert (len(data_records(first.dir)), len(data_records(second.dir))) == (0, 1)


def test_a_copy_of_a_loader_is_not_watched(start_run: StartRun) -> None:
    run = start_run()
    loader = epochal.watch_data(DataLoader(pairs(), batch_size=8))
    copy = pickle.loads(pickle.dumps(loader))
    assert type(copy) is DataLoader
    assert len(list(copy)) == len(copy) == len(loader) == 4
    run.finish()
    assert data_records(run.dir) == []


def test_tensors_on_a_device_are_skipped_and_counted(start_run: StartRun) -> None:
    run = start_run()
    batches = [torch.empty(4, 3, device="meta")] * 3
    assert len(list(epochal.watch_data(batches))) == 3
    run.finish()
    (record,) = data_records(run.dir)
    assert record["on_device"] == 3
    assert "hashes" not in record


def test_a_loader_with_a_state_keeps_its_sampler(start_run: StartRun) -> None:
    class Stateful(DataLoader[Any]):
        def state_dict(self) -> dict[str, Any]:
            return {}

    run = start_run()
    loader = epochal.watch_data(Stateful(pairs(), batch_size=8))
    assert len(list(loader)) == 4
    assert loader.state_dict() == {}
    run.finish()
    (record,) = data_records(run.dir)
    assert "indices" not in record
    assert len(record["hashes"]) == 32


def test_samples_that_cannot_be_read_reach_the_loop(start_run: StartRun) -> None:
    class Odd(Dataset[Any]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, place: int) -> Any:
            return object()

    run = start_run()
    loader = DataLoader(Odd(), batch_size=2, collate_fn=list)
    assert [len(batch) for batch in epochal.watch_data(loader)] == [2, 2]
    run.finish()
    (record,) = data_records(run.dir)
    assert record["indices"] == [0, 1, 2, 3]


def test_a_label_or_an_id_is_no_content() -> None:
    picture = torch.rand(3, 40, 40)
    assert content_hash((picture, 1)) == content_hash((picture, 2)) == content_hash([picture])
    assert content_hash((picture + 1e-3, 1)) != content_hash((picture, 1))
    assert content_hash(3) != content_hash(4)
    assert content_hash(picture.permute(1, 2, 0)) is not None


def test_wrong_arguments_are_named(start_run: StartRun) -> None:
    with pytest.raises(UsageError, match=r"epochal\.init"):
        epochal.watch_data([1])
    start_run()
    with pytest.raises(UsageError, match="not int"):
        epochal.watch_data(3)
    with pytest.raises(UsageError, match="name="):
        epochal.watch_data([1], "")


def findings_of(folder: Path) -> dict[str, str]:
    records = [record for _, record in read_journal(RunFolder(folder))]
    return {finding.rule: finding.severity for finding in epochal.health.diagnose(records)}


def test_faults_of_real_loaders_are_found(start_run: StartRun) -> None:
    run = start_run()
    data = pairs(256)
    data.tensors[0][3] = math.nan
    train = epochal.watch_data(DataLoader(data, batch_size=16))
    other = epochal.watch_data(DataLoader(Subset(data, range(64)), batch_size=16), "eval")
    for _ in range(2):
        for number, _ in enumerate(train):
            run.log({"loss": 1.0 / (number + 1)})
        list(other)
    run.finish()
    found = findings_of(run.dir)
    assert found["data-order"] == found["data-values"] == "warning"
    assert found["data-leak"] == "error"


def test_healthy_loaders_are_told_nothing(start_run: StartRun) -> None:
    run = start_run()
    train = epochal.watch_data(DataLoader(pairs(256), batch_size=16, shuffle=True))
    other = epochal.watch_data(DataLoader(pairs(64, seed=1), batch_size=16), "eval")
    for _ in range(3):
        list(train)
        list(other)
    run.finish()
    assert not [name for name in findings_of(run.dir) if name.startswith("data-")]


def test_samples_that_come_again_after_a_resume_are_found(start_run: StartRun) -> None:
    data = pairs(256)
    first = start_run()
    loader = epochal.watch_data(DataLoader(data, batch_size=16))
    for number, _ in enumerate(loader):
        first.log({"loss": 1.0}, step=number)
        if number == 9:
            break
    first.finish("failed")
    run = start_run(resume="must")
    loader = epochal.watch_data(DataLoader(data, batch_size=16))
    for number, _ in enumerate(loader, 10):
        run.log({"loss": 1.0}, step=number)
    run.finish()
    record = data_records(run.dir)[-1]
    assert record["earlier"] == list(range(160))
    assert findings_of(run.dir)["data-repeated"] == "warning"


def test_an_iterator_that_gives_nothing_is_no_epoch(start_run: StartRun) -> None:
    run = start_run()
    loader = epochal.watch_data(DataLoader(pairs(), batch_size=8))
    iter(loader)
    list(loader)
    run.finish()
    assert [record["epoch"] for record in data_records(run.dir)] == [1]
