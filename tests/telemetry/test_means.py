from epochal.telemetry.means import MomentMeans


def test_the_mean_is_that_of_what_was_known_since_it_was_taken() -> None:
    means = MomentMeans()
    for value in (1.0, None, 4.0):
        means.add("use", value)
    means.add("power", 7.0)
    assert (means.take("use"), means.take("use"), means.take("power")) == (2.5, None, 7.0)
