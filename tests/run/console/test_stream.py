import io
import os

from hypothesis import given
from hypothesis import strategies as st

from epochal.run.console.messages import is_terminal, obeys_control_codes, printable, write_line


def test_characters_a_stream_lacks_are_replaced() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", newline="\n")
    assert write_line(stream, "η=1")
    assert raw.getvalue() == b"?=1\n"


def test_a_closed_stream_is_reported() -> None:
    stream = io.StringIO()
    stream.close()
    assert not write_line(stream, "text")
    assert not is_terminal(stream)


def test_a_broken_pipe_is_reported() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    # Unbuffered, so that nothing is left to be written when the test closes the file.
    with io.TextIOWrapper(io.FileIO(writer, "w"), write_through=True) as stream:
        assert not write_line(stream, "text")


def test_no_stream_at_all() -> None:
    assert not write_line(None, "text")
    assert not obeys_control_codes(None)


def test_a_pipe_obeys_no_control_codes() -> None:
    assert not obeys_control_codes(io.StringIO())


def test_control_characters_are_spelled_out() -> None:
    assert printable("a\nb\x1b[31m") == r"a\nb\x1b[31m"


@given(st.text())
def test_names_are_printable_and_bounded(name: str) -> None:
    text = printable(name, longest=20)
    assert text.isprintable()
    assert len(text) <= 20


@given(st.text(max_size=20))
def test_printable_names_are_left_alone(name: str) -> None:
    assert printable(name, longest=20) == name or not name.isprintable()
