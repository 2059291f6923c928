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

from epochal.atomic_file import between_processes
from epochal.guard import attempt
from epochal.journal.layout import read_json, write_json
from epochal.settings import read_settings
from epochal.wandb.active import ACTIVE
from epochal.wandb.environment import read_environment
from epochal.wandb.errors import CommError, UsageError
from epochal.wandb.notices import not_supported, say_once

METHODS = ("grid", "random")
PARAMETERS_FILE = "WANDB_SWEEP_PARAM_PATH"
SWEEP_ID = "WANDB_SWEEP_ID"

_CHOSEN: list[Mapping[str, Any]] = []
_NORMAL = ("normal", "q_normal", "log_normal", "q_log_normal")
_LOG = ("log_uniform", "q_log_uniform", "inv_log_uniform", "inv_log_uniform_values")
_LOG_VALUES = ("log_uniform_values", "q_log_uniform_values", "inv_log_uniform_values")
# Between the names of nested parameters; no name holds it.
_JOINED = "\x1f"
_DISTRIBUTIONS = (
    *("constant", "categorical", "categorical_w_probabilities", "int_uniform", "uniform"),
    *("q_uniform", *_NORMAL, *_LOG, *_LOG_VALUES),
)
_LETTERS = string.ascii_lowercase + string.digits


def generate_id(length: int = 8) -> str:
    """A random id of small letters and digits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


class Sweep:
    """One sweep: its configuration, and how many combinations were tried."""

    def __init__(self, path: Path, content: Mapping[str, Any]) -> None:
        self.path = path
        self.id = path.stem
        self.config: dict[str, Any] = dict(content["config"])
        self.project: str | None = content.get("project")
        self.num_tried = int(content.get("num_tried") or 0)

    @classmethod
    def create(cls, config: Mapping[str, Any], project: str | None) -> Sweep:
        """Write a new sweep; raises ``UsageError`` for a configuration that cannot work."""
        method = config.get("method")
        if method not in METHODS:
            raise UsageError(
                f"Sweeps support the methods grid and random, but this one asks for {method!r}."
            )
        parameters = _parameters_of(config)
        if method == "grid":
            next(_grid(parameters), None)
        sweep = cls(_folder() / f"{generate_id()}.json", {"config": config, "project": project})
        sweep.path.parent.mkdir(parents=True, exist_ok=True)
        sweep.write()
        return sweep

    @classmethod
    def load(cls, sweep_id: str) -> Sweep:
        """A sweep by its id; raises ``CommError`` where there is none."""
        path = _folder() / f"{sweep_id.rpartition('/')[2]}.json"
        if not path.is_file():
            raise CommError(f"there is no sweep {sweep_id!r} in {path.parent}.")
        return cls(path, read_json(path))

    def write(self) -> None:
        """Write the sweep's file."""
        content = {"config": self.config, "project": self.project, "num_tried": self.num_tried}
        write_json(self.path, content)

    def next_parameters(self) -> dict[str, Any] | None:
        """Choose the next combination and note it; None when the sweep is complete."""
        with self._locked():
            parameters, number = _parameters_of(self.config), self.num_tried
            cap = self.config.get("run_cap")
            if cap is not None and number >= int(cap):
                return None
            values: dict[str, Any] | None
            if self.config["method"] == "grid":
                values = next(islice(_grid(parameters), number, None), None)
            else:
                rng = random.Random(f"{self.id}-{number}")
                values = {parameter.name: parameter.draw(rng) for parameter in parameters}
            if values is None:
                return None
            self.num_tried += 1
            self.write()
            return _nested(values)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with between_processes(self.path.with_suffix(".lock")):
            fresh = Sweep(self.path, read_json(self.path))
            self.config, self.num_tried = fresh.config, fresh.num_tried
            yield


def sweep(
    sweep: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
    entity: str | None = None,
    project: str | None = None,
    prior_runs: list[str] | None = None,
) -> str:
    """Write a sweep to the folder of runs; give its id, for ``agent``."""
    config = sweep() if callable(sweep) else sweep
    if prior_runs:
        not_supported("sweep(prior_runs=)", "the sweep begins without them")
    if config.get("early_terminate"):
        not_supported("early_terminate of a sweep", "every run is trained to its end")
    made = Sweep.create(config, project or config.get("project"))
    say_once(f"sweep {made.id} is kept in {made.path}.")
    return made.id


