"""Episodes of other systems that ask for the model's turns, in a training and through a model's address."""

from __future__ import annotations

import asyncio
import json
import re

import pytest
from plaudit.bridges.episodes import EpisodeError, EpisodeOver, Policy, ProgramEpisode, Written
from plaudit.bridges.http import JSONClient, ServerError
from plaudit.bridges.model_endpoint import HeldOpen, ModelEndpoint
from plaudit.bridges.openai_messages import ChangedDialogue, grown, message_of
from scripted import chat_rows, make_trainer, turns_of

SYSTEM = {"role": "system", "content": "Count."}


def user(text):
    return {"role": "user", "content": text}


class Twice(ProgramEpisode):
    """Asks for two turns of a row's prompt, and returns what was said."""

    async def program(self, policy, row):
        dialogue = list(row["prompt"])
        try:
            for place in range(2):
                written = await policy.ask(dialogue)
                dialogue += [written.message, user(f"go on {place}")]
        except EpisodeOver:
            pass
        return [one["content"] for one in dialogue if one["role"] == "assistant"]

    async def get_reward(self):
        return float(len(await self.outcome()))


class NoPrompt(Twice):
    async def program(self, policy, row):
        return await super().program(policy, {"prompt": [SYSTEM, user("begin")]})


class Changes(Twice):
    async def program(self, policy, row):
        written = await policy.ask(row["prompt"])
        await policy.ask([user("another dialogue"), written.message, user("more")])


class AtOnce(Twice):
    async def program(self, policy, row):
        await asyncio.gather(*(policy.ask(row["prompt"]) for _ in range(2)))


class Silent(Twice):
    async def program(self, policy, row):
        return []


class Breaks(Twice):
    async def program(self, policy, row):
        await policy.ask(row["prompt"])
        raise RuntimeError("the world ended")


class AgainTheSame(Twice):
    async def program(self, policy, row):
        written = await policy.ask(row["prompt"])
        await policy.ask([*row["prompt"], written.message])


class OtherTools(Twice):
    async def program(self, policy, row):
        await policy.ask(row["prompt"], [{"type": "function", "function": {"name": "fly", "parameters": {}}}])


def play(folder, environment, **more):
    rows = chat_rows()
    trainer = make_trainer(
        folder, lambda text, index: f"turn {turns_of(text)}", rows=rows, environment_factory=environment, **more
    )
    trainer.train()
    return trainer.state.log_history[0]


def test_a_program_is_played(tmp_path):
    log = play(tmp_path, Twice)
    assert (log["rewards/Twice/mean"], log["completions/mean_length"]) == (2.0, 14.0)


def test_a_program_may_end_early(tmp_path):
    assert play(tmp_path, Twice, max_tool_calling_iterations=0)["rewards/Twice/mean"] == 1.0


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        (NoPrompt, "message 0 of the dialogue is system 'Count.' now"),
        (Changes, "message 0 of the dialogue is user 'another dialogue' now"),
        (AgainTheSame, "without saying anything to the turn before"),
        (Silent, "ended before it asked for a turn"),
        (OtherTools, r"asks for a turn with the tools \['fly'\]; this environment's are none"),
    ],
)
def test_what_cannot_be_learnt_from_gives_the_rollout_up(tmp_path, environment, says, caplog):
    play(tmp_path, environment)
    assert any(re.search(says, record.getMessage()) for record in caplog.records)


@pytest.mark.parametrize(("environment", "says"), [(Breaks, "the world ended"), (AtOnce, "two turns were asked for")])
def test_a_program_that_breaks_abstains(tmp_path, environment, says, caplog):
    log = play(tmp_path, environment)
    assert log.get(f"rewards/{environment.__name__}/mean") is None
    assert says in caplog.text


def test_a_program_without_prompt_begins_the_dialogue():
    async def begin():
        episode = NoPrompt()
        said = await episode.reset(task=1)
        await episode.close()
        return said

    assert asyncio.run(begin()) == [SYSTEM, user("begin")]


def test_nothing_to_score_before_a_reset():
    with pytest.raises(EpisodeError, match="reset begins one"):
        asyncio.run(Twice().outcome())


def test_messages_of_others():
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    dialogue = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    answer = {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "4"}]}
    assert message_of(answer, dialogue) == {"role": "tool", "content": "4", "tool_call_id": "1", "name": "add"}
    assert grown([user("a ")], [{"role": "user", "content": [{"type": "text", "text": "a"}]}, user("b")]) == [user("b")]
    with pytest.raises(ChangedDialogue, match=r"\(https://pictures\) cannot be shown"):
        message_of({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://pictures"}}]}, [])


CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
TURN = Written({"role": "assistant", "content": "", "tool_calls": [CALL]}, "tool_calls", (1, 2), 5)


async def asked(address, path, policy, bodies):
    """The answers to these requests, one after another; the policy writes TURN to each."""
    client, found = JSONClient(address + path), []
    try:
        for body in bodies:
            request = asyncio.ensure_future(client._ask("POST", "/chat/completions", body, None))
            if await policy.wanted(request) is not None:
                policy.write(TURN)
            found.append(await request)
    finally:
        await client.close()
    return found


def test_a_policy_has_a_models_address():
    over = []

    async def ask():
        endpoint, policy = ModelEndpoint(), Policy()
        async with endpoint.serving() as address, endpoint.seated(policy, lambda: over.append(1)) as path:
            body = {"model": "m", "messages": [user("2+2")]}
            plain, streamed = await asked(address, path, policy, [body, {**body, "stream": True}])
            with pytest.raises(ServerError, match=r"400: .*messages is None; expected a list"):
                await asked(address, path, policy, [{}])
            with pytest.raises(ServerError, match="404: no such rollout"):
                await asked(address, "/nobody/v1", policy, [body])
            policy.end()
            with pytest.raises(ServerError, match=r"400: .*no room for another turn"):
                await asked(address, path, policy, [body])
        return json.loads(plain), streamed

    plain, streamed = asyncio.run(ask())
    assert plain["choices"][0]["message"] == TURN.message
    assert plain["choices"][0]["finish_reason"] == "tool_calls"
    assert plain["usage"] == {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
    first, last = streamed.strip().split("\n\n")
    assert json.loads(first.removeprefix("data: "))["choices"][0]["delta"]["tool_calls"] == [{"index": 0, **CALL}]
    assert (last, over) == ("data: [DONE]", [1])


def test_what_is_shared_is_open_while_it_is_used():
    from contextlib import asynccontextmanager

    heard = []

    @asynccontextmanager
    async def opening():
        heard.append("open")
        yield len(heard)
        heard.append("closed")

    @asynccontextmanager
    async def failing():
        raise RuntimeError("no port is free")
        yield

    async def use():
        held = HeldOpen(opening)
        assert [await held.take(), await held.take()] == [1, 1]
        await held.give_back()
        assert heard == ["open"]
        await held.give_back()
        assert heard == ["open", "closed"]
        assert await held.take() == 3
        await held.give_back()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no port"):
                await HeldOpen(failing).take()

    asyncio.run(use())
    assert heard == ["open", "closed"] * 2
