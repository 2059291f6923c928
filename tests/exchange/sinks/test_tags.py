import pytest

from epochal.exchange.sinks.keys import RoleTags, histogram_tag, text_tag


def tags(*names: str, kind: str = "metrics", book: RoleTags | None = None) -> list[str]:
    book = RoleTags() if book is None else book
    book.look(names)
    return [book.scalar(name, kind=kind) for name in names]


def test_typed_series_have_the_tags_people_look_for() -> None:
    assert tags("train/loss", "train/lr", "train/norm", "train/norm_clipped", kind="step") == [
        "Loss/train",
        "Learning_Rate/lr",
        "Gradient/norm",
        "Gradient/norm_clipped",
    ]
    names = ("train/duration_ms", "train/tokens_per_second", "train/epoch")
    assert tags(*names, kind="step") == [
        "Performance/step_time_ms",
        "Performance/tokens_per_sec",
        "Training/epoch",
    ]
    assert tags("eval/loss", kind="eval") == ["Loss/validation"]


def test_free_metrics_go_by_their_role_or_their_own_name() -> None:
    assert tags("loss", "val_loss", "lr", "grad_norm", "speed/x") == [
        "Loss/train",
        "Loss/validation",
        "Learning_Rate/lr",
        "Gradient/norm",
        "speed/x",
    ]


def test_first_candidate_keeps_the_role() -> None:
    book = RoleTags()
    assert tags("loss", book=book) == ["Loss/train"]
    assert tags("total_loss", "loss", book=book) == ["total_loss", "Loss/train"]
    assert tags("train_loss", book=RoleTags(book.plain())) == ["train_loss"]


def test_of_names_logged_together_the_likelier_has_the_role() -> None:
    assert tags("total_loss", "loss") == ["total_loss", "Loss/train"]


def test_what_was_defined_wins() -> None:
    book = RoleTags()
    book.define({"log": "define", "name": "cross_entropy", "role": "loss"})
    assert tags("loss", "cross_entropy", book=book) == ["loss", "Loss/train"]


def test_series_defined_for_one_role_is_not_guessed_for_another() -> None:
    book = RoleTags()
    book.define({"log": "define", "name": "loss", "role": "eval_loss"})
    assert tags("loss", book=book) == ["Loss/validation"]


def test_throughput_that_is_not_in_tokens_keeps_its_name() -> None:
    assert tags("samples_per_second") == ["samples_per_second"]


def test_evaluation_metrics_stand_together() -> None:
    assert tags("hellaswag_accuracy", "mine/x", kind="eval") == [
        "Evaluation/hellaswag_accuracy",
        "mine/x",
    ]
    assert tags("eval/accuracy") == ["Evaluation/accuracy"]


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("weights/wte", "Parameters/wte"),
        ("Parameters/h.0", "Parameters/h.0"),
        ("gradients/h.0/w", "Gradients/h.0/w"),
        ("gradients", "gradients"),
        ("activations/x", "activations/x"),
    ],
)
def test_histograms_of_weights_and_gradients(name: str, tag: str) -> None:
    assert histogram_tag(name) == tag


def test_samples_of_a_model() -> None:
    assert text_tag("sample") == text_tag("Samples") == "Generated_Samples/text"
    assert text_tag("notes") == "notes"
