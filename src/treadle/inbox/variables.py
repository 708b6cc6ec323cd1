"""Choose which fields of a message a routine gets as variables."""

import re
from collections.abc import Mapping

from treadle.frontmatter.block import Value
from treadle.inbox.routines import Routine

_SYSTEM = re.compile(
    r"(LD|DYLD|GIT|TREADLE|LC|XDG|SSH|BASH|PYTHON|PERL|RUBY|NODE|JUPYTER|IPYTHON)_?.*"
    r"|PATH|HOME|SHELL|USER|LOGNAME|TERM|LANG|TZ|IFS|ENV|PS[0-9]|PWD|OLDPWD|TMPDIR|EDITOR|PAGER"
    r"|[A-Za-z]+_PROXY|UID|EUID|PPID|SHELLOPTS|CDPATH|GLOBIGNORE|OPTARG|OPTIND|RANDOM|HISTFILE"
    r"|spec_file|message_file|message_id|message_dir|chain|seq|input_file|id|type|routine",
    re.IGNORECASE,
)


def custom(routine: Routine, fields: Mapping[str, Value]) -> dict[str, str]:
    """Return the message's own fields that the routine declares and that may be set."""
    return {
        name: value
        for name, value in fields.items()
        if isinstance(value, str) and name in routine.parameters and is_free(name)
    }


def is_free(name: str) -> bool:
    """Tell whether a message may set this variable: none of the system's, none of treadle's."""
    return _SYSTEM.fullmatch(name) is None
