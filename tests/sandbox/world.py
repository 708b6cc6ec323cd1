"""Let the hostile child loose in a world of its own and say what came of it.

Run as `python world.py FOLDER TIER NETWORK`; needs nothing but the standard library, so that an
unprivileged user can run it with any interpreter.
"""

import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from treadle.proc.keeper import Command, Keeper, Limits
from treadle.sandbox import jail, outside, probe
from treadle.sandbox.policy import Policy

LATE = 1.0


def build(root):
    """Make a user's home, a project with runs, and what hostile hands could reach for."""
    paths = {name: root / name for name in ("home", "repo", "step", "tmp", "shared", "out")}
    for path in paths.values():
        path.mkdir(parents=True)
    home, repo = paths["home"], paths["repo"]
    subprocess.run(["git", "init", "-q", repo], check=True, env=environment(home))
    files = {
        home / ".ssh/id_ed25519": "KEY",
        home / ".netrc": "machine",
        home / ".bashrc": "# mine",
        repo / "victim.txt": "precious",
        repo / "timed.txt": "precious",
        repo / "attributed.txt": "precious",
        repo / "owned.txt": "precious",
        repo / ".git/index": "DIRC",
        repo / ".git/hooks/post-commit": "#!/bin/sh",
        repo / ".treadle/treadle.db": "rows",
        repo / ".treadle/config.toml": "",
        repo / ".treadle/runs/r/steps/001-plan/plan.md": "1. look",
        paths["shared"] / "other": "theirs",
        root / "plain": "an argument",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (repo / "empty").mkdir()
    (home / "keys").symlink_to(home / ".ssh")
    return paths


def listeners(root):
    """Open what a child could talk to."""
    path, name = root / "sock", f"\0treadle-{os.getpid()}"
    opened = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    opened[0].bind(str(path))
    opened[1].bind(name)
    opened.append(socket.socket())
    opened[2].bind(("127.0.0.1", 0))
    for sock in opened:
        sock.listen()
    opened.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    opened[3].bind(("127.0.0.1", 0))
    ports = {"tcp": opened[2].getsockname()[1], "udp": opened[3].getsockname()[1]}
    return opened, {"unix": str(path), "abstract": name, **ports}


def environment(home):
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}


def contents(root, skip):
    """Return what every file outside of the child's reach holds."""
    found = {}
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if Path(folder, name) not in skip]
        for name in [*names, *files]:
            path = Path(folder, name)
            data = b"" if path.is_dir() or not path.is_file() else path.read_bytes()
            found[str(path)] = hashlib.sha256(data).hexdigest() + str(path.is_symlink())
    return found


def main(root, tier, network):
    root = Path(root)
    paths = build(root)
    home, repo, step, tmp = (paths[name] for name in ("home", "repo", "step", "tmp"))
    opened, addresses = listeners(root)
    world = {
        **{name: str(path) for name, path in paths.items()},
        **addresses,
        "victim": str(repo / "victim.txt"),
        "timed": str(repo / "timed.txt"),
        "attributed": str(repo / "attributed.txt"),
        "owned": str(repo / "owned.txt"),
        "empty": str(repo / "empty"),
        "earlier": str(repo / ".treadle/runs/r/steps/001-plan/plan.md"),
        "other_tmp": str(paths["shared"] / "other"),
        "orchestrator": os.getpid(),
        "late": LATE,
    }
    (root / "world.json").write_text(json.dumps(world))
    policy = Policy((step, tmp), (home / ".ssh", home / ".netrc"), network=network == "full")

    def look():
        return outside.look((repo,), (home, home / ".ssh", paths["shared"]))

    skip = {step, tmp, paths["out"]}
    before, held = look(), contents(root, skip)
    script = Path(__file__).with_name("hostile.py")
    with Keeper() as keeper:
        ended = keeper.run(
            Command(
                (sys.executable, "-S", str(script), str(root / "world.json")),
                step,
                environment(home) | {"TMPDIR": str(tmp)},
                None,
                paths["out"] / "stdout",
                paths["out"] / "stderr",
                Limits(wall=60),
                jail.build(tier, policy),
            )
        )
        time.sleep(LATE + 0.5)
    now = contents(root, skip)
    answers = step / "answers.json"
    print(
        json.dumps(
            {
                "ended": ended._asdict(),
                "answers": json.loads(answers.read_text()) if answers.exists() else None,
                "stderr": (paths["out"] / "stderr").read_text(errors="replace")[-2000:],
                "changed": sorted(p for p in held.keys() | now.keys() if held.get(p) != now.get(p)),
                "reported": outside.compare(before, look())._asdict(),
                "late": (step / "late").exists(),
                "tier": probe.probe(tier)._asdict(),
            }
        )
    )
    for sock in opened:
        sock.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
