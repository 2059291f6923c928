"""The guide's example runs as it stands."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.imports.samples import TENSORBOARD

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "importing.md"


def test_the_example_prints_the_last_points(tmp_path: Path) -> None:
    shutil.copytree(TENSORBOARD, tmp_path / "logs")
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "second/deep loss/train 1 5.0" in done.stdout
