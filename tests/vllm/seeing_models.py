"""A tiny vision-language model that vLLM's kernels for CPU can run, its processor, and prompts with pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import transformers

sys.path.append(str(Path(__file__).parents[2] / "core" / "tests" / "trainer"))
from seeing import TEMPLATE, TEXT, VOCABULARY, make_tokenizer, picture

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 2, "num_key_value_heads": 1}
ROTARY = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 6, 6]}
VISION = {
    "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2, "depth": 1, "num_heads": 2, "hidden_size": 64,
    "out_hidden_size": 64, "intermediate_size": 48, "window_size": 16, "fullatt_block_indexes": [0],
    "initializer_range": 0.2,
}  # fmt: skip
IMAGE = VOCABULARY["<|image_pad|>"]


def make_seeing(seed=0):
    """A Qwen2.5-VL with random weights, and its processor."""
    config = transformers.Qwen2_5_VLConfig(
        text_config={**TEXT, **SIZES, "rope_parameters": ROTARY},
        vision_config=VISION,
        image_token_id=IMAGE,
        video_token_id=VOCABULARY["<|video_pad|>"],
        vision_start_token_id=VOCABULARY["<|vision_start|>"],
        vision_end_token_id=VOCABULARY["<|vision_end|>"],
    )
    torch.manual_seed(seed)
    model = transformers.Qwen2_5_VLForConditionalGeneration(config).eval()
    sizes = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2}

    processor = transformers.Qwen2_5_VLProcessor(
        transformers.Qwen2VLImageProcessor(**sizes, min_pixels=64, max_pixels=512),
        make_tokenizer(),
        transformers.Qwen2VLVideoProcessor(**sizes),
        chat_template=TEMPLATE.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
    )
    return model, processor


def asked(count=4):
    """Conversations: of one picture, of two, of none, in turn."""
    rows = []
    for place in range(count):
        pictures = [
            picture(20 + 12 * n, 28 - 8 * (place % 2), seed=10 * place + n) for n in range((1, 2, 0)[place % 3])
        ]
        rows.append({"prompt": [{"role": "user", "content": f"what is {place}?"}], "images": pictures})
    return rows
