from epochal.health.context import Roles


def test_the_first_guess_that_exists_plays_the_role() -> None:
    roles = Roles()
    roles.meet({"loss": 1.0, "val_loss": 2.0})
    assert roles.names == {"loss": "loss", "eval_loss": "val_loss"}


def test_a_better_guess_takes_over_when_it_appears() -> None:
    roles = Roles()
    roles.meet({"loss": 1.0})
    roles.meet({"train/loss": 1.0})
    assert roles.names == {"loss": "train/loss"}


def test_a_definition_wins_once_its_series_exists() -> None:
    roles = Roles()
    roles.define({"log": "define", "name": "my/objective", "role": "loss"})
    roles.meet({"loss": 1.0})
    assert roles.names == {"loss": "loss"}
    roles.meet({"my/objective": 1.0})
    assert roles.names == {"loss": "my/objective"}


def test_a_definition_without_a_role_changes_nothing() -> None:
    roles = Roles()
    roles.meet({"loss": 1.0})
    roles.define({"log": "define", "name": "loss", "unit": "nats"})
    assert roles.names == {"loss": "loss"}
