"""``wandb.sweep`` and ``wandb.agent`` on this machine: grid and random search.

A sweep is a JSON file in the folder of runs. Agents of several processes take turns through a lock
on it, so that no combination is tried twice.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import secrets
import string
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from pathlib import Path
from typing import Any

from epochal.base.atomic_file import between_processes
from epochal.base.guard import attempt, describe
from epochal.journal.layout import read_json, write_json
from epochal.settings import read_settings
from epochal.wandb.errors import CommError, UsageError
from epochal.wandb.notices import not_supported, say_once
from epochal.wandb.session import ACTIVE
from epochal.wandb.settings import read_environment

PARAMETERS_FILE = "WANDB_SWEEP_PARAM_PATH"

_CHOSEN: list[Mapping[str, Any]] = []
_DISTRIBUTIONS = (
    *("constant", "categorical", "categorical_w_probabilities", "int_uniform", "uniform"),
    *("q_uniform", "normal", "q_normal", "log_normal", "q_log_normal", "log_uniform"),
    *("q_log_uniform", "log_uniform_values", "q_log_uniform_values", "inv_log_uniform_values"),
)


def generate_id(length: int = 8) -> str:
    """A random id of small letters and digits."""
    letters = string.ascii_lowercase + string.digits
    return "".join(secrets.choice(letters) for _ in range(length))


class Sweep:
    """One sweep: its configuration, and how many combinations were tried."""

    def __init__(self, path: Path) -> None:
        self.path, self.id = path, path.stem
        self._read()

    def _read(self) -> None:
        content = read_json(self.path)
        self.config: dict[str, Any] = content["config"]
        self.project: str | None = content.get("project")
        self.num_tried: int = content.get("num_tried") or 0

    @classmethod
    def load(cls, sweep_id: str) -> Sweep:
        """A sweep by its id; raises ``CommError`` where there is none."""
        path = _folder() / f"{sweep_id.rpartition('/')[2]}.json"
        if not path.is_file():
            raise CommError(f"there is no sweep {sweep_id!r} in {path.parent}.")
        return cls(path)

    def next_parameters(self) -> dict[str, Any] | None:
        """Choose the next combination and note it; None when the sweep is complete."""
        with between_processes(self.path.with_suffix(".lock")):
            self._read()
            number, cap = self.num_tried, self.config.get("run_cap")
            if cap is not None and number >= int(cap):
                return None
            values = _combination(self.config, number, random.Random(f"{self.id}-{number}"))
            if values is not None:
                write_json(self.path, {**read_json(self.path), "num_tried": number + 1})
            return values


def sweep(
    sweep: Any, entity: str | None = None, project: str | None = None, prior_runs: Any = None
) -> str:
    """Write a sweep to the folder of runs; give its id, for ``agent``."""
    config = sweep() if callable(sweep) else sweep
    if config.get("early_terminate"):
        not_supported("early_terminate of a sweep", "every run is trained to its end")
    if config.get("method") not in ("grid", "random"):
        raise UsageError(f"sweeps support the methods grid and random, not {config.get('method')}.")
    _combination(config, 0, random.Random(0))  # raises for a configuration that cannot work
    path = _folder() / f"{generate_id()}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"config": config, "project": project or config.get("project")})
    say_once(f"sweep {path.stem} is kept in {path}.")
    return path.stem


def agent(
    sweep_id: str,
    function: Callable[[], Any] | None = None,
    entity: str | None = None,
    project: str | None = None,
    count: int | None = None,
    max_consecutive_failed_runs: int | None = None,
    **ignored: Any,
) -> None:
    """Try the combinations of a sweep one after the other: call a function, or run its program.

    A function that raises fails its run, and the next one begins. Several failures in a row end it.
    """
    made = Sweep.load(sweep_id)
    most_failures = max_consecutive_failed_runs or 3
    done = failures = 0
    variables = {"WANDB_SWEEP_ID": made.id}
    if project or made.project:
        variables["WANDB_PROJECT"] = str(project or made.project)
    with _environment(variables):
        while (count is None or done < count) and failures < most_failures:
            parameters = made.next_parameters()
            if parameters is None:
                break
            done += 1
            if function is None:
                is_well = _run_program(made, parameters)
            else:
                is_well = _call(made, parameters, function)
            failures = 0 if is_well else failures + 1
    if failures >= most_failures:
        say_once(f"sweep {made.id} is stopped: {failures} runs in a row have failed.")


def agent_command(arguments: Sequence[str]) -> None:
    """``python -m epochal.wandb agent SWEEP_ID``: run the program of a sweep."""
    parser = argparse.ArgumentParser(prog="python -m epochal.wandb agent")
    parser.add_argument("sweep_id")
    parser.add_argument("--count", type=int)
    given = parser.parse_args(arguments)
    agent(given.sweep_id, count=given.count)


def sweep_parameters() -> dict[str, Any]:
    """What the agent of this process chose, or the agent that started this process."""
    if _CHOSEN:
        return dict(_CHOSEN[-1])
    path = os.environ.get(PARAMETERS_FILE)
    if not path or not Path(path).is_file():
        return {}
    from epochal.wandb.metrics import config_file

    return config_file(Path(path))


def _call(made: Sweep, parameters: Mapping[str, Any], function: Callable[[], Any]) -> bool:
    """Call a function whose runs get these parameters; finish what it leaves open."""
    before = set(map(id, ACTIVE))
    _CHOSEN.append(parameters)
    _, error = attempt(function)
    _CHOSEN.pop()
    if error is not None:
        say_once(f"a run of sweep {made.id} failed: {describe(error)}")
    for run in list(ACTIVE):
        if id(run) not in before:
            run.finish(0 if error is None else 1)
    return error is None


def _run_program(made: Sweep, parameters: Mapping[str, Any]) -> bool:
    """Run the program of a sweep with ``--name=value`` arguments."""
    if not made.config.get("program") and not made.config.get("command"):
        raise UsageError("agent() needs a function, or a sweep with 'program'.")
    with tempfile.TemporaryDirectory(prefix="epochal-sweep-") as folder:
        path = Path(folder) / "parameters.yaml"
        path.write_text(json.dumps(parameters), encoding="utf-8")  # JSON is YAML
        env = {**os.environ, PARAMETERS_FILE: str(path)}
        command = _command(made.config, parameters)
        return subprocess.run(command, env=env, check=False).returncode == 0


def _command(config: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[str]:
    """The command of a sweep, with W&B's macros filled in."""
    flags = [f"--{name}={value}" for name, value in parameters.items()]
    macros: dict[str, list[str]] = {
        "${env}": ["/usr/bin/env"] if os.name == "posix" else [],
        "${interpreter}": [sys.executable],
        "${program}": [str(config.get("program"))],
        "${args}": flags,
        "${args_no_hyphens}": [flag.removeprefix("--") for flag in flags],
        "${args_no_boolean_flags}": [
            f"--{name}" if value is True else f"--{name}={value}"
            for name, value in parameters.items()
            if value is not False
        ],
        "${args_json}": [json.dumps(parameters)],
    }
    parts = config.get("command") or ["${env}", "${interpreter}", "${program}", "${args}"]
    return [word for part in parts for word in macros.get(str(part), [str(part)])]


