"""Where the answer of a completion is found."""

from __future__ import annotations

import pytest
from plaudit_math.extract import extract
from plaudit_math.policy import Policy

FOUND = [
    (r"so \boxed{\frac{1}{2}} holds", r"\frac{1}{2}"),
    (r"\boxed5", "5"),
    (r"\boxed {5}", "5"),
    (r"\boxed\frac{1}{2}", r"\frac{1}{2}"),
    (r"\boxed{3}, \boxed{4}", "3 , 4"),
    (r"\boxed{3} or maybe \boxed{4}", "3 , 4"),
    (r"\boxed{3}. Wait, I forgot a case, so the total is \boxed{4}", "4"),
    ("2+2\n#### 4", "4"),
    ("#### Step 1\n2+2=4\n\n**Answer:** 4", "4"),
    ("The answer is 4 in total.", "4"),
    ("Final Answer\n\n**12 apples**", "12 apples"),
    ("答案是 27。", "27"),
    ("The roots are $2$, $5$, and $8$.", "2, 5, 8"),
    ("It rises by 36 percentage.", "36 percentage"),
    ("So 60 m in total.\n\nHope this helps! Ask me about problem 7.", "60 m"),
    ("<think>1</think><answer> 7 </answer>", "7"),
    ("so it is 3</think>the answer is 8", "8"),
]
NOT_FOUND = [
    "", "   ", r"\boxed{24", r"\boxed{}", "<think>the answer is 4", "<think>4</think>", "Is it 9?",
    "It could be 15, 16 or 17.",
    "8 8 8 8 8 8", r"The answer is not \boxed{7}", r"\boxed{7} is wrong.",
]  # fmt: skip


@pytest.mark.parametrize(("completion", "answer"), FOUND)
def test_found(completion: str, answer: str) -> None:
    text = extract(completion, Policy()).text
    assert text is not None
    assert text.strip() == answer


@pytest.mark.parametrize("completion", NOT_FOUND)
def test_not_found(completion: str) -> None:
    found = extract(completion, Policy())
    assert found.text is None
    assert found.how


@pytest.mark.parametrize(
    "piece",
    ["1 ", r"\boxed{", r"\[", "$x ", "answer: ", "#### ", "((", "123,", r"\frac{", "<think>", "a", "\n", "or ", "是"],
)
def test_a_megabyte_of_anything_is_quick(piece: str) -> None:
    import time

    began = time.process_time()
    extract(piece * (1_000_000 // len(piece)), Policy())
    assert time.process_time() - began < 5
