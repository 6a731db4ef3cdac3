"""Models in reward_funcs: objects, folders and hub ids; the same scores as TRL's."""

from __future__ import annotations

import pytest
import torch
from plaudit.errors import UsageError
from plaudit.grpo.policy.reward_models import names_model
from tiny_policy import ALPHABET, make_model, make_tokenizer
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification

from runs import ROWS, count_digits, make_trainer, metrics_of

CHAT_ROWS = [
    {"prompt": [{"role": "user", "content": f"{a}+{b}="}], "answer": str(a + b)} for a in (1, 2) for b in (1, 2)
]


def make_classifier(seed=3, labels=1):
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = Qwen3Config(
        vocab_size=len(ALPHABET) + 5,
        num_key_value_heads=1,
        head_dim=16,
        num_labels=labels,
        initializer_range=0.5,
        **sizes,
    )
    return Qwen3ForSequenceClassification(config)


@pytest.fixture
def folder(tmp_path):
    """A saved classifier, called `grader`."""
    make_classifier().save_pretrained(tmp_path / "grader")
    make_tokenizer().save_pretrained(tmp_path / "grader")
    return tmp_path / "grader"


def by_hand(text, model=None):
    ids = torch.tensor([make_tokenizer()(text, add_special_tokens=False)["input_ids"]])
    return (model or make_classifier()).eval()(ids).logits[0, 0].item()


@pytest.mark.parametrize("given", ["object", "folder", "folder with a slash"])
def test_a_model_scores_prompt_and_completion(given, tmp_path, folder):
    made = {"object": make_classifier(), "folder": str(folder)}.get(given, f"{folder}/")
    classes = make_tokenizer() if given == "object" else None
    trainer = make_trainer(tmp_path / "run", made, reward_processing_classes=classes)
    records = trainer.generate_completions(ROWS[:2], num_generations=3)
    name = "Qwen3ForSequenceClassification" if given == "object" else "grader"
    assert len(records) == 6
    for record in records:
        assert record[name] == pytest.approx(by_hand(record["prompt"] + record["completion"]), abs=1e-5)


def test_conversations_go_through_its_own_template(tmp_path):
    template = "{% for m in messages %}({{ m['content'] }}){% endfor %}"
    classes = make_tokenizer()
    classes.chat_template = template
    trainer = make_trainer(
        tmp_path, [count_digits_of_chat, make_classifier()], reward_processing_classes=[None, classes], rows=CHAT_ROWS
    )
    for record in trainer.generate_completions(CHAT_ROWS[:1], num_generations=2):
        text = f"({record['prompt'][0]['content']})({record['completion'][0]['content']})"
        assert record["Qwen3ForSequenceClassification"] == pytest.approx(by_hand(text), abs=1e-5)


def count_digits_of_chat(completions, **kwargs):
    return count_digits([completion[0]["content"] for completion in completions])


@pytest.mark.peer
@pytest.mark.parametrize("chat", [False, True], ids=["text", "chat"])
def test_scores_equal_trl(chat, tmp_path, folder):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    rows = CHAT_ROWS if chat else ROWS
    args = GRPOConfig(
        str(tmp_path / "trl"), use_cpu=True, bf16=False, per_device_train_batch_size=8, num_generations=4, report_to=[]
    )
    make_model().save_pretrained(tmp_path / "model")
    theirs = GRPOTrainer(
        str(tmp_path / "model"), [str(folder)], args, Dataset.from_list(rows), processing_class=make_tokenizer()
    )
    ours = make_trainer(tmp_path / "ours", [str(folder)], rows=rows)
    records = ours.generate_completions(rows[:4], num_generations=2)
    prompts, completions = ([record[name] for record in records] for name in ("prompt", "completion"))
    found = theirs._calculate_rewards([{"prompt": p} for p in prompts], prompts, completions, [[1]] * len(records))
    torch.testing.assert_close(
        found[:, 0], torch.tensor([record["grader"] for record in records]), rtol=1e-5, atol=1e-5
    )


def test_training_with_a_model_beside_a_function(tmp_path, folder):
    trainer = make_trainer(tmp_path / "run", [count_digits, str(folder)], reward_weights=[0.5, 2.0])
    trainer.train()
    line = metrics_of(tmp_path / "run")[0]
    assert line["reward"] == pytest.approx(
        0.5 * line["rewards/count_digits/mean"] + 2 * line["rewards/grader/mean"], abs=1e-5
    )


def test_a_peft_classifier_is_a_reward(tmp_path):
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(task_type="SEQ_CLS", target_modules=["q_proj"], init_lora_weights=False)
    model = get_peft_model(make_classifier(), config)
    trainer = make_trainer(tmp_path, model, reward_processing_classes=make_tokenizer())
    for record in trainer.generate_completions(ROWS[:1], num_generations=2):
        expected = by_hand(record["prompt"] + record["completion"], model)
        assert record["PeftModelForSequenceClassification"] == pytest.approx(expected, abs=1e-5)


def test_an_adapter_folder_is_a_reward(tmp_path, folder):
    from peft import LoraConfig, get_peft_model

    base = Qwen3ForSequenceClassification.from_pretrained(folder)
    model = get_peft_model(base, LoraConfig(task_type="SEQ_CLS", target_modules=["q_proj"], init_lora_weights=False))
    model.save_pretrained(tmp_path / "adapter")
    make_tokenizer().save_pretrained(tmp_path / "adapter")
    trainer = make_trainer(tmp_path / "run", str(tmp_path / "adapter"))
    for record in trainer.generate_completions(ROWS[:1], num_generations=2):
        expected = by_hand(record["prompt"] + record["completion"], model)
        assert record["adapter"] == pytest.approx(expected, abs=1e-5)


def test_what_a_name_means(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    means = {
        "addition": False,  # a plugin
        "grader": True,  # a folder
        "./grader": True,
        str(folder): True,
        "owner/model-1B": True,  # a hub id
        "./rewards.py:score": False,
        "math:sqrt": False,
        "no-such-reward": False,
        "https://localhost/#name": False,
    }
    assert {name: names_model(name) for name in means} == means


def test_a_plugin_wins_over_a_folder_of_its_name(tmp_path, folder, monkeypatch):
    folder.rename(tmp_path / "think_answer_format")
    monkeypatch.chdir(tmp_path)
    assert not names_model("think_answer_format")


def test_what_cannot_score_is_refused_before_the_policy_loads(tmp_path, folder):
    Qwen3ForCausalLM(make_classifier().config).save_pretrained(tmp_path / "headless")
    make_tokenizer().save_pretrained(tmp_path / "headless")
    wrong = {
        "headless": ({"reward_funcs": str(tmp_path / "headless")}, "no trained classification head"),
        "hub": ({"reward_funcs": "no-owner-here/no-model-there"}, "cannot load a reward model from 'no-owner"),
        "number": (
            {"reward_funcs": [str(folder)], "reward_processing_classes": [None, None]},
            "2 reward_processing_classes for 1 rewards",
        ),
        "no tokenizer": ({"reward_funcs": make_classifier()}, "pass reward_processing_classes"),
    }
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    for name, (given, message) in wrong.items():
        with pytest.raises(UsageError, match=message):
            make_trainer(tmp_path / name, model=str(tmp_path / "broken"), **given)


def test_a_processing_class_for_a_function_warns(tmp_path):
    with pytest.warns(UserWarning, match="which is no model"):
        make_trainer(tmp_path, count_digits, reward_processing_classes=make_tokenizer())
