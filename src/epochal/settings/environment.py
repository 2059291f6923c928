"""What child processes are given, and the variables that are no settings of ours."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from epochal.settings.declared import DECLARED, Settings
from epochal.settings.kinds import FALSE
from epochal.settings.read import CONFIG, read_setting


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where an index and other things that can be made again are kept; it may not exist yet."""
    env = os.environ if environ is None else environ
    if given := read_setting("cache_dir", env):
        return Path(given).expanduser().absolute()
    if shared := env.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "epochal"
    if sys.platform == "win32":
        return Path(env.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "epochal"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "epochal"
    return Path.home() / ".cache" / "epochal"


def child_environment(package_root: Path) -> dict[str, str]:
    """The environment of a process of ours that is started in another folder.

    It finds this package, and what the caller's relative entries of PYTHONPATH led to. It does not
    find the package that takes the place of wandb: a sink needs W&B's own.
    """
    env = dict(os.environ)
    env.pop("PYTHONINSPECT", None)  # would have it wait for input at its end
    given = [os.path.abspath(p) for p in env.get("PYTHONPATH", "").split(os.pathsep) if p]
    stand_in = str(package_root / "epochal" / "wandb" / "stand_in")
    given = [path for path in given if path != stand_in]
    # Put in front, an installation's folder could hide modules of Python itself.
    if package_root.name not in ("site-packages", "dist-packages"):
        given = [str(package_root), *given]
    env.pop("PYTHONPATH", None)
    if given:
        env["PYTHONPATH"] = os.pathsep.join(given)
    return env


def settings_environment(settings: Settings) -> dict[str, str]:
    """The variables that give a child process these settings, wherever it runs.

    It reads no file: it works with what this process was started with, whatever becomes of them.
    """
    variables = {
        one.variable: _text_unless_default(
            one.kind.to_text, getattr(settings, one.name), one.default
        )
        for one in DECLARED
        if one.variable is not None
    }
    return {**variables, CONFIG: "off"}


def _text_unless_default(to_text: Callable[[Any], str], value: Any, default: Any) -> str:
    return "" if value == default else to_text(value)


def file_environment(settings: Settings) -> dict[str, str]:
    """The variable that has a child process read the same project file."""
    project = next((file.path for file in settings.files if file.origin == "project"), None)
    return {} if project is None else {CONFIG: str(project)}


def no_colours(environ: Mapping[str, str] | None = None) -> bool:
    """Whether NO_COLOR is set: text without colours."""
    return bool((os.environ if environ is None else environ).get("NO_COLOR"))


def is_ci(environ: Mapping[str, str] | None = None) -> bool:
    """Whether CI is set: continuous integration, no person watches."""
    value = (os.environ if environ is None else environ).get("CI", "")
    return value.strip().lower() not in {*FALSE, ""}


def export_verbosity(level: int) -> None:
    """Pass a verbosity of the command line to child processes."""
    os.environ["EPOCHAL_VERBOSITY"] = str(level)
