"""A framework that is missing, or of a version that was never tested: one sentence each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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
IMPORT_EACH = """
import importlib, json, sys
from epochal.errors import MissingPackageError
said = {}
for integration, package, _ in json.loads(sys.argv[1]):
    sys.modules[package] = None
    try:
        importlib.import_module(f"epochal.integrations.{integration}")
    except MissingPackageError as error:
        said[integration] = str(error)
print(json.dumps(said))
"""
REQUIRE_TWICE = """
import sys
from epochal.integrations.framework import require
for package in sys.argv[1:] * 2:
    require(package, "this integration", tested="5.")
"""


def run_script(script: str, *arguments: str, path: Path | None = None) -> tuple[str, str]:
    environment = {**os.environ, **({} if path is None else {"PYTHONPATH": str(path)})}
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    return done.stdout, done.stderr


def test_a_missing_framework_is_one_sentence_with_the_pip_line() -> None:
    out, _ = run_script(IMPORT_EACH, json.dumps(FRAMEWORKS))
    said = json.loads(out)
    for integration, _, pip_name in FRAMEWORKS:
        sentence = f"needs the package {pip_name!r}: pip install {pip_name}."
        assert said[integration].endswith(f"epochal.integrations.{integration} {sentence}")


def fake_package(folder: Path, name: str, version: str, *, is_installed: bool = True) -> str:
    (folder / f"{name}.py").write_text(f"__version__ = {version!r}\n")
    if is_installed:
        facts = folder / f"{name}-{version}.dist-info"
        facts.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (facts / "METADATA").write_text(text)
    return name


def test_a_version_that_was_not_tested_is_said_once(tmp_path: Path) -> None:
    packages = [
        fake_package(tmp_path, "newer", "99.1"),
        fake_package(tmp_path, "not_installed", "99.2", is_installed=False),
        fake_package(tmp_path, "tested", "5.3"),
    ]
    _, said = run_script(REQUIRE_TWICE, *packages, path=tmp_path)
    newer, not_installed = said.strip().splitlines()
    assert "is tested with newer 5.x, not with 99.1" in newer
    assert "is tested with not_installed 5.x, not with 99.2" in not_installed
