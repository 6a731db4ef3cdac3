"""Log-probs that are normalised over the tokens that the sampler could draw."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from plaudit.grpo.batch import collate
from plaudit.grpo.logprobs import TokenScorer
from test_sampler_mismatch import ROWS

CANDIDATES = [
    ((8, 9), (9, 30, 31), (10,), (1, 2, 3, 4)),
    ((11, 5), (12,), (1, 8)),
    ((13, 14, 15),),
]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("chunk", [None, 100])
@pytest.mark.parametrize("fused", [True, False])
def test_log_probs_and_entropies_over_the_candidates(fused, chunk, temperature, build_model, monkeypatch):
    model = build_model(dtype=torch.float64, tied=False)
    rows = [replace(row, candidates=found) for row, found in zip(ROWS, CANDIDATES, strict=True)]
    batch = collate(rows, pad_token_id=0)
    scorer = TokenScorer(model, temperature=temperature)
    scorer.fused = fused
    if chunk:
        monkeypatch.setattr("plaudit.grpo.forward.head_logprobs.MAX_LOGITS", chunk)
    stats = scorer(model, batch, entropies="bonus")
    weights = torch.randn(2, *batch.mask.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = [torch.zeros_like(stats.logprobs), torch.zeros_like(stats.logprobs)]
    for place, row in enumerate(rows):
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
        logits = model(ids).logits[0, len(row.prompt_ids) - 1 : -1] / temperature
        for at, (token, found) in enumerate(zip(row.completion_ids, row.candidates, strict=True)):
            among = logits[at, list(found)].log_softmax(-1)
            expected[0][place, at] = among[found.index(token)]
            expected[1][place, at] = -(among.exp() * among).sum()
    torch.testing.assert_close(stats.logprobs, expected[0])
    torch.testing.assert_close(stats.entropies, expected[1])
    parameters = list(model.parameters())
    ours = torch.autograd.grad((stats.logprobs * weights[0] + stats.entropies * weights[1]).sum(), parameters)
    theirs = torch.autograd.grad((expected[0] * weights[0] + expected[1] * weights[1]).sum(), parameters)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_candidates_follow_their_rows_and_a_checkpoint_keeps_them():
    rows = [replace(row, candidates=found) for row, found in zip(ROWS, CANDIDATES, strict=True)]
    batch = collate(rows, pad_token_id=0)
    assert batch.candidates.shape == (8, 4)
    chosen = batch.select(torch.tensor([0, 2]))
    assert torch.equal(chosen.candidates[:, :4], batch.candidates[[0, 1, 2, 3, 7]])
    again = type(batch).from_state(batch.state_dict())
    assert torch.equal(again.candidates, batch.candidates)
    assert collate([*rows[:2], ROWS[2]], pad_token_id=0).candidates is None
