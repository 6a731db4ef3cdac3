"""Finding where a completion states its answer, and reading the labels that it states.

A statement is an anchor ("the answer is", "答案:", a box, an answer tag) and the phrase behind it. The last statement
counts. A letter that merely occurs, such as the article in "a dog" or the A of "Antwort", is never a statement.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from plaudit_choice.options import Options

_NOUN = r"(?:answer|antwort|lösung|réponse|reponse|respuesta|risposta|resposta|odpowiedź|ответ|choice|option|selection)"
_ADJECTIVE = r"(?:final|correct|right|best|endgültige|richtige|finale|correcta|bonne)"
_LINK = (
    r"(?:\s*(?:is|ist|est|es|è|é|are|must be|should be|would be|will be|lautet)\b\s*[:：]?|\s*[:：=]|\s+[-–—](?=\s))"
)
_ANCHORS = re.compile(
    rf"(?:(?:{_ADJECTIVE}\s+)+{_NOUN}s?|(?:the\s+)?(?:answer|antwort|lösung|réponse|reponse|respuesta|risposta|resposta"
    rf"|ответ)s?)(?:\s*\([^)\n]{{0,40}}\))?{_LINK}"
    r"|(?:正确)?(?:答案|选项)\s*(?:应该|应)?\s*(?:是|为|選|选)?\s*[:：]?|(?:故|因此|所以)?应?选(?:择)?\s*[:：]?"
    r"|\b(?:i(?:'d| would| will|'ll)?\s+(?:choose|pick|select|go with|say)|actually,?(?:\s+it(?:'s| is))?)\s",
    re.IGNORECASE,
)
_WEAK_ANCHORS = re.compile(r"\b(?:(?:so|hence|thus|therefore)\b,?|it(?:'s| is| must be))\s+", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_TAG = re.compile(r"<answer>(.{0,2000}?)(?:</answer>|$)", re.DOTALL | re.IGNORECASE)
_MARKUP = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathsf)\s*\{([^{}]*)\}|[*_`$\"'“”‘’]")
_FILLER = re.compile(
    r"^(?:(?:either|both|option|choice|letter|clearly|therefore|thus|probably|likely|definitely)\b[\s:]*)+"
)
_JOIN = re.compile(
    r"^\s*[)\].]*\s*(?:(?:,|;|/|&|、|,|\+|\(?\s*\b(?:or|and|und|oder|ou|et|y|o)\b|或者?|和|与)\s*)+"
    r"(?:(?:or|and|maybe|possibly|perhaps|also|even|option)\s+)*",
    re.IGNORECASE,
)
_AFTER = re.compile(r"^\s*(?:[).\],;:!?/&、,。;:\-–—]|$|\n|(?:or|and|und|oder|或|和)\b)", re.IGNORECASE)
_RIGHT_AFTER = re.compile(
    r"^\W{0,3}\s*(?:is|ist)\s+(?:the\s+|therefore\s+|clearly\s+)*(?:correct|right|best|true|richtig)\b", re.I
)
_PHRASE_LIMIT = 400


@dataclass(frozen=True, slots=True)
class Statement:
    """`labels` stated at `position`, in order; empty when the phrase names no option."""

    position: int
    labels: tuple[str, ...]


def stated_labels(text: str, options: Options, *, bare_value: bool = False) -> tuple[str, ...]:
    """The labels of the last statement in `text`; () when nothing is stated."""
    text = unicodedata.normalize("NFKC", text)
    statements = sorted(_statements(text, options, bare_value), key=lambda statement: statement.position)
    if statements:
        return statements[-1].labels
    whole = _read_phrase(text, options, bare_value)
    if whole and _is_whole(text, options, bare_value):
        return whole
    last_line = text.strip().rsplit("\n", 1)[-1]
    return _read_phrase(last_line, options, bare_value) if _is_whole(last_line, options, bare_value) else ()


def _statements(text: str, options: Options, bare_value: bool) -> Iterator[Statement]:
    for match in _ANCHORS.finditer(text):
        phrase = _phrase_after(text, match.end())
        labels = _read_phrase(phrase, options, bare_value)
        if labels or _claims(match.group(), phrase):
            yield Statement(match.start(), labels)
    for match in _WEAK_ANCHORS.finditer(text):
        first = _leading_label(_clean(_phrase_after(text, match.end())), options, strict=True)
        if first:
            yield Statement(match.start(), _listed(*first, options))
    for match in _BOX.finditer(text):
        labels = _read_whole(_braced(text, match.end()), options, bare_value)
        if labels:
            yield Statement(match.start(), labels)
    for match in _TAG.finditer(text):
        yield Statement(match.start(), _read_phrase(match.group(1), options, bare_value))
    yield from _called_right(text, options)


def _claims(anchor: str, phrase: str) -> bool:
    """Whether an anchor whose phrase names no option still states an answer ("Answer: none of these")."""
    return bool(phrase.strip()) and anchor.strip().endswith((":", "="))


def _called_right(text: str, options: Options) -> Iterator[Statement]:
    """Options called right: "C is correct", "option (C) is the best"."""
    pattern = "|".join(sorted((re.escape(label) for label in options.texts), key=len, reverse=True))
    for match in re.finditer(rf"(?<!\w)[(\[]?({pattern})(?!\w)", text):
        if _RIGHT_AFTER.match(text[match.end() : match.end() + 60]):
            yield Statement(match.start(), (match.group(1),))


def _phrase_after(text: str, start: int) -> str:
    """The rest of the line, or the next line that is not blank; several lines where a list of options is begun."""
    rest = text[start : start + _PHRASE_LIMIT].lstrip()
    return rest.split("\n", 1)[0]


def _read_phrase(phrase: str, options: Options, bare_value: bool) -> tuple[str, ...]:
    cleaned = _clean(phrase)
    by_text = options.by_text(cleaned, without_unit=bare_value)
    if by_text:
        return (by_text,)
    first = _leading_label(cleaned, options)
    if first is None:
        run = re.match(r"[A-Z]{2,10}(?![\w'])", cleaned)
        letters = tuple(run.group()) if run else ()
        distinct = len(set(letters)) == len(letters) and all(letter in options.texts for letter in letters)
        return letters if distinct else ()
    label, rest = first
    return _listed(label, rest, options)


def _listed(label: str, rest: str, options: Options) -> tuple[str, ...]:
    labels = [label]
    contradicted = options.by_text(rest.strip(" )].:-–—"))
    if contradicted and contradicted != label:
        return (label, contradicted)
    while joined := _JOIN.match(rest):
        following = _leading_label(rest[joined.end() :], options, strict=True)
        if following is None:
            break
        label, rest = following
        labels.append(label)
    return tuple(dict.fromkeys(labels))


def _leading_label(phrase: str, options: Options, *, strict: bool = False) -> tuple[str, str] | None:
    """The label that opens `phrase` and what follows it. A lower-case letter counts only in brackets or alone."""
    match = re.match(r"\s*[(\[{]?\s*(\w{1,3}?)(?![\w'])", phrase)
    if match is None:
        return None
    written, rest = match.group(1), phrase[match.end() :]
    exact = options.label(written, fold_case=False)
    if exact is None and not (phrase.lstrip()[:1] in "([{" or re.match(r"\s*[).\]:]|\s*$", rest)):
        return None
    label = exact or options.label(written)
    if label is None or (strict and not _AFTER.match(rest)):
        return None
    if exact and written in ("A", "I") and not strict and re.match(r"\s+[a-z]", rest) and not _reason(rest):
        return None  # the article or the pronoun that opens a sentence
    return label, rest


def _reason(rest: str) -> bool:
    return bool(re.match(r"\s+(?:because|since|as|for|due|and|or|is|by|given|weil|da|but|with|in)\b", rest))


def _read_whole(content: str, options: Options, bare_value: bool) -> tuple[str, ...]:
    return _read_phrase(content, options, bare_value) if _is_whole(content, options, bare_value) else ()


def _is_whole(content: str, options: Options, bare_value: bool) -> bool:
    """Whether `content` holds labels or an option and nothing else, so that it can stand for an answer by itself."""
    cleaned = _clean(content).strip(" .!")
    if options.by_text(cleaned, without_unit=bare_value):
        return True
    labels = _read_phrase(cleaned, options, bare_value)
    if not labels:
        return False
    rest = cleaned
    for label in labels:
        text = options.texts.get(label, "")
        if text:
            rest = re.sub(re.escape(text), " ", rest, flags=re.IGNORECASE)
    joined = re.sub(
        r"[\s()\[\]{}.,:;/&、\-–—+]+|\b(?:or|and|option|und|oder|either|both)\b|或|和", " ", rest, flags=re.I
    )
    return all(options.label(word) for word in joined.split()) or joined.strip() == "".join(labels)


def _clean(phrase: str) -> str:
    """The phrase without markup and without a word such as "option" in front of its label."""
    text = _MARKUP.sub(lambda match: match.group(1) or "", phrase).strip()
    return _FILLER.sub("", text)


def _braced(text: str, start: int) -> str:
    depth = 1
    for position in range(start, min(len(text), start + _PHRASE_LIMIT)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[start:position]
    return ""
