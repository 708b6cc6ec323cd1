"""Carry out crash experiments one by one, in a private world, for `crew`."""

import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash import model, powerloss, scenario
from tests.crash.scenario import Outcome
from tests.crash.supervise import Call, Command, Ending, Judge, Kill, let_all, run, supervise
from tests.crash.world import World

_NEED_NO_SPACE = ("unlink", "unlinkat", "rmdir", "ftruncate", "truncate", "fsync", "fdatasync")
Item = dict[str, Any]
Result = dict[str, Any]


class Worker:
    """One scenario, one world, many experiments."""

    def __init__(self, name: str, folder: Path, index: int) -> None:
        self.scenario = scenario.load(name)
        self.output = folder / f"printed-{index}"
        self.start, self.half = folder / f"start-{index}", folder / f"half-{index}"
        self.world = World(folder / "world")
        self.world.clear()
        self.scenario.prepare(self.world.root)
        self.world.save(self.start)
        self.command = self.scenario.command(self.world.root)
        self.model: model.Model | None = None

    def do(self, item: Item) -> Result:
        """Carry out one experiment."""
        kinds: dict[str, Callable[[Item], Result]] = {
            "count": self._count,
            "kill": self._kill,
            "double": self._double,
            "late": self._late,
            "fail": self._fail,
            "fill": self._fill,
            "record": self._record,
            "state": self._state,
        }
        return kinds[item["kind"]](item)

    def _count(self, item: Item) -> Result:
        self.world.restore(self.start)
        before = self.world.used()
        ending = self._watched(self.command, let_all)
        sizes = [before, self.world.used()]
        calls = [[call.name, call.path] for call in ending.calls]
        return {"calls": calls, "bytes": sizes, "violations": self._judge(ending)}

    def _kill(self, item: Item) -> Result:
        ending = self._killed(item)
        label = _label(ending.calls, item["at"])
        return {"label": label, "violations": self._judge(ending)}

    def _double(self, item: Item) -> Result:
        """Kill the job, then kill its recovery at each of its calls, then recover in peace."""
        first = self._killed(item)
        self.world.save(self.half)
        found: list[str] = []
        tried = 0
        while self._recovery_dies(tried + 1):
            tried += 1
            found += [f"second kill {tried}: {text}" for text in self._judge(first)]
            self.world.restore(self.half)
        return {"label": _label(first.calls, item["at"]), "kills": tried, "violations": found}

    def _late(self, item: Item) -> Result:
        """Kill the tree at a moment of the clock, without any watch that could change timing."""
        self.world.restore(self.start)
        ending = run(self.command, self.output, item["seconds"], is_killed=True)
        label = f"after {item['seconds']:.3f} s"
        return {"label": label, "violations": self._judge(ending)}

    def _fail(self, item: Item) -> Result:
        self.world.restore(self.start)
        ending = self._watched(self.command, _failing(item["at"], item["errno"], item["lasts"]))
        label = f"{errno.errorcode[item['errno']]} {_label(ending.calls, item['at'])}"
        return {"label": label, "code": ending.code, "violations": self._judge(ending)}

    def _fill(self, item: Item) -> Result:
        """Run on a disk that is too small, then give it room."""
        self.world.restore(self.start, item["bytes"])
        ending = run(self.command, self.output)
        self.world.save(self.half)
        self.world.restore(self.half)
        label = f"a disk of {item['bytes']} bytes"
        return {"label": label, "code": ending.code, "violations": self._judge(ending)}

    def _record(self, item: Item) -> Result:
        self.world.restore(self.start)
        recorded, ending = powerloss.record(self.command, self.world.root, self.output)
        model.save(recorded, Path(item["file"]))
        return {"operations": len(recorded.operations), "violations": self._judge(ending)}

    def _state(self, item: Item) -> Result:
        if self.model is None:
            self.model = model.load(Path(item["file"]))
        self.world.clear()
        state = model.State.read(item["state"])
        self.model.materialise(state, self.world.root)
        self.world.trust()
        seen = Ending(None, self.model.printed(state.point), [])
        return {"violations": self._judge(seen)}

    def _killed(self, item: Item) -> Ending:
        self.world.restore(self.start)
        return self._watched(self.command, _killing(item["at"], Kill(item["victim"])))

    def _recovery_dies(self, at: int) -> bool:
        """Run the recovery until its `at`-th call; tell whether there was one."""
        seen = 0
        for command in self.scenario.recovery(self.world.root):
            ending = self._watched(command, _killing(at - seen, Kill()))
            seen += len(ending.calls)
            if seen >= at:
                return True
        return False

    def _judge(self, ending: Ending) -> list[str]:
        """Recover and ask the scenario what is broken."""
        found = ["did not end in time"] if ending.hung else []
        if ending.survivors:
            found.append(f"left {ending.survivors} processes alive")
        for command in self.scenario.recovery(self.world.root):
            done = run(command, self.output)
            if done.code != 0:
                tail = done.printed.strip()[-400:]
                found.append(f"recovery {' '.join(command.argv[-3:])} gave {done.code}: {tail}")
        return found + self.scenario.verify(self.world.root, Outcome(ending.code, ending.printed))

    def _watched(self, command: Command, judge: Judge) -> Ending:
        return supervise(command, self.world.root, self.output, judge)


def _killing(at: int, ruling: Kill) -> Judge:
    return lambda call: ruling if call.number == at else 0


def _failing(at: int, code: int, lasts: bool) -> Judge:
    def judge(call: Call) -> int:
        if call.number == at:
            return code
        if not lasts or call.number < at:
            return 0
        return 0 if code != errno.EROFS and call.name in _NEED_NO_SPACE else code

    return judge


def _label(calls: list[Call], at: int) -> str:
    if len(calls) < at:
        return f"call {at} was not reached"
    return f"call {at}: {calls[at - 1].name} {calls[at - 1].path}"


def main() -> None:
    """Answer each line of standard input with one line."""
    name, folder, index = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(name, Path(folder), int(index))
    for line in sys.stdin:
        replies.write(json.dumps(worker.do(json.loads(line))) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
