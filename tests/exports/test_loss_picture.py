from __future__ import annotations

import io
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from epochal.cli.main import main
from epochal.exports import png, svg
from epochal.exports.loss_picture import HEIGHT, WIDTH, Dot, Label, Stroke, centred_mean, draw
from epochal.store.local.store import LocalStore
from tests.store.journals import Journal

SVG = "{http://www.w3.org/2000/svg}"
Capture = pytest.CaptureFixture[str]


def training(root: Path, name: str = "x", *, steps: int = 100) -> Journal:
    journal = Journal(root, name)
    for step in range(steps):
        journal.add({"log": "step", "step": step, "loss": 5.0 - step / steps})
        if step % 50 == 0:
            journal.add({"log": "eval", "step": step, "loss": 5.5 - step / steps})
    return journal


def drawn(root: Path, *keys: str) -> list[Stroke | Dot | Label]:
    store = LocalStore(root)
    return draw([store.run(key) for key in keys or ("x",)])


def pixels(root: Path) -> np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]:
    out = io.BytesIO()
    png.write([LocalStore(root).run("x")], out)
    with Image.open(out) as picture:
        assert picture.format == "PNG"
        return np.asarray(picture)


def test_what_was_logged_is_pale_its_mean_is_not_and_evaluations_are_dots(tmp_path: Path) -> None:
    training(tmp_path)
    shapes = drawn(tmp_path)
    lines = [shape for shape in shapes if isinstance(shape, Stroke) and shape.x.size == 100]
    assert [line.opacity for line in lines] == [0.5, 1.0]
    assert lines[1].width > lines[0].width
    assert sum(isinstance(shape, Dot) for shape in shapes) == 2


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80))
def test_the_mean_is_over_ten_neighbours_on_each_side(values: list[float]) -> None:
    found = centred_mean(np.array(values))
    for at in range(len(values)):
        around = values[max(at - 10, 0) : at + 11]
        assert found[at] == pytest.approx(sum(around) / len(around), abs=1e-4)


def test_a_nan_leaves_the_mean_of_its_neighbours() -> None:
    assert centred_mean(np.array([1.0, np.nan, 3.0])).tolist() == [2.0, 2.0, 2.0]


def test_a_spike_does_not_flatten_the_rest(tmp_path: Path) -> None:
    training(tmp_path).add({"log": "step", "step": 100, "loss": 1e9})
    raw = next(s for s in drawn(tmp_path) if isinstance(s, Stroke) and s.x.size == 101)
    assert raw.y[:100].max() - raw.y[:100].min() > HEIGHT / 4
    assert raw.y[100] < 0


def test_a_long_run_is_cut_to_the_page_without_losing_an_extreme(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add(*({"log": "step", "step": n, "loss": 2.0 + (n == 4321)} for n in range(10_000)))
    raw = max((s for s in drawn(tmp_path) if isinstance(s, Stroke)), key=lambda s: s.x.size)
    assert raw.x.size <= 2 * WIDTH
    assert raw.y.min() < np.median(raw.y)


def test_the_svg_is_xml_and_names_every_run(tmp_path: Path) -> None:
    training(tmp_path, "a<b")
    training(tmp_path, "c")
    store, out = LocalStore(tmp_path), io.StringIO()
    svg.write([store.run("a<b"), store.run("c")], out)
    root = ET.fromstring(out.getvalue())
    words = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert any("p/a<b" in text for text in words)
    assert any("p/c" in text for text in words)


def test_a_gap_in_the_losses_is_a_gap_in_the_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step, loss in enumerate([1.0, 2.0, None, 2.0, 1.0]):
        strange = {"nonfinite": {"loss": "nan"}} if loss is None else {}
        journal.add({"log": "step", "step": step, "loss": loss, **strange})
    out = io.StringIO()
    svg.write([LocalStore(tmp_path).run("x")], out)
    pale = [line for line in out.getvalue().splitlines() if 'stroke-opacity="0.5"' in line]
    assert len(pale) == 2
    assert "1 x nan" in out.getvalue()


def test_the_png_has_the_curve_where_it_belongs(tmp_path: Path) -> None:
    training(tmp_path)
    found = pixels(tmp_path)
    assert found.shape == (2 * HEIGHT, 2 * WIDTH, 3)
    blue = (found == (0x2F, 0x6F, 0xD0)).all(axis=2)
    rows, columns = np.nonzero(blue[80:])
    left, right = columns < np.percentile(columns, 20), columns > np.percentile(columns, 80)
    assert rows[left].mean() < rows[right].mean()


@pytest.mark.parametrize("steps", [0, 1])
def test_a_run_with_hardly_a_loss_is_a_picture_all_the_same(tmp_path: Path, steps: int) -> None:
    training(tmp_path, steps=steps).metrics(0, other=1.0)
    assert pixels(tmp_path).min() < 255


def test_a_name_of_several_lines_is_on_one_line(tmp_path: Path) -> None:
    training(tmp_path, "x\ny")
    out = io.BytesIO()
    png.write(LocalStore(tmp_path).runs(), out)
    words = [shape.text for shape in draw(LocalStore(tmp_path).runs()) if isinstance(shape, Label)]
    assert any("x\\ny" in text for text in words)


def test_without_pillow_the_command_says_what_to_install(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    training(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    target = tmp_path / "loss.png"
    assert main(["export", "x", "-o", str(target), "--dir", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("epochal: png pictures need the package 'pillow'")
    assert "pip install pillow" in said
    assert not target.exists()


def test_the_command_takes_the_format_from_the_name_of_the_file(
    tmp_path: Path, capsys: Capture
) -> None:
    training(tmp_path)
    for name, start in (("loss.png", b"\x89PNG"), ("loss.svg", b"<svg"), ("x.plain", b"0 train")):
        target = tmp_path / name
        assert main(["export", "x", "-o", str(target), "--dir", str(tmp_path)]) == 0
        assert target.read_bytes().startswith(start)