def agent(
    sweep_id: str,
    function: Callable[[], Any] | None = None,
    entity: str | None = None,
    project: str | None = None,
    count: int | None = None,
    forward_signals: bool = False,
    term_timeout: int | None = None,
    max_consecutive_failed_runs: int | None = None,
) -> None:
    """Try the combinations of a sweep one after the other: call a function, or run its program.

    A function that raises fails its run, and the next one begins. Several failures in a row end it.
    """
    made = Sweep.load(sweep_id)
    most_failures = max_consecutive_failed_runs or 3
    done = failures = 0
    before = os.environ.get("WANDB_PROJECT")
    if project or made.project:
        os.environ["WANDB_PROJECT"] = str(project or made.project)
    try:
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
    finally:
        if before is None:
            os.environ.pop("WANDB_PROJECT", None)
        else:
            os.environ["WANDB_PROJECT"] = before
    if failures >= most_failures:
        say_once(f"sweep {made.id} is stopped: {failures} runs in a row have failed.")


def controller(
    sweep_id_or_config: Any = None, entity: str | None = None, project: str | None = None
) -> Any:
    """Refuse: agents choose parameters themselves."""
    raise UsageError("wandb.controller is not supported by epochal.wandb: use wandb.agent.")


def agent_command(arguments: Sequence[str]) -> int:
    """``python -m epochal.wandb agent SWEEP_ID``: run the program of a sweep."""
    parser = argparse.ArgumentParser(prog="python -m epochal.wandb agent")
    parser.add_argument("sweep_id")
    parser.add_argument("--count", type=int)
    given = parser.parse_args(arguments)
    try:
        agent(given.sweep_id, count=given.count)
    except (UsageError, CommError) as error:
        sys.stderr.write(f"epochal.wandb: {error}\n")
        return 2
    return 0


def _call(made: Sweep, parameters: Mapping[str, Any], function: Callable[[], Any]) -> bool:
    """Call a function whose runs get these parameters; finish what it leaves open."""
    before = set(map(id, ACTIVE))
    is_well = True
    with _chosen(parameters, made.id):
        _, error = attempt(function)
        if error is not None:
            is_well = False
            say_once(f"a run of sweep {made.id} failed: {type(error).__name__}: {error}")
        for run in list(ACTIVE):
            if id(run) not in before:
                run.finish(0 if is_well else 1)
    return is_well


def _run_program(made: Sweep, parameters: Mapping[str, Any]) -> bool:
    """Run the program of a sweep with ``--name=value`` arguments."""
    program = made.config.get("program")
    if not program and not made.config.get("command"):
        raise UsageError("agent() needs a function, or a sweep with 'program'.")
    with tempfile.TemporaryDirectory(prefix="epochal-sweep-") as folder:
        path = Path(folder) / "parameters.yaml"
        path.write_text(json.dumps(parameters), encoding="utf-8")  # JSON is YAML
        env = {**os.environ, SWEEP_ID: made.id, PARAMETERS_FILE: str(path)}
        command = _command(made.config, str(program), parameters)
        return subprocess.run(command, env=env, check=False).returncode == 0


def _command(config: Mapping[str, Any], program: str, parameters: Mapping[str, Any]) -> list[str]:
    """The command of a sweep, with W&B's macros filled in."""
    flags = [f"--{name}={value}" for name, value in parameters.items()]
    macros: dict[str, list[str]] = {
        "${env}": ["/usr/bin/env"] if os.name == "posix" else [],
        "${interpreter}": [sys.executable],
        "${program}": [program],
        "${args}": flags,
        "${args_no_hyphens}": [flag.removeprefix("--") for flag in flags],
        "${args_no_boolean_flags}": flags,
        "${args_json}": [json.dumps(parameters)],
    }
    parts = config.get("command") or ["${env}", "${interpreter}", "${program}", "${args}"]
    return [word for part in parts for word in macros.get(str(part), [str(part)])]


def _folder() -> Path:
    given = read_environment().get("dir")
    root = Path(read_settings().dir) if given is None else Path(given) / "runs"
    return root.expanduser().absolute() / ".sweeps"


def sweep_parameters() -> dict[str, Any]:
    """What the agent of this process chose, or the agent that started this process."""
    if _CHOSEN:
        return dict(_CHOSEN[-1])
    path = os.environ.get(PARAMETERS_FILE)
    if not path or not Path(path).is_file():
        return {}
    from epochal.wandb.run_config import config_file

    return config_file(Path(path))


@contextlib.contextmanager
def _chosen(parameters: Mapping[str, Any], sweep_id: str) -> Iterator[None]:
    """Have every run that starts inside get these parameters."""
    before = os.environ.get(SWEEP_ID)
    os.environ[SWEEP_ID] = sweep_id
    _CHOSEN.append(parameters)
    try:
        yield
    finally:
        _CHOSEN.pop()
        if before is None:
            os.environ.pop(SWEEP_ID, None)
        else:
            os.environ[SWEEP_ID] = before