def _folder() -> Path:
    given = read_environment().get("dir")
    root = Path(read_settings().dir) if given is None else Path(given) / "runs"
    return root.expanduser().absolute() / ".sweeps"


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables, and put them back as they were."""
    before = {name: os.environ.pop(name, None) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _combination(
    config: Mapping[str, Any], number: int, rng: random.Random
) -> dict[str, Any] | None:
    """The values of a sweep's run by its number; None when a grid has no more."""
    parameters = config.get("parameters")
    if not isinstance(parameters, Mapping) or not parameters:
        raise UsageError("a sweep needs 'parameters': names with 'values', or 'min' and 'max'.")
    if config["method"] == "grid":
        return next(islice(_grid(parameters), number, None), None)
    return {name: _draw(name, spec, rng) for name, spec in parameters.items()}


def _grid(parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination, the last parameter changing first."""
    for values in product(*(_every(name, spec) for name, spec in parameters.items())):
        yield dict(zip(parameters, values, strict=True))


def _every(name: str, spec: Any) -> list[Any]:
    """Every value of a parameter; raises for one that has infinitely many."""
    kind = _distribution(name, spec)
    if kind == "nested":
        return list(_grid(spec["parameters"]))
    if kind == "constant":
        return [spec["value"]]
    if "values" in spec:
        return list(spec["values"])
    if kind == "int_uniform":
        return list(range(int(spec["min"]), int(spec["max"]) + 1))
    if kind == "q_uniform":
        low, high, q = spec["min"], spec["max"], spec.get("q", 1)
        # As in W&B, an integer ``q`` gives integers.
        low = int(low) if type(q) is int and low == int(low) else low
        return [low + q * number for number in range(int((high - low) / q + 1e-9) + 1)]
    raise UsageError(f"a grid needs 'values' for {name!r}: a {kind} distribution has no end.")


def _draw(name: str, spec: Any, rng: random.Random) -> Any:
    """One value of a parameter at random."""
    kind = _distribution(name, spec)
    if kind == "nested":
        return {inner: _draw(inner, one, rng) for inner, one in spec["parameters"].items()}
    if kind == "constant":
        return spec["value"]
    if "values" in spec:
        return rng.choices(list(spec["values"]), weights=spec.get("probabilities"))[0]
    if kind == "int_uniform":
        return rng.randint(int(spec["min"]), int(spec["max"]))
    if kind.endswith("normal"):
        drawn = rng.gauss(float(spec.get("mu", 0.0)), float(spec.get("sigma", 1.0)))
    else:
        scale = math.log if kind.endswith("_values") else float
        drawn = rng.uniform(scale(spec["min"]), scale(spec["max"]))
    value = math.exp(drawn) if "log" in kind else drawn
    q = spec.get("q", 1)
    return round(value / q) * q if kind.startswith("q_") else value


def _distribution(name: str, spec: Any) -> str:
    """The distribution of a parameter, given or guessed as W&B does; "nested" for several."""
    if not isinstance(spec, Mapping):
        raise UsageError(f"the parameter {name!r} must be a mapping such as {{'values': [1]}}.")
    if isinstance(spec.get("parameters"), Mapping):
        return "nested"
    if "value" in spec:
        return "constant"
    if kind := spec.get("distribution"):
        if kind not in _DISTRIBUTIONS:
            known = ", ".join(_DISTRIBUTIONS)
            raise UsageError(f"the distribution {kind!r} of {name!r} is not known: use {known}.")
        return str(kind)
    if "values" in spec:
        return "categorical"
    if "mu" in spec or "sigma" in spec:
        return "normal"
    if "min" in spec and "max" in spec:
        whole = all(type(spec[key]) is int for key in ("min", "max"))
        return "int_uniform" if whole else "uniform"
    raise UsageError(f"the parameter {name!r} needs 'value', 'values', or 'min' and 'max'.")
