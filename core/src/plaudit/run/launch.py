"""A run from its run file to its report."""

from __future__ import annotations

import dataclasses
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plaudit.plugins.hooks import installed_hooks
from plaudit.plugins.lock import Lock, require_locked
from plaudit.run.configuring import make_config
from plaudit.run.folder import RunFolder
from plaudit.run.preflight import Prepared, is_main_process, prepare_run
from plaudit.run.runfile import resolved_table, write_run_file
from plaudit.run.sandboxing import run_sandbox
from plaudit.run.schema import RunFile

if TYPE_CHECKING:
    from rich.console import Console

    from plaudit.run.heldout import Evaluation

INTERRUPTED = 130
DRY_RUN_PROMPTS, DRY_RUN_GENERATIONS = 2, 4


@dataclass(frozen=True, slots=True)
class Launch:
    """How a run is started. `resume`: a checkpoint folder, or "latest"."""

    dry_run: bool = False
    resume: str | None = None
    overwrite: bool = False
    locked: bool = False


def launch(run: RunFile, how: Launch) -> int:
    """Check, train and report as the run file says; returns an exit code: 0, or 130 after Ctrl-C.

    Raises PlauditError on anything wrong with the run, before the model loads where that is possible.
    """
    from rich.console import Console

    from plaudit.run.locking import lock_of
    from plaudit.run.memory_advice import memory_advice
    from plaudit.run.stages import launch_stages

    if run.stages:
        return launch_stages(run, how)
    console = Console(quiet=not is_main_process(), soft_wrap=True)
    folder = RunFolder(Path(run.output_dir))
    checkpoint = folder.find_checkpoint(how.resume) if how.resume else None
    # The main process alone looks: it may have written here before another rank gets this far.
    if is_main_process() and not (how.dry_run or how.overwrite or checkpoint):
        folder.require_empty()
    with quiet_libraries(), run_sandbox(run):
        installed_hooks().call("configure", settings=resolved_table(run))
        prepared = prepare_run(run)
        lock = lock_of(prepared)
        if how.locked:
            require_locked(folder.lock, lock)
        _show_plan(prepared, console)
        with memory_advice(prepared.config, peft=prepared.peft_config is not None):
            if how.dry_run:
                return _dry_run(prepared, console)
            if is_main_process():
                _open_folder(folder, prepared, lock, overwrite=how.overwrite)
            return _train(prepared, folder, lock, checkpoint, console)


def _show_plan(prepared: Prepared, console: Console) -> None:
    from plaudit.run.plan import plan_table

    console.print(plan_table(prepared))
    console.print()


def _open_folder(folder: RunFolder, prepared: Prepared, lock: Lock, *, overwrite: bool) -> None:
    if overwrite:
        folder.clear()
    folder.root.mkdir(parents=True, exist_ok=True)
    write_run_file(prepared.run, folder.run_file)
    lock.write(folder.lock)


def _dry_run(prepared: Prepared, console: Console) -> int:
    """Generate and score a few completions, show them, and leave nothing behind."""
    import tempfile

    from plaudit.run.trainers import build_trainer

    with tempfile.TemporaryDirectory() as scratch:
        config = make_config(dataclasses.replace(prepared.run, output_dir=scratch))
        trainer = build_trainer(dataclasses.replace(prepared, config=config), ())
        records = trainer.generate_completions(
            prepared.train[:DRY_RUN_PROMPTS], num_generations=min(prepared.sizes.generations, DRY_RUN_GENERATIONS)
        )
    from plaudit.run.samples import samples_table

    console.print(samples_table(records, [spec.name for spec in prepared.rewards]))
    console.print(f"dry run: {len(records)} completions generated and scored, nothing trained")
    return 0


