import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.telemetry.visible import rocm_visible

UUIDS = ("GPU-babaabbaabbaabba", None, "GPU-abbaabbaabbaabba", "GPU-babababababababa")


@pytest.mark.parametrize(
    ("rocr", "seen"),
    [
        ("", []),
        ("-1", []),
        ("GPU-XX", []),
        ("3,GPU-BABAABBAABBAABBA,4", [3, 0]),
        ("1,GPU-ABBAABBAABBAABBA,GPU-XX", [1, 2]),
        ("3,gpu-babaabba", [3, 0]),
        (" 2 , 1 ", [2, 1]),
        ("GPU-baba", []),  # two begin so
        ("GPU-", []),
        ("0,0,1", [0]),  # a number for the second time ends the list
        ("1x", []),
        ("4", []),
    ],
)
def test_rocr_picks_and_orders_the_machines_gpus(rocr: str, seen: list[int]) -> None:
    assert rocm_visible({"ROCR_VISIBLE_DEVICES": rocr}, uuids=UUIDS) == seen


@pytest.mark.parametrize(
    ("hip", "seen"),
    [
        ("2,0", [2, 0]),
        ("0,7,1", [0]),
        ("1,1,0", [1, 0]),  # a number for the second time is passed over
        ("01", []),
        ("GPU-abba", [2]),
        ("", []),
    ],
)
def test_hip_picks_and_orders_them_too(hip: str, seen: list[int]) -> None:
    assert rocm_visible({"HIP_VISIBLE_DEVICES": hip}, uuids=UUIDS) == seen
    assert rocm_visible({"CUDA_VISIBLE_DEVICES": hip}, uuids=UUIDS) == seen


def test_hip_counts_among_those_that_rocr_leaves() -> None:
    environ = {"ROCR_VISIBLE_DEVICES": "3,2,1", "HIP_VISIBLE_DEVICES": "2,0"}
    assert rocm_visible(environ, uuids=UUIDS) == [1, 3]


def test_hips_own_variable_goes_before_cudas() -> None:
    environ = {"HIP_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "0"}
    assert rocm_visible(environ, uuids=UUIDS) == [1]


@given(rocr=st.none() | st.text("0123,GPU-ab ", max_size=12), hip=st.none() | st.text(max_size=8))
def test_any_text_gives_gpus_that_are_there_each_once(rocr: str | None, hip: str | None) -> None:
    given_ = {"ROCR_VISIBLE_DEVICES": rocr, "HIP_VISIBLE_DEVICES": hip}
    environ = {name: text for name, text in given_.items() if text is not None}
    seen = rocm_visible(environ, uuids=UUIDS)
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(range(len(UUIDS)))
