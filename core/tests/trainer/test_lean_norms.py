"""Lean RMS norms give the values and gradients of the model's own, and stand aside where they do not apply."""

from __future__ import annotations

import pytest
import torch
from plaudit.grpo.forward.lean_norms import LeanNorms
from torch import nn

SIZES = {
    "vocab_size": 31,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}
# Family: norms of a model of two layers that are replaced.
FAMILIES = {"Llama": 5, "Qwen2": 5, "Qwen3": 9, "Mistral": 5, "Phi3": 5, "Gemma2": 0, "Gemma3": 0, "GPTNeoX": 0}


def model_of(family: str, **more: object) -> nn.Module:
    import transformers

    torch.manual_seed(3)
    name = f"{family}TextConfig" if family == "Gemma3" else f"{family}Config"
    model = getattr(transformers, f"{family}ForCausalLM")(getattr(transformers, name)(**SIZES, **more))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.copy_(torch.rand_like(parameter) + 0.5)
    return model


def run(model: nn.Module, norms: LeanNorms | None) -> tuple[torch.Tensor, dict[str, torch.Tensor], int]:
    """Logits, gradients by name, and how many nodes of the graph are lean norms."""
    model.zero_grad()
    ids = torch.arange(24).view(2, 12) % 31
    if norms is None:
        logits = model(input_ids=ids, use_cache=False).logits
    else:
        with norms.used():
            logits = model(input_ids=ids, use_cache=False).logits
    count = lean_nodes(logits)
    (logits.double().log_softmax(-1)[..., 5].sum()).backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return logits.detach(), grads, count


def lean_nodes(value: torch.Tensor) -> int:
    seen, todo = set(), [value.grad_fn]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            todo += [before for before, _ in node.next_functions]
    return sum(node.name() == "_RMSNormBackward" for node in seen)


def close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return bool((found - expected).abs().max() <= 1e-5 * expected.abs().max())


@pytest.mark.parametrize("family", FAMILIES)
def test_values_and_gradients_are_those_of_the_model(family: str) -> None:
    model = model_of(family)
    plain, grads, none = run(model, None)
    found, lean, count = run(model, LeanNorms(model))
    assert (none, count) == (0, FAMILIES[family])
    assert close(found, plain)
    assert lean.keys() == grads.keys()
    assert all(close(lean[name], grads[name]) for name in grads)
    assert not [module for module in model.modules() if "forward" in vars(module)]


def test_gradients_are_the_closed_form() -> None:
    from plaudit.grpo.forward.lean_norms import _RMSNorm

    torch.manual_seed(1)
    hidden = torch.randn(3, 2, 5, 6, dtype=torch.float64).transpose(1, 2).requires_grad_()
    weight = torch.randn(6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *given: _RMSNorm.apply(*given, 1e-3), (hidden, weight))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types_are_left_to_the_model(dtype: torch.dtype) -> None:
    model = model_of("Qwen3")
    norms = LeanNorms(model)
    model.to(dtype)
    plain, grads, _ = run(model, None)
    found, same, count = run(model, norms)
    assert count == 0
    assert torch.equal(found, plain)
    assert all(torch.equal(same[name], grads[name]) for name in grads)


def test_frozen_weights_get_no_gradient() -> None:
    model = model_of("Llama")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("q_proj" in name)
    _, grads, _ = run(model, None)
    _, lean, count = run(model, LeanNorms(model))
    assert count
    assert lean.keys() == grads.keys()
    assert all(close(lean[name], grads[name]) for name in grads)


def test_layers_that_are_computed_again_keep_their_norms() -> None:
    model = model_of("Llama")
    norms = LeanNorms(model)
    _, grads, _ = run(model, None)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    _, again, count = run(model, norms)
    assert count == 0
    assert all(close(again[name], grads[name]) for name in grads)


def test_a_norm_of_another_formula_is_left_alone() -> None:
    class ShiftedRMSNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.variance_epsilon = nn.Parameter(torch.ones(8)), 1e-6

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return nn.functional.rms_norm(hidden, (8,), self.weight + 1, self.variance_epsilon)

    norm = ShiftedRMSNorm()
    hidden = torch.randn(2, 8)
    with LeanNorms(norm).used():
        assert "forward" not in vars(norm)
        assert torch.equal(norm(hidden), nn.functional.rms_norm(hidden, (8,), torch.full((8,), 2.0), 1e-6))
