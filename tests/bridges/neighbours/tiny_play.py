"""A taskset of verifiers 0.4 with a harness of its own, in process: it runs a tool, then asks: are you sure?"""

import json

import httpx
import verifiers.v1 as vf
from verifiers.v1.runtimes import ProgramResult

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "integer"}, "other": {"type": "integer"}},
            "required": ["number", "other"],
        },
    },
}


class PlayData(vf.TaskData):
    answer: str = ""


class PlayConfig(vf.TasksetConfig):
    kind: str = "good"
    count: int = 4


class PlayTask(vf.Task[PlayData]):
    @vf.reward(weight=2.0)
    async def right(self, task, trace) -> float:
        return float(trace.last_reply == task.answer)

    @vf.reward
    async def left_a_file(self, runtime) -> float:
        return float((await runtime.run(["cat", "sums"], {})).stdout == "5\n")

    @vf.metric
    async def turns(self, trace) -> float:
        return float(trace.num_turns)


class BrokenTask(PlayTask):
    @vf.reward
    async def broken(self, trace) -> float:
        raise RuntimeError("the judge is out")


class UnratedTask(vf.Task[PlayData]):
    pass


class Play(vf.Taskset[PlayTask, PlayConfig]):
    def load(self):
        made = {"good": PlayTask, "broken": BrokenTask, "unrated": UnratedTask}[self.config.kind]
        for place in range(self.config.count):
            yield made(PlayData(prompt=f"question {place}", answer=str(place + 2), system_prompt="Add."))


class PlayHarness(vf.Harness[vf.HarnessConfig]):
    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        sure = False
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client:
            while True:
                body = {"model": ctx.model, "messages": messages, "tools": [ADD]}
                answer = await client.post(f"{endpoint.rstrip('/')}/chat/completions", json=body)
                answer.raise_for_status()
                message = answer.json()["choices"][0]["message"]
                messages.append(message)
                for call in message.get("tool_calls") or []:
                    given = json.loads(call["function"]["arguments"])
                    total = str(given["number"] + given["other"])
                    await runtime.run(["sh", "-c", f"echo {total} >> sums"], {})
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": total})
                if message.get("tool_calls"):
                    continue
                if sure:
                    return ProgramResult(exit_code=0, stdout="", stderr="")
                sure = True
                messages.append({"role": "user", "content": "sure?"})


__all__ = ["Play", "PlayHarness"]
