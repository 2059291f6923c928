"""A framework that is missing is one sentence with the pip line."""

from __future__ import annotations

import json
import subprocess
import sys

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


def test_a_missing_framework_is_one_sentence_with_the_pip_line() -> None:
    command = [sys.executable, "-c", IMPORT_EACH, json.dumps(FRAMEWORKS)]
    said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    for integration, _, pip_name in FRAMEWORKS:
        sentence = f"needs the package {pip_name!r}: pip install {pip_name}."
        assert said[integration].endswith(f"epochal.integrations.{integration} {sentence}")
