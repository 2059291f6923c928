from __future__ import annotations

import random
from typing import Any

from epochal.health.rules.data import (
    DataLabels,
    DataLeak,
    DataOrder,
    DataRepeated,
    DataShift,
    DataValues,
)
from epochal.records import Record
from tests.health.curve_records import falling, steps
from tests.health.data_records import digest, epoch
from tests.health.machine_records import START, Entry, opened, updated


def test_samples_that_are_not_finite_are_named() -> None:
    record = epoch(1, range(100), nonfinite_samples=1, nonfinite_at=[17])
    (found,) = opened(DataValues, [record])
    assert (found.severity, found.evidence["indices"]) == ("warning", "17")
    assert "not finite in 1 sample of epoch 1" in found.sentence


def test_many_constant_samples_are_found() -> None:
    (found,) = opened(DataValues, [epoch(1, range(100), constant_samples=10, constant_at=[1, 2])])
    assert (found.evidence["share"], found.severity) == (0.1, "info")
    many = epoch(1, range(100), constant_samples=60)
    assert [one.severity for one in opened(DataValues, [many])] == ["warning"]
    assert opened(DataValues, [epoch(1, range(100), constant_samples=2)]) == []
    # The share is that of the samples that were read.
    read = epoch(1, range(100), read_batches=1, constant_samples=10)
    assert opened(DataValues, [read])[0].evidence["share"] == 0.4


