"""Pick a routine for a message that names none."""

import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from treadle.inbox.bounds import Host
from treadle.inbox.routines import BUILT_IN, Routine
from treadle.proc.keeper import Ended, Limits

Source = Literal["message", "router", "spec", "config", "built-in"]

TIMEOUT = 30.0
_OUTPUT = 64 << 10
_SAID = 200
_TEXT = 64 << 10
_PLAIN_WORDS = re.compile(r"[\w\s,-]+")

PROMPT = """Select the most appropriate routine for this task.

## Available Routines
{routines}

## Task
{task}

Respond with ONLY the routine name, nothing else.
"""


class Choice(NamedTuple):
    """The routine, what decided, and why; with a router of the user's own, what was said."""

    routine: str
    source: Source
    reason: str
    transcript: str | None = None


class Answer(NamedTuple):
    """What the router came to: a name, or None and why not."""

    name: str | None
    reason: str
    transcript: str | None = None


class Fallback(NamedTuple):
    """What decides when nobody else does."""

    spec: str | None
    config: str


class External(NamedTuple):
    """A router of the user's own, where it runs, and how long it may think."""

    command: Sequence[str] | str
    host: Host
    timeout: float = TIMEOUT


def choose(
    task: str, known: Mapping[str, Routine], fallback: Fallback, external: External | None
) -> Choice:
    """Return the routine for a message that names none."""
    if len(known) == 1 or not task.strip():
        why = "there is only one routine" if len(known) == 1 else "there is nothing to read"
        return _fall_back(known, fallback, why, None)
    answer = ask(external, task, known) if external else embedded(task, known)
    if answer.name:
        return Choice(answer.name, "router", answer.reason, answer.transcript)
    return _fall_back(known, fallback, answer.reason, answer.transcript)


def _fall_back(
    known: Mapping[str, Routine], fallback: Fallback, why: str, transcript: str | None
) -> Choice:
    if fallback.spec and fallback.spec in known:
        return Choice(fallback.spec, "spec", f"{why}; the spec names it", transcript)
    if fallback.config in known:
        return Choice(fallback.config, "config", f"{why}; default_routine names it", transcript)
    return Choice(BUILT_IN, "built-in", f"{why}; it is always there", transcript)


def prompt(task: str, known: Mapping[str, Routine]) -> str:
    """Return the question for a router."""
    lines = [f"- {routine.name}: {routine.summary}" for routine in known.values()]
    return PROMPT.format(routines="\n".join(lines), task=task.strip("\n"))


def embedded(task: str, known: Mapping[str, Routine]) -> Answer:
    """Count how often each routine's `when:` pattern is found in the text; the best one wins."""
    text = task[:_TEXT]
    hits = {name: _hits(routine.when, text) for name, routine in known.items() if routine.when}
    best = max((len(found) for found in hits.values()), default=0)
    winners = [name for name, found in hits.items() if len(found) == best]
    if not best:
        return Answer(None, "no routine's `when:` line is found in the text")
    if len(winners) > 1:
        return Answer(None, f"{' and '.join(winners)} are equally close to the text")
    words = ", ".join(sorted({word.lower() for word in hits[winners[0]]}))
    return Answer(winners[0], f"its `when:` line is found {best} times in the text: {words}")


def _hits(when: str, text: str) -> list[str]:
    if _PLAIN_WORDS.fullmatch(when):
        when = "|".join(map(re.escape, re.split(r"[\s,]+", when.strip(", "))))
    try:
        pattern = re.compile(rf"\b(?:{when})", re.IGNORECASE)
    except re.error:
        return []
    return [found[0] for found in pattern.finditer(text) if found[0]]


def ask(external: External, task: str, known: Mapping[str, Routine]) -> Answer:
    """Ask the configured program; whatever it does, this ends, and what was said is kept."""
    question = prompt(task, known)
    with tempfile.TemporaryDirectory(prefix="treadle-router-") as name:
        folder = Path(name)
        (folder / "prompt").write_text(question)
        ended = _run(external, question, folder)
        said = _read(folder / "stdout")
        errors = _read(folder / "stderr")
        denied = external.host.bounds.denied(folder / "stderr", external.host.env)
    name_, reason = _judge(ended, said, known)
    reason += "" if name_ else denied
    transcript = f"{question}\n--- answer ---\n{said}\n--- errors ---\n{errors}\n--- {reason}\n"
    return Answer(name_, reason, transcript)


def _run(external: External, question: str, folder: Path) -> Ended:
    command = external.command
    words = shlex.split(command) if isinstance(command, str) else list(command)
    is_argument = any("{prompt}" in word for word in words[1:])
    argv = [words[0], *(word.replace("{prompt}", question) for word in words[1:])]
    return external.host.run(
        argv,
        Limits(wall=external.timeout, idle=None, output_bytes=_OUTPUT),
        (folder / "stdout", folder / "stderr"),
        None if is_argument else folder / "prompt",
    )


def _judge(ended: Ended, said: str, known: Mapping[str, Routine]) -> tuple[str | None, str]:
    if ended.reason != "exit":
        return None, f"the router did not answer ({ended.detail or ended.reason})"
    if ended.exit_code:
        return None, f"the router exited with {ended.exit_code}"
    name = said.strip().strip("\"'`").removesuffix(".").strip("\"'`")
    if name in known:
        return name, f"the router answered {name!r}"
    return None, f"the router answered {said.strip()[:_SAID]!r}, which is no routine"


def _read(path: Path) -> str:
    return path.read_bytes()[:_OUTPUT].decode(errors="replace") if path.exists() else ""
