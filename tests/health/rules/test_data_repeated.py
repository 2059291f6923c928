from epochal.health.rules.data_repeated import DataRepeated
from tests.health.data_records import epoch
from tests.health.machine_records import opened


def test_indices_that_come_again_are_found_and_named() -> None:
    (found,) = opened(DataRepeated, [epoch(1, [*range(90), 5, 6, 7, 8, 9])])
    assert (found.severity, found.series) == ("warning", "data/train")
    assert found.evidence["indices"] == "5, 6, 7, 8, 9"
    assert "5.3 % of the indices" in found.sentence


def test_another_epoch_may_have_the_same_samples() -> None:
    assert opened(DataRepeated, [epoch(1, range(90)), epoch(2, range(90))]) == []


def test_parts_of_an_epoch_are_counted_together() -> None:
    parts = [epoch(1, range(90), ended=False), epoch(1, range(80, 170))]
    assert len(opened(DataRepeated, parts)) == 1


def test_a_few_that_fill_the_last_batch_are_no_fault() -> None:
    assert opened(DataRepeated, [epoch(1, [*range(400), 0, 1, 2])]) == []


def test_a_sampler_that_draws_by_weights_may_repeat() -> None:
    record = epoch(1, [*range(50), *range(50)], sampler="WeightedRandomSampler")
    assert opened(DataRepeated, [record]) == []


def test_workers_that_all_read_everything_are_named() -> None:
    stream = epoch(1, [*range(50), *range(50)], has_indices=False, workers=2)
    (found,) = opened(DataRepeated, [stream])
    assert found.severity == "warning"
    assert "Each of 2 workers gives the same ones." in found.sentence
    assert "get_worker_info" in found.advice


def test_copies_in_a_stream_are_a_note() -> None:
    (found,) = opened(DataRepeated, [epoch(1, [*range(50), *range(10)], has_indices=False)])
    assert found.severity == "info"


def test_samples_kept_by_value_are_enough() -> None:
    record = epoch(1, [*range(40), *range(20)], has_indices=False)
    record["hashes"] = [one << 4 for one in record["hashes"]]
    assert len(opened(DataRepeated, [{**record, "hash_bits": 4}])) == 1


def test_a_batch_that_comes_for_ever_is_named() -> None:
    again = epoch(1, [7] * 40, ended=False, dataset_samples=500, batches=40, read_batches=40)
    (found,) = opened(DataRepeated, [again])
    assert found.severity == "warning"
    assert "The same batch comes again and again" in found.sentence
    # A dataset that is one batch comes so by design.
    whole = {**again, "samples": 40 * 500}
    assert opened(DataRepeated, [whole]) == []
    # A sample that most batches share is not all of them.
    shared = [*[7] * 40, *range(100, 140)]
    record = epoch(1, shared, ended=False, dataset_samples=500, batches=40, read_batches=40)
    assert all("same batch" not in one.sentence for one in opened(DataRepeated, [record]))
