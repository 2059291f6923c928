from pathlib import Path

from epochal.telemetry.disk import disk_source


def test_free_space_is_that_of_the_folder_and_rates_come_with_the_second_sample(
    tmp_path: Path,
) -> None:
    seconds = iter([0.0, 1.0])
    source = disk_source(tmp_path, clock=lambda: next(seconds))
    (first,) = source.sample()
    assert first.free is not None
    assert first.total is not None
    assert 0 < first.free <= first.total
    assert first.read is first.write is None
    (second,) = source.sample()
    assert second.write is None or second.write >= 0


def test_a_folder_that_is_gone_has_no_free_space(tmp_path: Path) -> None:
    (sample,) = disk_source(tmp_path / "gone").sample()
    assert sample.free is sample.total is None
