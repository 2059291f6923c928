import argparse
import json
import os
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochal.errors import RunNotFoundError, UsageError
from epochal.exchange.media.types import Image
from epochal.journal.layout import RunFolder, read_json
from epochal.run import current
from epochal.run.run import Run, recorder_of
from epochal.run.start import init
from tests.conftest import StartRun
from tests.doubles.journals import of_kind, records, steps
from tests.doubles.scripts import start_script


def identity(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.dir / "run.json").read_bytes())
    return found


def test_a_run_lies_under_its_project_and_says_who_it_is(
    start_run: StartRun, tmp_path: Path
) -> None:
    run = start_run("Größe 1", tags=["a", "b", "a"], notes="try", config={"lr": 0.1})
    assert run.dir == tmp_path / "runs" / "tests" / "groe-1"
    facts = identity(run)
    assert facts["name"] == "Größe 1"
    assert facts["project"] == "tests"
    assert (facts["tags"], facts["notes"], facts["config"]) == (["a", "b"], "try", {"lr": 0.1})
    assert facts["pid"] == os.getpid()
    assert {"id", "created", "host", "boot_id", "command", "python", "packages"} <= set(facts)


def test_texts_of_numpy_are_accepted_as_names_and_tags(start_run: StartRun) -> None:
    words = dict(zip(("notes", "group", "job_type", "owner"), np.array(list("abcd")), strict=True))
    run = start_run(np.str_("x"), tags=np.array(["u", "v"]), **words)
    run.define(np.str_("loss"), unit=np.str_("nats"))
    run.summary[np.str_("best")] = np.str_("yes")
    run.finish(np.str_("failed"))
    facts = identity(run)
    assert {name: facts[name] for name in words} == words
    assert (facts["name"], facts["tags"]) == ("x", ["u", "v"])
    assert of_kind(run.dir, "finish")[0]["status"] == "failed"
    assert not of_kind(run.dir, "event")  # nothing had to be converted


def test_the_first_record_of_a_file_carries_version_and_writer(start_run: StartRun) -> None:
    first = records(start_run(config={"lr": 0.1}).dir)[0]
    assert first["log"] == "run"
    assert (first["v"], first["writer"], first["attempt"], first["part"]) == (1, "loop", 1, 0)
    assert first["config"] == {"lr": 0.1}