class _Parameter:
    """One parameter of a sweep."""

    def __init__(self, name: str, spec: Mapping[str, Any]) -> None:
        self.name = name
        self.spec = spec
        self.distribution = str(spec.get("distribution") or _guess(name, spec))
        if self.distribution not in _DISTRIBUTIONS:
            raise UsageError(
                f"the distribution {self.distribution!r} of {name!r} is not known: use one of"
                f" {', '.join(dict.fromkeys(_DISTRIBUTIONS))}."
            )

    def grid(self) -> list[Any]:
        """Every value; raises for a parameter that has infinitely many."""
        if "value" in self.spec:
            return [self.spec["value"]]
        if "values" in self.spec:
            return list(self.spec["values"])
        if self.distribution == "int_uniform":
            return list(range(int(self.spec["min"]), int(self.spec["max"]) + 1))
        if self.distribution == "q_uniform":
            low, high, q = self.spec["min"], self.spec["max"], self._q
            if type(q) is int and low == int(low):
                low = int(low)
            return [low + q * number for number in range(int((high - low) / q + 1e-9) + 1)]
        raise UsageError(
            f"a grid needs 'values' for {self.name!r}: a {self.distribution} distribution has no"
            " end."
        )

    def draw(self, rng: random.Random) -> Any:
        """One value at random."""
        spec, kind = self.spec, self.distribution
        if "value" in spec:
            return spec["value"]
        if "values" in spec:
            return rng.choices(list(spec["values"]), weights=spec.get("probabilities"))[0]
        if kind == "int_uniform":
            return rng.randint(int(spec["min"]), int(spec["max"]))
        if kind in _NORMAL:
            drawn = rng.gauss(float(spec.get("mu", 0.0)), float(spec.get("sigma", 1.0)))
            return self._rounded(math.exp(drawn) if "log" in kind else drawn)
        low, high = float(spec["min"]), float(spec["max"])
        if kind in _LOG_VALUES:
            return self._rounded(math.exp(rng.uniform(math.log(low), math.log(high))))
        if kind in _LOG:
            return self._rounded(math.exp(rng.uniform(low, high)))
        return self._rounded(rng.uniform(low, high))

    @property
    def _q(self) -> float:
        """The distance of neighbouring values; one that is an integer makes all of them integers.

        W&B does the same, whatever the bounds are.
        """
        q: float = self.spec.get("q", 1)
        return q

    def _rounded(self, value: float) -> float:
        return round(value / self._q) * self._q if self.distribution.startswith("q_") else value


def _parameters_of(config: Mapping[str, Any]) -> list[_Parameter]:
    """The parameters of a sweep's configuration; names of nested ones are joined."""
    given = config.get("parameters")
    if not isinstance(given, Mapping) or not given:
        raise UsageError("a sweep needs 'parameters': names with 'values', or 'min' and 'max'.")
    return list(_flat(given, ""))


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by joined names as nested dicts."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        *folders, last = name.split(_JOINED)
        inner = result
        for folder in folders:
            inner = inner.setdefault(folder, {})
        inner[last] = value
    return result


def _grid(parameters: list[_Parameter]) -> Iterator[dict[str, Any]]:
    """Every combination, the last parameter changing first."""
    columns = [parameter.grid() for parameter in parameters]
    for values in product(*columns):
        yield dict(zip((one.name for one in parameters), values, strict=True))


def _flat(given: Mapping[str, Any], prefix: str) -> Iterator[_Parameter]:
    for name, spec in given.items():
        if not isinstance(spec, Mapping):
            raise UsageError(f"the parameter {name!r} must be a mapping such as {{'values': [1]}}.")
        if isinstance(spec.get("parameters"), Mapping):
            yield from _flat(spec["parameters"], f"{prefix}{name}{_JOINED}")
        else:
            yield _Parameter(f"{prefix}{name}", spec)


def _guess(name: str, spec: Mapping[str, Any]) -> str:
    if "value" in spec:
        return "constant"
    if "values" in spec:
        return "categorical"
    if "mu" in spec or "sigma" in spec:
        return "normal"
    if "min" in spec and "max" in spec:
        whole = all(type(spec[key]) is int for key in ("min", "max"))
        return "int_uniform" if whole else "uniform"
    raise UsageError(f"the parameter {name!r} needs 'value', 'values', or 'min' and 'max'.")
