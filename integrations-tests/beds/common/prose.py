"""Deterministic filler text that compresses about as well as a model's prose (zstd-3: 2.0x at 7 KB)."""

from __future__ import annotations

import hashlib
import random
from itertools import accumulate

_COMMON = (
    "the of and to in a is that for on with as at by margin revenue price risk volume quarter guidance "
    "demand cash earnings trend"
)
_ONSETS = "b c d f g h j k l m n p r s t v w st tr pl gr ch sh th".split()
_NUCLEI = "a e i o u ai ea io ou ee".split()
_CODAS = ["", "", "", "n", "r", "s", "t", "l", "nt", "rd", "st", "ng"]


class Seeded(random.Random):
    """Random numbers that depend on the key alone."""

    def __init__(self, key: str) -> None:
        super().__init__(int(hashlib.sha256(key.encode()).hexdigest()[:16], 16))


def _vocabulary(size: int = 6000) -> list[str]:
    rng = Seeded("vocabulary")
    words = _COMMON.split()
    seen = set(words)
    while len(words) < size:
        syllables = rng.choice((1, 2, 2, 3, 3))
        word = "".join(
            rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS) for _ in range(syllables)
        )
        if word not in seen:
            seen.add(word)
            words.append(word)
    return words


_WORDS = _vocabulary()
# Zipf-like weights give the text its natural entropy.
_WEIGHTS = list(accumulate(1 / (rank + 4) ** 0.95 for rank in range(len(_WORDS))))


def prose(key: str, size: int) -> str:
    """About `size` bytes of text, the same for the same key."""
    rng = Seeded(key)
    sentences: list[str] = []
    length = 0
    while length < size:
        words = rng.choices(_WORDS, cum_weights=_WEIGHTS, k=rng.randint(8, 22))
        if rng.random() < 0.35:
            words.insert(rng.randrange(len(words)), f"{rng.uniform(1, 400):.2f}")
        sentence = " ".join(words).capitalize() + rng.choice((". ", ". ", ".\n\n"))
        sentences.append(sentence)
        length += len(sentence)
    return "".join(sentences)[:size].rstrip() + "."
