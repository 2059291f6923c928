"""A framework that is missing, or of a version that was never tested: one sentence each."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# The integration, its package, and what pip installs it by.
FRAMEWORKS = [
    ("accelerate", "accelerate", "accelerate"),
    ("keras", "keras", "keras"),
    ("lightgbm", "lightgbm", "lightgbm"),
    ("lightning", "lightning", "lightning"),
    ("optuna", "optuna", "optuna"),
    ("ray", "ray", "ray[tune]"),
    ("stable_baselines3", "stable_baselines3", "stable-baselines3"),
    ("transformers", "transformers", "transformers"),
    ("xgboost", "xgboost", "xgboost"),
]


def stderr_of(script: str, *paths: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    return done.stderr.strip()


@pytest.mark.parametrize(("integration", "package", "pip_name"), FRAMEWORKS)
def test_a_missing_framework_is_one_sentence_with_the_pip_line(
    integration: str, package: str, pip_name: str
) -> None:
    script = (
        f"import sys; sys.modules[{package!r}] = None; import epochal.integrations.{integration}"
    )
    sentence = f"needs the package {pip_name!r}: pip install {pip_name}."
    last = stderr_of(script).splitlines()[-1]
    assert last.endswith(f"epochal.integrations.{integration} {sentence}")


def fake_package(folder: Path, version: str, *, is_installed: bool) -> None:
    (folder / "framework_of_tests.py").write_text(f"__version__ = {version!r}\n")
    if is_installed:
        facts = folder / f"framework_of_tests-{version}.dist-info"
        facts.mkdir()
        text = f"Metadata-Version: 2.1\nName: framework_of_tests\nVersion: {version}\n"
        (facts / "METADATA").write_text(text)


TWICE = (
    "from epochal.integrations.framework import require\n"
    "for _ in range(2):\n"
    "    require('framework_of_tests', 'this integration', tested='5.')\n"
)


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_version_that_was_not_tested_is_said_once(tmp_path: Path, *, is_installed: bool) -> None:
    fake_package(tmp_path, "99.1", is_installed=is_installed)
    said = stderr_of(TWICE, tmp_path)
    assert said.count("is tested with framework_of_tests 5.x, not with 99.1") == 1
    assert len(said.splitlines()) == 1


def test_a_version_that_was_tested_says_nothing(tmp_path: Path) -> None:
    fake_package(tmp_path, "5.3", is_installed=True)
    assert stderr_of(TWICE, tmp_path) == ""
