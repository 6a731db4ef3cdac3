"""Every kind of wrong input ends in one or two lines that name it and say what to do."""

from __future__ import annotations

import pytest
from plaudit.errors import PlauditError, UsageError
from plaudit.grpo import GRPOConfig, GRPOTrainer
from tiny_policy import make_model

from runs import ROWS, count_digits, make_trainer


def needs_gold(completions, gold, **kwargs):
    return [0.0 for _ in completions]


def too_few(completions, **kwargs):
    return [0.0]


WRONG = {
    "no reward": ({"reward_funcs": None}, "reward_funcs is missing"),
    "empty list": ({"reward_funcs": []}, "reward_funcs is missing"),
    "unknown reward": ({"reward_funcs": "no-such-reward"}, "no-such-reward"),
    "missing column": ({"reward_funcs": needs_gold}, r"'needs_gold'.*'gold'.*answer"),
    "weights": ({"reward_weights": [1.0, 2.0]}, "2 reward weights for 1 rewards"),
    "empty dataset": ({"rows": []}, "train_dataset is empty"),
    "no prompt": ({"rows": [{"question": "1"}]}, r"no 'prompt' column \(it has 'question'\)"),
    "reserved": ({"rows": [{"prompt": "1", "completions": "2"}] * 4}, "has a column 'completions'.*rename it"),
    "reserved state": ({"rows": [{"prompt": "1", "trainer_state": "2"}] * 4}, "has a column 'trainer_state'"),
    "reserved log": ({"rows": [{"prompt": "1", "log_extra": "2"}] * 4}, "has a column 'log_extra'"),
    "reserved prompts": ({"rows": [{"prompt": "1", "prompts": "2"}] * 4}, "has a column 'prompts'"),
    "long prompt": ({"rows": [*ROWS, {"prompt": "7" * 90, "answer": "7"}]}, r"row 16 of train_dataset.*90 tokens.*88"),
    "long evaluation": ({"eval_rows": [{"prompt": "7" * 90}]}, "row 0 of eval_dataset"),
    "few rows": ({"rows": ROWS[:1]}, "has 1 rows but one generation batch takes 2 prompts"),
    "group size": ({"num_generations": 3}, r"generation_batch_size \(8.*must be a multiple of num_generations \(3\)"),
    "eval without prompt": ({"eval_rows": [{"q": "1"}]}, "eval_dataset has no 'prompt' column"),
    "model folder": ({"model": "./no/such/model"}, r"'./no/such/model' does not exist; give the folder"),
    "conversation": (
        {"rows": [{"prompt": [{"role": "user", "content": "1"}]}] * 2, "chat": False},
        "no chat template; set tokenizer.chat_template",
    ),
    "tools": ({"tools": [len]}, "tool 'len': argument 'obj' cannot be given by name"),
    "environment": ({"environment_factory": dict}, "environment 'dict' has no reset"),
    "quantization": ({"quantization_config": {"load_in_4bit": True}}, "applies to a model given as a path"),
    "model options": (
        {"model_init_kwargs": {"dtype": "auto"}},
        "model_init_kwargs only applies to a model given as a path",
    ),
    "sampling option": ({"generation_kwargs": {"num_beams": 4}}, "'num_beams'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_refused_before_a_step(case, tmp_path, build_tokenizer):
    options, expected = WRONG[case]
    options = dict(options)
    if "reward_funcs" not in options:
        options["reward_funcs"] = count_digits
    tokenizer = build_tokenizer(chat=options.pop("chat", True))
    with pytest.raises(PlauditError, match=expected) as caught:
        make_trainer(tmp_path, tokenizer=tokenizer, **options)
    assert len(str(caught.value).splitlines()) <= 2
    assert len(str(caught.value)) < 600  # the longest lists every installed reward


def test_a_folder_without_a_model_and_a_broken_model_say_so(tmp_path):
    for config, expected in (({}, "has no config.json"), ({"config.json": "{}"}, "not a causal language model")):
        for name, text in config.items():
            (tmp_path / name).write_text(text)
        with pytest.raises(UsageError, match=expected):
            make_trainer(tmp_path, model=str(tmp_path))


def test_a_missing_tokenizer_says_what_to_pass(tmp_path, build_model):
    with pytest.raises(UsageError, match="pass processing_class"):
        GRPOTrainer(
            build_model(), count_digits, GRPOConfig(str(tmp_path), use_cpu=True, report_to=[]), train_dataset=ROWS
        )


def test_a_reward_of_the_wrong_length_ends_the_run_naming_it(tmp_path):
    with pytest.raises(PlauditError, match=r"too_few.*1.*8"):
        make_trainer(tmp_path, too_few).train()


def test_evaluate_without_a_dataset_says_so(tmp_path):
    with pytest.raises(UsageError, match="there is no eval_dataset"):
        make_trainer(tmp_path).evaluate()


@pytest.mark.parametrize("given", ["as a config", "with the model"])
@pytest.mark.parametrize("kind", ["PromptTuning", "PromptEncoder", "PrefixTuning"])
def test_adapters_that_learn_prompts_are_refused(kind, given, tmp_path):
    """Completions would be written without them."""
    import peft

    config = getattr(peft, f"{kind}Config")(task_type="CAUSAL_LM", num_virtual_tokens=3)
    options = (
        {"peft_config": config} if given == "as a config" else {"model": peft.get_peft_model(make_model(), config)}
    )
    with pytest.raises(UsageError, match=rf"the adapter is a {kind}Config.*e\.g\. peft\.LoraConfig"):
        make_trainer(tmp_path, **options)
