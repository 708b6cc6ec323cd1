"""Honest programs go on working behind the filter, in both tiers."""

import os
import pwd
import shutil
import socket
import sys
from pathlib import Path

import pytest

from treadle.proc.keeper import Command, Keeper, Limits
from treadle.sandbox import jails, landlock
from treadle.sandbox.policy import Policy

HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)  # toolchains lie in the real one
TIERS = [tier for tier in ("A", "B") if jails.probe(tier).tier == tier]
MARKS = {
    tier: pytest.param(
        tier,
        marks=() if tier in TIERS else pytest.mark.skip(f"TIER {tier} CANNOT RUN HERE"),
    )
    for tier in ("A", "B")
}


@pytest.fixture(scope="module")
def keeper():
    with Keeper() as own:
        yield own


def run(keeper, tier, place, *argv, env=None, **more):
    """Return how a program ended inside and what it printed."""
    network = more.pop("network", False)
    policy = Policy((place, *more.pop("writable", ())), (), network=network, **more)
    out = place.with_name(f"{place.name}.out")
    path = f"{Path(sys.executable).parent}:{HOME}/.cargo/bin:/usr/local/bin:/usr/bin:/bin"
    told = {"PATH": path, "HOME": str(HOME), "TMPDIR": str(place), "LANG": "C.UTF-8"}
    command = Command(
        argv,
        place,
        told | (env or {}),
        None,
        out,
        out,
        Limits(wall=120),
        jails.jail_for(tier, policy),
    )
    ended = keeper.run(command)
    return ended.exit_code, out.read_text(errors="replace") or ended.detail


PROCESSES = """
import asyncio, multiprocessing, os, resource, subprocess, sys, threading

def work(into):
    into.send(os.getpid())

async def main():
    child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    out, _ = await child.communicate(b"through a pipe")
    assert out == b"through a pipe"

if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.Process(target=work, args=(theirs,))
    child.start()
    assert ours.recv() == child.pid
    child.join()
    asyncio.run(main())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    assert resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE)[0] == min(soft, 512)
    os.nice(1)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    print("fine")
"""
LOCKS = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
if __name__ == "__main__":
    multiprocessing.Lock()
    with ProcessPoolExecutor(2) as pool:
        assert list(pool.map(abs, [-1, -2])) == [1, 2]
    print("fine")
"""
JOBS = """
set -e
sleep 30 & first=$!
( exit 3 ) & second=$!
wait $second || test $? = 3
kill $first
wait $first || test $? = 143
ulimit -n 256
test "$(ulimit -n)" = 256
nice -n 1 true
printf fine | tee >(cat > copy) > /dev/null
echo fine
"""
GIT = """
set -e
git init -q repo && cd repo
git config user.name me && git config user.email me@example.org
echo one > a && git add a && git commit -q -m one
git checkout -q -b side && echo two > a && git commit -q -a -m two
git gc -q && git fsck && git log --oneline | wc -l | grep -q 2 && echo fine
"""
NODE = """
const {execFileSync, spawn, fork} = require("child_process");
const {Worker} = require("worker_threads");
const fs = require("fs");
const assert = require("assert");
assert.equal(execFileSync("cat", {input: "piped"}).toString(), "piped");
const worker = new Worker("require('worker_threads').parentPort.postMessage(7)", {eval: true});
worker.on("message", (seven) => {
  assert.equal(seven, 7);
  fs.writeFileSync("child.js", "process.send('hello'); process.disconnect()");
  fork("./child.js").on("message", (text) => {
    assert.equal(text, "hello");
    const child = spawn("sleep", ["30"]);
    child.on("exit", (code, signal) => { assert.equal(signal, "SIGTERM"); console.log("fine"); });
    child.kill();
  });
});
"""
LISTENS = """
import socket, threading
with socket.socket(socket.AF_UNIX) as door:
    door.bind("door")
    door.listen()
    with socket.socket(socket.AF_UNIX) as guest:
        guest.connect("door")
