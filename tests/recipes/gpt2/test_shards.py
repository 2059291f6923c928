from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from epochal.errors import FormatError, UsageError
from epochal.recipes.gpt2.shards import generated_documents, is_tokenised, open_corpus, open_shard
from epochal.recipes.gpt2.tokens import open_tokenizer

BYTES = open_tokenizer("bytes")


def write(folder: Path, name: str, num_tokens: int = 1000) -> Path:
    path = folder / name
    tokens = np.arange(num_tokens, dtype=np.uint16)
    if path.suffix == ".npy":
        np.save(path, tokens)
    else:
        path.write_bytes(tokens.tobytes())
    return path


@pytest.mark.parametrize("name", ["a.npy", "a.bin"])
def test_tokens_are_mapped_not_read(tmp_path: Path, name: str) -> None:
    shard = open_shard(write(tmp_path, name))
    assert isinstance(shard.tokens, np.memmap)
    assert list(shard.tokens[-2:]) == [998, 999]


def test_the_header_of_llm_c_is_left_out(tmp_path: Path) -> None:
    header = np.zeros(256, dtype=np.int32)
    header[:3] = 20240520, 1, 3
    path = tmp_path / "fineweb_val_000000.bin"
    path.write_bytes(header.tobytes() + np.array([7, 8, 9], dtype=np.uint16).tobytes())
    assert list(open_shard(path).tokens) == [7, 8, 9]


def test_files_named_for_validation_are_kept_apart(tmp_path: Path) -> None:
    for name in ("edu_train_000001.npy", "edu_train_000002.npy", "edu_val_000000.npy"):
        write(tmp_path, name)
    corpus = open_corpus(str(tmp_path), BYTES, context=8, seed=1)
    assert [s.name for s in corpus.train] == ["edu_train_000001.npy", "edu_train_000002.npy"]
    assert [s.name for s in corpus.validation] == ["edu_val_000000.npy"]


def test_otherwise_the_end_is(tmp_path: Path) -> None:
    for name in ("evaluate-not.bin", "z.bin"):
        write(tmp_path, name)
    corpus = open_corpus(str(tmp_path), BYTES, context=8, seed=1)
    assert [len(s) for s in corpus.train] == [1000, 960]
    assert list(corpus.validation[0].tokens[:2]) == [960, 961]


def test_text_is_tokenised_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("héllo " * 100, encoding="utf-8")
    cache = Path(os.environ["EPOCHAL_CACHE_DIR"]) / "gpt2"
    first = open_corpus(str(text), BYTES, context=8, seed=1)
    open_corpus(str(text), BYTES, context=8, seed=1)
    assert len(list(cache.iterdir())) == 1
    tokens = [int(t) for s in (*first.train, *first.validation) for t in s.tokens]
    assert BYTES.decode(tokens) == "héllo " * 100
    assert tokens[-1] == BYTES.end
    text.write_text("other " * 100, encoding="utf-8")
    changed = open_corpus(str(text), BYTES, context=8, seed=1)
    assert BYTES.decode([int(t) for t in changed.train[0].tokens[:5]]) == "other"


def test_a_folder_of_texts_is_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "b.md").write_text("b" * 40, encoding="utf-8")
    (tmp_path / "deep" / "c.txt").write_text("c" * 40, encoding="utf-8")
    (tmp_path / "ignored.png").write_bytes(b"x")
    corpus = open_corpus(str(tmp_path), BYTES, context=8, seed=1)
    assert [int(t) for t in corpus.train[0].tokens[39:42]] == [ord("b"), BYTES.end, ord("c")]


def test_without_data_a_text_is_made_the_same_each_time() -> None:
    assert generated_documents(3, num_sentences=50) == generated_documents(3, num_sentences=50)
    assert generated_documents(3, num_sentences=50) != generated_documents(4, num_sentences=50)
    assert len(generated_documents(3, num_sentences=81)) == 3


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    assert not is_tokenised(None)
    with pytest.raises(UsageError, match="there is no such file or folder"):
        open_corpus(str(tmp_path / "absent"), BYTES, context=8, seed=1)
    with pytest.raises(UsageError, match="holds neither tokens"):
        open_corpus(str(tmp_path), BYTES, context=8, seed=1)
    short = write(tmp_path, "short.bin", 9)
    with pytest.raises(UsageError, match="9 tokens: too few to train and to judge on"):
        open_corpus(str(short), BYTES, context=8, seed=1)


def test_what_is_no_file_of_tokens_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.zeros(4, dtype=np.int64))
    (tmp_path / "empty.bin").write_bytes(b"")
    (tmp_path / "torn.npy").write_bytes(b"\x93NUMPY")
    for name, sentence in (
        ("wide.npy", "one row of uint16, it is int64"),
        ("empty.bin", "holds no tokens"),
        ("torn.npy", "no array that can be mapped"),
    ):
        with pytest.raises(FormatError, match=sentence):
            open_shard(tmp_path / name)
