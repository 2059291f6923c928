import pytest

from epochal.health.context import accuracy_of, is_accuracy, is_evaluation, num_classes


@pytest.mark.parametrize("name", ["val_loss", "eval/accuracy", "test.acc", "validation/f1"])
def test_names_say_what_is_of_an_evaluation(name: str) -> None:
    assert is_evaluation(name, "metrics")


@pytest.mark.parametrize("name", ["loss", "train/loss", "value_loss", "evaluations_per_day"])
def test_other_names_do_not(name: str) -> None:
    assert not is_evaluation(name, "metrics")


def test_all_metrics_of_an_eval_record_are_but_its_own_cost() -> None:
    assert is_evaluation("bleu", "eval")
    assert not is_evaluation("eval/duration_ms", "eval")


def test_accuracies_are_known_by_name() -> None:
    assert is_accuracy("val/acc")
    assert is_accuracy("eval/balanced_accuracy")
    assert not is_accuracy("val/accumulated")


def test_the_number_of_classes_is_found_wherever_it_stands() -> None:
    assert num_classes({"model": {"num_labels": 7}}) == 7
    assert num_classes({"data.classes": ["cat", "dog"]}) == 2
    assert num_classes({"num_classes": True, "lr": 0.1}) is None


def test_per_cent_is_told_from_a_share() -> None:
    assert accuracy_of(93.5, 10) == 0.935
    assert accuracy_of(0.93, 10) == 0.93
    assert accuracy_of(0.99, 100) is None
