"""Instructions of IFBench: ifbench:*. None of them is kept by an empty text."""

from __future__ import annotations

from itertools import pairwise

from plaudit_ifeval.checks import check, compare
from plaudit_ifeval.words import sentences, words

_STOP_WORDS = frozenset(
    "a about above after again against all am an and any are as at be because been before being below between both "
    "but by can did do does doing don down during each few for from further had has have having he her here hers "
    "herself him himself his how i if in into is it its itself just me more most my myself no nor not now of off on "
    "once only or other our ours ourselves out over own s same she should so some such t than that the their theirs "
    "them themselves then there these they this those through to too under until up very was we were what when where "
    "which while who whom why will with you your yours yourself yourselves".split()
)


@check("ifbench:equal_length_distinct_words")
def equal_length_distinct_words(text: str, *, sentences: int) -> bool:
    """So many sentences of one length in characters, in which no word comes twice."""
    found = _sentences(text)
    used = [word.casefold() for word in words(text)]
    same_length = len({len(sentence) for sentence in found}) == 1
    return compare(len(found), "exactly", sentences) and same_length and len(set(used)) == len(used)


_sentences = sentences  # the instruction's own argument has that name


@check("ifbench:question_ratio")
def question_ratio(text: str, *, declarative_to_interrogative: float) -> bool:
    """So many statements for each question; there must be a question and a statement."""
    found = sentences(text)
    questions = sum(sentence.rstrip("\"'”’)").endswith(("?", "？")) for sentence in found)
    statements = sum(not sentence.rstrip("\"'”’)").endswith(("?", "？", "!", "！")) for sentence in found)
    return questions > 0 and statements > 0 and statements == declarative_to_interrogative * questions


@check("ifbench:increasing_indent")
def increasing_indent(text: str) -> bool:
    """Each line that is not blank is indented further than the one before; there are at least two."""
    indents = [len(line) - len(line.lstrip()) for line in text.expandtabs(4).splitlines() if line.strip()]
    return len(indents) > 1 and all(one < two for one, two in pairwise(indents))


@check("ifbench:stop_word_percentage")
def stop_word_percentage(text: str, *, max_percent: float) -> bool:
    """At most so many percent of the words are English stop words; a text without words does not count."""
    found = [word.casefold() for word in words(text)]
    return bool(found) and 100 * sum(word in _STOP_WORDS for word in found) <= max_percent * len(found)
