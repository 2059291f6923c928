"""Every setting, read from arguments, environment variables and ``epochal.toml``.

An argument wins over the environment, the environment over the project's file, that over the
user's file, and that over the default. ``declared.py`` lists every setting. Besides them:

    EPOCHAL_CONFIG       the project's file, in place of the nearest; ``off`` reads no file at all
    EPOCHAL_LAUNCH_FILE  where a run says that it has begun, to whoever started the program
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from epochal.errors import UsageError
from epochal.settings.declared import BY_NAME as BY_NAME
from epochal.settings.declared import DECLARED as DECLARED
from epochal.settings.declared import LABELS as LABELS
from epochal.settings.declared import OPEN_TABLES
from epochal.settings.declared import RUN_OPTIONS as RUN_OPTIONS
from epochal.settings.declared import Located as Located
from epochal.settings.declared import Setting as Setting
from epochal.settings.declared import Settings as Settings
from epochal.settings.kinds import FALSE
from epochal.settings.launch import read_launch as read_launch
from epochal.settings.toml_file import Key, SettingsFile, find_project_file, user_file
from epochal.settings.toml_file import Source as Source

CONFIG = "EPOCHAL_CONFIG"
_KEYS: Mapping[str, Setting] = {one.key: one for one in DECLARED if one.key is not None}
_TABLES = {key.partition(".")[0] for key in _KEYS if "." in key}


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read environment and files; the first mistake raises ``UsageError`` with its place."""
    env = os.environ if environ is None else environ
    files = tuple(_files(env))
    for file in files:
        _check(file)
    found = {one.name: _resolved(one, env, files) for one in DECLARED}
    values: dict[str, Any] = {name: located.value for name, located in found.items()}
    return Settings(
        **values,
        rules=_open_table("rules", files),
        sinks=_open_table("sinks", files),
        sources={name: located.source for name, located in found.items()},
        files=files,
    )


def with_arguments(settings: Settings, arguments: Mapping[str, Any]) -> Settings:
    """Return the settings with arguments of ``init`` over them; None is an argument not given."""
    values: dict[str, Any] = {}
    for name, value in arguments.items():
        if value is None:
            continue
        kind = RUN_OPTIONS[name].kind
        try:
            values[name] = kind.merged(getattr(settings, name), kind.checked(value))
        except ValueError as error:
            raise UsageError(f"{name}={'…' if kind.is_secret else repr(value)} {error}") from error
    return replace(settings, **values)


def read_setting(name: str, environ: Mapping[str, str] | None = None) -> Any:
    """Read one setting where nothing may be raised, as inside a training.

    A file or a value with a mistake counts as absent: ``init`` and commands say what is wrong.
    """
    env = os.environ if environ is None else environ
    one = BY_NAME[name]
    try:
        # Files are not looked for where the variable says it all.
        return _resolved(one, env, () if _text(one, env) else tuple(_files(env))).value
    except UsageError:
        return one.default


def read_variable(name: str) -> Any:
    """One setting from its variable, else the default: cheap enough for every batch."""
    return _resolved(BY_NAME[name], os.environ, ()).value


def read_table(path: Path, name: str) -> dict[str, Located]:
    """One of the open tables of a file by dotted key; a mistake anywhere raises ``UsageError``."""
    file = SettingsFile(path, "project")
    _check(file)
    return _open_table(name, (file,))


def file_paths(environ: Mapping[str, str] | None = None) -> tuple[Path | None, Path | None]:
    """The project's and the user's file; None for one that is not to be read or not found."""
    env = os.environ if environ is None else environ
    given = env.get(CONFIG, "").strip()
    if given.lower() in FALSE:
        return None, None
    if given:
        return Path(given).expanduser().absolute(), user_file(env)
    try:
        return find_project_file(Path.cwd()), user_file(env)
    except OSError:  # the working folder is gone
        return None, user_file(env)


def nearest(word: str, known: Collection[str]) -> str:
    """The hint of a sentence about a word that is not known."""
    import difflib  # only for a mistake

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else f"use one of {', '.join(sorted(known))}."


def mistake(source: Source, key: str, value: Any, words: str) -> UsageError:
    """The error about a value in a file."""
    return UsageError(f"{source}: {key} = {_shown(value)} {words}")


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where an index and other things that can be made again are kept; it may not exist yet."""
    env = os.environ if environ is None else environ
    if given := read_setting("cache_dir", env):
        return Path(given).expanduser().absolute()
    if shared := env.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "epochal"
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
    The labels of the run are left out: a variable cannot contain every text.
    """
    variables = {CONFIG: "off"}
    for one in DECLARED:
        if one.variable is not None and one.name not in LABELS:
            value = getattr(settings, one.name)
            variables[one.variable] = "" if value == one.default else one.kind.to_text(value)
    return variables


