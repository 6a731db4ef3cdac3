"""Datasets that stream: their order beside TRL's, what is held of them, evaluation, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from datasets import Dataset, IterableDataset
from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit.errors import UsageError
from plaudit.grpo.rows.streams import StreamedRows, shuffled, streams

from runs import ROWS, make_trainer


def numbers(count):
    return IterableDataset.from_generator(lambda: ({"prompt": str(n)} for n in range(count)))


def read(rows, batches, size):
    return [[row["prompt"] for row in rows.records(number, range(size))] for number in range(batches)]


@pytest.mark.peer
@pytest.mark.parametrize("shuffle", [True, False])
def test_the_order_is_that_of_trl_over_epochs(shuffle):
    from trl.trainer.utils import repeat_iterable_dataset

    stream = numbers(11)
    ours = StreamedRows(shuffled(stream, 5) if shuffle else stream, 3)
    theirs = repeat_iterable_dataset(stream.shuffle(seed=5) if shuffle else stream, 2, 3, 4)
    found = read(ours, 9, 3)
    for epoch in range(3):
        theirs.set_epoch(epoch)
        expected = [row["prompt"] for row in theirs]
        batches = found[epoch * 3 : (epoch + 1) * 3]
        assert [prompt for batch in batches for _ in range(4) for prompt in batch for _ in range(2)] == expected
    assert ours.starts == [0, 3, 6]
    assert (found[:3] == found[3:6]) is not shuffle


@settings(deadline=None, max_examples=25)
@given(rows=st.integers(3, 12), asked=st.lists(st.integers(0, 15), min_size=1, max_size=5), first=st.integers(0, 12))
def test_batches_can_be_asked_again_and_after_a_resume(rows, asked, first):
    expected = read(StreamedRows(shuffled(numbers(rows), 1), 3), 16, 3)
    some = StreamedRows(shuffled(numbers(rows), 1), 3)
    some.records(first, range(3))
    resumed = StreamedRows(shuffled(numbers(rows), 1), 3)
    resumed.load_state_dict(some.state_dict())
    for number in asked:
        assert [row["prompt"] for row in resumed.records(number, range(3))] == expected[number]


def test_a_resumed_run_reads_its_own_epoch_only():
    read_rows = []

    def rows():
        for n in range(6):
            read_rows.append(n)
            yield {"prompt": str(n)}

    first = StreamedRows(IterableDataset.from_generator(rows), 2)
    read(first, 8, 2)
    resumed = StreamedRows(IterableDataset.from_generator(rows), 2)
    resumed.load_state_dict(first.state_dict())
    read_rows.clear()
    assert [row["prompt"] for row in resumed.records(7, range(2))] == ["2", "3"]
    assert len(read_rows) <= 5


def test_training_on_a_stream_without_shuffling_equals_training_on_the_dataset(tmp_path):
    data = Dataset.from_list(ROWS)
    options = {"shuffle_dataset": False, "max_steps": 3}
    whole = make_trainer(tmp_path / "whole", rows=data, **options)
    whole.train()
    stream = make_trainer(tmp_path / "stream", rows=data.to_iterable_dataset(), **options)
    stream.train()
    for one, other in zip(whole.model.parameters(), stream.model.parameters(), strict=True):
        assert torch.equal(one, other)
    # A stream counts as one epoch of max_steps, as for every Trainer.
    assert stream.state.epoch == 1.0


def test_evaluation_goes_through_a_stream(tmp_path):
    trainer = make_trainer(tmp_path, eval_rows=Dataset.from_list(ROWS[:5]).to_iterable_dataset(), log_completions=True)
    assert 0 <= trainer.evaluate()["eval_reward"] <= 2
    import pyarrow.parquet as pq

    table = pq.read_table(next((tmp_path / "completions").glob("eval_*.parquet"))).to_pydict()
    assert sorted(set(table["prompt"])) == sorted(row["prompt"] for row in ROWS[:5])
    assert len(table["prompt"]) == 20


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (numbers(9), {"max_steps": -1}, r"streams, so nobody knows how long an epoch is; set max_steps"),
        (numbers(0), {}, r"train_dataset is empty"),
        ((row for row in ROWS), {}, r"train_dataset is a generator; expected .*IterableDataset.from_generator"),
        (
            IterableDataset.from_generator(lambda: iter([{"text": "a"}])),
            {},
            r"has no 'prompt' column \(it has 'text'\)",
        ),
    ],
)
def test_what_cannot_be_streamed_is_refused_before_a_model_is_loaded(rows, options, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        make_trainer(tmp_path, rows=rows, **options)


def test_a_stream_that_fills_no_batch_is_said(tmp_path):
    with pytest.raises(UsageError, match=r"streams 1 rows but one generation batch takes 2 prompts"):
        make_trainer(tmp_path, rows=numbers(1)).train()


def test_the_block_of_the_page_gives_a_stream(tmp_path, monkeypatch):
    page = Path(__file__).parents[3] / "docs" / "concepts" / "many-processes.md"
    if not page.exists():
        pytest.skip("the pages are not part of the distribution")
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text('{"prompt": "1+1="}\n')
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", page.read_text(), re.DOTALL)[1], names)
    assert streams(names["rows"])
    assert next(iter(names["rows"])) == {"prompt": "1+1="}


def test_a_dataset_is_read_row_by_row(tmp_path):
    read_rows = []

    class Watched(list):
        def __getitem__(self, place):
            read_rows.append(place)
            return super().__getitem__(place)

    trainer = make_trainer(tmp_path, max_steps=2)
    trainer.source.rows.dataset = Watched(ROWS)
    trainer.train()
    assert len(read_rows) == 2 * 2
