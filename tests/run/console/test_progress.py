import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from epochal.run.console.live_line import LONGEST_BAR, Progress, lay_out

FULL = Progress(name="spiral", done=120, total=1000, loss=1.23456, rate=12.34, eta_s=272)


def line(progress: Progress, columns: int) -> str:
    layout = lay_out(progress, columns=columns)
    return f"{layout.left}{'#' * layout.bar_columns}{layout.right}"


def test_a_wide_terminal_shows_everything() -> None:
    text = line(FULL, 120)
    assert text == (
        f"spiral {'#' * LONGEST_BAR}  120/1000   12%  loss=1.2346  12.3 step/s  ETA 4m 32s"
    )


def test_at_eighty_columns_the_bar_shrinks() -> None:
    assert line(FULL, 79).startswith("spiral ##########")
    assert "ETA 4m 32s" in line(FULL, 79)


def test_at_forty_columns_the_lesser_figures_give_way() -> None:
    assert line(FULL, 39) == "###########  120/1000   12%  ETA 4m 32s"


def test_an_unknown_total_has_no_bar() -> None:
    progress = Progress(done=120, unit="epoch", loss=0.5)
    assert line(progress, 80) == "epoch 120  loss=0.5000"


def test_large_counts_are_shortened() -> None:
    progress = Progress(done=1_250_000_000, total=10_000_000_000, unit="token", rate=125_300)
    assert " 1.2B/10.0B   12%  125.3k token/s" in line(progress, 80)


@pytest.mark.parametrize(
    ("rate", "text"), [(0.25, "4s/step"), (2, "2.0 step/s"), (0, ""), (float("nan"), "")]
)
def test_rates(rate: float, text: str) -> None:
    assert line(Progress(done=1, rate=rate), 80) == f"step 1  {text}".rstrip()


def test_progress_beyond_the_total_is_whole() -> None:
    assert "100%" in line(Progress(done=12, total=10), 80)


@given(
    name=st.text(),
    done=st.floats(0, 1e15),
    total=st.none() | st.floats(0, 1e15),
    loss=st.none() | st.floats(),
    rate=st.none() | st.floats(),
    eta_s=st.none() | st.floats(),
    columns=st.integers(0, 300),
)
def test_no_line_is_wider_than_the_terminal(
    name: str,
    done: float,
    total: float | None,
    loss: float | None,
    rate: float | None,
    eta_s: float | None,
    columns: int,
) -> None:
    progress = Progress(name=name, done=done, total=total, loss=loss, rate=rate, eta_s=eta_s)
    assert cell_len(line(progress, columns)) <= columns