def test_a_taken_name_gets_a_number_and_says_so_once(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    names = []
    for _ in range(3):
        run = start_run("model")
        names.append(run.name)
        run.finish()
    assert names == ["model", "model-2", "model-3"]
    assert capsys.readouterr().err.count("exists already, so this one is 'model-2'") == 1


def test_a_run_without_a_name_is_named_after_its_time(tmp_path: Path) -> None:
    runs = [init("p", dir=tmp_path, console=False) for _ in range(2)]
    assert runs[0].name != runs[1].name


def test_a_refused_run_leaves_the_current_one_alone(start_run: StartRun) -> None:
    first = start_run("first")
    with pytest.raises(UsageError):
        start_run("")
    first.log({"a": 1})


def test_the_current_run_is_the_newest_and_ends_with_finish(start_run: StartRun) -> None:
    run = start_run()
    current.log({"a": 1}, step=4)
    assert current.current_run() is run
    current.finish()
    assert steps(run.dir) == [4]
    assert run.state == "finished"
    current.finish()


def test_without_a_run_there_is_nothing_to_log_to() -> None:
    with pytest.raises(UsageError, match=r"call epochal\.init\(\) first"):
        current.log({"a": 1})
    current.finish()


def test_finishing_twice_writes_one_record(start_run: StartRun) -> None:
    run = start_run()
    run.finish()
    run.finish("failed")
    assert [r["status"] for r in of_kind(run.dir, "finish")] == ["finished"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": ""}, "name='' is not a text, or is empty"),
        ({"name": 3}, "name=3 is not a text, or is empty"),
        ({"notes": 3}, "notes=3 is not a text, or is empty"),
        ({"id": 3}, "id=3 is not a text, or is empty"),
        ({"resume": "maybe"}, "resume='maybe' is not known: use one of never, allow, must, latest"),
        ({"resume_step": "x"}, "resume_step='x' is not a whole number"),
        ({"total_steps": "x"}, "total_steps='x' is not a number"),
        ({"resume_step": 1.5}, "resume_step=1.5 is not a whole number"),
        ({"config": 3}, "config must be a mapping, a dataclass, a namespace or .* not int"),
        ({"config": [1]}, "config must be a mapping, a dataclass, a namespace or .* not list"),
        ({"config": "/absent.yaml"}, "config='/absent.yaml' cannot be read"),
        ({"tags": 3}, "tags=3 is not a list of texts"),
        ({"rules": [3]}, r"init\(rules=\[…\]\): a condition is a text or a table"),
        ({"hub": "host"}, "hub='host' is not an address such as https://host"),
        ({"grace_s": -1}, "grace_s=-1 is not a time"),
        ({"server_port": 1}, "no argument 'server_port': it is a setting, but not one of a run"),
        ({"compaion": False}, "no argument 'compaion': did you mean 'companion'?"),
        ({"total_step": 3}, "no argument 'total_step': did you mean 'total_steps'?"),
        ({"wandb_projct": "x"}, "no argument 'wandb_projct': did you mean 'wandb_project'?"),
        ({"lr": 0.1}, "no argument 'lr' and no sink has an option of this name"),
    ],
)
def test_arguments_that_cannot_be_accepted_raise_and_are_named(
    start_run: StartRun, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        start_run(**arguments)


@pytest.mark.parametrize("variable", ["EPOCHAL_MODE", "EPOCHAL_CONSOLE", "EPOCHAL_GIT"])
def test_a_malformed_variable_is_named(
    start_run: StartRun, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "perhaps")
    with pytest.raises(UsageError, match=f"{variable}='perhaps' is not a switch"):
        start_run()


def test_a_run_that_is_off_checks_its_arguments_and_writes_nothing(
    start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_MODE", "off")
    run = start_run(config={"lr": 1})
    run.log({"a": 1}, step=3)
    run.log({"a": "b"})
    run.log({"a": Image(b"GIF89a")})
    run.flush()
    run.log({"a": None})
    recorder_of(run).values.strict = True
    with pytest.raises(TypeError, match="metric 'a'"):
        run.log({"a": None})
    run.finish()
    assert not recorder_of(run).is_recorded
    assert list(tmp_path.iterdir()) == []


class Colour(str, Enum):
    RED = "red"


@dataclass
class Inner:
    depth: int = 2


@dataclass
class Options:
    lr: float
    path: Path
    inner: Inner


@pytest.mark.parametrize(
    ("config", "plain"),
    [
        (Options(0.1, Path("/data"), Inner()), {"lr": 0.1, "path": "/data", "inner": {"depth": 2}}),
        (argparse.Namespace(lr=0.1, seed=None), {"lr": 0.1, "seed": None}),
        ({"a": float("inf"), 3: {1}, "t": (1, 2)}, {"a": "inf", "3": [1], "t": [1, 2]}),
        ({"big": 2**70, "odd\udcff": "\udcff"}, {"big": 2**70, "odd\\udcff": "\\udcff"}),
    ],
)
def test_a_configuration_may_come_in_many_forms(
    start_run: StartRun, config: Any, plain: dict[str, Any]
) -> None:
    assert identity(start_run(config=config))["config"] == plain


def test_numpy_and_enum_values_in_a_configuration_become_plain(start_run: StartRun) -> None:
    config = {"a": np.float64(0.5), "b": np.int8(3), "c": np.str_("x"), "d": Colour.RED}
    plain = identity(start_run(config={**config, "e": np.zeros(3)}))["config"]
    assert plain == {"a": 0.5, "b": 3, "c": "x", "d": "red", "e": [0.0, 0.0, 0.0]}


def test_a_configuration_may_be_a_yaml_file(start_run: StartRun, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("lr: 0.1\nmodel: {width: 64}\nday: 2020-01-01\n")
    run = start_run(config=file)
    assert identity(run)["config"]["lr"] == 0.1
    assert run.config["model"] == {"width": 64}


@pytest.mark.parametrize("content", ["- 1\n", "a: [\n", "a: \x00\n"])
def test_a_configuration_file_that_is_no_mapping_is_named(
    start_run: StartRun, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"config=.*config\.yaml"):
        start_run(config=str(file))


def test_settings_added_later_are_recorded_one_by_one(start_run: StartRun) -> None:
    run = start_run(config={"lr": 0.1})
    run.config.update({"lr": 0.2, "seed": 3})
    assert [(r["name"], r["value"]) for r in of_kind(run.dir, "option")] == [
        ("lr", 0.2),
        ("seed", 3),
    ]
    assert run.config == {"lr": 0.2, "seed": 3}


def test_commit_and_uncommitted_changes_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "code"
    repository.mkdir()
    monkeypatch.chdir(repository)

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.check_output(["git", *who, *arguments], text=True)

    git("init", "--quiet")
    (repository / "train.py").write_text("lr = 1\n")
    git("add", "train.py")
    git("commit", "--quiet", "--message", "first")
    clean = init("tests", "clean", dir=tmp_path / "runs", console=False)
    assert identity(clean)["git"]["commit"] == git("rev-parse", "HEAD").strip()
    assert identity(clean)["git"]["dirty"] is False
    (repository / "train.py").write_text("lr = 2\n")
    dirty = init("tests", "dirty", dir=tmp_path / "runs", console=False)
    assert identity(dirty)["git"]["dirty"] is True
    assert [b"+lr = 2" in blob.read_bytes() for blob in (dirty.dir / "blobs").iterdir()] == [True]
    (repository / "train.py").write_text("lr = 3\n")
    resumed = init("tests", "dirty", dir=tmp_path / "runs", console=False, resume="must")
    patch = (resumed.dir / "blobs") / identity(resumed)["git"]["patch"]
    assert b"+lr = 3" in patch.read_bytes()
    assert identity(resumed)["git"]["patch_sha256"] == sha256(patch.read_bytes()).hexdigest()
    modes = {stat.S_IMODE(blob.stat().st_mode) for blob in (dirty.dir / "blobs").iterdir()}
    assert modes == {0o600}  # it may contain secrets


def test_a_folder_outside_git_has_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert identity(init("tests", "x", dir=tmp_path, console=False))["git"] is None


def at_once(folder: Path, source: str, number: int) -> list[str]:
    """What processes print that run a script at the same moment."""
    gated = "print('ready', flush=True); input(); n = int(os.environ['NUMBER']); " + source
    children = [start_script(folder, gated, NUMBER=str(n)) for n in range(number)]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    return [child.communicate(timeout=120)[0].strip() for child in children]


def test_processes_that_want_one_name_at_once_get_a_run_each(tmp_path: Path) -> None:
    source = "run = start('same'); [run.log({'a': 1}) for _ in range(50)]; print(run.name)"
    names = at_once(tmp_path, source, 4)
    assert sorted(names) == ["same", "same-2", "same-3", "same-4"]
    assert sorted(os.listdir(tmp_path / "tests")) == sorted(names)
    for name in names:
        assert steps(tmp_path / "tests" / name) == list(range(50))


@pytest.mark.parametrize(
    "start",
    [
        "start('same', resume='allow')",
        "init('tests', id='same', resume='allow', dir=os.environ['FOLDER'], console=False)",
        "init_in(Path(os.environ['FOLDER'], 'tests', 'same'))",
    ],
)
def test_processes_that_begin_or_resume_one_run_at_once_get_an_attempt_of_it_each(
    tmp_path: Path, start: str
) -> None:
    source = "from pathlib import Path; from epochal.run.start import init_in; run = " + start
    source += "; [run.log({f'a{n}': i}, step=i) for i in range(20)]; print(run.attempt, run.id)"
    printed = [line.split() for line in at_once(tmp_path, source, 8)]
    assert sorted(int(attempt) for attempt, _ in printed) == list(range(1, 9))
    assert [path.name for path in (tmp_path / "tests").iterdir()] == ["same"]
    folder = RunFolder(tmp_path / "tests" / "same")
    ids = {read_json(folder.identity)["id"], *(header["id"] for header in of_kind(folder, "run"))}
    assert ids == {run_id for _, run_id in printed}
    assert len(ids) == 1
    logged = [record["m"] for record in of_kind(folder, "metrics")]
    for n in range(8):
        assert [m[f"a{n}"] for m in logged if f"a{n}" in m] == list(range(20))


def test_processes_that_resume_one_run_at_once_get_an_attempt_each(
    start_run: StartRun, tmp_path: Path
) -> None:
    start_run("same").finish()
    source = "run = start('same', resume='must'); run.log({'a': 1}, step=1); print(run.attempt)"
    assert sorted(at_once(tmp_path / "runs", source, 3)) == ["2", "3", "4"]
    parts = RunFolder(tmp_path / "runs" / "tests" / "same").parts()
    assert [(p.attempt, p.part) for p in parts] == [(1, 0), (2, 0), (3, 0), (4, 0)]


@pytest.mark.parametrize(
    ("arguments", "name", "attempt"),
    [
        ({"name": "old", "resume": "never"}, "old-2", 1),
        ({"name": "old", "resume": "allow"}, "old", 2),
        ({"name": "old", "resume": True}, "old", 2),
        ({"name": "old", "resume": "must"}, "old", 2),
        ({"name": "new", "resume": "allow"}, "new", 1),
        ({"name": "OLD", "resume": "allow"}, "OLD-2", 1),
        ({"name": "old", "resume": "latest"}, "old", 2),
    ],
)
def test_resume_says_which_run_goes_on(
    start_run: StartRun, arguments: dict[str, Any], name: str, attempt: int
) -> None:
    start_run("old").finish()
    run = start_run(**arguments)
    assert (run.name, run.attempt) == (name, attempt)


@pytest.mark.parametrize("mode", ["must", "latest"])
def test_resuming_what_is_not_there_is_an_error(start_run: StartRun, mode: str) -> None:
    with pytest.raises(RunNotFoundError, match=f"resume='{mode}', but there is no run"):
        start_run("absent", resume=mode)


def test_the_latest_run_of_a_project_needs_no_name(start_run: StartRun, tmp_path: Path) -> None:
    for name in ("a", "b"):
        run = start_run(name)
        run.log({"x": 1})
        run.finish()
    os.utime(tmp_path / "runs" / "tests" / "a" / "journal" / "loop.0001.0000.jsonl")
    assert init("tests", dir=tmp_path / "runs", resume="latest", console=False).name == "a"


def test_a_resumed_run_keeps_its_id_and_goes_on_counting(start_run: StartRun) -> None:
    first = start_run(config={"lr": 0.1, "seed": 1})
    for _ in range(3):
        first.log({"a": 1})
    first.finish()
    second = start_run(resume="must", config={"lr": 0.2})
    second.log({"a": 1})
    assert second.id == first.id
    assert second.config == {"lr": 0.2, "seed": 1}
    assert steps(second.dir) == [0, 1, 2, 3]


def test_the_first_step_of_a_resumed_run_says_where_it_takes_over(start_run: StartRun) -> None:
    first = start_run()
    for _ in range(10):
        first.log({"a": 1})
    first.finish()
    second = start_run(resume="must")
    second.event("restored")
    second.log_gpu_state(9, 0, power=1)
    second.log({"a": 1}, step=5)
    second.log({"a": 1}, step=4)
    (mark,) = of_kind(second.dir, "resume")
    assert (mark["attempt"], mark["step"]) == (2, 5)


@pytest.mark.parametrize(
    "log",
    [
        lambda run: run.log_eval(7, 1.0, 10, 5.0, 0.5),
        lambda run: run.log({"sample": "words"}, step=7),
        lambda run: run.log_step(7, 1.0, 10, 5.0, 1.0, 0.5, 0.1),
    ],
)
def test_any_record_on_the_step_axis_may_be_the_first(
    start_run: StartRun, log: Callable[[Run], None]
) -> None:
    start_run().log({"a": 1}, step=3)
    run = start_run(resume="must")
    log(run)
    assert [mark["step"] for mark in of_kind(run.dir, "resume")] == [7]


def test_a_given_resume_step_is_written_at_once_and_counted_from(start_run: StartRun) -> None:
    start_run().log({"a": 1}, step=100)
    run = start_run(resume="must", resume_step=50)
    assert [mark["step"] for mark in of_kind(run.dir, "resume")] == [50]
    run.log({"a": 1})
    assert steps(run.dir) == [100, 50]


def test_a_new_run_has_no_resume_record(start_run: StartRun) -> None:
    run = start_run(resume="allow")
    run.log({"a": 1})
    assert of_kind(run.dir, "resume") == []


def test_observers_of_lines_see_those_after_a_resume_too(start_run: StartRun) -> None:
    start_run().log({"a": 1}, step=3)
    run = start_run(resume="must")
    seen: list[bytes] = []
    recorder_of(run).observe(seen.append)
    for _ in range(3):
        run.log({"a": 1})
    assert [json.loads(line)["step"] for line in seen] == [4, 5, 6]
    assert [mark["step"] for mark in of_kind(run.dir, "resume")] == [4]


def test_alerts_that_are_no_addresses_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="alerts=… is not a list of texts"):
        init("p", dir=tmp_path, alerts=3)  # type: ignore[arg-type]
