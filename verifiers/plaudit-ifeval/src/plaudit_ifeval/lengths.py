"""Instructions on how long the text is: length_constraints:*."""

from __future__ import annotations

import re

from plaudit_ifeval.checks import CannotJudge, check, compare
from plaudit_ifeval.words import paragraphs, sentences, without_markup, words


@check("length_constraints:number_words")
def number_words(text: str, *, num_words: int, relation: str = "at least") -> bool:
    """So many words; each CJK character counts as one."""
    return compare(len(words(text)), relation, num_words)


@check("length_constraints:number_sentences")
def number_sentences(text: str, *, num_sentences: int, relation: str = "at least") -> bool:
    """So many sentences."""
    return compare(len(sentences(text)), relation, num_sentences)


@check("length_constraints:number_paragraphs")
def number_paragraphs(text: str, *, num_paragraphs: int) -> bool:
    """Exactly so many paragraphs parted by `***`; a divider at either end is free, an empty paragraph is not."""
    parts = [part.strip() for part in re.split(r"(?<!\*)\*{3}(?!\*)", text)]
    parts = parts[1:] if parts and not parts[0] else parts
    parts = parts[:-1] if parts and not parts[-1] else parts
    return bool(parts) and all(parts) and compare(len(parts), "exactly", num_paragraphs)


@check("length_constraints:nth_paragraph_first_word")
def nth_paragraph_first_word(text: str, *, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Exactly so many paragraphs parted by blank lines, and the nth opens with the word, in any case."""
    found = paragraphs(text)
    if not compare(len(found), "exactly", num_paragraphs):
        return False
    if not 1 <= nth_paragraph <= len(found):
        raise CannotJudge(f"nth_paragraph {nth_paragraph} is outside 1 to {num_paragraphs}")
    opening = without_markup(found[nth_paragraph - 1])
    word = re.match(r"[^\W_]+(?:-[^\W_]+)*", opening)
    return word is not None and word.group().casefold() == without_markup(first_word).casefold().rstrip(".,:;!?")
