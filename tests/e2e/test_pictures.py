"""What the charts of the page show, read back from their pixels, against numpy on the same data.

A picture is read as a person reads it: the axis by the labels of its ticks, the rest by colours.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import epochal
from tests.conftest import StartRun
from tests.e2e.browsing import OpenPage, Serve, has_drawn

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from playwright.sync_api import Locator, Page

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

# Charts that are out of sight are not drawn.
TALL = {"width": 1360, "height": 3000}
# Keeps the texts of each canvas, and where they stand; it is cleared before it is painted.
REMEMBER_TEXTS = """
const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
const texts = (window.canvasTexts = new WeakMap());
CanvasRenderingContext2D.prototype.clearRect = function (...box) {
  texts.set(this.canvas, []);
  return clearRect.apply(this, box);
};
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  const { e, f } = this.getTransform();
  texts.get(this.canvas)?.push([text, e, f, this.textAlign]);
  return fillText.call(this, text, ...rest);
};
"""
READ = """(canvas) => {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  let bytes = "";
  for (let at = 0; at < data.length; at += 4096) {
    bytes += String.fromCharCode(...data.subarray(at, at + 4096));
  }
  return { width, height, pixels: btoa(bytes), texts: window.canvasTexts.get(canvas) };
}"""
# Ticks stand on whole pixels, and edges are blurred over one.
NEAR_PX = 1.6
UNITS = {"k": 1e3, "M": 1e6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}

STEPS = np.arange(200)
GAP = slice(80, 120)
# The metrics of one run, and whether the axis of y is logarithmic.
LINES: dict[str, tuple[Floats, bool]] = {
    "rising": (STEPS / 20.0, False),
    "constant": (np.full(200, 3.25), False),
    "zero": (np.zeros(200), False),
    "negative": (-5.0 + 4.0 * np.sin(STEPS / 30.0), False),
    "gap": (np.where((GAP.start <= STEPS) & (GAP.stop > STEPS), np.nan, STEPS**2 / 1e4), False),
    "decades": (10.0 ** (STEPS / 40.0 - 3.0), True),
    "level": (np.full(200, 1e-4), True),
}
NORMAL = np.random.default_rng(0).normal(-1.0, 2.0, size=(3, 1000))
# One ridge beside the other, each as often as numpy says; the last has only one value.
RIDGES = np.random.default_rng(1).normal(0.0, 1.0, size=(4, 2000))
RIDGES = RIDGES * np.array([[0.4], [0.2], [0.8], [0.0]]) + np.array([[-4.0], [-1.0], [3.0], [7.0]])
# No number of the other axis.
RIDGE_STEPS = (100, 101, 102, 103)
BARS = {"one": 4.0, "two": -2.0, "three": 1.0, "none": math.nan, "zero": 0.0}
EVEN_BARS = {"one": 2.5, "two": 2.5}
MATRIX = np.array([[0.1, 0.9, 0.3], [0.7, math.nan, 0.2], [0.5, 0.4, 0.8]])
SIGNED = np.array([[-3.0, -1.0, 0.0], [2.0, -2.0, 3.0]])
EVEN_MATRIX = np.full((2, 3), 1.5)
# As after a restart with another interval.
LOAD_STEPS = (0, 10, 20, 30, 200)
LOADS = np.random.default_rng(2).dirichlet(np.ones(4), size=len(LOAD_STEPS))
# Seconds after the run began.
SPANS = {"eval": [(2.0, 5.5), (20.0, 21.0)], "save": [(6.0, 9.25)], "export": [(30.0, 30.0)]}
UTIL_START, UTIL_PERIOD = 10.0, 2.0
UTIL = [20.0, 40.0, 60.0, 80.0, 100.0, None, None, 50.0, 50.0, 0.0]


@dataclass(frozen=True)
class Axis:
    """The line through the labels of an axis: where a value is, in pixels."""

    slope: float
    start: float
    is_log: bool = False

    def __call__(self, values: Any) -> Any:
        values = np.asarray(values, np.float64)
        return self.start + self.slope * (np.log10(values) if self.is_log else values)


@dataclass(frozen=True)
class Picture:
    """The pixels of a canvas, and its texts with where they stand."""

    rgba: NDArray[np.uint8]
    texts: list[tuple[str, float, float, str]]

    def coloured(self, *, is_faint: bool = False) -> Mask:
        """Pixels of a series: grid, labels and page are shades of grey."""
        least, covered = (10, 20) if is_faint else (30, 60)
        rgb = self.rgba[..., :3].astype(int)
        return np.asarray((rgb.max(2) - rgb.min(2) > least) & (self.rgba[..., 3] > covered))

    def x_axis(self) -> Axis:
        """By the numbers of the lowest line of texts."""
        # A label at the end of the axis is moved to the left.
        texts = [(text, x, y) for text, x, y, align in self.texts if align == "center"]
        lowest = max(y for *_, y in texts)
        ticks = _numbers([one for one in texts if one[2] == lowest])
        # Lines of ticks are half a pixel beside whole ones.
        return _axis([(value, x - 0.5) for value, x, _ in ticks])

    def y_axis(self, *, is_log: bool = False) -> Axis:
        """By the numbers that stand below one another at the left."""
        texts = [(text, x, y) for text, x, y, align in self.texts if align == "right"]
        left = min(x for _, x, _ in texts)
        ticks = _numbers([one for one in texts if one[1] == left])
        return _axis([(value, y - 0.5) for value, _, y in ticks], is_log=is_log)

    def at(self, text: str) -> tuple[float, float]:
        """Where a text stands."""
        return next((x, y) for known, x, y, _ in self.texts if known == text)

    def colour(self, x: float, y: float) -> NDArray[np.int_]:
        """Over white, as a page of this theme has it."""
        *rgb, alpha = self.rgba[round(y), round(x)].astype(float)
        return np.array([round(one * alpha / 255 + 255 - alpha) for one in rgb])


def _axis(ticks: list[tuple[float, float]], *, is_log: bool = False) -> Axis:
    values, pixels = np.array(ticks).T
    slope, start = np.polyfit(np.log10(values) if is_log else values, pixels, 1)
    return Axis(float(slope), float(start), is_log)


def _numbers(texts: list[tuple[str, float, float]]) -> list[tuple[float, float, float]]:
    read = [(_number(text), x, y) for text, x, y in texts]
    return [(value, x, y) for value, x, y in read if value is not None]


def _number(text: str) -> float | None:
    """Of a label such as `-0.5`, `10k`, `1m 30s`; None for other texts."""
    text = text.replace("\N{MINUS SIGN}", "-")
    if re.fullmatch(r"-?[\d.]+(e-?\d+)?", text):
        return float(text)
    parts = re.findall(r"([\d.]+)(k|ms|M|s|m|h)(?: |$)", text)
    if not parts or " ".join(n + unit for n, unit in parts) != text.lstrip("-"):
        return None
    return (-1 if text.startswith("-") else 1) * sum(float(n) * UNITS[unit] for n, unit in parts)


@dataclass
class Shown:
    """The page, which is loaded once, and the runs on it."""

    page: Page
    url: str
    runs: dict[str, str]
    address: str = ""

    def go(self, address: str, run: str = "numbers") -> None:
        """Show another view of the page, and wait until it is drawn."""
        wanted = f"#run={self.runs[run]}&{address}"
        if wanted == self.address:
            return
        self.page.goto(self.url + wanted)
        self.address = wanted
        has_drawn(self.page)

    def titled(self, title: str) -> Locator:
        return self.page.locator(f"[data-title='{title}']")

    def read(self, canvas: Locator) -> Picture:
        """The picture of a canvas that is drawn."""
        canvas.scroll_into_view_if_needed()
        has_drawn(self.page)
        read = canvas.evaluate(READ)
        pixels = np.frombuffer(base64.b64decode(read["pixels"]), np.uint8)
        texts = [(text, x, y, align) for text, x, y, align in read["texts"]]
        return Picture(pixels.reshape(read["height"], read["width"], 4), texts)


@pytest.fixture(scope="module")
def folder(start_for_all: StartRun) -> Path:
    """A run with everything that has a picture, and a run with one point of everything."""
    torch = pytest.importorskip("torch")
    with start_for_all("numbers") as run:
        norm = torch.nn.LayerNorm(64)
        optimizer = torch.optim.SGD(norm.parameters(), lr=0.1)
        epochal.watch(norm, run, every=1)
        for step in range(3):
            optimizer.zero_grad()
            norm(torch.ones(8, 64).cumsum(1)).square().mean().backward()
            optimizer.step()
            run.log({"normal": NORMAL[step], "list": [1.0] * 50}, step=step)
        for step, values in zip(RIDGE_STEPS, RIDGES, strict=True):
            run.log({"ridges": values}, step=step)
        for step in STEPS.tolist():
            run.log({name: float(values[step]) for name, (values, _) in LINES.items()}, step=step)
        for name, values in (("bars", BARS), ("even-bars", EVEN_BARS)):
            chart = {"kind": "bar", "x": "name", "y": "value"}
            rows = [[key, value] for key, value in values.items()]
            run.log({name: epochal.Table(rows, ["name", "value"], chart=chart)}, step=0)
        for name, cells in (("matrix", MATRIX), ("signed", SIGNED), ("even-matrix", EVEN_MATRIX)):
            chart = {"kind": "matrix", "x": "to", "y": "from", "value": "n"}
            rows = [[f"r{r}", f"c{c}", value] for (r, c), value in np.ndenumerate(cells)]
            run.log({name: epochal.Table(rows, ["from", "to", "n"], chart=chart)}, step=0)
        for step, load in zip(LOAD_STEPS, LOADS.tolist(), strict=True):
            record = {"log": "experts", "step": step, "layers": ["0"], "load": [load], "top_k": 1}
            run.write({**record, "t": _created(run.dir) + step})
        _write_timeline(run, _created(run.dir))
    with start_for_all("single") as run:
        run.log({"alone": 7.5, "values": [2.5]}, step=40)
        _write_span(run, "eval", _created(run.dir) + 3.0, 0.0)
    return run.dir.parent.parent


def _identity(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "run.json").read_text(encoding="utf-8")))


def _created(folder: Path) -> float:
    return float(_identity(folder)["created"])


def _write_span(run: epochal.Run, name: str, start: float, duration_s: float) -> None:
    record = {"log": "span", "t": start + duration_s, "name": name, "start": start}
    run.write({**record, "duration_ms": 1000 * duration_s, "step": 1})


def _write_timeline(run: epochal.Run, began: float) -> None:
    for name, spans in SPANS.items():
        for start, end in spans:
            _write_span(run, name, began + start, end - start)
    record = {"log": "timeline", "t": began + 40, "start": began + UTIL_START, "gaps": []}
    record |= {"period_s": UTIL_PERIOD, "samples": {"gpu/0/util": UTIL}, "reason": "slow"}
    run.write({**record, "step": 1})


@pytest.fixture(scope="module")
def shown(folder: Path, serve_all: Serve, open_page_for_all: OpenPage) -> Shown:
    url = serve_all(folder).url
    page = open_page_for_all("about:blank", viewport=TALL)
    page.add_init_script(REMEMBER_TEXTS)
    page.goto(url)
    paths = {path.name: path for path in (folder / "tests").iterdir() if path.is_dir()}
    runs = {name: str(_identity(path)["id"]) for name, path in paths.items()}
    return Shown(page, url, runs)


# -- histograms ------------------------------------------------------------------------------------


def bars_picture(shown: Shown, name: str, step: int | None, run: str = "numbers") -> Picture:
    shown.go(f"at=histograms&hist-step={'' if step is None else step}", run)
    return shown.read(shown.titled(name).locator("canvas").nth(1))


def column_tops(mask: Mask, columns: Any, bottom: float) -> Floats:
    """The highest marked pixel of each column, or the bottom."""
    picked = mask[:, np.rint(columns).astype(int)]
    return np.where(picked.any(0), picked.argmax(0), bottom)


@pytest.mark.parametrize("step", [0, 2])
def test_bars_of_a_histogram_are_at_their_values_and_as_high_as_their_counts(
    shown: Shown, step: int
) -> None:
    picture = bars_picture(shown, "normal", step)
    x, y = picture.x_axis(), picture.y_axis()
    counts, edges = np.histogram(NORMAL[step], bins=64)
    middles = x((edges[:-1] + edges[1:]) / 2)
    tops = column_tops(picture.coloured(), middles, float(y(0)))
    np.testing.assert_allclose(tops, y(counts), atol=NEAR_PX)
    # Where a bar stands beside an empty bin, it begins and ends at the edges of its bin.
    columns = np.flatnonzero(picture.coloured().any(0))
    assert columns[0] == pytest.approx(x(edges[0]), abs=NEAR_PX)
    assert columns[-1] + 1 == pytest.approx(x(edges[-1]), abs=NEAR_PX)


@pytest.mark.parametrize(
    ("name", "step", "run", "value", "count"),
    [
        ("Parameters/weight", 0, "numbers", 1.0, 64),
        ("Parameters/bias", 0, "numbers", 0.0, 64),
        ("list", 0, "numbers", 1.0, 50),
        ("values", None, "single", 2.5, 1),
    ],
)
def test_equal_values_are_one_mark_at_their_value(
    shown: Shown, name: str, step: int | None, run: str, value: float, count: int
) -> None:
    picture = bars_picture(shown, name, step, run)
    columns = np.flatnonzero(picture.coloured().any(0))
    assert len(columns) <= 4
    assert columns.mean() + 0.5 == pytest.approx(picture.x_axis()(value), abs=NEAR_PX)
    rows = np.flatnonzero(picture.coloured().any(1))
    y = picture.y_axis()
    assert rows[0] == pytest.approx(y(count), abs=NEAR_PX)
    assert rows[-1] + 1 == pytest.approx(y(0), abs=NEAR_PX)


def test_equal_values_leave_the_axis_to_the_other_steps(shown: Shown) -> None:
    for name, value in (("Parameters/weight", 1.0), ("Parameters/bias", 0.0)):
        picture = bars_picture(shown, name, 2)
        columns = np.flatnonzero(picture.coloured().any(0))
        # Bars of the last step, the axis to the first one's value: nothing else takes room.
        reach = [*columns, picture.x_axis()(value)]
        assert max(reach) - min(reach) > 0.6 * picture.rgba.shape[1], name


def test_ridges_are_at_their_values_and_as_high_as_their_densities(shown: Shown) -> None:
    shown.go("at=histograms&hist-as=ridge")
    picture = shown.read(shown.titled("ridges").locator("canvas").first)
    x = picture.x_axis()
    bases = [picture.at(str(step))[1] + 3 for step in RIDGE_STEPS]
    columns = np.arange(12, int(picture.at("100")[0]) - 1)
    spread = [np.histogram(values, bins=64) for values in RIDGES[:-1]]
    densities = [
        np.interp(
            columns + 0.5,
            x((edges[:-1] + edges[1:]) / 2),
            counts / np.diff(edges) / counts.sum(),
            left=0.0,
            right=0.0,
        )
        for counts, edges in spread
    ]
    highest = max(density.max() for density in densities)
    # The oldest ridge is filled faintly.
    tops = column_tops(picture.coloured(is_faint=True), columns, bases[0])
    # The highest ridge says how many pixels a density is; a power below one flattens all.
    peak = int(np.argmax(densities[1]))
    height = bases[1] - tops[peak - 3 : peak + 4].min()
    expected = np.full(len(columns), bases[0])
    for base, density in zip(bases, densities, strict=False):
        expected = np.minimum(expected, base - height * (density / highest) ** 0.8)
    spike = x(RIDGES[-1, 0])
    is_spike = np.abs(columns + 0.5 - spike) < 4
    # On a steep flank a pixel to the side is many up or down; densities are two pixels apart.
    around = np.array([np.roll(expected, by) for by in (-2, -1, 0, 1, 2)])
    is_near = (tops >= around.min(0) - 1.5) & (tops <= around.max(0) + 1.5)
    assert is_near[~is_spike].all()
    # The newest ridge has an outline in the colour of text.
    tips = column_tops(picture.rgba[..., 3] > 60, columns[is_spike], bases[0])
    assert columns[is_spike][np.argmin(tips)] + 0.5 == pytest.approx(spike, abs=NEAR_PX)
    assert tips.min() == pytest.approx(bases[-1] - height, abs=NEAR_PX + 1)


# -- lines -----------------------------------------------------------------------------------------


def line_picture(shown: Shown, metric: str, run: str = "numbers") -> Picture:
    logs = ",".join(name for name, (_, is_log) in LINES.items() if is_log)
    shown.go(f"place=board&runs={shown.runs[run]}&log-y={logs}", run)
    return shown.read(shown.page.locator(f'[data-metric="{metric}"] canvas').first)


def middles(mask: Mask) -> Floats:
    """The middle of the marked pixels of each column; nan where there is none."""
    rows = np.arange(mask.shape[0])[:, None] + 0.5
    with np.errstate(invalid="ignore"):
        return np.asarray((rows * mask).sum(0) / mask.sum(0))


@pytest.mark.parametrize("metric", LINES)
def test_lines_go_through_their_points(shown: Shown, metric: str) -> None:
    values, is_log = LINES[metric]
    picture = line_picture(shown, metric)
    x, y = picture.x_axis(), picture.y_axis(is_log=is_log)
    columns = np.rint(x(STEPS)).astype(int)
    found = middles(picture.coloured())[columns]
    missing = ~np.isfinite(values)
    # Ends are round, and the crosses of what is no number reach a little to their sides.
    aside = np.convolve(missing, np.ones(7), "same") > 0
    aside[[0, -1]] = True
    expected = np.interp(columns + 0.5, x(STEPS), y(values))
    # On a steep line half a pixel to the side is several up or down.
    near = NEAR_PX + np.abs(np.gradient(expected) / np.gradient(columns))
    assert (np.abs(found - expected) < near)[~aside].all()
    if missing.any():
        within = slice(columns[missing][0] + 3, columns[missing][-1] - 2)
        rows = np.flatnonzero(picture.coloured()[:, within].any(1))
        # A finding is marked at the upper edge.
        assert rows[rows > 20].min() > y.start - 14


def test_a_single_point_is_a_dot_at_its_place(shown: Shown) -> None:
    picture = line_picture(shown, "alone", "single")
    rows, columns = np.nonzero(picture.coloured())
    assert np.ptp(rows) < 8
    assert np.ptp(columns) < 8
    assert rows.mean() + 0.5 == pytest.approx(picture.y_axis()(7.5), abs=NEAR_PX)
    assert columns.mean() + 0.5 == pytest.approx(picture.x_axis()(40), abs=NEAR_PX)


# -- tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "values"), [("bars", BARS), ("even-bars", EVEN_BARS)])
def test_bars_are_as_long_as_their_values(
    shown: Shown, name: str, values: dict[str, float]
) -> None:
    shown.go("at=samples")
    bars = shown.titled(name).locator(".chart-bar")
    bars.first.scroll_into_view_if_needed()
    has_drawn(shown.page)
    shares = bars.evaluate_all("""(bars) => bars.map((bar) => {
      const [fill, track] = [".chart-bar-fill", ".chart-bar-track"].map((part) =>
        bar.querySelector(part).getBoundingClientRect());
      return [bar.querySelector(".chart-bar-label").textContent, fill.width / track.width,
        fill.left - track.left];
    })""")
    most = np.nanmax(np.abs(list(values.values())))
    expected = {key: 0.0 if math.isnan(v) else abs(v) / most for key, v in values.items()}
    assert {key: share for key, share, _ in shares} == pytest.approx(expected, abs=0.01)
    assert {start for _, _, start in shares} == {0}


def cell_colours(picture: Picture, rows: list[str], columns: list[str]) -> NDArray[np.int_]:
    """The colour of each cell, beside what is written in it."""
    xs = [picture.at(column)[0] for column in columns]
    ys = [picture.at(row)[1] for row in rows]
    aside, up = 0.4 * (xs[1] - xs[0]), 0.4 * (ys[1] - ys[0])
    corners = [(-aside, -up), (aside - 2, up - 2)]
    found = np.array([[[picture.colour(x + a, y + b) for a, b in corners] for x in xs] for y in ys])
    np.testing.assert_array_equal(found[:, :, 0], found[:, :, 1])
    return np.asarray(found[:, :, 0])


def matrix_colours(shown: Shown, name: str, cells: Floats) -> NDArray[np.int_]:
    shown.go("at=samples")
    picture = shown.read(shown.titled(name).locator("canvas").first)
    rows, columns = cells.shape
    names = [f"r{row}" for row in range(rows)], [f"c{column}" for column in range(columns)]
    return cell_colours(picture, *names)


def test_cells_of_a_matrix_are_the_darker_the_larger(shown: Shown) -> None:
    colours = matrix_colours(shown, "matrix", MATRIX)
    known = np.isfinite(MATRIX)
    lightness = colours.sum(2)
    order = np.argsort(MATRIX[known])
    assert (np.diff(lightness[known][order]) < 0).all()
    # What is no number is red, as no value is.
    red, green, blue = colours[~known][0]
    assert red > max(green, blue) + 60


def test_cells_of_a_matrix_with_a_sign_have_two_hues(shown: Shown) -> None:
    colours = matrix_colours(shown, "signed", SIGNED)
    warmth = colours[..., 0] - colours[..., 2]
    assert (warmth[SIGNED < 0] < -20).all()
    assert (warmth[SIGNED > 0] > 20).all()
    assert abs(warmth[SIGNED == 0][0]) < 10
    for sign in (-1, 1):
        strength = colours.sum(2)[np.sign(SIGNED) == sign]
        assert (np.diff(strength[np.argsort(np.abs(SIGNED[np.sign(SIGNED) == sign]))]) < 0).all()


def test_cells_of_equal_values_have_one_colour(shown: Shown) -> None:
    colours = matrix_colours(shown, "even-matrix", EVEN_MATRIX).reshape(-1, 3)
    assert (colours == colours[0]).all()
    assert colours[0].sum() < 3 * 230


def load_colours(shown: Shown, steps: tuple[int, ...], run: str) -> NDArray[np.int_]:
    shown.go("at=experts", run)
    picture = shown.read(shown.titled("layer 0 over steps").locator("canvas").first)
    return cell_colours(picture, [f"expert {n}" for n in range(4)], [str(step) for step in steps])


def test_columns_of_a_heat_map_are_above_their_steps(shown: Shown) -> None:
    # The last column is framed.
    lightness = load_colours(shown, LOAD_STEPS[:-1], "numbers").sum(2)
    order = np.argsort(LOADS[:-1].T.ravel())
    assert (np.diff(lightness.ravel()[order]) <= 0).all()
    assert np.ptp(lightness) > 200


# -- the timeline ----------------------------------------------------------------------------------


def timeline_picture(shown: Shown, run: str = "numbers") -> Picture:
    shown.go("at=performance&timeline=whole", run)
    return shown.read(shown.titled("Timeline").locator("canvas"))


def stretches(mask: Any) -> list[tuple[int, int]]:
    """Where each stretch of marked pixels begins and ends."""
    ends = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(int)))
    firsts, stops = ends[::2], ends[1::2]
    # The line of an axis may lie over one.
    apart = firsts[1:] - stops[:-1] > 2
    return list(
        zip(firsts[np.r_[True, apart]].tolist(), stops[np.r_[apart, True]].tolist(), strict=True)
    )


def test_spans_of_the_timeline_begin_and_end_at_their_times(shown: Shown) -> None:
    picture = timeline_picture(shown)
    x = picture.x_axis()
    for name, spans in SPANS.items():
        _, middle = picture.at(name)
        # Above the text in a span, and without the name of the lane.
        drawn = stretches(picture.coloured()[round(middle) - 9, :])
        assert len(drawn) == len(spans), name
        for (first, stop), (start, end) in zip(drawn, spans, strict=True):
            assert first == pytest.approx(x(start), abs=NEAR_PX), name
            assert stop == pytest.approx(max(x(end), x(start) + 1), abs=NEAR_PX), name


def test_readings_of_the_timeline_fill_their_lane_by_their_share(shown: Shown) -> None:
    picture = timeline_picture(shown)
    x = picture.x_axis()
    _, middle = picture.at("GPU 0")
    lane = picture.coloured()[round(middle) - 11 : round(middle) + 11, :]
    at = UTIL_START + UTIL_PERIOD * (np.arange(len(UTIL)) + 0.5)
    heights = lane[:, np.rint(x(at)).astype(int)].sum(0)
    # No reading is a thin grey line, and idle is a thin line of the colour.
    expected = [0.0 if util is None else max(1.0, 22 * util / 100) for util in UTIL]
    np.testing.assert_allclose(heights, expected, atol=NEAR_PX)
    missing = np.rint(x(at[[util is None for util in UTIL]])).astype(int)
    assert (picture.rgba[round(middle), missing, 3] > 60).all()
    ends = stretches(lane.any(0))
    assert ends[0][0] == pytest.approx(x(UTIL_START), abs=NEAR_PX)
    assert ends[-1][1] == pytest.approx(x(UTIL_START + UTIL_PERIOD * len(UTIL)), abs=NEAR_PX)


def test_a_moment_alone_is_on_the_timeline(shown: Shown) -> None:
    picture = timeline_picture(shown, "single")
    ((first, stop),) = stretches(picture.coloured().any(0))
    assert stop - first <= 3
    assert (first + stop) / 2 == pytest.approx(picture.x_axis()(3.0), abs=NEAR_PX)
