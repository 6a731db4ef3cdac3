"""Several answers in a row: one answer in parts, a correction, or a hedge?"""

from __future__ import annotations

import re

SHORT_GAP = 30

_CONNECTOR = re.compile(
    r"(?:\\text\s*\{|\\quad|\\qquad|\\[,;: ]|\b(?:and|or|as well as|und|et|ou)\b|[\s,;&$.}*~(){\[\]\\或和、/|-])*",
    re.IGNORECASE,
)
_HEDGE = re.compile(
    r"\b(?:or|alternatively|maybe|perhaps|possibly|either|could be|might be|may be|another|otherwise|if not|else|"
    r"unless|"
    r"not sure|unsure|also)\b|或者|可能",
    re.IGNORECASE,
)
_CORRECTION = re.compile(
    r"\b(?:wait|actually|correct\w*|instead|wrong|mistake|error|sorry|re-?check\w*|check\w*|fix\w*|hmm|revis\w*|"
    r"rather|oops|no|however|but|misses|miss|then|simplif\w*|final\w*|therefore|thus|so|hence|answer is|total|step|"
    r"divid\w*|multipl\w*|subtract\w*|add\w*|giv\w*|becom\w*|equals?|now|finally|result\w*)\b|所以|因此|最终|最后|答案",
    re.IGNORECASE,
)


def joined(gap: str) -> bool:
    """Is there nothing but commas, and, or between two answers?"""
    return len(gap) < 200 and _CONNECTOR.fullmatch(gap) is not None


def conflicting(gap: str) -> bool:
    """Do the answers on both sides of the gap stand beside each other, rather than the second replacing the first?"""
    if len(gap) > 200:
        return False
    if _CORRECTION.search(gap):
        return False
    return bool(_HEDGE.search(gap)) or len(gap.strip()) < SHORT_GAP
