import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.telemetry.nvidia import visible_entries

UUIDS = ["GPU-aaaa-1", "GPU-aaab-2", "GPU-bbbb-3"]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("2", [2]),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("0,7,1", [0]),
        ("0,-1,1", [0]),
        ("1gpu,2", [1, 2]),
        ("0,0", []),
        ("GPU-bbbb-3", [2]),
        ("GPU-bbbb,GPU-aaaa", [2, 0]),
        ("GPU-aaa", []),
        ("0,GPU-aaaa", []),
        ("GPU-cccc,0", []),
        ("MIG-5c89852c", ["MIG-5c89852c"]),
    ],
)
def test_entries_resolve_as_cuda_resolves_them(
    visible: str | None, expected: list[int | str]
) -> None:
    assert visible_entries(visible, uuids=UUIDS) == expected


def test_gpu_without_uuid_is_found_by_number_only() -> None:
    assert visible_entries("0", uuids=[None]) == [0]
    assert visible_entries("GPU-aaaa", uuids=[None]) == []


@given(st.text(alphabet="0123456789,-+ GPUMIGab"), st.integers(0, 3))
def test_any_text_gives_distinct_devices_that_exist(visible: str, count: int) -> None:
    entries = visible_entries(visible, uuids=UUIDS[:count])
    assert len(set(entries)) == len(entries)
    assert all(isinstance(entry, str) or entry < count for entry in entries)
