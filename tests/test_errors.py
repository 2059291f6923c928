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
        (errors.MissingPackageError, ImportError),
    ],
)
def test_each_error_can_be_caught_as_ours_and_as_pythons(
    error: type[Exception], also: type[Exception]
) -> None:
    assert issubclass(error, errors.EpochalError)
    assert issubclass(error, also)


def test_an_error_says_its_sentence_without_quotes_around_it() -> None:
    assert str(errors.RunNotFoundError("there is no run.")) == "there is no run."


def test_a_missing_module_is_named_as_pip_names_its_package() -> None:
    error = errors.MissingPackageError("epochal config", ModuleNotFoundError(name="yaml.loader"))
    assert str(error) == "epochal config needs the package 'PyYAML': pip install PyYAML."


def test_a_missing_module_of_our_own_is_no_package_to_install() -> None:
    error = errors.MissingPackageError("epochal x", ModuleNotFoundError(name="epochal.cli.x"))
    said = "epochal x is not part of this installation: it has no module 'epochal.cli.x'."
    assert str(error) == said
