"""The Agent Skills that init writes on request."""

SKILLS = {
    "treadle-next": """\
---
name: treadle-next
description: Work on a treadle mission step by step. Use it when asked to continue a mission, to \
do the next step, or when the repository has a missions/ or kitty-specs/ folder and treadle.
---
# The next step of a mission

1. Run `treadle next --json` (with `--mission SLUG` if there are several).
2. `kind: step`: read the file `prompt_file` and do exactly what it says. It ends with the command
   that reports the result; the answer to that is the next decision.
3. `kind: blocked` or `decision_required`: tell the user `reason` and the commands in `unblock`;
   do not guess. `kind: complete`: stop.
4. Commit your work before you report; a report is refused while files are uncommitted.

A `kind=step` envelope with a null or non-resolvable `prompt_file` is illegal. If you see one, \
treat it as a runtime bug, not a `kind=blocked` substitute.
""",
    "treadle-run": """\
---
name: treadle-run
description: Hand work to treadle, which plans, does, checks and repairs it in a private \
workspace. Use it when asked to run a task with treadle, or to see what a run did.
---
# Hand work to treadle

1. `treadle task add "what should be true" --ac "how to tell" --verify "AC1=command" --json`
2. `treadle run TASK --json`: exit 0 is PASS, 4 a spent budget, 3 something to decide first.
3. `treadle why RUN` explains how it ended, `treadle land RUN` brings it into the branch.

`treadle describe --json` lists every command. Every error names in `fix` the commands that help.
""",
}
