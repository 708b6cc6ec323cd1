"""What routines get from their surroundings, how they may be called, and their last words."""

import json
import shutil

import pytest

from tests.acceptance.messages import done, drop, log, routine, spec
from treadle.sandbox import jails

HELD = pytest.mark.skipif(jails.probe("A").tier == "0", reason="no sandbox here")
USUAL = 'default_routine = "log"\nmax_retries = 1\n'


def message(project, **env):
    (found,) = project.treadle("process", "--json", env=env).json["messages"]
    return found


def test_variables_reach_all_routines_or_the_one_that_is_named(inbox):
    text = '#!/bin/sh\n# Log\necho "$TOKEN_A $TOKEN_B" >> log.txt\n'
    routine(inbox, "log", text)
    routine(inbox, "other", text)
    names = '[routine]\nenv_allow = ["TOKEN_A"]\n[routines.other]\nenv_allow = ["TOKEN_B"]\n'
    inbox.settings(f"{USUAL}{names}")
    drop(inbox, "2025022514320000-0.md", "---\nroutine: log\n---\nx\n")
    drop(inbox, "2025022514320000-1.md", "---\nroutine: other\n---\nx\n")
    inbox.treadle("process", env={"TOKEN_A": "a", "TOKEN_B": "b"})
    assert log(inbox) == ["a ", "a b"]


@HELD
def test_a_routine_writes_where_its_table_says_and_is_told_the_key(inbox):
    beside = inbox.folder / "state-of-mine"
    beside.mkdir()
    routine(inbox, "log", f"#!/bin/sh\n# Log\necho > {beside}/x && echo ok >> log.txt\n")
    inbox.settings(USUAL)
    spec(inbox, "01-a.spec.md")
    found = message(inbox)
    assert f'routines.log.writable = ["{beside}"] would allow it' in found["reason"]
    inbox.settings(f'{USUAL}[routines.log]\nwritable = ["{beside}"]\n')
    inbox.treadle("spec", "retry", "01")
    assert message(inbox)["status"] == "done"


@HELD
def test_unix_sockets_and_network_are_keys_of_routines_too(inbox):
    code = "import socket; socket.socket(socket.AF_UNIX); open('log.txt', 'w').write('ok')"
    python = shutil.which("python3")
    routine(inbox, "log", f'#!/bin/sh\n# Log\n{python} -c "{code}"\n')
    inbox.settings(USUAL)
    spec(inbox, "01-a.spec.md")
    assert "routines.log.unix_sockets = true would allow it" in message(inbox)["reason"]
    inbox.settings(f"{USUAL}[routine]\nunix_sockets = true\n")
    inbox.treadle("spec", "retry", "01")
    assert message(inbox)["status"] == "done"


@pytest.mark.real
def test_a_routine_has_the_time_that_its_table_gives(inbox):
    routine(inbox, "log", "#!/bin/sh\n# Log\nsleep 60\n")
    inbox.settings(f"{USUAL}[routines.log]\ntimeout = 0.5\n")
    spec(inbox, "01-a.spec.md")
    assert "0.5" in message(inbox)["reason"]


@pytest.mark.real
def test_the_last_words_of_a_routine_are_shown_wherever_it_is_explained(inbox):
    lines = "".join(f"echo line {number} >&2\n" for number in range(30))
    routine(inbox, "log", f"#!/bin/sh\n# Log\n{lines}exit 7\n")
    inbox.settings(USUAL)
    spec(inbox, "01-a.spec.md")
    told = inbox.treadle("process").out
    run = inbox.only_run()["run_id"]
    where = [told, inbox.treadle("why", run).out, inbox.treadle("log", run).out]
    where.append(inbox.treadle("dead", "show", "01-a.spec.md").out)
    for text in where:
        assert "| line 29" in text
        assert "| line 15" in text
        assert "line 14" not in text
        assert f"log: {inbox.step_dir(run, '001-do')}/logs/stderr.txt" in text
    found = inbox.treadle("dead", "show", "01-a.spec.md", "--json").json
    assert found["failed_commands"][0]["lines"][-1] == "line 29"


@pytest.mark.real
@pytest.mark.parametrize("name", ["deploy/staging", "tidy up", "größe", "a.b"])
def test_routines_have_the_names_that_people_give_them(inbox, name):
    folder = inbox.root / ".treadle" / "routines"
    (folder / name).parent.mkdir(exist_ok=True)
    routine(inbox, name, "#!/bin/sh\n# Here\necho here >> log.txt\n")
    known = [item["name"] for item in inbox.treadle("routine", "list", "--json").json["routines"]]
    assert name in known
    assert inbox.treadle("routine", "check", name).code == 0
    inbox.settings(f'{USUAL}[routines."{name}"]\ntimeout = 60\n')
    spec(inbox, "01-a.spec.md", f"---\nroutine: {name}\n---\n# A\n")
    found = message(inbox)
    assert (found["status"], found["routine"], log(inbox)) == ("done", name, ["here"])


