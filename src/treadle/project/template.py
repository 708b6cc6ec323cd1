"""The files that `treadle init` writes."""

CONFIG = """\
# Treadle's settings for this repository. All of them are optional: lines that begin with
# `#` and no space show a default or an example. What is in force, and where it comes from:
#   treadle config show

#sandbox = "auto"             # auto | required | off
#network = "full"             # full | none

# Specs and messages: treadle process. Routines are scripts in .treadle/routines/.
#default_routine = "develop"
#notebook_support = false
#max_retries = 3

# Who plays which role. A role without an agent uses the built-in one, which needs no model:
# it judges the work by the commands of its criteria (treadle task add "goal" --verify AC1=...).
#
# An exec agent is any program: it reads the request as JSON from stdin and answers with JSON
# on stdout. A relative program is a file of this repository.
#[agents.plan]
#type = "exec"
#cmd = ["./bin/plan-agent"]
#timeout = 1800
#env_allow = ["MY_API_KEY"]   # variables it may see besides the usual ones

# One agent can play several roles: give it a name and use it.
#[agents.act]
#use = "fixer"
#[agents.fixer]
#type = "builtin"
#run = ["make", "fix"]        # the command that does the work

# When a run has to stop, whatever is still to do.
[budgets]
max_iterations = 5
#max_minutes = 240
#max_patch_kb = 200
#max_changed_files = 50
#max_risky_files = 0          # CI files, hooks, agent settings, executable bits
#max_tokens = 2000000
#max_cost_usd = 10.0
#max_output_mb = 100

# A criterion whose text contains the key is checked by the command.
#[verify]
#"coverage" = "pytest --cov --cov-fail-under=90"

#[checks]
#before = true                # also run the commands once before the first change
#timeout = 900
#skip_agent_on_fail = false
#env_allow = []
#writable = ["~/.npm"]        # folders they may write besides the checkout
#unix_sockets = false

# Runs work in a private checkout outside this repository, on a branch of their own.
#[workspace]
#branch = "treadle/{run_id}"
#setup = ["make", "deps"]     # run once in a new checkout
#root = "~/.cache/my-workspaces"

#[land]
#run = "manual"               # auto: treadle run lands what passes
#process = "auto"             # manual: treadle process lands nothing

#[hooks]
#beforeEach = ["./scripts/clean"]

#[commands]
#router = ["my-router"]       # the prompt on stdin, or an argument "{prompt}"
"""

HOME_GITIGNORE = """\
# What treadle generates stays out of git; what you write here goes in.
/*
!/.gitignore
!/config.toml
!/config.json
!/routines/
!/roles/
!/cron/
"""

ROUTINE_NAME = "example.sh.sample"
ROUTINE = """\
#!/bin/sh
# Tidy the code base
#
# A routine carries a message out: a script, with the message's fields in its environment.
# The first comment line is its description; a line `when:` helps to choose it.
# Rename this file to example.sh to make it one.
#
# when: format|tidy|clean up
set -eu

# printf 'message %s of chain %s\\n' "$seq" "$chain"
# cat "$message_file"
# make format
"""
