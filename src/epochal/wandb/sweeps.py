"""``wandb.sweep`` and ``wandb.agent`` on this machine: grid, random, and bayes through Optuna.

A sweep is a JSON file in the folder of runs. Agents of several processes take turns through a lock
on it, so that no combination is tried twice.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import secrets
import string
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import islice
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
from epochal.wandb.sweep_parameters import PARAMETERS_FILE, SWEEP_ID, chosen
from epochal.wandb.sweep_space import grid, nested, parameters_of

METHODS = ("grid", "random", "bayes")
_LETTERS = string.ascii_lowercase + string.digits


def generate_id(length: int = 8) -> str:
    """A random id of small letters and digits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


class Sweep:
    """One sweep: its configuration, and what was tried."""

    def __init__(self, path: Path, content: Mapping[str, Any]) -> None:
        self.path = path
        self.id = path.stem
        self.config: dict[str, Any] = dict(content["config"])
        self.project: str | None = content.get("project")
        self.tried: list[dict[str, Any]] = list(content.get("tried") or [])

    @classmethod
    def create(cls, config: Mapping[str, Any], project: str | None) -> Sweep:
        """Write a new sweep; raises ``UsageError`` for a configuration that cannot work."""
        method = config.get("method")
        if method not in METHODS:
            raise UsageError(f"method={method!r} is not known: use one of {', '.join(METHODS)}.")
        found = parameters_of(config)
        if method == "grid":
            next(grid(found), None)
        if method == "bayes" and not (config.get("metric") or {}).get("name"):
            raise UsageError("method='bayes' needs metric: {'name': …, 'goal': 'minimize'}.")
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
        content = {"config": self.config, "project": self.project, "tried": self.tried}
        write_json(self.path, content)

    def next_parameters(self) -> dict[str, Any] | None:
        """Choose the next combination and note it; None when the sweep is complete."""
        with self._locked():
            found = parameters_of(self.config)
            number = len(self.tried)
            cap = self.config.get("run_cap")
            if cap is not None and number >= int(cap):
                return None
            method = self.config["method"]
            values: dict[str, Any] | None
            if method == "grid":
                values = next(islice(grid(found), number, None), None)
            elif method == "random" or (study := _study(self)) is None:
                rng = random.Random(f"{self.id}-{number}")
                values = {one.name: one.draw(rng) for one in found}
            else:
                trial = study.ask()
                values = {one.name: one.suggest(trial) for one in found}
            if values is None:
                return None
            self.tried.append({"parameters": values, "result": None})
            self.write()
            return nested(values)

    def set_result(self, number: int, result: float | None) -> None:
        """Note what a combination came to."""
        with self._locked():
            if number < len(self.tried):
                self.tried[number]["result"] = result
                self.write()

    @property
    def metric(self) -> tuple[str | None, bool]:
        """The name of the metric, and whether more is better."""
        metric = self.config.get("metric") or {}
        return metric.get("name"), metric.get("goal") == "maximize"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with between_processes(self.path.with_suffix(".lock")):
            fresh = Sweep(self.path, read_json(self.path))
            self.config, self.tried = fresh.config, fresh.tried
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
        not_supported("early_terminate of a sweep", "every run goes to its end")
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
            number, done = len(made.tried) - 1, done + 1
            if function is None:
                is_well = _run_program(made, parameters)
            else:
                is_well = _call(made, parameters, function, number)
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


def _call(
    made: Sweep, parameters: Mapping[str, Any], function: Callable[[], Any], number: int
) -> bool:
    """Call a function whose runs get these parameters; finish what it leaves open."""
    before = set(map(id, ACTIVE))
    is_well = True
    with chosen(parameters, made.id), _read_result(made, number):
        _, error = attempt(function)
        if error is not None:
            is_well = False
            say_once(f"a run of sweep {made.id} failed: {type(error).__name__}: {error}")
        for run in list(ACTIVE):
            if id(run) not in before:
                run.finish(0 if is_well else 1)
    return is_well


@contextlib.contextmanager
def _read_result(made: Sweep, number: int) -> Iterator[None]:
    """Note the sweep's metric of the run that was opened inside."""
    name, _ = made.metric
    before = ACTIVE.latest
    yield
    opened = ACTIVE.latest
    if name is None or opened is None or opened is before:
        return
    value = opened.summary.get(name)
    made.set_result(number, float(value) if isinstance(value, (int, float)) else None)


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


def _study(made: Sweep) -> Any:
    """A study of Optuna that knows what was tried; None where Optuna is not installed."""
    try:
        optuna = import_module("optuna")
    except ModuleNotFoundError:
        say_once(
            "method='bayes' needs the package 'optuna' (pip install optuna); values are drawn"
            " at random."
        )
        return None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    _, is_max = made.metric
    sampler = optuna.samplers.TPESampler(seed=len(made.tried))
    study = optuna.create_study(direction="maximize" if is_max else "minimize", sampler=sampler)
    found = parameters_of(made.config)
    for one in made.tried:
        if one["result"] is None:
            continue
        study.enqueue_trial(
            {p.name: _asked(p, one["parameters"][p.name]) for p in found if "value" not in p.spec}
        )
        trial = study.ask()
        for parameter in found:
            parameter.suggest(trial)
        study.tell(trial, one["result"])
    return study


def _asked(parameter: Any, value: Any) -> Any:
    """A value as Optuna was asked for it."""
    return list(parameter.spec["values"]).index(value) if "values" in parameter.spec else value


def _folder() -> Path:
    given = read_environment().get("dir")
    root = Path(read_settings().dir) if given is None else Path(given) / "runs"
    return root.expanduser().absolute() / ".sweeps"