def test_broken_samples_come_back_with_the_next_epoch() -> None:
    """Windows of an epoch without them prove nothing before all samples were read again."""
    broken = epoch(1, range(40), dataset_samples=200, nonfinite_samples=1, ended=False)
    well = [epoch(1 + n // 4, range(40), dataset_samples=200, ended=False) for n in range(6)]
    assert [one.state for one in updated(DataValues, [broken, *well[:4]])] == ["open"]
    assert [one.state for one in updated(DataValues, [broken, *well])] == ["open", "closed"]


def test_features_that_never_change_are_a_warning() -> None:
    (found,) = opened(DataValues, [epoch(1, range(100), constant_features=8, features=10)])
    assert found.severity == "warning"
    assert found.sentence.startswith("8 of 10 input features")
    # Images have empty borders.
    assert opened(DataValues, [epoch(1, range(100), constant_features=7, features=10)]) == []


TOLD = {"samples": 640, "classes": 4, "features": [7, 9]}


def paired(number: int = 1, *, size: int = 9000, name: str = "train", **fields: Any) -> Record:
    figures = {"targets": {"samples": 640, "classes": 4, "entropy": 1.4}, **fields}
    return epoch(number, range(8), name=name, dataset_samples=size, **figures)


def test_features_with_one_value_for_each_label_are_a_warning() -> None:
    (found,) = opened(DataLabels, [paired(telling=TOLD)])
    assert (found.severity, found.evidence["features"]) == ("warning", "7, 9")
    said = updated(DataLabels, [paired(telling=TOLD), paired(2)])
    assert [one.state for one in said] == ["open", "closed"]
    # Few different samples may agree by chance.
    assert opened(DataLabels, [paired(size=80, telling=TOLD)]) == []
    assert opened(DataLabels, [epoch(1, range(8)), paired(telling=3), paired(telling={})]) == []


def test_an_answer_that_is_hard_to_find_is_a_task() -> None:
    records = [*steps([2.08] * 150), paired(telling=TOLD), *steps([0.1] * 300)[150:]]
    assert opened(DataLabels, [*records, paired(2, telling=TOLD)]) == []
    assert len(opened(DataLabels, [*steps(falling(150)), paired(telling=TOLD)])) == 1


def labelled(lowest: int, highest: int) -> Record:
    return epoch(1, range(40), labels={"1": 20, "2": 20}, label_range=[lowest, highest])


def test_labels_out_of_range_are_found() -> None:
    model = {"log": "event", "t": START, "name": "model", "outputs": 10, "last_layer": "head"}
    (found,) = opened(DataLabels, [model, labelled(1, 10)])
    assert (found.severity, found.evidence["highest"]) == ("warning", 10)
    assert len(opened(DataLabels, [model, labelled(-1, 9)])) == 1
    assert len(opened(DataLabels, [labelled(1, 10)], config={"num_classes": 10})) == 1
    # A record that does not repeat the range says nothing.
    assert [
        one.state for one in updated(DataLabels, [model, labelled(1, 10), epoch(2, range(40))])
    ] == ["open"]
    # An ignored label, labels in range, numbers that are no classes, and one output.
    for lowest, highest in ((-100, 9), (0, 9), (0, 4000)):
        assert opened(DataLabels, [model, labelled(lowest, highest)]) == []
    assert opened(DataLabels, [{**model, "outputs": 1}, labelled(0, 1)]) == []


def shuffled(seed: int) -> list[int]:
    return random.Random(seed).sample(range(100), 100)


def test_the_same_order_again_is_found() -> None:
    records = [epoch(number, range(100), sampler="SequentialSampler") for number in (1, 2, 3)]
    (found,) = opened(DataOrder, records)
    assert (found.severity, found.evidence["same_as"]) == ("warning", 1)
    assert "shuffle=True" in found.advice
    records = [epoch(number, shuffled(0), sampler="DistributedSampler") for number in (1, 2)]
    assert "set_epoch" in opened(DataOrder, records)[0].advice
    stream = [epoch(number, range(100), has_indices=False) for number in (1, 2)]
    assert [found.severity for found in opened(DataOrder, stream)] == ["info"]


def test_other_orders_are_no_fault_and_end_one() -> None:
    assert opened(DataOrder, [epoch(number, shuffled(number)) for number in range(1, 9)]) == []
    orders = [shuffled(1), shuffled(1), shuffled(2)]
    found = updated(DataOrder, [epoch(n, order) for n, order in enumerate(orders, 1)])
    assert [finding.state for finding in found] == ["open", "closed"]
    assert opened(DataOrder, [epoch(n, range(100), name="eval") for n in (1, 2)]) == []
    # A full batch has no order.
    whole = [epoch(n, range(100), orders=[[1, 100, 7]]) for n in (1, 2)]
    assert opened(DataOrder, whole) == []


def test_a_partial_epoch_is_no_new_order() -> None:
    """Digests are taken after 2, 4, 8 … batches and at the end, which may come early."""

    def part(number: int, batches: int) -> Record:
        counts = [count for count in (2, 4, 8, 16, 32) if count < batches] + [batches]
        orders = [[count, 8 * count, digest(range(8 * count))] for count in counts]
        samples = range(8 * batches)
        return epoch(number, samples, sampler="SequentialSampler", orders=orders, batches=batches)

    whole = [part(number, 40) for number in (1, 2, 3)]
    assert [one.state for one in updated(DataOrder, [*whole, part(4, 10)])] == ["open"]
    # Nor is a part of a new order as much as the epoch that had the same one.
    new = [epoch(number, shuffled(number), orders=[[2, 50, number]]) for number in (4, 5, 6)]
    new = [{**one, "samples": 50} for one in new]
    same = [epoch(number, range(100), orders=[[2, 50, 0], [4, 100, 0]]) for number in (1, 2)]
    assert [one.state for one in updated(DataOrder, [*same, new[0]])] == ["open"]
    assert [one.state for one in updated(DataOrder, [*same, *new])] == ["open", "closed"]


def classes(labels: dict[str, int], of_one_class: int, *, batches: int = 20) -> Record:
    counts: dict[str, Any] = {"labelled_batches": batches, "one_class_batches": of_one_class}
    samples = range(sum(labels.values()))
    return epoch(1, samples, batches=batches, labels=labels, **counts)


def test_batches_of_one_class_are_found() -> None:
    (found,) = opened(DataOrder, [classes({"0": 200, "1": 200, "2": 200}, 18)])
    assert (found.severity, found.evidence["of_one_class"]) == ("warning", 0.9)
    # Sorted data is seen once the next class begins.
    records = [classes({"0": 300}, 10, batches=10), classes({"1": 300}, 10, batches=10)]
    assert len(opened(DataOrder, records)) == 1


def test_mixed_batches_are_no_fault() -> None:
    assert opened(DataOrder, [classes({"0": 200, "1": 200}, 1)]) == []
    # A rare class leaves most batches with the other.
    assert opened(DataOrder, [classes({"0": 599, "1": 1}, 19)]) == []
    assert opened(DataOrder, [classes({"0": 600}, 20)]) == []


def test_indices_that_come_again_are_found_and_named() -> None:
    (found,) = opened(DataRepeated, [epoch(1, [*range(90), 5, 6, 7, 8, 9])])
    assert (found.severity, found.series) == ("warning", "data/train, samples")
    assert found.evidence["indices"] == "5, 6, 7, 8, 9"
    parts = [epoch(1, range(90), ended=False), epoch(1, range(80, 170))]
    assert len(opened(DataRepeated, parts)) == 1


def test_samples_that_may_come_again_are_no_fault() -> None:
    assert opened(DataRepeated, [epoch(1, range(90)), epoch(2, range(90))]) == []
    # A few fill the last batch.
    assert opened(DataRepeated, [epoch(1, [*range(400), 0, 1, 2])]) == []
    weighted = epoch(1, [*range(50), *range(50)], sampler="WeightedRandomSampler")
    assert opened(DataRepeated, [weighted]) == []


def test_content_that_comes_again_is_a_note_unless_every_worker_reads_everything() -> None:
    stream = epoch(1, [*range(50), *range(50)], has_indices=False, workers=2)
    (found,) = opened(DataRepeated, [stream])
    assert found.severity == "warning"
    assert "get_worker_info" in found.advice
    copies = epoch(1, [*range(50), *range(10)], has_indices=False)
    assert [one.severity for one in opened(DataRepeated, [copies])] == ["info"]
    # Samples that are kept by value are enough.
    few = epoch(1, [*range(40), *range(20)], has_indices=False)
    few["hashes"] = [one << 4 for one in few["hashes"]]
    assert len(opened(DataRepeated, [{**few, "hash_bits": 4}])) == 1


def test_a_batch_that_comes_for_ever_is_named() -> None:
    again = epoch(1, [7] * 40, ended=False, dataset_samples=500, batches=40, read_batches=40)
    (found,) = opened(DataRepeated, [again])
    assert found.severity == "warning"
    assert "The same batch comes again and again" in found.sentence
    # A dataset that is one batch comes so by design.
    assert opened(DataRepeated, [{**again, "samples": 40 * 500}]) == []


def test_two_ranks_with_the_same_samples_are_found() -> None:
    entries: list[Entry] = [(rank, epoch(1, range(64))) for rank in (0, 1)]
    (found,) = opened(DataRepeated, entries)
    assert (found.severity, found.series) == ("warning", "data/train, ranks")
    assert found.evidence["ranks"] == "rank 0 and rank 1"


def test_a_finding_about_another_rank_names_it() -> None:
    (found,) = opened(DataValues, [(3, epoch(1, range(100), nonfinite_samples=1))])
    assert (found.series, found.evidence["rank"]) == ("data/train, nonfinite of rank 3", 3)
    assert "on rank 3" in found.sentence


def test_ranks_with_their_own_samples_are_no_fault() -> None:
    parts: list[Entry] = [
        (rank, epoch(number, range(rank, 256, 4))) for number in (1, 2) for rank in range(4)
    ]
    assert opened(DataRepeated, parts) == []
    assert opened(DataRepeated, [(0, epoch(1, range(64))), (1, epoch(2, range(64)))]) == []
    # Equal indices of another dataset, and an evaluation that is the same everywhere.
    other = epoch(1, range(64), hashes=list(range(10**6, 10**6 + 64)))
    assert opened(DataRepeated, [(0, epoch(1, range(64))), (1, other)]) == []
    same: list[Entry] = [(rank, epoch(1, range(64), name="eval")) for rank in (0, 1)]
    assert opened(DataRepeated, same) == []


def resumed(samples: range, earlier: range, *, at: int = 5) -> list[Record]:
    fields: dict[str, Any] = {"earlier": list(earlier), "earlier_steps": [at] * len(earlier)}
    first = epoch(1, samples, earlier_bits=0, earlier_by="index", **fields)
    return [{"log": "resume", "t": START, "attempt": 2, "step": 10}, first]


def test_an_epoch_that_begins_again_after_a_resume_is_found() -> None:
    (found,) = opened(DataRepeated, resumed(range(100), range(90)))
    assert (found.severity, found.evidence["share"]) == ("warning", 0.9)
    (found,) = opened(DataRepeated, resumed(range(100), range(30)))
    assert found.severity == "info"
    assert opened(DataRepeated, resumed(range(50, 100), range(50))) == []
    # Steps that are made again have the same samples.
    assert opened(DataRepeated, resumed(range(100), range(90), at=12)) == []


def test_evaluation_samples_of_the_training_are_found() -> None:
    other = epoch(1, [5, 6, 7, *range(2000, 2097)], name="eval")
    (found,) = opened(DataLeak, [epoch(1, range(1000)), other])
    assert (found.severity, found.series) == ("warning", "data/eval, content")
    assert found.evidence["of_evaluation"] == 0.03
    (found,) = opened(DataLeak, [epoch(1, range(100), name="val"), epoch(1, range(100))])
    assert (found.severity, found.series) == ("error", "data/val, content")


def test_samples_of_their_own_are_no_leak() -> None:
    for own in (range(100, 200), [0, 1, *range(200, 240)]):
        assert opened(DataLeak, [epoch(1, range(100)), epoch(1, own, name="test")]) == []
    # Equal indices of another dataset.
    other = epoch(1, range(100), name="eval", hashes=list(range(10**6, 10**6 + 100)))
    assert opened(DataLeak, [epoch(1, range(100)), other]) == []


def test_equal_indices_of_one_dataset_are_found_whatever_the_content() -> None:
    other = epoch(1, range(50), name="eval", hashes=[], dataset="train-1")
    (found,) = opened(DataLeak, [epoch(1, range(100)), other])
    assert found.series == "data/eval, index"
    assert str(found.evidence["indices"]).startswith("0, 1, 2")


def test_sets_kept_by_different_bits_are_compared_where_both_keep() -> None:
    train = epoch(1, range(4096))
    train["hashes"] = [one for one in train["hashes"] if one % 8 == 0]
    train |= {"hash_bits": 3, "dataset": "other"}
    (found,) = opened(DataLeak, [train, epoch(1, range(1000), name="eval")])
    assert found.evidence["of_evaluation"] == 1.0


def test_copies_that_chance_explains_are_no_leak() -> None:
    # Ten training samples of each content.
    train = epoch(1, range(400), hashes=[digest([n % 40]) for n in range(400)])
    other = epoch(1, range(60), name="eval", hashes=[digest([n % 42]) for n in range(60)])
    assert opened(DataLeak, [train, other]) == []
    few = epoch(1, range(400), hashes=[digest([n % 380]) for n in range(400)])
    (found,) = opened(DataLeak, [few, epoch(1, range(100), name="eval")])
    assert found.severity == "error"


def test_sets_that_were_thinned_out_do_not_end_a_leak() -> None:
    def thinned(number: int) -> dict[str, Any]:
        few = epoch(number, range(100))
        few["hashes"] = [one for one in few["hashes"] if one % 32 == 0]
        return few | {"hash_bits": 5, "dataset": "x"}

    whole = [epoch(1, range(100)), epoch(1, range(100), name="eval")]
    said = updated(DataLeak, [*whole, *map(thinned, range(2, 12))])
    assert [finding.state for finding in said] == ["open"]


def inputs(step: int, mode: str, mean: float, std: float, where: str = "model") -> Record:
    fields = {"at_step": step, "mode": mode, "where": where, "mean": mean, "std": std}
    return {"log": "event", "t": START + step, "name": "inputs", **fields}


TRAINED = [inputs(step, "train", 0.1, 0.9 + 0.01 * step) for step in (1, 2, 5, 10, 20, 50)]


def test_evaluation_inputs_of_another_scale_are_found() -> None:
    (found,) = opened(DataShift, [*TRAINED, *(inputs(n, "eval", 25.0, 250.0) for n in (50, 100))])
    assert (found.severity, found.series) == ("warning", "inputs/eval")
    assert found.evidence["std"] == 250.0
    assert "times larger than the training inputs" in found.sentence
    small = [inputs(step, "eval", 0.0, 0.004) for step in (50, 100)]
    assert "times smaller" in opened(DataShift, [*TRAINED, *small])[0].sentence
    (found,) = opened(DataShift, [*TRAINED, *(inputs(n, "eval", 9.0, 1.0) for n in (50, 100))])
    assert found.evidence["mean"] == 9.0


def test_evaluation_inputs_of_the_same_scale_are_fine() -> None:
    same = [inputs(step, "eval", 0.3, 1.9) for step in (50, 100, 250)]
    assert opened(DataShift, [*TRAINED, *same]) == []
    # One odd batch proves nothing, and neither do inputs of another layer.
    assert opened(DataShift, [*TRAINED, inputs(50, "eval", 0.0, 40.0), *same]) == []
    other = [inputs(step, "eval", 0.0, 40.0, "head") for step in (50, 100)]
    assert opened(DataShift, [*TRAINED, *other]) == []


def test_loaders_that_scale_differently_are_found_if_the_model_is_not_watched() -> None:
    train = epoch(1, range(100), mean=0.5, std=0.3)
    other = epoch(1, range(100), name="eval", mean=120.0, std=76.0)
    for records in ([train, other], [other, train]):
        (found,) = opened(DataShift, records)
        assert (found.severity, found.series) == ("warning", "data/eval")
    watched = [*TRAINED, inputs(50, "eval", 0.1, 1.0), inputs(100, "eval", 0.1, 1.0)]
    assert opened(DataShift, [*watched, train, other]) == []


def test_each_evaluation_loader_has_a_finding_of_its_own() -> None:
    train = epoch(1, range(100), mean=0.5, std=0.3)
    loaders = [
        epoch(number, range(100), name=name, mean=0.5, std=std)
        for number in range(1, 6)
        for name, std in (("eval", 0.3), ("test", 76.0), ("small", 0.01))
    ]
    for records in ([train, *loaders], [*loaders, train]):
        said = updated(DataShift, records)
        found = sorted((one.state, str(one.series)) for one in said)
        assert found == [("open", "data/small"), ("open", "data/test")]
        assert any("of 'test' are 253 times larger" in one.sentence for one in said)


def test_the_inputs_of_the_first_layer_decide_about_a_shift() -> None:
    """A model that normalises its inputs may get them in any scale."""
    passes = [
        record
        for step in range(1, 9)
        for mode, scale in (("train", 1.0), ("eval", 255.0))
        for record in (
            inputs(step, mode, scale / 2, scale),
            inputs(step, mode, 0.0, 1.0, "layers.0"),
        )
    ]
    loaders = [
        epoch(1, range(100), mean=0.5, std=1.0),
        epoch(1, range(100), name="eval", mean=127.0, std=255.0),
    ]
    assert opened(DataShift, passes) == []
    said = updated(DataShift, [*loaders, *passes, *loaders])
    assert [(one.state, one.series) for one in said] == [
        ("open", "data/eval"),
        ("closed", "data/eval"),
    ]
    for one in passes:
        if one["where"] == "layers.0" and one["mode"] == "eval":
            one["std"] = 0.01
    said = updated(DataShift, passes)
    assert [(one.state, one.series) for one in said] == [("open", "inputs/eval of layers.0")]
    assert "of the layer layers.0 are 100 times smaller" in said[0].sentence
