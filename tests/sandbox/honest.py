"""Run one command of a user's in the sandbox, with a home as it lies on a machine.

Run as `python honest.py CASE`, a JSON file; needs nothing but the standard library, so that an
unprivileged user can run it with any interpreter.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from treadle.proc import environment
from treadle.proc.keeper import Command, Keeper, Limits
from treadle.sandbox import home, jails
from treadle.sandbox.policy import expand


def main(case):
    asked = json.loads(Path(case).read_text())
    root = Path(case).parent
    work, tmp = root / "home/code/work", root / "tmp"
    env = environment.allowed(asked["env"])
    policy = home.closed(asked["env"], read=asked["read"], places=[work])
    policy = policy._replace(
        writable=(work, tmp, *expand(asked["writable"], env)),
        network=asked["network"],
        unix_sockets=asked["unix_sockets"],
    )
    out = root / "out"
    with Keeper() as keeper:
        ended = keeper.run(
            Command(
                ("sh", "-ec", asked["script"]),
                work,
                env | {"TMPDIR": str(tmp)},
                None,
                out,
                out,
                Limits(wall=240),
                jails.jail_for(asked["tier"], policy),
            )
        )
    said = out.read_text(errors="replace")
    print(json.dumps({"code": ended.exit_code, "reason": ended.reason, "said": said}))


if __name__ == "__main__":
    main(sys.argv[1])
