"""Log-probs and entropies against the plain way: all logits at once, log_softmax."""

from __future__ import annotations

import pytest
import torch
from heads import HEADS, IN_FLOAT32, VOCABULARY, WHOLE, with_tail, without_tokens
from plaudit.grpo.batch import Experience, collate
from plaudit.grpo.forward import head_logprobs
from plaudit.grpo.logprobs import TokenScorer
from torch.utils._python_dispatch import TorchDispatchMode

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
@pytest.mark.parametrize("kind", HEADS)
def test_values_and_gradients_equal_the_plain_way(kind, limit, temperature, monkeypatch):
    monkeypatch.setattr(head_logprobs, "MAX_LOGITS", limit)
    model = HEADS[kind]()
    scorer = TokenScorer(model, temperature=temperature)
    stats = scorer(model, collate(ROWS, pad_token_id=0), entropies="bonus")
    loss = (stats.logprobs.square() + 0.3 * stats.entropies).sum()
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    ours = torch.autograd.grad(loss, learnt)

    # Some normalise in float32 whatever their weights are, or make their logits so.
    close = {"rtol": 1e-5, "atol": 1e-5} if kind in IN_FLOAT32 else {"rtol": 1e-8, "atol": 1e-10}
    expected = plainly(model, ROWS, temperature)
    for place, (logp, entropy) in enumerate(expected):
        n = len(logp)
        torch.testing.assert_close(stats.logprobs[place, :n], logp, **close)
        torch.testing.assert_close(stats.entropies[place, :n], entropy, **close)
        assert not stats.logprobs[place, n:].any()
    total = sum((logp.square() + 0.3 * entropy).sum() for logp, entropy in expected)
    for found, wanted in zip(ours, torch.autograd.grad(total, learnt), strict=True):
        torch.testing.assert_close(found, wanted, **close)


@pytest.mark.parametrize("entropies", ["none", "metric", "bonus"])
@pytest.mark.parametrize("kind", [kind for kind in HEADS if kind not in WHOLE])
def test_few_logits_exist_at_a_time(kind, entropies, monkeypatch):
    """Of all tensors that forward and backward make, none holds more than so many numbers by vocabulary."""
    model = HEADS[kind]()
    scorer = TokenScorer(model, temperature=0.7)
    limit = 2 * VOCABULARY
    monkeypatch.setattr(head_logprobs, "MAX_LOGITS", limit)
    with Largest(model) as largest:
        stats = scorer(model, collate(ROWS, pad_token_id=0), entropies=entropies)
        loss = stats.logprobs.sum() + (stats.entropies.sum() if entropies == "bonus" else 0)
        loss.backward()
    assert largest.numbers == limit


class Largest(TorchDispatchMode):
    """Watches operations: how many numbers the largest result has that is as wide as the vocabulary and no weight."""

    def __init__(self, model):
        super().__init__()
        self.weights = {tuple(parameter.shape) for parameter in model.parameters()}
        self.weights |= {shape[::-1] for shape in self.weights}
        self.numbers = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        found = operation(*args, **(kwargs or {}))
        for one in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(one, torch.Tensor) and VOCABULARY in one.shape and tuple(one.shape) not in self.weights:
                self.numbers = max(self.numbers, one.numel())
        return found


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("value", [-torch.inf, torch.finfo(torch.float64).min])
def test_tokens_that_a_model_never_writes_have_no_share(value, temperature):
    """As if the vocabulary ended before them. A temperature below 1 makes -inf of the least number."""
    rows = [Experience((5, 6, 7), (8, 9, 3), (1, 1, 1)), Experience((5,), (10, 11), (1, 1))]
    found = []
    for model in (without_tokens(value), with_tail(lambda self, logits: logits[..., :-20])):
        batch = collate(rows, pad_token_id=0)
        stats = TokenScorer(model, temperature=temperature)(model, batch, entropies="bonus")
        loss = (stats.logprobs.square() + 0.3 * stats.entropies).sum()
        found.append((stats.logprobs, stats.entropies, *torch.autograd.grad(loss, list(model.parameters()))))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", HEADS)
def test_only_plain_heads_are_multiplied_by_hand(kind):
    plain = {"tied", "untied", "bias", "Gemma 2 caps", "Cohere scales", "Granite divides", "scaled and capped"}
    assert TokenScorer(HEADS[kind](), temperature=1.0).fused == (kind in plain)


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


@pytest.mark.parametrize("rounded", [torch.Tensor.bfloat16, lambda logits: logits.half() * 1e6], ids=["fine", "inf"])
def test_a_wrapper_that_rounds_what_a_model_returns_rounds_no_log_probs(rounded, build_model):
    """As FSDP does in mixed precision. Its hooks on what the model returned see a gradient all the same, and first."""
    model = build_model(dtype=torch.float64)
    scorer = TokenScorer(model, temperature=1.0)
    batch = collate(ROWS, pad_token_id=0)
    exact = scorer(model, batch)
    wanted = torch.autograd.grad(exact.logprobs.sum(), list(model.parameters()))
    seen = []

    def rounding(**inputs):
        found = model(**inputs)
        found.logits = rounded(found.logits)
        found.logits.register_hook(lambda grad: seen.append("wrapper"))
        return found

    stats = scorer(rounding, batch)
    assert torch.equal(stats.logprobs, exact.logprobs)
    model.lm_head.weight.register_hook(lambda grad: seen.append("head"))
    for one, other in zip(torch.autograd.grad(stats.logprobs.sum(), list(model.parameters())), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
    assert seen == ["wrapper", "head"]
