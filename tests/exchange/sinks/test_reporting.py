from pathlib import Path

import pytest

from epochal.errors import UsageError, ValueTypeError
from epochal.exchange.sinks.members.tensorboard import TensorBoardOptions
from epochal.exchange.sinks.members.wandb import WandbOptions
from epochal.exchange.sinks.reporting import Reporting, options_from, split_options


def test_one_name_or_a_list_of_names() -> None:
    assert options_from({"report_to": "wandb"}).report_to == ("wandb",)
    assert options_from({"report_to": ["wandb", "aim", "wandb"]}).report_to == ("wandb", "aim")
    assert options_from({"report_to": "none"}).report_to == options_from({}).report_to == ()


def test_each_sink_gets_its_own_options() -> None:
    reporting = options_from({"report_to": "wandb", "wandb_project": "p", "run_name": "r"})
    assert reporting.of("wandb") == WandbOptions(wandb_project="p")
    assert reporting.of("tensorboard") == TensorBoardOptions(run_name="r")


def test_unknown_option_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="'wandb_projekt' is not known: did you mean wandb_proj"):
        options_from({"wandb_projekt": "p"})


def test_unknown_sink_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean tensorboard"):
        options_from({"report_to": ["tensorbord"]})


@pytest.mark.parametrize("value", [7, {"wandb": 1}, [1]])
def test_report_to_that_is_no_name_is_refused(value: object) -> None:
    with pytest.raises(ValueTypeError, match="report_to"):
        options_from({"report_to": value})


@pytest.mark.parametrize("value", ["", 3, ["a"]])
def test_option_that_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(ValueTypeError, match="wandb_name"):
        options_from({"wandb_name": value})


def test_paths_become_absolute_and_addresses_stay(tmp_path: Path) -> None:
    reporting = options_from({"tensorboard_dir": "tb", "aim_repo": "aim://host:1"}, base=tmp_path)
    assert reporting.given == {"tensorboard_dir": str(tmp_path / "tb"), "aim_repo": "aim://host:1"}


def test_a_log_file_is_enough_to_have_it_written(tmp_path: Path) -> None:
    assert options_from({"log_file": tmp_path / "log.json"}).report_to == ("json_log",)


def test_plain_form_makes_the_same() -> None:
    reporting = options_from({"report_to": ["aim"], "aim_name": "n"})
    assert options_from(reporting.plain()) == reporting
    assert options_from(Reporting().plain()) == Reporting()


def test_options_are_told_from_configuration() -> None:
    entries = {"report_to": "aim", "aim_name": "n", "lr": 0.1, "name": "x"}
    assert split_options(entries) == (
        {"report_to": "aim", "aim_name": "n"},
        {"lr": 0.1, "name": "x"},
    )


@pytest.mark.parametrize("name", ["wandb_projet", "mlflow_uri", "reportto", "logfile"])
def test_misspelt_option_among_configuration_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        split_options({"lr": 0.1, name: "x"})
