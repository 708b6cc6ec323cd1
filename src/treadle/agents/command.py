"""Drive any command-line tool by its settings: a prompt in, an answer and usage out."""

import re
from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from treadle.agents import answer, backend, oneshot, trouble
from treadle.agents.backend import AgentResult, AgentSpec, Heard, Tool, Usage, money_at, turn_usage
from treadle.config import agents
from treadle.contract.messages import AgentRequest
from treadle.files import walk
from treadle.layout import OUTPUT_JSON, PROMPT

TOOL = Tool(name="command", home="", state_variable="", tell=lambda event: iter(()))

_MAX_ARGUMENT = 120 << 10  # bytes; the kernel refuses 128 KiB
_TAIL = 4000  # characters of a log that may hold the reason of a failure
# Where a pattern looks for usage: it may take time that grows with the square of a line.
_LOOKED_AT, _LINES, _WIDTH = 256 << 10, 400, 400
_NUMBER = re.compile(r"[^\d.,]*((?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([kKmM]?)")
_UNITS = {"k": 1e3, "m": 1e6}


def run(spec: AgentSpec, request: AgentRequest, prompt: str, step_dir: Path) -> AgentResult:
    """Take one turn; as no conversation goes on, a repair is the prompt anew with the complaint."""
    text, complaint, printed = prompt, None, 0
    calls: list[Usage | None] = []
    while True:
        result = _call(spec, text, step_dir, calls)
        printed += result.output_bytes
        found = None if result.error else _answer(spec, request, step_dir)
        if not isinstance(found, str) or complaint:
            break
        oneshot.keep_attempt(spec, f"the answer could not be used: {found}")
        text, complaint = (
            f"{prompt.rstrip()}\n\n# Your last answer\n\n{answer.repair(found)}",
            found,
        )
    if found is not None:
        said = walk.tail(spec.stdout, _TAIL)
        result = replace(answer.result(spec, result, found, said), repaired=complaint)
        if isinstance(found, str):
            result = trouble.refused(spec, said, result)
    used = turn_usage(calls, (), spec.config)
    return replace(result, usage=used, output_bytes=printed)


def _call(spec: AgentSpec, text: str, step_dir: Path, calls: list[Usage | None]) -> AgentResult:
    """Run the tool once; exit code 0 is its word that it has answered."""
    prompt = spec.stdout.with_name(PROMPT)
    prompt.write_text(text, errors="backslashreplace")
    argv = _argv(spec, text, prompt, step_dir)
    stdin = prompt if spec.config.prompt == "stdin" else None
    ended, result = backend.run_child(spec, argv, stdin)
    if not ended.vouched:
        return result
    calls.append(_usage(spec))
    if not result.error or ended.reason not in ("exit", "signal", "lost"):
        return result
    said = walk.tail(spec.stderr, _TAIL).strip() or walk.tail(spec.stdout, _TAIL).strip()
    return trouble.named(TOOL, spec, Heard(error=said), result)


def _argv(spec: AgentSpec, text: str, prompt: Path, step_dir: Path) -> tuple[str, ...]:
    data = text.encode(errors="backslashreplace")
    if len(data) > _MAX_ARGUMENT:
        text = data[:_MAX_ARGUMENT].decode(errors="ignore")
        text += f"\n\n[cut here; the whole text is in {prompt}]"
    values = {
        "prompt": text,
        "prompt_file": str(prompt),
        "step": str(step_dir),
        "workspace": str(spec.workspace),
        "model": spec.config.model or "",
    }
    words = agents.argv(spec.root, spec.config)
    return tuple(agents.PLACE.sub(lambda found: values[found[1]], word) for word in words)


def _answer(spec: AgentSpec, request: AgentRequest, step_dir: Path) -> answer.Answer | str:
    """Look where the answer is said to be; without a file, in what the tool said."""
    in_file = spec.config.answer == "file" and (step_dir / OUTPUT_JSON).is_file()
    said = "" if in_file else walk.tail(spec.stdout, answer.MAX_RESPONSE)
    return oneshot.read_answer(Heard(is_done=True, text=said), request, step_dir)


def _usage(spec: AgentSpec) -> Usage | None:
    """Add up what the pattern finds in the last lines of what the tool printed."""
    if not spec.config.usage:
        return None
    found = Counter[str]()
    for log in (spec.stdout, spec.stderr):
        for line in walk.tail(log, _LOOKED_AT).splitlines()[-_LINES:]:
            for match in re.finditer(spec.config.usage, line[:_WIDTH]):
                found.update({name: _number(text) for name, text in match.groupdict().items()})
    if not found:
        return None
    return Usage(
        model=spec.config.model,
        input_tokens=int(found["input"]),
        cached_tokens=int(found["cached"]),
        output_tokens=int(found["output"]),
        cost_usd=round(found["cost"], 6),
    )


def _number(text: str | None) -> float:
    """Read an amount such as 12,345 or 2.3k or $0.05; what is none is 0."""
    match = _NUMBER.match(text or "")
    if not match:
        return 0.0
    value = float(match[1].replace(",", "")) * _UNITS.get(match[2].lower(), 1)
    return money_at({"value": value}, "value")
