"""Answers that stand in sentences: after a final-answer mark, or at the end of the last sentence that says something.

Only the tail of a completion is looked at, and every regular expression here runs in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from plaudit_math import vocabulary
from plaudit_math.hedging import conflicting
from plaudit_math.reading import read

TAIL = 4_000
MAX_WORDS = 12

_MARK = re.compile(
    r"final answer|\b(?:correct|right|best) (?:option|choice|answer|one) is\b|\b(?:option|choice) is\b|答\s?[:：]|"
    r"\banswers?\**\s{0,3}(?:is|are|:|=|to be|equals|would be|should be|must be)|\bans\s?[:=.]|答案|答え|정답|répon?se|"
    r"respuesta|antwort|ответ|risposta|resposta|故选|所以选|\bresult is\b|\bsolution is\b",
    re.IGNORECASE,
)
_AFTER_MARK = re.compile(
    r"(?:\s|\*|_|`|:|=|：|\||は|은|는|(?:is|are|was|be|to|the|therefore|thus|simply|just|应该|应为|是|为|选|é|è|option|choice|final|answer|indeed|clearly|"
    r"then|now|equal|equals|est|es|ist|only)\b|\b(?=\d)|\b(?:is|are))*",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+(?=[A-Z(\"'*\\$✅\u4e00-\u9fff]|$)|(?<=[。！？])|\n")
_DISPLAY = re.compile(r"\\\[([^\]]{1,600})\\\]|\$\$([^$]{1,600})\$\$")
_COPULA = re.compile(r"(?:です|だ|입니다|이다)$")
_BOLD = re.compile(r"(?<!\w)\*\*|\*\*(?!\w)")
_INLINE = re.compile(
    r"\$\$([^$]{1,600})\$\$|\$([^$\n]{1,400})\$|\\\(((?:[^\\]|\\(?![()])){1,400})\\\)|\\\[((?:[^\\]|\\(?![\[\]])){1,600})\\\]"
)
_CUE = re.compile(
    r"\b(?:is|are|equals?|get|gets|obtain|have|find|found|gives?|yields?|be|becomes?|therefore|thus|hence|so|by|total(?:s|ing)?|means?|"
    r"conclude|that|was|were|to|at|costs?|makes?|leaves?|contains?|has|x is)\b[:\s]*|[:：]|是|为|得|共|等于|∴|有",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:could|might|maybe|perhaps|possibly|either|not|neither|nor|isn't|can't|cannot|unsure|unknown|guess|between|or|wasn't|aren't|"
    r"doesn't)\b|\?|≠|\\ne|可能|不是|或",
    re.IGNORECASE,
)
_DENIAL = re.compile(r"\b(?:not|either|neither|nor|maybe|perhaps|possibly|might|or)\b|n't|\?", re.IGNORECASE)
_PLEASANTRY = re.compile(
    r"(?:i )?(?:hope|let me know|feel free|ask|good luck|happy to|if you have|please|thank|glad|enjoy|have a|cheers)",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])[-+]?[$€£¥]?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?![\w.]*\w)")
_BARE = re.compile(r"[-+]?[\d.,]+")
_TAKEN_BACK = re.compile(
    r"[\s.*]*(?:no,?\s+wait|wait|actually|correction|scratch that|oops|sorry|hmm|i mean)\b[\s,.:]*", re.IGNORECASE
)
_CONTRAST = re.compile(r",?\s+(?:not|rather than|instead of)\s", re.IGNORECASE)
_CUT = re.compile(
    r"\s(?:in|because|since|as|for|when|which|where|while|so|after|from|if|per cent of|of|at|with|on|total)\b|[(,—]|"
    r"\s-\s",
    re.IGNORECASE,
)


def marked(text: str) -> str | None:
    """The answer after the last final-answer mark, or all answers of marks side by side; None without a mark."""
    found: list[tuple[str, int, int]] = []
    for mark in list(_MARK.finditer(text))[-12:]:
        segment, start, end = _segment(text, mark.end())
        if segment and not (found and mark.start() < found[-1][2]):
            found.append((segment, mark.start(), end))
        elif segment and found and mark.start() < found[-1][2]:
            found[-1] = (segment, found[-1][1], end)
    if not found:
        return None
    replaced = _withdrawn(text[found[-1][2] :])
    if replaced is not None:
        return replaced
    chosen = [found[-1][0]]
    for (value, _, end), (_, start, _) in zip(reversed(found[:-1]), reversed(found[1:]), strict=True):
        if value in chosen or not conflicting(text[end:start].strip(" .*\n")):
            break
        chosen.insert(0, value)
    return " , ".join(chosen)


def _withdrawn(rest: str) -> str | None:
    """What replaces a stated answer: "No wait, it is 18." behind it."""
    taken_back = _TAKEN_BACK.match(rest)
    return unmarked(rest[taken_back.end() :]) if taken_back else None


def _segment(text: str, start: int) -> tuple[str, int, int]:
    """The sentence from `start`, or the next line when this one is empty."""
    opening = _AFTER_MARK.match(text, start)
    place = opening.end() if opening else start
    display = _DISPLAY.match(text, place)
    if display:
        return usable(display[1] or display[2]), place, display.end()
    end = _SENTENCE_END.search(text, place)
    stop = end.start() if end else len(text)
    return usable(text[place : min(stop, place + TAIL)]), place, stop


def usable(segment: str) -> str:
    """A segment of a sentence reduced to the answer in it; itself if nothing better is found."""
    segment = _BOLD.sub("", segment).strip().strip("*_`,:").strip()
    if segment.endswith(("!", "！")) and "$" not in segment and "\\" not in segment:
        segment = segment.rstrip("!！")
    segment = _COPULA.sub("", segment.rstrip(".。*_`").strip())
    if not segment or mathematical(segment):
        return segment
    stated = _CONTRAST.split(segment, maxsplit=1)[0]
    if stated != segment and mathematical(stated):
        return stated
    doubtful = _DOUBT.search(segment)
    said = re.split(r"\b(?:is|are|equals)\b", segment)[-1].strip()
    if not _DENIAL.search(segment) and said and said != segment and mathematical(said):
        return said
    inline = inline_answer(segment)
    if inline is not None:
        return inline
    if not doubtful:
        cut = _CUT.search(segment)
        if cut and cut.start() and mathematical(segment[: cut.start()]):
            return segment[: cut.start()].strip()
        numbers = [found[0] for found in _NUMBER.finditer(segment)]
        if len(numbers) == 1 and len(segment.split()) > 3:
            return numbers[0]
    return segment


def mathematical(text: str) -> bool:
    """Can it be read as more than words?"""
    letters = text.replace(" ", "")
    if len(text) >= 1_000 or (len(letters) > 1 and letters.isalpha() and letters not in vocabulary.PLAIN_WORDS):
        return False
    return any(node[0] not in ("text", "choice") for node in read(text).nodes)


def inline_answer(sentence: str) -> str | None:
    """The last formula in a sentence, with those joined to it by commas and "and"."""
    pieces = [
        (next(group for group in found.groups() if group is not None), found.start(), found.end())
        for found in _INLINE.finditer(sentence)
    ]
    if not pieces:
        return None
    if _DOUBT.search(sentence[: pieces[0][1]]):
        return None
    chosen = [pieces[-1][0]]
    for (piece, _, end), (_, start, _) in zip(reversed(pieces[:-1]), reversed(pieces[1:]), strict=True):
        gap = sentence[end:start].strip()
        if gap.strip(", ") not in ("", "and", "or", "和", "或", "&"):
            break
        chosen.insert(0, piece)
    return ", ".join(chosen)


def unmarked(text: str) -> str | None:
    """The answer of a completion without any mark, or None where more than one could be meant."""
    whole = text.strip()
    if len(whole) <= 300 and "\n" not in whole and not whole.endswith("?"):
        plain_whole = whole.rstrip(".。")
        if mathematical(plain_whole):
            return plain_whole
        if len(whole.split()) <= 3 and _only_words(whole) and read(plain_whole).nodes:
            return _last_words(whole) or plain_whole
    whole = _DISPLAY.sub(lambda block: block[0].replace("\n", " "), whole[-TAIL:])
    for sentence in _sentences_from_the_end(whole):
        return _from_sentence(sentence)
    return _last_words(whole)


def _only_words(text: str) -> bool:
    return len(text) <= 60 and not any(character.isdigit() for character in text)


def _last_words(text: str) -> str | None:
    """The ball is blue: the words after the last "is" of a text without any numbers."""
    sentence = next((piece.strip() for piece in reversed(_SENTENCE_END.split(text[-TAIL:])) if piece.strip()), "")
    if len(sentence) > 200 or sentence.endswith("?") or _DOUBT.search(sentence):
        return None
    words = re.split(r"\b(?:is|are|was|were)\b", sentence)[-1].strip(" .*!:")
    return words if 0 < len(words.split()) <= 4 and words != sentence.strip(" .*!:") else None


def _sentences_from_the_end(text: str) -> Iterator[str]:
    pieces = [piece.strip() for piece in _SENTENCE_END.split(text) if piece.strip()]
    if len(pieces) > 1 and all(_BARE.fullmatch(piece) for piece in pieces[-2:]):
        return
    for piece in reversed(pieces):
        if _PLEASANTRY.match(piece):
            continue
        if any(character.isdigit() for character in piece) or "$" in piece or "\\" in piece:
            if not piece.endswith("?"):
                yield piece
            return


def _from_sentence(sentence: str) -> str | None:
    inline = inline_answer(sentence)
    if inline is not None:
        return inline
    stripped = sentence.rstrip(".。*!！ ").strip()
    if len(stripped) > 400:
        return None
    if _DOUBT.search(stripped):
        return None
    colons = stripped.count(":")
    for cue in list(_CUE.finditer(stripped))[:MAX_WORDS]:
        if colons > 1 and cue[0].strip() == ":":
            continue
        segment = usable(stripped[cue.end() :])
        if segment and mathematical(segment):
            return segment
    numbers = [found[0] for found in _NUMBER.finditer(stripped)]
    return numbers[0] if 0 < len(numbers) <= 3 and len(set(numbers)) == 1 else None
