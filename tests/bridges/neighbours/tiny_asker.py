"""An environment of verifiers 0.4 that is the user itself: the task has no prompt."""

import verifiers.v1 as vf
from tiny_play import PlayConfig, PlayData, PlayHarness


class AskTask(vf.Task[PlayData]):
    @vf.reward
    async def second(self, trace) -> float:
        return float(trace.last_reply == "two")


class Asks(vf.Taskset[AskTask, PlayConfig]):
    def load(self):
        for place in range(self.config.count):
            yield AskTask(PlayData(answer=str(place)))


class AskHarness(PlayHarness):
    SUPPORTS_RESUME = True

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        import httpx
        from verifiers.v1.dialects.chat import message_to_wire
        from verifiers.v1.runtimes import ProgramResult

        body = {"model": ctx.model, "messages": [message_to_wire(one) for one in data.prompt]}
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client:
            answer = await client.post(f"{endpoint.rstrip('/')}/chat/completions", json=body)
        return ProgramResult(exit_code=0 if answer.is_success else 1, stdout="", stderr=answer.text)


class AskConfig(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig()


class AskEnv(vf.Env[AskConfig]):
    async def run(self, task, agents):
        async with agents.agent.interaction(task) as talk:
            said = await talk.turn("say a number")
            if not said.terminated:
                await talk.turn(f"{said.last_reply} and now the next")


__all__ = ["AskEnv", "AskHarness", "Asks"]
