from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import UsageError
from epochal.recipes.gpt2.tokens import Tokenizer, open_tokenizer


@given(st.text())
def test_bytes_hold_every_text(text: str) -> None:
    tokenizer = open_tokenizer("bytes")
    expected = text.encode("utf-8", errors="replace").decode("utf-8")
    assert tokenizer.decode([*tokenizer.encode(text), tokenizer.end, 300]) == expected


def test_the_vocabulary_of_gpt2_is_padded_as_published() -> None:
    made = Tokenizer("gpt2", 50_257, 50_256, lambda text: [], lambda tokens: "")
    assert made.padded_size == 50_304
    assert open_tokenizer("bytes").padded_size == 384


@pytest.mark.parametrize(
    ("package", "name"), [("tiktoken", "gpt2"), ("tokenizers", "some/tokenizer.json")]
)
def test_a_missing_package_is_named(
    package: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # importing it raises ModuleNotFoundError
    with pytest.raises(UsageError, match=f"needs the package '{package}'"):
        open_tokenizer(name)


def test_a_tokenizer_of_a_file(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    tokenizer = open_tokenizer(str(tmp_path / "tokenizer.json"))
    assert tokenizer.encode("b a c") == [1, 0, 2]
    assert (tokenizer.num_tokens, tokenizer.end) == (4, 3)
    assert tokenizer.decode([1, 0, 3]) == "b a"
    with pytest.raises(UsageError, match="no such file"):
        open_tokenizer(str(tmp_path / "absent.json"))