def file_environment(settings: Settings) -> dict[str, str]:
    """The variable that has a child process read the same project file."""
    project = next((file.path for file in settings.files if file.origin == "project"), None)
    return {} if project is None else {CONFIG: str(project)}


def no_colours(environ: Mapping[str, str] | None = None) -> bool:
    """Whether NO_COLOR is set: text without colours."""
    return bool((os.environ if environ is None else environ).get("NO_COLOR"))


def is_dumb_terminal(environ: Mapping[str, str] | None = None) -> bool:
    """Whether TERM names a terminal without control codes."""
    term = (os.environ if environ is None else environ).get("TERM", "")
    return term.strip().lower() in ("dumb", "unknown")


def is_ci(environ: Mapping[str, str] | None = None) -> bool:
    """Whether CI is set: continuous integration, no person watches."""
    value = (os.environ if environ is None else environ).get("CI", "")
    return value.strip().lower() not in {*FALSE, ""}


def export_verbosity(level: int) -> None:
    """Pass a verbosity of the command line to child processes."""
    os.environ["EPOCHAL_VERBOSITY"] = str(int(level))  # Python 3.10 would write its name


def _files(env: Mapping[str, str]) -> Iterator[SettingsFile]:
    project, user = file_paths(env)
    if project is not None:
        yield SettingsFile(project, "project")
    if user is not None and user.is_file() and user != project:
        yield SettingsFile(user, "user")


def _resolved(one: Setting, env: Mapping[str, str], files: Collection[SettingsFile]) -> Located:
    if text := _text(one, env):
        try:
            return Located(one.kind.from_text(text), Source(variable=one.variable))
        except ValueError as error:
            raise UsageError(f"{one.variable}={text!r} {error}") from error
    located = (_from_file(one, file) for file in files)
    return next((found for found in located if found is not None), Located(one.default, Source()))


def _from_file(one: Setting, file: SettingsFile) -> Located | None:
    key = tuple((one.key or "").split("."))
    value = _value(file.table, key)
    if value is None:
        return None
    source = Source(file=file)
    try:
        read = one.kind.checked(value)
    except ValueError as error:
        shown = "…" if one.kind.is_secret else value
        raise mistake(source, ".".join(key), shown, str(error)) from error
    if one.kind.is_path:  # meant from the folder of a project's file
        read = str((file.base or Path()) / Path(read).expanduser())
    return Located(read, source)


def _text(one: Setting, env: Mapping[str, str]) -> str:
    """The value of the variable; an empty one counts as not set."""
    text = "" if one.variable is None else env.get(one.variable, "")
    return text if text.strip() else ""


def _value(table: Mapping[str, Any], key: Key) -> Any:
    value: Any = table
    for name in key:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _check(file: SettingsFile) -> None:
    """Raise for the first key that is not a setting, or that has a value it cannot have.

    A value that something else overrides is checked too: it would be in the way one day.
    """
    known = {*_TABLES, *OPEN_TABLES, *(key for key in _KEYS if "." not in key)}
    for name, value in file.table.items():
        if name not in known:
            raise UsageError(f"{file}: {name} is not a setting; {nearest(name, known)}")
        if name not in (*_TABLES, *OPEN_TABLES):
            continue
        if not isinstance(value, dict):
            raise UsageError(f"{file}: {name} must be a table: [{name}].")
        if name in _TABLES:
            _check_table(name, value, file)
    for one in _KEYS.values():
        _from_file(one, file)


def _check_table(name: str, table: Mapping[str, Any], file: SettingsFile) -> None:
    known = {key.partition(".")[2] for key in _KEYS if key.startswith(f"{name}.")}
    for key in table:
        if key not in known:
            raise UsageError(f"{file}: {name}.{key} is not a setting; {nearest(key, known)}")


def _open_table(name: str, files: tuple[SettingsFile, ...]) -> dict[str, Located]:
    """A table of the files, by dotted key; the project's values win over the user's."""
    found: dict[str, Located] = {}
    for file in reversed(files):
        for key, value in _flat(file.table.get(name, {})):
            found[".".join(key)] = Located(value, Source(file=file))
    return found


def _flat(table: Mapping[str, Any], prefix: Key = ()) -> Iterator[tuple[Key, Any]]:
    for name, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, (*prefix, name))
        else:
            yield (*prefix, name), value


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
