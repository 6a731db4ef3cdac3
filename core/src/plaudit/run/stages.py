"""Training in stages: one run after another, each from the model that the one before left."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plaudit.errors import UsageError
from plaudit.run.folder import RunFolder
from plaudit.run.schema import RunFile, StageSection
from plaudit.run.typecheck import closest

if TYPE_CHECKING:
    from plaudit.run.launch import Launch

_MEAN = re.compile(r"rewards/(.+)/mean")


def check_stages(run: RunFile) -> None:
    """Raise UsageError on stages that clash or name what is not there."""
    names = [stage.name for stage in run.stages]
    rewards = [reward.name for reward in run.rewards]
    for index, stage in enumerate(run.stages):
        where = f"stage.{index}"
        if names.count(stage.name) > 1:
            raise UsageError(f"{where}.name = '{stage.name}': two stages have this name; give each its own")
        if not stage.name or Path(stage.name).name != stage.name:
            raise UsageError(f"{where}.name = '{stage.name}': expected a name that a folder can have")
        for name in stage.rewards:
            if name not in rewards:
                hint = closest(name, rewards) or f"; the run's rewards are {', '.join(rewards) or 'none'}"
                raise UsageError(f"{where}.rewards: no [[reward]] is named '{name}'{hint}")
        if stage.data is not None and run.data is None:
            raise UsageError(f"{where}.data: the run has [[task]], whose data a stage cannot change")


def stage_runs(run: RunFile) -> list[RunFile]:
    """The run of each stage, in a folder of its own below `output_dir`, from the model of the one before."""
    root = Path(run.output_dir)
    runs: list[RunFile] = []
    for index, stage in enumerate(run.stages):
        before = runs[-1] if runs else None
        runs.append(
            dataclasses.replace(
                run,
                output_dir=str(root / f"{index + 1}-{stage.name}"),
                model=run.model if before is None else dataclasses.replace(run.model, path=_model_after(before)),
                rewards=_rewards_of(run, stage),
                data=stage.data or run.data,
                config={**run.config, **stage.config},
                stages=(),
            )
        )
    return runs


def launch_stages(run: RunFile, how: Launch) -> int:
    """Train the stages that are not done yet; returns an exit code as `launch`.

    All stages are checked before the first one trains. A dry run tries each with the first stage's model.
    """
    from plaudit.run.launch import launch, quiet_libraries
    from plaudit.run.merging import is_adapter, merge_adapter
    from plaudit.run.preflight import is_main_process, prepare_run
    from plaudit.run.sandboxing import run_sandbox

    stages = stage_runs(run)
    with quiet_libraries(), run_sandbox(run):
        for stage in stages:
            prepare_run(dataclasses.replace(stage, model=run.model))
    if not (how.resume or how.overwrite or how.dry_run):
        for stage in stages:
            RunFolder(Path(stage.output_dir)).require_empty()
    for index, stage in enumerate(stages):
        folder = RunFolder(Path(stage.output_dir))
        if how.resume and folder.report.exists():
            continue
        _say(f"\nstage {index + 1} of {len(stages)}: {run.stages[index].name}\n")
        before = RunFolder(Path(stages[index - 1].output_dir)) if index else None
        if before is not None and not how.dry_run and is_main_process() and is_adapter(before.model):
            _clear(before.merged)
            merge_adapter(before.model, before.merged)
        _wait_for_all()
        started = stage if not how.dry_run else dataclasses.replace(stage, model=run.model)
        code = launch(started, _started(folder, how))
        if code:
            return code
    if not how.dry_run and is_main_process():
        _conclude(run, stages)
    return 0


def _rewards_of(run: RunFile, stage: StageSection) -> Any:
    """A stage's own rewards, else those of the run that it names, else all."""
    if stage.own_rewards:
        return stage.own_rewards
    return tuple(reward for reward in run.rewards if reward.name in stage.rewards) if stage.rewards else run.rewards


def _model_after(stage: RunFile) -> str:
    """Where a stage leaves a whole model."""
    folder = RunFolder(Path(stage.output_dir))
    return str(folder.merged if stage.model.peft is not None else folder.model)


def _started(folder: RunFolder, how: Launch) -> Launch:
    """How a stage begins that is not done: a resumed run goes on from its checkpoint, and without one anew."""
    from plaudit.grpo.saving.checkpoint_folders import newest_whole

    if how.resume is None:
        return how
    if how.resume != "latest" and Path(how.resume).resolve().parent == folder.root.resolve():
        return how
    if newest_whole(folder.root) is not None:
        return dataclasses.replace(how, resume="latest")
    return dataclasses.replace(how, resume=None, overwrite=True)


def _wait_for_all() -> None:
    """Until every process is here: the main one may still be writing what the others are to read."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()


def _clear(folder: Path) -> None:
    import shutil

    if folder.exists():
        shutil.rmtree(folder)


def _conclude(run: RunFile, stages: Sequence[RunFile]) -> None:
    """One list of metrics and one picture over all stages, and where the last model is."""
    from plaudit.run.curve import draw_curve
    from plaudit.run.runfile import write_run_file

    root = RunFolder(Path(run.output_dir))
    write_run_file(run, root.run_file)
    folders = [RunFolder(Path(stage.output_dir)) for stage in stages]
    lines = list(joined_metrics([stage.name for stage in run.stages], folders))
    root.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = [_MEAN.fullmatch(key) for line in lines for key in line]
    names = list(dict.fromkeys(match[1] for match in found if match))
    draw_curve(lines, names, root.curve, title=f"{root.root.name}: {len(stages)} stages")
    _say(f"\nmodel       {_model_after(stages[-1])}\ncurve       {root.curve}")


def joined_metrics(names: Sequence[str], folders: Sequence[RunFolder]) -> Iterator[dict[str, Any]]:
    """The lines of metrics of all stages, `step` counted on from stage to stage, each with its `stage`."""
    from plaudit.run.curve import read_metrics

    offset = 0
    for name, folder in zip(names, folders, strict=True):
        last = offset
        for line in read_metrics(folder.metrics):
            last = offset + int(line["step"])
            yield {**line, "step": last, "stage": name}
        offset = last


def _say(text: str) -> None:
    from plaudit.run.preflight import is_main_process

    if is_main_process():
        print(text, flush=True)
