import io
import math
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from epochal.errors import ValueTypeError
from epochal.media.image import encode_png
from epochal.run.run import Run, recorder_of
from tests.doubles.journals import of_kind


def histogram(run: Run, values: Any, **arguments: Any) -> dict[str, Any]:
    recorder_of(run).write_histogram("w", values, 3, **arguments)
    return of_kind(run.dir, "histogram")[-1]


def test_a_histogram_counts_every_value_once(run: Run) -> None:
    record = histogram(run, [0, 1, 1, 2, 2, 2], bins=3)
    assert record["counts"] == [1, 2, 3]
    assert (record["lo"], record["hi"], record["count"], record["step"]) == (0.0, 2.0, 6, 3)


def test_values_that_are_not_finite_are_counted_apart(run: Run) -> None:
    record = histogram(run, [1.0, math.nan, math.inf, 2.0])
    assert (record["count"], record["nonfinite_count"], sum(record["counts"])) == (2, 2, 2)


@pytest.mark.parametrize("values", [[], [math.nan], np.zeros((0, 3))])
def test_a_histogram_of_nothing_is_empty(run: Run, values: Any) -> None:
    record = histogram(run, values)
    assert (record["counts"], record["count"]) == ([], 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.floats(), max_size=20))
def test_any_floats_make_a_histogram_without_a_warning(run: Run, values: list[float]) -> None:
    record = histogram(run, values)
    assert sum(record["counts"]) == record["count"] == sum(map(math.isfinite, values))


@pytest.mark.parametrize(
    "values", [[1.0, 1.0 + 2**-52], [1e15], [5e-324, 0.0], [-1.7e308, 1.7e308]]
)
def test_values_that_hardly_or_hugely_differ_are_binned(run: Run, values: list[float]) -> None:
    record = histogram(run, values)
    assert sum(record["counts"]) == len(values)
    assert record["lo"] <= min(values) <= max(values) <= record["hi"]


@pytest.mark.slow  # loads torch
def test_tensors_of_any_kind_make_histograms(run: Run) -> None:
    torch = pytest.importorskip("torch")
    for kind in (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool):
        assert histogram(run, torch.ones(4, 4).to(kind))["count"] == 16
    assert histogram(run, torch.ones(3, requires_grad=True))["count"] == 3


@pytest.mark.parametrize("values", [["a"], [None], [1j]])
def test_a_histogram_takes_numbers_only(strict_run: Run, values: Any) -> None:
    with pytest.raises(ValueTypeError, match="histogram 'w' must hold numbers"):
        strict_run.log({"w": values})


def test_a_sample_without_a_step_belongs_to_the_last_one(run: Run) -> None:
    run.log({"a": 1}, step=7)
    run.log_image("a", b"GIF89a")
    run.log_image("a", b"GIF89a", 3)
    assert [record["step"] for record in of_kind(run.dir, "blob")] == [7, 3]


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1), (4, 5, 3), (4, 5, 4), (3, 8, 5)])
@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.bool_, np.int64])
def test_arrays_become_png_files(run: Run, shape: tuple[int, ...], kind: Any) -> None:
    run.log_image("picture", np.ones(shape).astype(kind), 1, caption="x")
    (record,) = of_kind(run.dir, "blob")
    data = ((run.dir / "blobs") / record["file"]).read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    assert (height, width) == ((8, 5) if shape == (3, 8, 5) else (4, 5))
    assert record["media_type"] == "image/png"
    assert record["bytes"] == len(data)


@pytest.mark.parametrize("shape", [(2, 12), (2, 12, 1), (2, 4, 3), (2, 3, 4)])
def test_a_png_holds_the_pixels_it_was_given(shape: tuple[int, ...]) -> None:
    pixels = np.arange(24, dtype=np.uint8).reshape(shape)
    with Image.open(io.BytesIO(encode_png(pixels))) as picture:
        assert picture.format == "PNG"
        assert np.asarray(picture).tobytes() == pixels.tobytes()


def test_without_pillow_an_array_is_left_out_with_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    run.log_image("picture", np.ones((4, 5)), 1)
    run.log_image("file", b"GIF89a", 1)
    assert [record["name"] for record in of_kind(run.dir, "blob")] == ["file"]
    (event,) = of_kind(run.dir, "event")
    assert (event["name"], event["name_of"]) == ("value-dropped", "picture")
    assert "pip install pillow" in event["reason"]


def test_one_image_logged_twice_is_stored_once(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "picture.gif"
    file.write_bytes(b"GIF89a")
    run.log_image("a", file, 1)
    run.log_image("b", b"GIF89a", 2)
    assert len(list((run.dir / "blobs").iterdir())) == 1
    assert [r["name"] for r in of_kind(run.dir, "blob")] == ["a", "b"]


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (b"rubbish", "is not PNG, JPEG, GIF or WebP data"),
        ("/absent.png", "cannot be read"),
        (np.zeros(3), r"has shape \(3,\)"),
        (np.zeros((2, 2, 7)), r"has shape \(2, 2, 7\)"),
        (np.zeros((0, 3)), "is empty"),
        (None, "must hold numbers"),
    ],
)
def test_what_is_no_image_raises_and_is_named(strict_run: Run, image: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"image 'picture' {words}"):
        strict_run.log_image("picture", image)