print("fine")
"""


def needs(program):
    if not shutil.which(program):
        pytest.skip(f"{program} IS NOT INSTALLED HERE")


def fine(found):
    assert found[0] == 0, found[1]
    assert found[1].rstrip().endswith("fine"), found[1]


@pytest.mark.parametrize("tier", MARKS.values())
@pytest.mark.parametrize(
    "argv",
    [
        pytest.param((sys.executable, "file"), id="python"),
        pytest.param(("bash", "file"), id="bash"),
        pytest.param(("bash", "git"), id="git"),
    ],
)
def test_processes_jobs_and_repositories(keeper, tmp_path, tier, argv):
    needs(argv[0])
    place = tmp_path / "place"
    place.mkdir()
    texts = {"file": PROCESSES if argv[0] == sys.executable else JOBS, "git": GIT}
    (place / argv[1]).write_text(texts[argv[1]])
    fine(run(keeper, tier, place, *argv))


@pytest.mark.parametrize("tier", MARKS.values())
def test_node_has_children_and_threads(keeper, tmp_path, tier):
    needs("node")
    place = tmp_path / "place"
    place.mkdir()
    (place / "main.js").write_text(NODE)
    fine(run(keeper, tier, place, "node", "main.js"))


@pytest.mark.parametrize("tier", MARKS.values())
def test_locks_between_processes_need_shared_memory(keeper, tmp_path, tier):
    """Python's locks are files in /dev/shm: private in tier A, the user's own in tier B."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "file").write_text(LOCKS)
    found = run(keeper, tier, place, sys.executable, "file")
    if tier == "B":
        assert "PermissionError" in found[1]
        found = run(keeper, tier, place, sys.executable, "file", writable=[Path("/dev/shm")])
    fine(found)


@pytest.mark.parametrize("tier", MARKS.values())
def test_a_terminal_of_its_own_only_where_none_of_the_users_is_there(keeper, tmp_path, tier):
    place = tmp_path / "place"
    place.mkdir()
    code = "import os; os.openpty(); print('fine')"
    found = run(keeper, tier, place, sys.executable, "-c", code)
    if tier == "A":
        fine(found)
    else:
        assert "Error" in found[1]


@pytest.mark.parametrize("tier", MARKS.values())
def test_sockets_of_its_own_where_they_are_allowed(keeper, tmp_path, tier):
    place = tmp_path / "place"
    place.mkdir()
    (place / "file").write_text(LISTENS)
    assert "Error" in run(keeper, tier, place, sys.executable, "file")[1]
    fine(run(keeper, tier, place, sys.executable, "file", unix_sockets=True))


@pytest.mark.skipif(landlock.version() < landlock.SCOPES, reason="THIS KERNEL HAS NO SCOPES")
@pytest.mark.parametrize("tier", MARKS.values())
@pytest.mark.parametrize("network", [True, False])
def test_abstract_sockets_stay_out_of_reach_all_the_same(keeper, tmp_path, tier, network):
    place, name = tmp_path / "place", f"\0treadle-programs-{os.getpid()}"
    place.mkdir()
    code = """
import socket, sys
for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
    with socket.socket(socket.AF_UNIX, kind) as own, socket.socket(socket.AF_UNIX, kind) as guest:
        own.bind("\\0" + str(kind))
        kind == socket.SOCK_STREAM and own.listen()
        guest.connect("\\0" + str(kind))
    try:
        with socket.socket(socket.AF_UNIX, kind) as guest:
            guest.connect("\\0" + sys.argv[1] + str(int(kind)))
    except OSError:
        continue
    sys.exit("reached")
print("fine")
"""
    datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with socket.socket(socket.AF_UNIX) as door, datagrams as box:
        door.bind(f"{name}1")
        door.listen()
        box.bind(f"{name}2")
        argv = (sys.executable, "-S", "-c", code, name[1:])
        fine(run(keeper, tier, place, *argv, unix_sockets=True, network=network))


@pytest.mark.real
@pytest.mark.parametrize("tier", MARKS.values())
def test_npm_and_cargo_build(keeper, tmp_path, tier):
    place = tmp_path / "place"
    place.mkdir()
    needs("npm")
    (place / "package.json").write_text('{"name": "x", "scripts": {"test": "echo fine"}}')
    fine(run(keeper, tier, place, "npm", "test", env={"npm_config_cache": str(place / "cache")}))
    if not os.access(HOME / ".cargo/bin/cargo", os.X_OK):
        pytest.skip("cargo IS NOT INSTALLED HERE")
    script = "cargo init -q --vcs none --name x crate && cd crate && cargo test -q && echo fine"
    env = {"CARGO_HOME": str(place / "cargo"), "CARGO_NET_OFFLINE": "true"}
    env["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME", str(HOME / ".rustup"))
    fine(run(keeper, tier, place, "sh", "-c", script, env=env))
