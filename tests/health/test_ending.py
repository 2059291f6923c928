from epochal.health.ending import ending_finding


def test_a_process_killed_for_memory_is_told_what_to_try() -> None:
    found = ending_finding(
        "crashed",
        run="a",
        attempt=1,
        step=1250,
        t=5.0,
        reason="the training process vanished after step 1250 without a word.",
        facts={"oom_kills": 1, "rss": 2 * 1024**3, "pid": 7},
    )
    assert found.severity == "error"
    assert found.sentence == "The training process vanished after step 1250 without a word."
    assert found.evidence == {"pid": 7, "oom_kills": 1, "memory": "2.0 GiB"}
    assert "smaller batch" in found.advice


def test_one_line_of_a_long_reason_is_said() -> None:
    reason = "RuntimeError: " + "x" * 500 + "\nmore"
    found = ending_finding("failed", run="a", attempt=1, step=None, t=5.0, reason=reason)
    assert len(found.sentence) < 300
    assert "before its first step" in found.sentence
    assert "more" not in found.sentence


def test_each_attempt_has_an_ending_of_its_own() -> None:
    first, second = (
        ending_finding("failed", run="a", attempt=n, step=3, t=5.0, reason="E") for n in (1, 2)
    )
    assert first.id != second.id


def test_memory_that_ran_out_is_said_in_plain_words() -> None:
    found = ending_finding(
        "failed",
        run="a",
        attempt=1,
        step=4,
        t=5.0,
        reason="RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory: you …",
        memory={"device": "cpu", "asked": 4 * 1024**3, "where": "train.py:9 in main", "free": 1024},
        has_checkpoint=False,
    )
    assert found.sentence == (
        "The run failed after step 4: memory ran out on cpu when 4.0 GiB more were requested at "
        "train.py:9 in main."
    )
    assert found.evidence == {"asked": "4.0 GiB", "free": "1.0 KiB"}
    assert "smaller batch" in found.advice
    assert "The run has no checkpoint" in found.advice
    assert "last checkpoint" not in found.advice


def test_memory_that_ran_out_before_does_not_explain_another_error() -> None:
    found = ending_finding(
        "failed",
        run="a",
        attempt=1,
        step=4,
        t=5.0,
        reason="ValueError: x",
        memory={"device": "cpu", "asked": 4},
    )
    assert found.sentence == "The run failed after step 4: ValueError: x."
    assert found.evidence == {}
