import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.journal.alike import AlikeDecoder, AlikeRecords
from epochal.journal.layout import PartName
from epochal.journal.line import decode, encode
from epochal.journal.reader import PartReader
from epochal.records import Record
from tests.doubles.journals import header

LOOP = PartName("loop", 1, 0)


def metrics(step: int, **values: float) -> bytes:
    return encode({"log": "metrics", "t": 1000 + step / 1000, "step": step, "m": values})


USUAL = [metrics(step, loss=1 / (step + 1), lr=0.1) for step in range(100)]


def taught() -> AlikeDecoder:
    decoder = AlikeDecoder()
    assert decoder.decode(b"".join(USUAL)) is None
    return decoder


def test_lines_like_those_before_are_records_that_are_decoded_when_asked_for() -> None:
    found = taught().decode(b"".join(USUAL))
    assert found is not None
    assert (found.kind, found.names, len(found)) == ("metrics", ("loss", "lr"), 100)
    assert list(found.times) == [1000 + step / 1000 for step in range(100)]
    assert list(found) == [decode(line) for line in USUAL]
    assert found[7] == decode(USUAL[7])


pieces = st.sampled_from(
    [
        *USUAL[:3],
        metrics(1, lr=0.5, loss=1.0),
        metrics(1, loss=1.0),
        metrics(1, loss=1.0, other=2.0),
        metrics(1, loss=float("nan"), lr=0.1),
        encode({"log": "metrics", "t": 5, "step": 1, "m": {"loss": 1, "lr": 2**70}}),
        encode({"log": "step", "t": 5.0, "step": 1, "m": {"loss": 1, "lr": 2}}),
        encode({"log": "metrics", "t": 5.0, "step": 1, "m": {"loss": "1", "lr": True}}),
        b'{"log":"metrics","t":1.0,"step":1,"m":{"loss":1.0,"loss":2.0,"lr":1.0}}\n',
        b'{"log":"metrics","t":1.0,"step":\n1,"m":{"loss":1.0,"lr":1.0}}\n',
        USUAL[0][:-1] + USUAL[1],
        USUAL[0][:20] + b"\n",
        USUAL[0][:20] + USUAL[1],
        b" " + USUAL[0],
        b"\n",
        b"rubbish\n",
    ]
)


@given(st.lists(pieces, min_size=1, max_size=5))
def test_lines_are_alike_only_where_each_is_one_record(wanted: list[bytes]) -> None:
    text = b"".join(wanted)
    found = taught().decode(text)
    if found is not None:
        one_by_one = [decode(line) for line in text.split(b"\n")[:-1]]
        assert list(found) == one_by_one
        assert [record["t"] for record in found] == list(found.times)
        assert all(record["m"].keys() == set(found.names) for record in found)


@given(st.lists(st.tuples(pieces, st.integers(0, 1500)), max_size=4))
def test_a_part_gives_the_same_records_whether_they_are_alike_or_not(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[tuple[bytes, int]]
) -> None:
    path = tmp_path_factory.mktemp("alike") / "loop.0001.0000.jsonl"
    odd = [line + b"".join(USUAL) * (count // 100) for line, count in wanted]
    path.write_bytes(header(LOOP) + b"".join([*USUAL * 20, *odd]))
    one_by_one, some, decoder = PartReader(path, LOOP), PartReader(path, LOOP), AlikeDecoder()
    records = [record for _, record in one_by_one.read()]
    found = list(some.read_alike(decoder))
    assert [record for block in found for record in block] == records
    assert some == one_by_one
    assert any(isinstance(block, AlikeRecords) for block in found)


def test_records_that_say_what_is_not_finite_are_never_alike() -> None:
    words: Record = {"log": "metrics", "t": 1.0, "step": 1, "m": {"a": 1.0}, "nonfinite": {"b": 1}}
    decoder = AlikeDecoder()
    for _ in range(3):
        assert decoder.decode(encode(words) * 100) is None
