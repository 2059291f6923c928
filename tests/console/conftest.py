from collections.abc import Iterator

import pytest

from epochal.console.verbosity import Verbosity, set_verbosity, verbosity


@pytest.fixture(autouse=True)
def normal_level() -> Iterator[None]:
    earlier = verbosity()
    set_verbosity(Verbosity.NORMAL)
    yield
    set_verbosity(earlier)
