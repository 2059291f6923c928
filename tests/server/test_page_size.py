"""The page is fetched over tunnels and saved into every archive: it stays small."""

from __future__ import annotations

import gzip
from importlib.resources import files

# 120 kB until it had axes of any metric, lineage, and what other trackers' scripts log.
BUDGET_BYTES = 170_000


def test_the_page_keeps_its_budget() -> None:
    page = files("epochal.server").joinpath("index.html").read_bytes()
    assert len(gzip.compress(page, 9)) <= BUDGET_BYTES
