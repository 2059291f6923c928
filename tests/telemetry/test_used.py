from epochal.telemetry.used import UsedGpus


def test_a_single_visible_gpu_is_used() -> None:
    assert UsedGpus([3]).ids == {3}


def test_of_several_those_are_used_that_the_runs_processes_compute_on() -> None:
    used = UsedGpus([0, 1, 2, 3])
    assert used.ids == frozenset()
    used.learn({0: frozenset({9}), 1: frozenset({7, 9}), 2: frozenset(), 3: None}, own={7}, age_s=1)
    assert used.ids == {1}


def test_a_gpu_that_was_used_once_stays_used() -> None:
    used = UsedGpus([0, 1])
    used.learn({0: frozenset({7}), 1: frozenset()}, own={7}, age_s=1)
    used.learn({0: frozenset(), 1: frozenset({7})}, own={7}, age_s=2)
    assert used.ids == {0, 1}
    assert used.is_complete


def test_where_processes_are_hidden_every_visible_gpu_counts_after_a_while() -> None:
    used = UsedGpus([0, 1], patience_s=60)
    used.learn({0: frozenset(), 1: None}, own={7}, age_s=59)
    assert used.ids == frozenset()
    used.learn({0: frozenset(), 1: None}, own={7}, age_s=60)
    assert used.ids == {0, 1}


def test_what_was_presumed_gives_way_to_what_is_known() -> None:
    used = UsedGpus([0, 1], patience_s=0)
    used.learn({0: frozenset(), 1: frozenset()}, own={7}, age_s=60)
    used.learn({0: frozenset(), 1: frozenset({7})}, own={7}, age_s=70)
    assert used.ids == {1}


def test_other_peoples_processes_are_a_sign_that_ours_would_be_seen() -> None:
    used = UsedGpus([0, 1], patience_s=0)
    used.learn({0: frozenset({9}), 1: frozenset()}, own={7}, age_s=600)
    assert used.ids == frozenset()


def test_beside_other_ranks_there_is_always_more_to_learn() -> None:
    used = UsedGpus([0], others=True)
    used.learn({0: frozenset({7}), 1: frozenset({8})}, own={7, 8}, age_s=1)
    assert used.ids == {0, 1}
    assert not used.is_complete
