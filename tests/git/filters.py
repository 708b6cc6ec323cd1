"""Let the user's filters meet an agent's files in every way treadle's git can meet them.

Run as `python filters.py FOLDER TIER`; needs nothing but the standard library, so that an
unprivileged user can run it with any interpreter. It prints what came of it as JSON.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from treadle.errors import GitError
from treadle.git import build, judge, repo, workspace
from treadle.git.call import unconfined
from treadle.git.confined import Confined
from treadle.git.workspace import Workspace
from treadle.proc.keeper import Keeper
from treadle.sandbox import jails
from treadle.sandbox.policy import Policy

# What the agent's code does wherever it comes to run: write outside, also much later, change the
# project, reach for what treadle writes next, and answer like the filter it stands in for.
EVIL = """
import os, sys, time
from pathlib import Path
out, root, scratch = Path({out!r}), Path({root!r}), Path({scratch!r})
def dare(act):
    try:
        act()
    except Exception:
        pass
(Path({tmp!r}) / "ran").write_text("it ran")
dare(lambda: (out / {name!r}).write_text("escaped"))
dare(lambda: (Path.home() / ".bashrc").write_text("escaped"))
dare(lambda: (root / ".git/hooks/post-commit").write_text("escaped"))
dare(lambda: (root / "victim.txt").write_text("escaped"))
dare(lambda: (root / ".git/config").write_text("escaped"))
if {trap!r} == "link":
    dare(lambda: (scratch / "index.changes").symlink_to(out / "through-a-link"))
if {trap!r} == "object":
    dare(lambda: (scratch / "objects/ab").mkdir())
    dare(lambda: (scratch / "objects/ab" / ("c" * 38)).write_bytes(b"not an object"))
if {trap!r} == "index":
    for folder in (scratch, Path({index!r})):
        dare(lambda: (folder / "index").unlink())
        dare(lambda: (folder / "index").symlink_to(out / "secret"))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(3):
            dare(lambda: os.close(number))
        time.sleep(600)
        dare(lambda: (out / ({name!r} + "-late")).write_text("escaped"))
    os._exit(0)
