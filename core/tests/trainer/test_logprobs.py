"""Log-probs and entropies against the plain way: all logits at once, log_softmax."""

from __future__ import annotations

import pytest
import torch
from plaudit.grpo import logprobs
from plaudit.grpo.batch import Experience, collate
from plaudit.grpo.logprobs import TokenScorer

ROWS = [
    Experience((5, 6, 7), (8, 9, 1), (1, 1, 1)),
    Experience((5,), (10, 11, 12, 13, 1), (1, 1, 0, 1, 1)),
    Experience((5, 6, 7, 8, 9, 10), (30,), (1,)),
]


def plainly(model, rows, temperature):
    """(logp, entropy) lists of each row, computed alone and in full."""
    found = []
    for row in rows:
        ids = torch.tensor([[*row.prompt_ids, *row.completion_ids]])
        logits = model(input_ids=ids).logits[0, len(row.prompt_ids) - 1 : -1] / temperature
        table = torch.log_softmax(logits, dim=-1)
        targets = torch.tensor(row.completion_ids)
        found.append((table.gather(1, targets[:, None])[:, 0], -(table.exp() * table).sum(-1)))
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("limit", [1 << 24, 100])
@pytest.mark.parametrize("kind", ["tied", "untied", "bias", "softcap"])
def test_values_and_gradients_equal_the_plain_way(kind, limit, temperature, monkeypatch, build_model):
    monkeypatch.setattr(logprobs, "MAX_LOGITS", limit)
    model = make(kind, build_model)
    scorer = TokenScorer(model, temperature=temperature)
    assert scorer.fused == (kind != "softcap")
    stats = scorer(model, collate(ROWS, pad_token_id=0), entropies="bonus")
    loss = (stats.logprobs.square() + 0.3 * stats.entropies).sum()
    ours = torch.autograd.grad(loss, list(model.parameters()))

    # Gemma 2 normalises in float32 whatever its weights are.
    close = {"rtol": 1e-5, "atol": 1e-5} if kind == "softcap" else {"rtol": 1e-8, "atol": 1e-10}
    expected = plainly(model, ROWS, temperature)
    for place, (logp, entropy) in enumerate(expected):
        n = len(logp)
        torch.testing.assert_close(stats.logprobs[place, :n], logp, **close)
        torch.testing.assert_close(stats.entropies[place, :n], entropy, **close)
        assert not stats.logprobs[place, n:].any()
    total = sum((logp.square() + 0.3 * entropy).sum() for logp, entropy in expected)
    for found, wanted in zip(ours, torch.autograd.grad(total, list(model.parameters())), strict=True):
        torch.testing.assert_close(found, wanted, **close)


def make(kind, build_model):
    if kind == "softcap":
        from transformers import Gemma2Config, Gemma2ForCausalLM

        torch.manual_seed(0)
        config = Gemma2Config(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
            final_logit_softcapping=3.0,
            initializer_range=0.3,
            attn_implementation="eager",
        )
        return Gemma2ForCausalLM(config).double()
    model = build_model(dtype=torch.float64, tied=kind == "tied")
    if kind == "bias":
        old = model.lm_head
        model.lm_head = torch.nn.Linear(old.in_features, old.out_features, bias=True).double()
    return model


def test_metric_entropies_carry_no_gradient_and_equal_the_others(build_model):
    model = build_model(dtype=torch.float64)
    scorer = TokenScorer(model, temperature=1.0)
    batch = collate(ROWS, pad_token_id=0)
    metric, bonus = scorer(model, batch, entropies="metric"), scorer(model, batch, entropies="bonus")
    assert not metric.entropies.requires_grad
    torch.testing.assert_close(metric.entropies, bonus.entropies)
    first = torch.autograd.grad(metric.logprobs.sum(), model.parameters())
    second = torch.autograd.grad(bonus.logprobs.sum(), model.parameters())
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one, other)


def test_a_failed_forward_leaves_the_head_as_it_was(build_model):
    model = build_model()
    scorer = TokenScorer(model, temperature=1.0)
    bad = collate([Experience((10_000,), (5,), (1,))], pad_token_id=0)
    with pytest.raises(IndexError):
        scorer(model, bad)
    assert "forward" not in model.lm_head.__dict__


def test_padding_and_multiples_change_nothing(build_model):
    model = build_model(dtype=torch.float64)
    scorer = TokenScorer(model, temperature=1.0)
    plain = scorer(model, collate(ROWS, pad_token_id=0)).logprobs
    padded = scorer(model, collate(ROWS, pad_token_id=0, pad_to_multiple_of=16)).logprobs
    assert padded.shape == (3, 16)
    torch.testing.assert_close(padded[:, : plain.shape[1]], plain)
    assert not padded[:, plain.shape[1] :].any()


def test_autocast_computes_the_head_in_half_and_returns_full_precision(build_model):
    model = build_model()
    scorer = TokenScorer(model, temperature=1.0)
    batch = collate(ROWS, pad_token_id=0)
    exact = scorer(model, batch).logprobs
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = scorer(model, batch).logprobs
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=0.1, atol=0.2)
    rough.sum().backward()
    assert model.lm_head.weight.grad.dtype == torch.float32
