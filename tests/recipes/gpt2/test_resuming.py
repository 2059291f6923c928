from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from epochal.errors import UsageError
from epochal.recipes.gpt2.flags import Asked, Flags
from epochal.recipes.gpt2.resuming import (
    RUN_NAME,
    Origin,
    begun_config,
    borrowed_weights,
    describe_checkpoints,
    find_origin,
    with_environment,
)
from epochal.run.start import init
from epochal.torch.checkpoint.checkpoints import Checkpoints
from epochal.torch.checkpoint.training_state import TrainingState


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_GIT", "0")


def save(root: Path, name: str, *steps: int, metric: float | None = None) -> Path:
    """A run with checkpoints after some steps, each better than the one before."""
    run = init("gpt2", name, dir=root, console=False, config={"num_layers": 3})
    state = TrainingState(nn.Linear(1, 1))
    with Checkpoints(run, state, external={RUN_NAME: name}) as checkpoints:
        for number, step in enumerate(steps):
            value = None if metric is None else metric + (1 if number else 0)
            checkpoints.save(step, metric=value)
    run.finish()
    return run.dir


def found(root: Path, resume: str, name: str | None = None) -> tuple[str, int] | None:
    origin = find_origin(resume, Flags(dir=str(root), run_name=name))
    return None if origin is None else (origin.run_name, origin.manifest.step)


def test_a_named_run_goes_on_from_its_own_newest_or_best(tmp_path: Path) -> None:
    save(tmp_path, "one", 4, 9, metric=1.0)
    save(tmp_path, "two", 3)
    for word in ("auto", "latest"):
        assert found(tmp_path, word, "one") == ("one", 9)
    assert found(tmp_path, "best", "one") == ("one", 4)


def test_without_a_name_or_with_a_new_one_the_newest_of_all_is_meant(tmp_path: Path) -> None:
    save(tmp_path, "one", 4, 9)
    save(tmp_path, "two", 3)
    assert found(tmp_path, "latest") == ("two", 3)
    assert found(tmp_path, "latest", "new") == ("two", 3)


def test_auto_begins_a_new_run_and_needs_its_name(tmp_path: Path) -> None:
    save(tmp_path, "one", 4)
    assert found(tmp_path, "auto", "new") is None
    with pytest.raises(UsageError, match="--resume auto needs --run_name"):
        found(tmp_path, "auto")


@pytest.mark.parametrize("word", ["latest", "best"])
def test_a_run_that_has_no_checkpoint_yet_is_begun_again_only_by_auto(
    tmp_path: Path, word: str
) -> None:
    save(tmp_path, "one", 4)
    save(tmp_path, "two")
    assert found(tmp_path, "auto", "two") is None
    with pytest.raises(
        UsageError,
        match=r"^run 'two' has no checkpoint yet; begin it again with its flags: --num_layers 3, "
        r"or use --resume auto\.$",
    ):
        found(tmp_path, word, "two")


@pytest.mark.parametrize("name", [None, "new"])
def test_nothing_is_begun_where_there_is_nothing_to_go_on_with(
    tmp_path: Path, name: str | None
) -> None:
    with pytest.raises(UsageError, match="--resume latest: there is no checkpoint yet"):
        found(tmp_path, "latest", name)


def test_the_best_needs_a_metric(tmp_path: Path) -> None:
    save(tmp_path, "one", 4)
    with pytest.raises(UsageError, match="no checkpoint has a metric yet"):
        found(tmp_path, "best", "one")


def begin(root: Path, name: str, source: dict[str, Any]) -> None:
    init("gpt2", name, dir=root, console=False, config={"forked_from": source}).finish()


def test_a_fork_without_a_checkpoint_is_not_begun_from_step_0(tmp_path: Path) -> None:
    folder = save(tmp_path, "one", 4)
    origin = find_origin(str(folder), Flags())
    assert origin is not None
    begin(tmp_path, "branch", origin.facts())
    for word in ("auto", "latest"):
        with pytest.raises(UsageError, match=r"began after step 4 of run 'one': .* --resume .*-4"):
            found(tmp_path, word, "branch")


def test_weights_that_were_borrowed_are_borrowed_again(tmp_path: Path) -> None:
    facts = borrowed_weights(save(tmp_path, "one", 4)).facts
    begin(tmp_path, "tuned", facts)
    assert found(tmp_path, "auto", "tuned") is None
    begun = begun_config(Flags(dir=str(tmp_path), run_name="tuned"))
    assert begun is not None
    assert begun["init_from"] == facts["checkpoint"]


def asked(**more: Any) -> Asked:
    nothing: dict[str, Any] = {
        "preset": {},
        "resume": None,
        "list_checkpoints": False,
        "estimate": False,
    }
    return Asked(**{"given": {}, **nothing, **more})


def test_the_environment_can_say_which_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_environment(asked()) == asked()
    monkeypatch.setenv("EPOCHAL_NAME", "one")
    assert with_environment(asked()) == asked()
    monkeypatch.setenv("EPOCHAL_RESUME", "must")
    assert with_environment(asked()) == asked(given={"run_name": "one"}, resume="auto")
    assert with_environment(asked(resume="some/path")) == asked(resume="some/path")


def test_a_run_that_was_begun_says_how(tmp_path: Path) -> None:
    save(tmp_path, "one")
    begun = begun_config(Flags(dir=str(tmp_path), run_name="one"))
    assert begun == {"num_layers": 3, "init_from": None}
    assert begun_config(Flags(dir=str(tmp_path), run_name="two")) is None
    assert begun_config(Flags(dir=str(tmp_path))) is None


def test_a_path_may_be_a_checkpoint_a_folder_of_them_or_a_run(tmp_path: Path) -> None:
    folder = save(tmp_path, "one", 4, 9)
    assert found(tmp_path, str(folder / "checkpoints" / "step-4")) == ("one", 4)
    assert found(tmp_path, str(folder / "checkpoints")) == ("one", 9)
    assert found(tmp_path, str(folder)) == ("one", 9)
    with pytest.raises(UsageError, match="is no checkpoint: --list_checkpoints shows"):
        found(tmp_path, str(tmp_path))


def test_every_checkpoint_is_listed(tmp_path: Path) -> None:
    assert list(describe_checkpoints(Flags(dir=str(tmp_path)))) == []
    save(tmp_path, "one", 4, 9, metric=1.0)
    heading, first, last = describe_checkpoints(Flags(dir=str(tmp_path)))
    assert heading.startswith("one: 2 checkpoints, ")
    assert first.endswith("best")
    assert "step-4" in first
    assert last.endswith("latest")


def test_borrowed_weights_say_their_sizes_and_where_they_are_from(tmp_path: Path) -> None:
    folder = save(tmp_path, "one", 4)
    borrowed = borrowed_weights(folder)
    assert borrowed.flags == {"num_layers": 3}
    assert (borrowed.facts["run"], borrowed.facts["step"]) == ("one", 4)
    assert borrowed.file == folder / "checkpoints" / "step-4" / "model.safetensors"
    bare = borrowed_weights(borrowed.file)
    assert bare.flags == {}
    with pytest.raises(UsageError, match=r"--init_from .* is no checkpoint"):
        borrowed_weights(tmp_path)


def test_a_run_is_found_again_by_where_its_checkpoint_lies(tmp_path: Path) -> None:
    folder = save(tmp_path, "one", 4)
    origin = find_origin("latest", Flags(dir=str(tmp_path)))
    assert isinstance(origin, Origin)
    assert origin.home == folder.parent
    assert origin.next_step == 5
