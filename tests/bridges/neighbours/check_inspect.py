"""Inspect AI runs our scorers in an evaluation of its own."""

import pytest
from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, get_model
from plaudit import Verdict, verifier
from plaudit.bridges import inspect as bridge


@pytest.fixture(autouse=True)
def tokens_without_a_download(monkeypatch):
    """Inspect estimates tokens with a vocabulary that it downloads; the scores do not depend on it."""
    from inspect_ai.model._model import ModelAPI

    async def count(self, text):
        return len(text) // 4

    monkeypatch.setattr(ModelAPI, "count_text_tokens", count)


@verifier
def unsure(completion, reference, level):
    if completion == "?":
        return Verdict.abstain("cannot say")
    return Verdict(float(completion == reference), reason=f"level {level}", extracted=completion)


def scores(scorer, *answers, tmp_path):
    outputs = [ModelOutput.from_content("mockllm/model", answer) for answer in answers]
    samples = [Sample(input="2+2=", target="4", metadata={"level": 2}) for _ in answers]
    model = get_model("mockllm/model", custom_outputs=outputs)
    log = run_eval(
        Task(dataset=samples, scorer=scorer), model=model, log_dir=str(tmp_path), display="none", max_samples=1
    )[0]
    assert log.status == "success", log.error
    return [next(iter(sample.scores.values())) for sample in log.samples], log


def test_a_named_reward(tmp_path):
    found, log = scores(bridge.exact, "4", "5", tmp_path=tmp_path)
    assert [score.value for score in found] == [1.0, 0.0]
    assert log.results.scores[0].metrics["mean"].value == 0.5


def test_answer_and_reason_are_kept_and_no_score_counts_not(tmp_path):
    found, log = scores(bridge.plaudit_scorer(unsure), "4", "?", tmp_path=tmp_path)
    assert (found[0].answer, found[0].explanation) == ("4", "level 2")
    assert found[1].value != found[1].value
    assert found[1].explanation == "cannot say"
    assert log.results.scores[0].metrics["mean"].value == pytest.approx(1.0)
