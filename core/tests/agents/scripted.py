"""A tiny model whose words a script writes: a character tokenizer with tools in its template, and a generator."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Sequence

from plaudit.rollout.protocol import Generated, Request

SPECIAL = ["<pad>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
TEMPLATE = """\
{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}<|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}
<tool_response>
{{ message.content }}
</tool_response>
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>
{% endif %}
{%- else %}<|im_start|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def make_tokenizer(template: str | None = TEMPLATE):
    """One token a character, and one a mark."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: place for place, token in enumerate([*SPECIAL, *string.printable])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in SPECIAL[:4]])
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in SPECIAL[4:]])
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<|im_end|>", clean_up_tokenization_spaces=False
    )
    made.chat_template = template
    return made


def make_model(context: int = 2048):
    """Two layers that never decide anything: the script does."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(SPECIAL) + len(string.printable), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=context,
        pad_token_id=0, eos_token_id=3, bos_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def call(name: str, /, **arguments) -> str:
    """What the model writes to call a tool."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


class Script:
    """A generator that says what `say(text so far, index)` returns, ended with the end of the turn unless it is cut.

    `rounds` keeps the indices of each round, `ready` is called before a completion is handed over.
    """

    exact = True

    def __init__(self, tokenizer, say: Callable[[str, int], str], before: Callable[[int], None] = lambda index: None):
        self.tokenizer = tokenizer
        self.say = say
        self.before = before
        self.rounds: list[list[int]] = []
        self.refreshed: list[int] = []

    def refresh(self, step: int) -> None:
        self.refreshed.append(step)

    def generate(self, requests: Sequence[Request], sampling):
        self.rounds.append([request.index for request in requests])
        for request in requests:
            self.before(request.index)
            text = self.tokenizer.decode(list(request.prompt_ids))
            ids = self.tokenizer(text=self.say(text, request.index) + "<|im_end|>")["input_ids"]
            most = request.limit(sampling.max_new_tokens)
            cut = len(ids) > most
            ids = tuple(ids[:most])
            yield Generated(request.index, ids, (-0.5,) * len(ids), "length" if cut else "stop")

    def close(self) -> None:
        pass


def turns_of(text: str) -> int:
    """How many turns of the assistant the text so far has, the one to be written left out."""
    return text.count("<|im_start|>assistant") - 1


def make_trainer(
    output_dir, say, *, before=lambda index: None, rows=None, reward_funcs=None, template=TEMPLATE, **more
):
    """A GRPOTrainer on CPU, 2 prompts × 4 rollouts a step, whose completions the script writes."""
    from plaudit.grpo import GRPOConfig, GRPOTrainer

    constructor = {
        name: more.pop(name) for name in ("tools", "environment_factory", "eval_dataset", "callbacks") if name in more
    }
    context = more.pop("context", 2048)
    settings = {
        "output_dir": str(output_dir), "use_cpu": True, "num_generations": 4, "per_device_train_batch_size": 8,
        "per_device_eval_batch_size": 8, "max_completion_length": 400, "max_steps": 1, "logging_steps": 1,
        "save_strategy": "no", "report_to": [], "disable_tqdm": True, "max_unscored_share": None, **more,
    }  # fmt: skip
    tokenizer = make_tokenizer(template)
    trainer = GRPOTrainer(
        model=make_model(context),
        reward_funcs=reward_funcs,
        args=GRPOConfig(**settings),
        train_dataset=rows,
        processing_class=tokenizer,
        **constructor,
    )
    trainer.source.collector.writer.generator = Script(tokenizer, say, before)
    return trainer


def chat_rows(count: int = 4, **columns):
    """Rows with a question each, and these columns."""
    return [
        {"prompt": [{"role": "user", "content": f"question {place}"}], **{n: v[place] for n, v in columns.items()}}
        for place in range(count)
    ]


class Keep:
    """A reward that keeps what it is given, and gives each rollout its place."""

    __name__ = "keep"

    def __init__(self) -> None:
        self.seen: list[dict] = []

    def __call__(self, completions, **given):
        self.seen.append({"completions": completions, **given})
        return [float(place) for place in range(len(completions))]
