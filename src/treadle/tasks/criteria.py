"""Read acceptance criteria from flags: `--ac "AC3: text"`, `--verify "AC3=command"`."""

from collections.abc import Mapping, Sequence

from treadle.contract.criterion import Criterion
from treadle.errors import UsageError
from treadle.ids import hint, is_criterion_id


def from_flags(goal: str, texts: Sequence[str], verify: Sequence[str]) -> tuple[Criterion, ...]:
    """Number the criteria and attach their commands; without any, AC1 is the goal."""
    criteria: dict[str, Criterion] = {}
    for number, raw in enumerate(texts or [goal], 1):
        id_, text = _split_id(raw, f"AC{number}")
        if id_ in criteria:
            raise UsageError(f"criterion {id_} is given twice; give each --ac its own id")
        criteria[id_] = Criterion(id_, text)
    for id_, command in map(_split_verify, verify):
        if id_ not in criteria:
            near = hint(id_, criteria, or_all=True)
            raise UsageError(f"--verify {id_}: no such criterion{near}")
        if criteria[id_].verify is not None:
            raise UsageError(f"--verify {id_} is given twice")
        criteria[id_] = criteria[id_]._replace(verify=command)
    return tuple(criteria.values())


def with_config(
    criteria: Sequence[Criterion], commands: Mapping[str, str]
) -> tuple[Criterion, ...]:
    """Attach configured commands to criteria whose text contains their key."""
    return tuple(_configured(criterion, commands) for criterion in criteria)


def _configured(criterion: Criterion, commands: Mapping[str, str]) -> Criterion:
    if criterion.verify is not None:
        return criterion
    for key, command in commands.items():
        if key in criterion.text:
            return criterion._replace(verify=command)
    return criterion


def _split_id(raw: str, default: str) -> tuple[str, str]:
    head, colon, rest = raw.partition(":")
    if colon and rest.strip() and is_criterion_id(head.strip()) and head.strip()[-1].isdigit():
        return head.strip(), rest.strip()
    if not raw.strip():
        raise UsageError("an --ac must say something")
    return default, raw.strip()


def _split_verify(raw: str) -> tuple[str, str]:
    id_, equals, command = raw.partition("=")
    if not equals or not command.strip():
        raise UsageError(f'--verify {raw!r}: write it as --verify "AC1=command"')
    return id_.strip(), command.strip()
