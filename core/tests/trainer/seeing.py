"""Tiny vision-language models with random weights, each with its processor; nothing is downloaded.

The processors are transformers' own with image processors on Pillow. Those that also take videos are built without
that part, which would need torchvision.
"""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace

import torch
import transformers
from PIL import Image
from transformers.processing_utils import ProcessorMixin

SPECIAL = [
    "<|image_pad|>",
    "<|video_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<image>",
    "<fake_token_around_image>",
    "<global-img>",
    "<start_of_image>",
    "<end_of_image>",
    "<image_soft_token>",
]
ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz ?!.:\n"
VOCABULARY = {token: place for place, token in enumerate(["<pad>", "<eos>", "<u>", "<s>", "<a>", *ALPHABET, *SPECIAL])}
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'][0] }}>{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type'] == 'image' %}IMAGE{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
)
TEXT = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": None,
}


def make_tokenizer(**named):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"<[usa]>|[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(SPECIAL)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        padding_side="left",
        eos_token="<eos>",
        extra_special_tokens=named,
        clean_up_tokenization_spaces=False,
    )


def picture(width, height, seed=0):
    """A picture of noise."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (height, width, 3), generator=generator, dtype=torch.uint8)
    return Image.fromarray(pixels.numpy())


def _image_processor(family, name, **settings):
    home = import_module(f"transformers.models.{family}.image_processing_pil_{family}")
    return getattr(home, f"{name}ImageProcessorPil")(**settings)


def _without_video(name, image_processor, tokenizer, template, **attributes):
    """The processor of that name, whose own constructor asks for a part for videos."""
    base = getattr(transformers, name)

    def __init__(self, image_processor=None, tokenizer=None, chat_template=None):
        for key, value in attributes.items():
            setattr(self, key, value)
        ProcessorMixin.__init__(self, image_processor, tokenizer, chat_template=chat_template)

    return type(name, (base,), {"__init__": __init__})(image_processor, tokenizer, template)


def _qwen(name):
    text = TEXT | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}}
    vision = {"patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2, "depth": 1, "num_heads": 2}
    if name == "Qwen2VL":
        vision |= {"embed_dim": 16, "hidden_size": 32, "mlp_ratio": 2, "initializer_range": 0.2}
    else:
        vision |= {"hidden_size": 16, "out_hidden_size": 32, "intermediate_size": 24, "window_size": 16}
        vision |= {"fullatt_block_indexes": [0], "initializer_range": 0.2}
    config_class = {"Qwen2VL": "Qwen2VLConfig", "Qwen2_5_VL": "Qwen2_5_VLConfig"}[name]
    config = getattr(transformers, config_class)(
        text_config=text,
        vision_config=vision,
        image_token_id=VOCABULARY["<|image_pad|>"],
        video_token_id=VOCABULARY["<|video_pad|>"],
        vision_start_token_id=VOCABULARY["<|vision_start|>"],
        vision_end_token_id=VOCABULARY["<|vision_end|>"],
    )
    images = _image_processor(
        "qwen2_vl", "Qwen2VL", patch_size=4, merge_size=2, temporal_patch_size=2, min_pixels=64, max_pixels=512
    )
    processor = _without_video(
        f"{name}Processor",
        images,
        make_tokenizer(),
        TEMPLATE.replace("IMAGE", "<|vision_start|><|image_pad|><|vision_end|>"),
        image_token="<|image_pad|>",
        video_token="<|video_pad|>",
        image_token_id=VOCABULARY["<|image_pad|>"],
        video_token_id=VOCABULARY["<|video_pad|>"],
    )
    return getattr(transformers, f"{name}ForConditionalGeneration"), config, processor


def _smolvlm():
    vision = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.SmolVLMConfig(
        text_config={"model_type": "llama", **TEXT},
        vision_config={**vision, "image_size": 16, "patch_size": 4, "initializer_range": 0.2},
        image_token_id=VOCABULARY["<image>"],
        scale_factor=2,
        pad_token_id=0,
    )
    images = _image_processor(
        "smolvlm", "SmolVLM", size={"longest_edge": 32}, max_image_size={"longest_edge": 16}, do_image_splitting=False
    )
    processor = _without_video(
        "SmolVLMProcessor",
        images,
        make_tokenizer(),
        TEMPLATE.replace("IMAGE", "<image>"),
        fake_image_token="<fake_token_around_image>",
        image_token="<image>",
        image_token_id=VOCABULARY["<image>"],
        end_of_utterance_token="<eos>",
        global_image_token="<global-img>",
        image_seq_len=4,
        video_token="<video>",
        video_processor=SimpleNamespace(num_frames=1, fps=1, size={}, do_sample_frames=False),
    )
    return transformers.SmolVLMForConditionalGeneration, config, processor


def _gemma3():
    vision = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.Gemma3Config(
        text_config={**TEXT, "head_dim": 16, "sliding_window": 12, "query_pre_attn_scalar": 16},
        vision_config={"model_type": "siglip_vision_model", **vision, "image_size": 16, "patch_size": 4},
        mm_tokens_per_image=4,
        boi_token_index=VOCABULARY["<start_of_image>"],
        eoi_token_index=VOCABULARY["<end_of_image>"],
        image_token_index=VOCABULARY["<image_soft_token>"],
        initializer_range=0.2,
    )
    named = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}
    processor = transformers.Gemma3Processor(
        image_processor=_image_processor("gemma3", "Gemma3", size={"height": 16, "width": 16}),
        tokenizer=make_tokenizer(**named),
        image_seq_length=4,
        chat_template=TEMPLATE.replace("IMAGE", "<start_of_image>"),
    )
    return transformers.Gemma3ForConditionalGeneration, config, processor


def _llava_next():
    vision = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    pinpoints = [[16, 32], [32, 16], [32, 32]]
    config = transformers.LlavaNextConfig(
        text_config={"model_type": "llama", **TEXT},
        vision_config={"model_type": "clip_vision_model", **vision, "image_size": 16, "patch_size": 8},
        image_token_index=VOCABULARY["<image>"],
        image_grid_pinpoints=pinpoints,
        image_seq_length=4,
    )
    images = _image_processor(
        "llava_next",
        "LlavaNext",
        size={"shortest_edge": 16},
        crop_size={"height": 16, "width": 16},
        image_grid_pinpoints=pinpoints,
    )
    processor = transformers.LlavaNextProcessor(
        image_processor=images,
        tokenizer=make_tokenizer(image_token="<image>"),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
        chat_template=TEMPLATE.replace("IMAGE", "<image>"),
    )
    return transformers.LlavaNextForConditionalGeneration, config, processor


FAMILIES = {
    "Qwen2-VL": lambda: _qwen("Qwen2VL"),
    "Qwen2.5-VL": lambda: _qwen("Qwen2_5_VL"),
    "SmolVLM2": _smolvlm,
    "Gemma3": _gemma3,
    "LLaVA-NeXT": _llava_next,
}


def make_seeing(family, *, dtype=torch.float32):
    """A model of the family and its processor."""
    model_class, config, processor = FAMILIES[family]()
    torch.manual_seed(0)
    model = model_class(config).to(dtype).eval()
    for parameter in model.parameters():  # some start at zero or one: make them count
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, mean=1.0, std=0.2)
    return model, processor


def rows(count=4, *, images=1):
    """Conversations about one picture each, of different sizes, or about `images` of them."""
    found = []
    for place in range(count):
        pictures = [picture(20 + 12 * (place % 3), 28 - 8 * (place % 2), seed=10 * place + n) for n in range(images)]
        asked = {"prompt": [{"role": "user", "content": f"what {'is' * (place % 2)} {place}?"}], "answer": str(place)}
        found.append(asked | ({"image": pictures[0]} if images == 1 else {"images": pictures}))
    return found
