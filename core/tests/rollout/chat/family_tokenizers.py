"""Small tokenizers with each family's special tokens, and the families' own chat templates as the peer ships them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
PLAIN_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
LLAMA = ("<|begin_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>")
DEEPSEEK = (
    "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜tool▁sep｜>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
    "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>",
)  # fmt: skip
GLM = ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")
HARMONY = ("<|return|>", "<|start|>", "<|message|>", "<|end|>", "<|channel|>", "<|call|>", "<|constrain|>")
GEMMA = (
    "<eos>", "<bos>", "<|turn>", "<turn|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>",
    "<|tool>", "<tool|>", '<|"|>', "<|channel>", "<channel|>", "<|think|>",
)  # fmt: skip
LFM = ("<|im_end|>", "<|im_start|>", "<|tool_call_start|>", "<|tool_call_end|>", "<|endoftext|>")

# name of the peer's file -> (end of sequence, special tokens)
FAMILIES = {
    "qwen2_5": ("<|im_end|>", CHATML),
    "qwen3": ("<|im_end|>", CHATML),
    "qwen3_instruct_2507": ("<|im_end|>", CHATML),
    "qwen3_vl": ("<|im_end|>", CHATML + VISION),
    "qwen3_5_think": ("<|im_end|>", CHATML + VISION),
    "qwen3_5_nothink": ("<|im_end|>", CHATML + VISION),
    "qwen3_6": ("<|im_end|>", CHATML + VISION),
    "qwen3_8": ("<|im_end|>", CHATML + VISION),
    "llama3_1": ("<|eot_id|>", LLAMA),
    "llama3_2": ("<|eot_id|>", LLAMA),
    "deepseekv3": ("<｜end▁of▁sentence｜>", DEEPSEEK),
    "deepseek_r1_distill": ("<｜end▁of▁sentence｜>", DEEPSEEK),
    "glm4moe": ("<|endoftext|>", GLM),
    "gptoss": ("<|return|>", HARMONY),
    "gemma4": ("<eos>", GEMMA),
    "gemma4_v2": ("<eos>", GEMMA),
    "gemma4_v3": ("<eos>", GEMMA),
    "gemma4_v4": ("<eos>", GEMMA),
    "gemma4_v5": ("<eos>", GEMMA),
    "lfm2_2_5": ("<|im_end|>", LFM),
    "lfm2_2_5_v2": ("<|im_end|>", LFM),
    "nemotron_3_nano": ("<|im_end|>", CHATML),
    "nemotron_3_super": ("<|im_end|>", CHATML),
}
# Templates without tools: they are refused.
TOOLLESS = {
    "llama3": ("<|eot_id|>", LLAMA),
    "gemma3": ("<eos>", ("<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>")),
    "gemma": ("<eos>", ("<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>")),
    "phi3": ("<|end|>", ("<|end|>", "<|user|>", "<|assistant|>")),
    "qwen2_5_vl": ("<|im_end|>", CHATML + VISION),
    "cohere2": ("<|END_OF_TURN_TOKEN|>", ("<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>")),
}
TEXT = 'the quick brown fox: what is 12 + 30? 42! a tool is called with {"x": 1}\n\n' * 4


def peer_template(name: str) -> str:
    """A chat template in the peer's installed release."""
    return (files("trl") / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


@cache
def tokenizer_of(name: str, template: str | None = None):
    """A byte-level BPE tokenizer with the family's tokens and its own template (or the given one)."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    eos, special = {**FAMILIES, **TOOLLESS}[name]
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360, special_tokens=list(special), initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    made.train_from_iterator([TEXT], trainer)
    made.add_tokens([AddedToken(tag, normalized=False) for tag in PLAIN_TAGS])
    bos = next((one for one in special if "bos" in one or "begin_of_text" in one or "begin▁of" in one), None)
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        eos_token=eos,
        pad_token=eos,
        **({"bos_token": bos} if bos else {}),
        chat_template=template or peer_template(name),
    )
