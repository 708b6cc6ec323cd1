"""Let the hostile child loose in a world of its own and say what came of it.

Run as `python world.py FOLDER TIER NETWORK`; needs nothing but the standard library, so that an
unprivileged user can run it with any interpreter.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from treadle.proc.keeper import Command, Keeper, Limits
from treadle.sandbox import jails, outside
from treadle.sandbox.policy import Policy

LATE = 1.0
LIBC = ctypes.CDLL(None, use_errno=True)
PLANTED = ("/etc", "/usr", "/", "/var/tmp", "/run", "/sys/fs/cgroup")
MARKS = 20  # files in each place that only what is said about them may change


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
        repo / ".treadle/locks/run.lock": "held",
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
    for place in (repo / "m", home, home / ".ssh", repo / ".git/hooks"):
        place.mkdir(exist_ok=True)
        for number in range(MARKS):
            (place / f"m{number}").write_text("precious")
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
    for address in (str(root / "datagram"), f"{name}-datagram"):
        opened.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        opened[-1].bind(address)
    ports = {"tcp": opened[2].getsockname()[1], "udp": opened[3].getsockname()[1]}
    paths = {"unix": str(path), "abstract": name}
    datagrams = {"datagram": str(root / "datagram"), "abstract_datagram": f"{name}-datagram"}
    return opened, paths | datagrams | ports


@contextlib.contextmanager
def shared():
    """Make memory, queues and semaphores that every process of the user could reach."""
    key = 0x54000000 | os.getpid()
    name, queue = f"/dev/shm/treadle-{os.getpid()}", f"/treadle-{os.getpid()}"
    Path(name).write_text("precious")
    made = {
        "segment": LIBC.shmget(key, 4096, 0o1600),
        "messages": LIBC.msgget(key, 0o1600),
        "semaphores": LIBC.semget(key, 1, 0o1600),
    }
    posix = LIBC.mq_open(queue.encode(), os.O_RDWR | os.O_CREAT, 0o600, None)
    if posix >= 0:
        os.set_inheritable(posix, False)
    try:
        yield {**made, "key": key, "shm": name, "queue": queue.removeprefix("/")}
    finally:
        LIBC.shmctl(made["segment"], 0, None)
        LIBC.msgctl(made["messages"], 0, None)
        LIBC.semctl(made["semaphores"], 0, 0)
        LIBC.mq_unlink(queue.encode())
        Path(name).unlink(missing_ok=True)


def state_of(made):
    """Return what is in the things that are shared; each of them must still be there."""
    LIBC.shmat.restype = ctypes.c_void_p
    at = LIBC.shmat(made["segment"], None, 0o10000)
    memory = ctypes.string_at(at, 16).hex() if at not in (None, 2**64 - 1) else "gone"
    waiting = LIBC.msgrcv(made["messages"], ctypes.create_string_buffer(64), 32, 0, 0o4000)
    queue = Path("/dev/mqueue") / made["queue"]
    shm = Path(made["shm"])
    return {
        "segment": memory,
        "message": waiting,
        "semaphore": LIBC.semctl(made["semaphores"], 0, 12),
        "shm": shm.read_text() if shm.exists() else "gone",
        "queue": queue.read_text() if queue.exists() else "",
    }


def disks():
    """Return the names of disks that hold everything."""
    with contextlib.suppress(OSError):
        return [name for name in os.listdir("/sys/block") if Path("/dev", name).exists()][:3]
    return []


def environment(home):
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}


def contents(root, skip):
    """Return what every file outside of the child's reach holds."""
    found = {}
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if Path(folder, name) not in skip]
        for name in [*names, *files]:
            path = Path(folder, name)
            if path.is_file() and not os.access(path, os.R_OK):
                path.chmod(0o600)
            data = b"" if path.is_dir() or not path.is_file() else path.read_bytes()
            found[str(path)] = hashlib.sha256(data).hexdigest() + str(path.is_symlink())
    return found


def received(opened, master):
    """Return how many of the listeners and terminals somebody spoke to."""
    return len(select.select([*opened, master], [], [], 0)[0])


def untouched(pid):
    """Return what others could have set for a process."""
    limits = Path(f"/proc/{pid}/limits").read_text()
    policy, priority = os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid)
    return [limits, policy, priority, sorted(os.sched_getaffinity(pid))]


def main(root, tier, network):
    root = Path(root)
    paths = build(root)
    opened, addresses = listeners(root)
    master, slave = os.openpty()
    bystander = subprocess.Popen(["sleep", "600"])
    with contextlib.ExitStack() as stack:
        stack.callback(bystander.wait)
        stack.callback(bystander.kill)
        keeper = stack.enter_context(Keeper())
        made = stack.enter_context(shared())
        out = paths["out"] / "first"
        keeper.run(Command(("true",), root, environment(root), None, out, out))  # it has settled
        others = {"keeper": keeper.pid, "bystander": bystander.pid, "orchestrator": os.getpid()}
        world = {
            **{name: str(path) for name, path in paths.items()},
            **addresses,
            **made,
            **others,
            "tier": tier,
            "terminal": os.ttyname(slave),
            "disks": disks(),
            "victim": str(paths["repo"] / "victim.txt"),
            "empty": str(paths["repo"] / "empty"),
            "earlier": str(paths["repo"] / ".treadle/runs/r/steps/001-plan/plan.md"),
            "other_tmp": str(paths["shared"] / "other"),
            "late": LATE,
        }
        (root / "world.json").write_text(json.dumps(world))
        state = [state_of(made), *map(untouched, others.values())]
        found = tried(root, paths, tier, network, keeper)
        now = [state_of(made), *map(untouched, others.values())]
        found["state"] = [pair for pair in zip(state, now, strict=True) if pair[0] != pair[1]]
        found["bystander"] = bystander.poll()
        found["received"] = received(opened, master)
        found["planted"] = [at for at in PLANTED if Path(at, "treadle-was-here").exists()]
    print(json.dumps(found))
    for sock in opened:
        sock.close()


def tried(root, paths, tier, network, keeper):
    """Let the child try, and return what came of it."""
    home, repo, step, tmp = (paths[name] for name in ("home", "repo", "step", "tmp"))
    store = repo / ".treadle/treadle.db"
    hidden = (home / ".ssh", home / ".netrc", repo / ".treadle/locks", store)
    policy = Policy((step, tmp), hidden, network=network == "full")

    def look():
        trees = (repo, home / ".ssh")
        return outside.look(trees, (home, paths["shared"]), (store,), busy=(store,))

    skip = {step, tmp, paths["out"]}
    before, held = look(), contents(root, skip)
    script = Path(__file__).with_name("hostile.py")
    ended = keeper.run(
        Command(
            (sys.executable, "-S", "-B", str(script), str(root / "world.json")),
            step,
            environment(home) | {"TMPDIR": str(tmp)},
            None,
            paths["out"] / "stdout",
            paths["out"] / "stderr",
            Limits(wall=240),
            jails.jail_for(tier, policy),
        )
    )
    time.sleep(LATE + 0.5)
    reported, now = outside.compare(before, look()), contents(root, skip)
    answers = step / "answers.json"
    return {
        "ended": ended._asdict(),
        **(json.loads(answers.read_text()) if answers.exists() else {"answers": None}),
        "stderr": (paths["out"] / "stderr").read_text(errors="replace")[-2000:],
        "changed": sorted(p for p in held.keys() | now.keys() if held.get(p) != now.get(p)),
        "reported": reported._asdict(),
        "late": (step / "late").exists(),
        "tier": jails.probe(tier)._asdict(),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
