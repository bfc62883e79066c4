"""How the words of an utterance are written, as the model is shown them.

Each decode writes them anew: "how long" becomes "How long", a comma a full stop. They sound the same, but are other
tokens, and all that follows them would have to be read again while somebody waits for the answer.
"""

from __future__ import annotations

import re

_SENTENCE_END = (".", "?", "!", "…")


def normalised(text: str) -> str:
    """Words only: two texts that sound alike get one reply."""
    return " ".join(re.findall(r"[\w']+", text.lower()))


def as_before(text: str, before: str) -> str:
    """`text`, with its first words written as they were in `before`, as far as they are the same. Not the last one
    of `before`, whose mark was a guess at what would follow, nor one that ended a sentence which now goes on."""
    words, kept = text.split(), []
    for word, old in zip(words, before.split()[:-1], strict=False):
        goes_on = old.endswith(_SENTENCE_END) and not word.endswith(_SENTENCE_END)
        if goes_on or normalised(word) != normalised(old):
            break
        kept.append(old)
    return " ".join([*kept, *words[len(kept) :]])
