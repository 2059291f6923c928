"""A run reaches `epochal.torch` through its hooks, and only where torch is in use."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import epochal

SCRIPT = """
import sys
{first}
import epochal
run = epochal.init(dir=sys.argv[1], console=False, companion=False)
run.log({{"loss": 1.0}})
run.finish()
print("epochal.torch.hooks" in sys.modules, "epochal.torch.scalars" in sys.modules)
"""


def loaded(folder: Path, first: str) -> str:
    command = [sys.executable, "-c", SCRIPT.format(first=first), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_run_without_torch_loads_no_hooks(tmp_path: Path) -> None:
    assert loaded(tmp_path, "") == "False False"


def test_a_run_with_torch_loads_the_hooks_but_not_what_reads_a_gpu(tmp_path: Path) -> None:
    assert loaded(tmp_path, "import torch") == "True False"


def test_only_the_table_of_public_names_imports_modules_by_a_string() -> None:
    folder = Path(epochal.__file__).parent
    by_name = re.compile(r"import_module\(\s*f?[\"']epochal")
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        if by_name.search(path.read_text(encoding="utf-8"))
    }
    # The command line is above all others, and imports each command when it is used. The package's
    # own file imports what its table of public names says.
    assert found == {"cli/command.py"}