def _train(prepared: Prepared, folder: RunFolder, lock: Lock, checkpoint: Path | None, console: Console) -> int:
    from plaudit.run.heldout import read_evaluations
    from plaudit.run.interrupt import Interruption
    from plaudit.run.locking import LockInCheckpoints
    from plaudit.run.progress import ProgressDisplay
    from plaudit.run.trainers import build_trainer
    from plaudit.run.watching import health_monitor, watchers

    interruption, watched = Interruption(), watchers(prepared, folder)
    progress = ProgressDisplay([spec.name for spec in prepared.rewards], console)
    health = health_monitor(prepared, progress.say, folder.logged_up_to(checkpoint) if checkpoint else ())
    trainer = build_trainer(prepared, (interruption, progress, LockInCheckpoints(lock), *watched, health))
    for one in watched:
        one.attach(trainer)
    evaluations = read_evaluations(folder.heldout) if checkpoint else {}
    if prepared.run.eval.before and checkpoint is None:
        _evaluate(trainer, prepared, folder, evaluations, "before", console)
    try:
        with interruption:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    finally:
        progress.close()
    if interruption.requested and trainer.state.global_step < trainer.state.max_steps:
        return _say_how_to_resume(prepared, folder, console)
    trainer.save_model(str(folder.model))
    if prepared.run.eval.after:
        _evaluate(trainer, prepared, folder, evaluations, "after", console)
    if {"before", "after"} <= evaluations.keys():
        before, after = evaluations["before"], evaluations["after"]
        health.conclude(before.scores(), after.scores(), after.rows)
    _report(prepared, folder, lock, evaluations, health.findings, console)
    if prepared.config.push_to_hub:
        # Once more: now there are a curve and a report.
        trainer.push_to_hub()
    return 0


def _evaluate(
    trainer: Any,
    prepared: Prepared,
    folder: RunFolder,
    evaluations: dict[str, Evaluation],
    when: str,
    console: Console,
) -> None:
    """Judge the held-out rows, if there are any, and keep what came out."""
    from plaudit.run.heldout import evaluate_heldout, save_evaluations

    if not prepared.heldout:
        return
    names = [spec.name for spec in prepared.rewards]
    found = evaluate_heldout(trainer, prepared.heldout, names, temperature=prepared.run.eval.temperature)
    evaluations[when] = found
    if is_main_process():
        save_evaluations(evaluations, folder.heldout)
    shown = ", ".join(f"{name} {mean:.3f}" for name, mean in found.means.items() if mean is not None)
    console.print(f"{when} training, {found.rows} held-out rows, {decoding(prepared)}: {shown}", highlight=False)


def _say_how_to_resume(prepared: Prepared, folder: RunFolder, console: Console) -> int:
    console.print(f"\nstopped; the checkpoint is {folder.checkpoints()[-1]}", highlight=False)
    console.print(f"continue with: plaudit train {folder.run_file} --resume", highlight=False)
    return INTERRUPTED


def _report(
    prepared: Prepared,
    folder: RunFolder,
    lock: Lock,
    evaluations: dict[str, Evaluation],
    findings: Sequence[Any],
    console: Console,
) -> None:
    """Draw the curve, write the report and say where everything is."""
    if not is_main_process():
        return
    from plaudit.run.card import write_card
    from plaudit.run.curve import draw_curve, read_metrics
    from plaudit.run.plan import plan_lines
    from plaudit.run.report import comparison_table, write_report

    names = [spec.name for spec in prepared.rewards]
    marks = {name: [point for one in evaluations.values() if (point := one.point(name))] for name in names}
    title = f"{folder.root.name}: {prepared.run.model.path}, {prepared.how_many}"
    how = decoding(prepared)
    draw_curve(read_metrics(folder.metrics), names, folder.curve, title=title, heldout=marks, decoding=how)
    plan = list(plan_lines(prepared))
    write_report(
        folder, title=title, plan=plan, evaluations=evaluations, decoding=decoding(prepared), findings=findings
    )
    write_card(prepared, folder, lock, evaluations, decoding(prepared))
    if evaluations:
        console.print()
        console.print(comparison_table(evaluations, decoding(prepared)))
    console.print(
        f"\nreport      {folder.report}\ncurve       {folder.curve}\nmodel       {folder.model}", highlight=False
    )
    if folder.completions.exists():
        console.print(f"completions {folder.completions}", highlight=False)


def decoding(prepared: Prepared) -> str:
    """How held-out rows are decoded, in words."""
    temperature = prepared.run.eval.temperature
    return "greedy" if temperature == 0 else f"sampled at temperature {temperature:g}"


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Without the libraries' progress bars and notices below an error; ours are kept."""
    import datasets
    import transformers

    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    before = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=FutureWarning)
            yield
    finally:
        transformers.utils.logging.set_verbosity(before)
