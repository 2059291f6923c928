from __future__ import annotations

import pytest

from epochal.store.words import severity_of


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):",
        "RuntimeError: shapes do not fit",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "2026-01-01 12:00:00 [ERROR] lost the link",
        "ERROR:root:no data",
    ],
)
def test_what_programs_print_when_they_fail_is_bad(text: str) -> None:
    assert severity_of("stdout", text) == "bad"


@pytest.mark.parametrize(
    "text", ["step 10 error 0.31", "0 errors", "mean_error=0.5", "terror", "saved model", ""]
)
def test_figures_and_ordinary_lines_are_not(text: str) -> None:
    assert severity_of("stdout", text) == ""


@pytest.mark.parametrize(
    ("level", "style"), [("error", "bad"), ("warning", "warn"), ("debug", "dim"), ("info", "")]
)
def test_a_message_of_the_run_goes_by_its_level(level: str, style: str) -> None:
    assert severity_of(level, "Error: said in passing") == style
