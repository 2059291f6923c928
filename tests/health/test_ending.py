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
    assert found.evidence == {"pid": 7, "oom_kills": 1, "memory": "2.0 GB"}
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
