from pathlib import Path

import pytest

from epochal.errors import UsageError
from epochal.settings import Settings, cache_folder, read_settings
from epochal.settings.launch import Launch, announce_run, read_launch, read_parent_run, withdraw_run


def test_an_empty_environment_gives_the_defaults() -> None:
    assert read_settings({}) == Settings()
    assert read_settings({"EPOCHAL_DIR": "", "EPOCHAL_PROJECT": ""}) == Settings()


def test_every_variable_is_read() -> None:
    environ = {
        "EPOCHAL_DIR": "/data",
        "EPOCHAL_PROJECT": "gpt2",
        "EPOCHAL_NAME": "first",
        "EPOCHAL_RESUME": "allow",
        "EPOCHAL_TAGS": " a, b,,c ",
        "EPOCHAL_MODE": "OFF",
        "EPOCHAL_CONSOLE": "0",
        "EPOCHAL_GIT": "no",
        "EPOCHAL_COMPANION": "0",
        "EPOCHAL_GRACE": "2.5",
    }
    assert read_settings(environ) == Settings(
        dir="/data",
        project="gpt2",
        name="first",
        resume="allow",
        tags=("a", "b", "c"),
        enabled=False,
        console=False,
        git=False,
        companion=False,
        grace_s=2.5,
    )


@pytest.mark.parametrize("text", ["2", "maybe", "-"])
def test_a_switch_that_is_none_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"EPOCHAL_MODE='.*' is not a switch: use 1/on or 0/off"):
        read_settings({"EPOCHAL_MODE": text})


@pytest.mark.parametrize(
    ("environ", "launch"),
    [
        (
            {
                "RANK": "3",
                "WORLD_SIZE": "8",
                "LOCAL_RANK": "1",
                "GROUP_RANK": "1",
                "TORCHELASTIC_RUN_ID": "job",
                "TORCHELASTIC_RESTART_COUNT": "2",
            },
            Launch(3, 8, 1, 1, "elastic-job--2"),
        ),
        (
            {
                "SLURM_PROCID": "1",
                "SLURM_NTASKS": "2",
                "SLURM_LOCALID": "1",
                "SLURM_NODEID": "0",
                "SLURM_JOB_ID": "77",
                "SLURM_STEP_ID": "3",
            },
            Launch(1, 2, 1, 0, "slurm-77-3-0"),
        ),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}, Launch(1, 4, 0, 0, None)),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "node", "MASTER_PORT": "29500"},
            Launch(0, 2, 0, 0, "master-node-29500"),
        ),
    ],
)
def test_launchers_are_recognised(environ: dict[str, str], launch: Launch) -> None:
    assert read_launch(environ) == launch


@pytest.mark.parametrize("rank", ["", "-1", "2", "two", "²", "--1", "1.0"])
def test_a_rank_that_makes_no_sense_is_no_launch(rank: str) -> None:
    assert read_launch({"RANK": rank, "WORLD_SIZE": "2"}) == Launch()


def test_two_launches_that_torchrun_calls_none_differ_by_their_address() -> None:
    launches = {
        read_launch(
            {"RANK": "0", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": port}
        ).launch_id
        for port in ("1", "2")
    }
    assert len(launches) == 2


def test_a_run_is_announced_to_children_and_withdrawn_by_its_own_process_only() -> None:
    announce_run(pid=5, folder="/a:b/c", attempt=2)
    announced = read_parent_run()
    assert announced is not None
    assert (announced.pid, announced.folder, announced.attempt) == (5, "/a:b/c", 2)
    withdraw_run(pid=6)
    assert read_parent_run() == announced
    withdraw_run(pid=5)
    assert read_parent_run() is None
    withdraw_run(pid=5)


@pytest.mark.parametrize("text", ["", "5", "a:1:/x", "²:1:/x"])
def test_a_malformed_announcement_is_none(text: str) -> None:
    assert read_parent_run({"EPOCHAL_PARENT_RUN": text}) is None


def test_the_cache_folder_is_the_given_one_else_the_users() -> None:
    assert cache_folder({"EPOCHAL_CACHE_DIR": "/data/c", "XDG_CACHE_HOME": "/x"}) == Path("/data/c")
    assert cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/epochal")
    assert cache_folder({}).is_relative_to(Path.home())


@pytest.mark.parametrize("text", ["-1", "soon", "inf", "nan"])
def test_a_time_that_is_none_is_named(text: str) -> None:
    with pytest.raises(UsageError, match=r"EPOCHAL_GRACE='.*' is not a time: use seconds"):
        read_settings({"EPOCHAL_GRACE": text})


def test_how_long_a_record_of_telemetry_stands_for() -> None:
    assert read_settings({"EPOCHAL_TELEMETRY_EVERY": "2.5"}).telemetry_every_s == 2.5


@pytest.mark.parametrize("text", ["0", "0.5", "4000"])
def test_telemetry_that_is_too_often_or_too_rare_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"='{text}' is out of range: use 1 to 3600 seconds"):
        read_settings({"EPOCHAL_TELEMETRY_EVERY": text})
