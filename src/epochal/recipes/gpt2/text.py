"""A small text for when there is no data: made on the spot, the same for the same seed."""

from __future__ import annotations

import numpy as np

from epochal.recipes.demo.text import write_text

# About 2.4 MB: enough windows of 1,024 bytes for the default batch on eight ranks.
NUM_SENTENCES = 40_000
_SENTENCES_TO_A_DOCUMENT = 40


def generated_documents(seed: int, *, num_sentences: int = NUM_SENTENCES) -> list[str]:
    """Short documents, each of sentences of a tiny grammar."""
    text = write_text(np.random.default_rng(seed), num_sentences=num_sentences)
    lines = text.splitlines(keepends=True)
    starts = range(0, len(lines), _SENTENCES_TO_A_DOCUMENT)
    return ["".join(lines[start : start + _SENTENCES_TO_A_DOCUMENT]) for start in starts]
