import pytest

from epochal import errors


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (errors.UsageError, ValueError),
        (errors.ValueTypeError, TypeError),
        (errors.ValueTypeError, ValueError),
        (errors.RunFinishedError, RuntimeError),
        (errors.RunNotFoundError, LookupError),
        (errors.MetricNotFoundError, LookupError),
        (errors.FormatError, ValueError),
    ],
)
def test_each_error_can_be_caught_as_ours_and_as_pythons(
    error: type[Exception], also: type[Exception]
) -> None:
    assert issubclass(error, errors.EpochalError)
    assert issubclass(error, also)


def test_an_error_says_its_sentence_without_quotes_around_it() -> None:
    assert str(errors.RunNotFoundError("there is no run.")) == "there is no run."