"""
PASS_ON = "sys.stdout.buffer.write(sys.stdin.buffer.read())\n"
# A long-running filter speaks git's protocol; the agent's module is asked to, and then dies.
DIE = "sys.exit(1)\n"

# Each kind: the user's setting, and the files by which an agent's code comes in.
KINDS = {
    "python-module": ("clean", "python3 -m nbstripout", {"nbstripout.py": "{evil}"}),
    "python-package": ("clean", "python3 -m strip", {"strip/__main__.py": "{evil}"}),
    "python-import": ("clean", "python3 -c 'import tidy'", {"tidy.py": "{evil}"}),
    "sh-relative": ("clean", "sh -c 'exec ./tools/clean'", {"tools/clean": "#!{py}\n{evil}"}),
    "sh-script": ("clean", "sh tools/clean.sh", {"tools/clean.sh": "exec {py} evil.py\n"}),
    "sh-source": ("clean", "sh -c '. ./env; cat'", {"env": "{py} evil.py </dev/null\n"}),
    "perl-library": ("clean", "perl -I. -MTidy -pe1", {"Tidy.pm": "system('{py} evil.py');1;"}),
    "perl-script": ("clean", "perl tidy.pl", {"tidy.pl": "exec '{py}', 'evil.py';\n"}),
    "make": ("clean", "make -s clean-filter", {"Makefile": "clean-filter:\n\t@{py} evil.py\n"}),
    "npx": (
        "clean",
        "npx --no-install tidy",
        {"node_modules/.bin/tidy": "#!{py}\n{evil}", "package.json": '{{"name": "x"}}'},
    ),
    "node-module": (
        "clean",
        "node -e 'require(\"./tidy\")'",
        {"tidy.js": "require('child_process').execFileSync('{py}', ['evil.py'])"},
    ),
    "node-package": (
        "clean",
        "node -e 'require(\"tidy\")'",
        {"node_modules/tidy/index.js": "require('child_process').execFileSync('{py}',['evil.py'])"},
    ),
    "absolute-reads-settings": ("clean", "{tool}", {".tidyrc": "{py} evil.py"}),
    "path-in-workspace": ("clean", "tidy-anywhere", {"bin/tidy-anywhere": "#!{py}\n{evil}"}),
    "process": ("process", "python3 -m nbprocess", {"nbprocess.py": "{evil}"}),
    "process-sh": ("process", "sh tools/process.sh", {"tools/process.sh": "exec {py} evil.py\n"}),
    "smudge": ("smudge", "python3 -m smudger", {"smudger.py": "{evil}"}),
    # What git ignores stays when the workspace is put back, and is there when files are written.
    "smudge-make": (
        "smudge",
        "make -s -f kept/Makefile smudge",
        {"kept/Makefile": "smudge:\n\t@{py} kept/evil.py\n", "kept/evil.py": "{evil}"},
    ),
}
# Python imports nothing from where it runs, and PATH leads to no place in the workspace.
KEPT_OUT = frozenset(
    ("python-module", "python-package", "python-import", "process", "smudge", "path-in-workspace")
)
TRAPS = ("link", "object", "index")


def make_user(root, kind):
    """Make a home with the filter, a project, and what must not change."""
    names = ("home", "out", "project", "tmp", "run")
    paths = {name: root / name for name in names}
    for path in paths.values():
        path.mkdir(parents=True)
    event, command, _ = KINDS[kind]
    tool = paths["home"] / "tool"
    tool.write_text("#!/bin/sh\n[ -f .tidyrc ] && sh .tidyrc </dev/null\nexec cat\n")
    tool.chmod(0o755)
    (paths["home"] / ".bashrc").write_text("mine")
    (paths["out"] / "secret").write_text("secret")
    os.environ.update(HOME=str(paths["home"]), GIT_CONFIG_NOSYSTEM="1")
    for name in ("XDG_CONFIG_HOME", "PYTHONPATH"):
        os.environ.pop(name, None)
    os.environ["PATH"] = "bin:.:/usr/local/bin:/usr/bin:/bin"
    project = paths["project"]
    settings = {
        "user.name": "t",
        "user.email": "t@t",
        "safe.directory": "*",
        f"filter.f.{event}": command.format(tool=tool),
        "core.attributesFile": str(paths["home"] / "attributes"),
    }
    git(project, "init", "-q")
    for name, text in {"victim.txt": "mine\n", "a.dat": "a\n", ".gitignore": "kept/\n"}.items():
        (project / name).write_text(text)
    git(project, "add", ".")
    git(project, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "base")
    for key, value in settings.items():
        git(project, "config", "--global", key, value)
    return paths


def git(folder, *args):
    subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True)


def plant(ws, paths, kind, trap):
    """Leave what an agent would leave."""
    values = {
        "out": str(paths["out"]),
        "root": str(paths["project"]),
        "scratch": str(paths["run"] / "scratch"),
        "index": str(paths["run"] / "checkout"),
        "tmp": str(paths["tmp"]),
        "name": kind,
        "trap": trap,
    }
    is_process = KINDS[kind][0] == "process"
    evil = EVIL.format(**values) + (DIE if is_process else PASS_ON)
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
    files = {name: text.format(evil=evil, py=python) for name, text in KINDS[kind][2].items()}
    for name, text in {**files, "evil.py": evil, "a.dat": "changed\n", "b.dat": "new\n"}.items():
        path = ws.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


def exercise(ws, paths, base):
    """Do everything that treadle does with a workspace; return what was refused."""
    refused = []

    def attempt(act):
        try:
            return act()
        except GitError as error:
            refused.append(error.message)
            return None

    place = ws.repo
    scratch = paths["run"] / "scratch"
    attempt(lambda: workspace.changes(ws))
    found = attempt(lambda: workspace.survey(ws))
    built = attempt(lambda: build.from_edits(ws, base, scratch, found and found.changes))
    if built:
        tree = repo.tree_of(place, base)
        attempt(lambda: judge.judge(built.scratch, tree, built.tree))
    # The same by way of the index: a carriage return is what it takes.
    (ws.path / "b.dat").write_bytes(b"new\r\n")
    attempt(lambda: build.from_edits(ws, base, scratch))
    attempt(lambda: build.write_patch(ws, base, paths["run"] / "kept.diff"))
    attempt(lambda: workspace.restore(ws, base))
    return refused


def main(folder, tier, *attacks):
    results = {}
    for words in attacks:
        kind, _, trap = words.partition(" ")
        results[words] = attack(Path(folder) / f"{kind}-{trap}", tier, kind, trap)
    print(json.dumps(results))


def attack(root, tier, kind, trap):
    paths = make_user(root, kind)
    place = repo.find(paths["project"])
    base = repo.head(place).commit
    before = contents(root)
    with Keeper() as keeper:

        def bound(writable):
            return jails.jail_for(tier, Policy((paths["tmp"], *writable), network=False))

        def known(env):
            return {**env, "TMPDIR": str(paths["tmp"])}

        hands = Confined(keeper, paths["run"] / "io", bound, known) if tier != "0" else unconfined
        ws = Workspace(
            repo=place,
            path=root / "ws",
            index=paths["run"] / "checkout" / "index",
            branch="main",
            config=repo.read_settings(place),
            runner=hands,
        )
        workspace.create(ws, base)
        (paths["home"] / "attributes").write_text("*.dat filter=f\n")
        plant(ws, paths, kind, trap)
        refused = exercise(ws, paths, base)
        left = alive(root)
    after = contents(root)
    names = sorted(before.keys() | after.keys())
    return {
        "ran": (paths["tmp"] / "ran").exists(),
        "changed": [name for name in names if before.get(name) != after.get(name)],
        "refused": refused,
        "alive": left,
    }


def contents(root):
    """Return what lies outside of the agent's own places."""
    own = ("ws", "tmp", "run")
    skipped = "home/attributes"
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.split("/")[0] not in own and name != skipped and path.is_file():
            found[name] = path.read_bytes().decode("latin-1")
    return found


def alive(root):
    """Return the processes that still work for the agent's code."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if (entry / "cwd").resolve().is_relative_to(root) and b"python" in words[0]:
                found.append(int(entry.name))
        except (OSError, IndexError):
            continue
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
