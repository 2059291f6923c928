"""Ray Data over a bucket of 10,000 runs, on a cluster of two nodes of which one is killed.

It runs the example of ``docs/how-to/other-engines.md``, and compares with that of pandas, which
``tests/api/test_frame.py`` compares with the commands.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import ray
from ray.cluster_utils import Cluster

from tests.doubles.published import fill_bucket
from tests.test_docs import PAGES, python_blocks

pytestmark = pytest.mark.filterwarnings("ignore")
PAGE = "docs/how-to/other-engines.md"
NUM_RUNS = int(os.environ.get("NUM_RUNS", "10000"))
WAIT_S = 540.0
TABLES = ("best", "spread", "broken")
START = """
import json, sys
import numpy as np
import epochal
frame, at = epochal.frame(sys.argv[1]), 2
"""
END = "for name in {names}: globals()[name].to_pickle(sys.argv[2] + name)\n"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def start(code: str, bucket: Path, results: Path, **environment: str) -> subprocess.Popen[bytes]:
    results.mkdir()
    program = START + code + END.format(names=TABLES)
    command = [sys.executable, "-c", program, str(bucket), f"{results}/"]
    return subprocess.Popen(command, env={**os.environ, **environment})


def rows(results: Path, name: str) -> dict[tuple[Any, ...], list[float]]:
    num_keys = 1 if name == "broken" else 2
    table = pd.read_pickle(f"{results}/{name}").itertuples(index=False)
    return {row[:num_keys]: list(row[num_keys:]) for row in table}


def block_of_ray() -> str:
    """The example that the tests of the docs leave out."""
    (found,) = (text for text in PAGES[PAGE].split("```") if "import ray\n" in text)
    return found.removeprefix("python\n")


def test_a_cluster_that_loses_a_node_answers_as_one_process_does(
    cluster: Cluster, tmp_path: Path
) -> None:
    bucket, alone, together = (tmp_path / name for name in ("bucket", "alone", "together"))
    fill_bucket(str(bucket), NUM_RUNS)
    (of_pandas,) = (block for block in python_blocks(PAGE) if "points = epochal" in block)
    assert start(of_pandas, bucket, alone).wait(WAIT_S) == 0

    of_runs, _, _ = of_pandas.partition("points =")
    program = start(of_runs + block_of_ray(), bucket, together, RAY_ADDRESS=cluster.address)
    deadline = time.monotonic() + WAIT_S
    while ray.available_resources().get("CPU", 0.0) > 0:  # until both nodes work
        assert program.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    assert program.poll() is None, "the program had ended before the node was killed"
    assert program.wait(WAIT_S) == 0

    for name in TABLES:
        expected, answered = rows(alone, name), rows(together, name)
        assert answered.keys() == expected.keys()
        assert all(np.allclose(answered[key], expected[key], rtol=1e-12) for key in expected)
