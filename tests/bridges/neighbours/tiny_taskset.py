"""A taskset of verifiers 0.4."""

import verifiers.v1 as vf


class SumData(vf.TaskData):
    answer: str = ""


class SumTask(vf.Task[SumData]):
    @vf.reward(weight=2.0)
    async def right(self, task, trace) -> float:
        return float(trace.last_reply == task.answer)

    @vf.reward
    async def short(self, trace) -> float:
        return float(len(trace.last_reply) < 3)


class Sums(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self):
        for number in range(3):
            data = SumData(prompt=f"{number}+1=", answer=str(number + 1), system_prompt="Add.")
            yield SumTask(data, self.config.task if hasattr(self.config, "task") else None)


__all__ = ["Sums"]
