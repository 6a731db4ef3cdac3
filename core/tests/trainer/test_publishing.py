"""The model card, and the hub with a stand-in for it: what is uploaded, and what is said when it cannot be reached."""

from __future__ import annotations

from concurrent.futures import Future
from unittest import mock

import pytest
import yaml
from plaudit.grpo.saving.publishing import HubError

from runs import count_digits, make_trainer


class Hub:
    """Answers what a Trainer asks of huggingface_hub, and remembers it."""

    def __init__(self, unreachable=False, failing_uploads=False):
        self.unreachable, self.failing, self.uploads = unreachable, failing_uploads, []

    def __call__(self):
        return self

    def create_repo(self, name, **options):
        if self.unreachable:
            raise ConnectionError("no route to host")
        return mock.Mock(repo_id=f"me/{name}")

    def upload_folder(self, *, folder_path, path_in_repo=None, run_as_future=False, **options):
        from pathlib import Path

        files = sorted(path.name for path in Path(folder_path).iterdir())
        self.uploads.append((str(folder_path), path_in_repo, files))
        done = Future()
        if self.failing:
            done.set_exception(OSError("413 too large"))
        else:
            done.set_result("sent")
        return done if run_as_future else "sent"


@pytest.fixture
def hub():
    def stand_in(**options):
        made = Hub(**options)
        return mock.patch("transformers.trainer.hf_api", made), made

    return stand_in


OPTIONS = {"push_to_hub": True, "hub_model_id": "tiny", "save_strategy": "steps", "save_steps": 1}


def test_a_hub_that_cannot_be_reached_is_said_before_training(hub, tmp_path):
    patch, _ = hub(unreachable=True)
    with (
        patch,
        pytest.raises(HubError, match=r"repository 'tiny' cannot be made \(ConnectionError: no route.*HF_TOKEN"),
    ):
        make_trainer(tmp_path, **OPTIONS)


def test_checkpoints_are_uploaded_from_their_place_and_the_card_goes_with_the_model(hub, tmp_path):
    patch, made = hub()
    with patch:
        trainer = make_trainer(tmp_path, hub_strategy="all_checkpoints", **OPTIONS)
        trainer.train()
        trainer.push_to_hub()
    checkpoints = [upload for upload in made.uploads if upload[1]]
    assert [(folder, name) for folder, name, _ in checkpoints] == [
        (str(tmp_path / f"checkpoint-{step}"), f"checkpoint-{step}") for step in (1, 2)
    ]
    assert all("plaudit_files.json" in files for *_, files in checkpoints)
    assert {"README.md", "model.safetensors"} <= set(made.uploads[-1][2])


def test_an_upload_that_fails_is_said_and_ends_no_run(hub, tmp_path):
    patch, _ = hub(failing_uploads=True)
    with patch:
        trainer = make_trainer(tmp_path, **OPTIONS)
        with pytest.warns(UserWarning, match=r"an upload to the hub failed \(OSError: 413 too large\)"):
            trainer.train()
    assert trainer.state.global_step == 2


def test_the_card_names_rewards_versions_results_and_the_configuration(tmp_path):
    trainer = make_trainer(tmp_path, [count_digits, "think_format"])
    trainer.train()
    trainer.create_model_card(model_name="tiny", tags=["mine"], dataset_name="sums")
    text = (tmp_path / "README.md").read_text()
    head = yaml.safe_load(text.split("---")[1])
    assert head["tags"] == ["grpo", "plaudit", "mine"]
    assert head["datasets"] == "sums"
    assert "| count_digits | 1.0 | runs:count_digits |" in text
    assert "| think_format | 1.0 | plaudit-text | 0." in text
    assert "| rewards/count_digits/mean |" in text
    assert "| num_generations | 4 |" in text
    assert "| torch | 2." in text
    assert str(tmp_path) not in text
    assert "curve.png" not in text
    points = [line["reward"] for line in trainer.state.log_history if "reward" in line]
    curve = text.split("## Curve")[1].split("##")[0].strip().splitlines()
    assert curve[0] == "| step | reward | rewards/count_digits/mean | rewards/think_format/mean |"
    assert [line.split(" | ")[1] for line in curve[2:]] == [f"{point:.4g}" for point in points]
    (tmp_path / "curve.png").write_bytes(b"")
    trainer.create_model_card()
    text = (tmp_path / "README.md").read_text()
    assert "![The learning curve](curve.png)" in text
    assert "## Curve" not in text