@pytest.mark.real
def test_a_file_that_cannot_be_a_routine_is_named(inbox):
    folder = inbox.root / ".treadle" / "routines"
    (folder / "link.sh").symlink_to(folder / "log.sh")
    (folder / "loud.SH").write_text("#!/bin/sh\n")
    (folder / "new\nline.sh").write_text("#!/bin/sh\n")
    (folder / "book.ipynb").write_text("{}")
    (folder / "helper.py").write_text("x = 1\n")
    found = inbox.treadle("routine", "check", "--json")
    assert found.code == 1
    bad = {it["name"]: it["problems"] for it in found.json["routines"] if not it["ok"]}
    assert bad == {
        "link.sh": ["it is not a plain file"],
        "loud.SH": ["its name must end with .sh or .ipynb"],
        "new line.sh": ["its name is not a single line of text"],
        "book.ipynb": ["it is a notebook, and notebook_support is false"],
    }
    told = inbox.treadle("doctor").out
    assert "routine link.sh" in told
    assert "routine loud.SH" in told
    assert "helper" not in told


@pytest.mark.real
def test_a_follow_up_may_be_written_below_the_current_folder(inbox):
    send = 'mkdir -p .treadle/inbox; printf -- "---\\nroutine: log\\n---\\nmore\\n"'
    text = '#!/bin/sh\n# Log\necho "$message_id" >> log.txt\n[ "$seq" != 0 ] || '
    routine(inbox, "log", f"{text}{{ {send} > .treadle/inbox/next.md; }}\n")
    drop(inbox, "2025022514320000-0.md", "---\nroutine: log\n---\nfirst\n")
    assert inbox.treadle("process").code == 0
    assert log(inbox) == ["2025022514320000-0", "2025022514320000-1"]
    assert done(inbox, "2025022514320000-1.md").endswith("---\nmore\n")


CLAUDE = """#!/bin/sh
# Stands in for the tool: it needs its key, and keeps its state in the user's home.
[ -n "$ANTHROPIC_API_KEY" ] || { echo "Invalid API key" >&2; exit 1; }
mkdir -p "$HOME/.claude/projects" || exit 1
echo "{}" > "$HOME/.claude/projects/session.jsonl" || exit 1
cat > prompt.txt
echo "# notes" > NOTES.md
"""
DEVELOP = """#!/usr/bin/env bash
# Implement a task with an AI tool
#
# Gives the spec, or the message, to the tool, and looks at what came of it.
set -euo pipefail

# --- Standard parameters ---
spec_file="${spec_file:-}"
message_file="${message_file:-}"
message_id="${message_id:-}"
message_dir="${message_dir:-}"
chain="${chain:-}"
seq="${seq:-}"

if [ -n "$spec_file" ] && [ -f "$spec_file" ]; then
    task="$(cat "$spec_file")"
else
    task="$(cat "$message_file")"
fi
claude -p "Do this: $task" <<< "$task" 2>&1 | tee "$message_dir/tool.log"
test -f NOTES.md
"""


@pytest.mark.real
@HELD
def test_a_develop_script_of_decree_works_with_three_lines_of_settings(project, private_home):
    programs = private_home / ".local" / "bin"
    programs.mkdir(parents=True)
    (programs / "claude").write_text(CLAUDE)
    (programs / "claude").chmod(0o755)
    (private_home / ".claude").mkdir()
    routine(project, "develop", DEVELOP)
    spec(project, "01-notes.spec.md", "---\nroutine: develop\n---\n# Write notes\n")
    env = {
        "PATH": f"{programs}:{project.environment()['PATH']}",
        "ANTHROPIC_API_KEY": "sk-test-0123456789",
    }
    project.settings("max_retries = 1\n")
    assert message(project, **env)["status"] == "dead"
    project.settings(
        'max_retries = 1\n[routine]\nenv_allow = ["ANTHROPIC_API_KEY"]\nwritable = ["~/.claude"]\n'
    )
    project.treadle("spec", "retry", "01")
    found = message(project, **env)
    assert found["status"] == "done", json.dumps(found, indent=2)
    assert (project.root / "NOTES.md").read_text() == "# notes\n"
    assert (private_home / ".claude" / "projects" / "session.jsonl").exists()
