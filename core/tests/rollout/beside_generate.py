"""Completions by transformers' own `generate()`, and ours in the same form."""

from __future__ import annotations

import torch
from plaudit.rollout.protocol import SamplingOptions
from plaudit.rollout.transformers_generator import TransformersGenerator

GREEDY = SamplingOptions(max_new_tokens=24, temperature=0)
# Lengths on both sides of the sliding windows; two prompts come twice.
PROMPTS = [(5, 9, 3), (7,), (5, 9, 3), (4, 8, 15, 16, 23, 4, 8, 15, 16, 23, 11, 30), (7,), (31, 2, 19, 6, 6, 12, 3)]


def reference(model, prompt, **options):
    """Completion ids by transformers, one prompt at a time, hence without padding."""
    ids = torch.tensor([prompt])
    written = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, **options)
    return tuple(written[0, len(prompt) :].tolist())


def ours(model, requests, sampling=GREEDY, tokenizer=None, **settings):
    """Index -> Generated. `settings`: of the generator."""
    generated = TransformersGenerator(model, tokenizer, **settings).generate(requests, sampling)
    return {done.index: done for done in generated}
