"""What each tier is told for a policy."""

import shutil
import struct
from pathlib import Path

import pytest

from tests.builder import wait_for
from treadle.proc.command import Command, Jail
from treadle.proc.keeper import Keeper
from treadle.sandbox import jails as sandbox_jails
from treadle.sandbox import landlock
from treadle.sandbox.policy import Policy, expand, settled


@pytest.fixture
def place(tmp_path):
    for name in ("work", "home/.ssh", "home/.config/gh", "home/src"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home/.netrc").touch()
    (tmp_path / "home/keys").symlink_to(tmp_path / "home/.ssh")
    return tmp_path


def policy(place, **more):
    home = {"HOME": str(place / "home")}
    hidden = expand(("~/.ssh", "~/.netrc", "~/.config/gh", "~/.missing"), home)
    return Policy((place / "work",), hidden, **more)


def test_without_a_sandbox_there_is_no_jail():
    assert sandbox_jails.jail_for("0", Policy()) is None


def test_bubblewrap_hides_then_opens(place):
    words = " ".join(sandbox_jails._bubblewrap_jail(policy(place)).wrapper)
    assert words.startswith("/usr/bin/bwrap ")
    assert f"--tmpfs {place}/home/.ssh" in words
    assert f"--ro-bind /dev/null {place}/home/.netrc" in words
    assert words.endswith(f"--bind {place}/work {place}/work --")
    assert ".missing" not in words
    assert "--unshare-net" not in words
    assert "--unshare-net" in sandbox_jails._bubblewrap_jail(policy(place, network=False)).wrapper


def test_bubblewrap_hides_inside_what_is_open_and_opens_inside_what_is_hidden(place):
    home, state = place / "home", place / "home/.ssh/state"
    (state / "deeper").mkdir(parents=True)
    words = sandbox_jails._bubblewrap_jail(
        policy(place).widened([state / "deeper", state, home])
    ).wrapper
    order = [word for word in words if word.startswith(str(home))]
    assert order[:2] == [str(home)] * 2
    assert order[-2:] == [str(state)] * 2
    assert order[2:-2] == [str(home / name) for name in (".config/gh", ".netrc", ".ssh")]


@pytest.mark.skipif(sandbox_jails.probe().tier != "A", reason="NO BUBBLEWRAP HERE")
def test_a_hidden_folder_in_one_to_write_in_cannot_be_read(place, tmp_path):
    (place / "home/.ssh/key").write_text("secret")
    out, held = (
        tmp_path / "out",
        sandbox_jails._bubblewrap_jail(policy(place).widened([place / "home"])),
    )
    script = f"echo open > {place}/home/new; cat {place}/home/.ssh/key"
    with Keeper() as keeper:
        env = {"PATH": "/usr/bin:/bin"}
        keeper.run(Command(("sh", "-c", script), place, env, None, out, out, jail=held))
    assert (place / "home/new").read_text() == "open\n"
    assert "secret" not in out.read_text()


def test_a_path_that_no_file_can_have_needs_no_rule(place):
    assert settled([place / ("x" * 300), place]) == (str(place.resolve()),)


def test_landlock_allows_everything_beside_what_is_hidden(place):
    hidden = [str(path.resolve()) for path in policy(place).hidden[:3]]
    paths = {path for path, _ in landlock.around(hidden)}
    home = place / "home"
    assert str(home / "src") in paths
    assert "/usr" in paths
    hidden = {home / ".ssh", home / ".netrc", home / ".config/gh", home / "keys"}
    assert not {str(path) for path in hidden} & paths
    assert not {str(up) for path in hidden for up in path.parents} & paths


def test_landlock_without_secrets_needs_one_rule():
    assert list(landlock.around(())) == [("/.", 0)]


def test_a_profile_for_macos(place):
    assert sandbox_jails.seatbelt_profile(policy(place, network=False)) == (
        "(version 1)\n(allow default)\n(deny file-write*)\n"
        '(allow file-write* (subpath "/dev"))\n\n'
        f'(allow file-write* (subpath "{place}/work"))\n'
        f'(deny file-write-unlink (literal "{place}/work"))\n'
        f'(deny file-read* file-write* (subpath "{place}/home/.ssh"))\n'
        f'(deny file-read* file-write* (subpath "{place}/home/.netrc"))\n'
        f'(deny file-read* file-write* (subpath "{place}/home/.config/gh"))\n'
        "(deny network* (local ip) (remote ip))\n"
        "(deny network* (remote unix-socket))\n"
    )


def test_names_in_a_profile_cannot_end_it(tmp_path):
    odd = tmp_path / 'a") (allow default'
    odd.mkdir()
    assert '\\") (allow default' in sandbox_jails.seatbelt_profile(Policy((odd,)))
    assert sandbox_jails._seatbelt_jail(Policy()).wrapper[:2] == ("/usr/bin/sandbox-exec", "-p")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("network", [True, False])
def test_a_filter_jumps_only_forward_and_stays_inside(machine, network):
    code = landlock.seccomp_filter(network=network, unix_sockets=False, machine=machine)
    steps = [struct.unpack("=HBBI", code[at : at + 8]) for at in range(0, len(code), 8)]
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)
    assert all(at + 1 + max(yes, no) < len(steps) for at, (_, yes, no, _) in enumerate(steps[:-1]))


def test_what_is_found_here_is_told(monkeypatch):
    found = sandbox_jails.probe("A")
    assert found.tier in ("A", "B"), f"NO SANDBOX ON THIS MACHINE: {found.reason}"
    monkeypatch.setattr(sandbox_jails, "BUBBLEWRAP", "/nowhere/bwrap")
    below = sandbox_jails.probe.__wrapped__("A")
    assert "/nowhere/bwrap is not installed" in below.reason
    assert below.fix == ("sudo apt-get install bubblewrap",)
    monkeypatch.setattr(landlock, "OLDEST", 99)
    assert sandbox_jails.probe.__wrapped__("A").tier == "0"


def test_links_are_followed_before_a_rule_is_made(place):
    (place / "link").symlink_to(place / "work")
    found = landlock.jail(Policy((place / "link",)))
    assert isinstance(found, Jail)
    assert found.rules[-1][1] == str(Path(place / "work").resolve())


def test_what_may_be_read_is_the_same_for_every_step(place):
    def jails():
        wider = policy(place).widened([place / "home" / "src"])
        return landlock.jail(policy(place)), landlock.jail(wider)

    # Others come and go in /tmp meanwhile: two looks in a row are the same sooner or later.
    first, second = wait_for(lambda: same if (same := jails())[0].lasting == same[1].lasting else 0)
    assert first.rules != second.rules
    src = place / "home" / "src"
    src.rename(place / "home" / "old")
    src.mkdir()
    assert landlock.jail(policy(place)).lasting != first.lasting


@pytest.mark.skipif(landlock.version() < landlock.OLDEST, reason="no Landlock here")
def test_a_folder_made_anew_can_be_read_by_the_same_shim(place, tmp_path):
    src = place / "home" / "src"
    with Keeper() as keeper:
        for turn in ("one", "two"):
            (src / turn).write_text("x")
            command = Command(
                ("cat", str(src / turn)),
                place,
                {"PATH": "/usr/bin:/bin"},
                None,
                tmp_path / "out",
                tmp_path / "out",
                jail=landlock.jail(policy(place)),
            )
            assert keeper.run(command).exit_code == 0
            shutil.rmtree(src)
            src.mkdir()


@pytest.mark.skipif(landlock.version() < landlock.OLDEST, reason="no Landlock here")
def test_a_folder_to_write_in_may_lie_in_a_hidden_one(place, tmp_path):
    state = place / "home" / ".ssh" / "state"
    state.mkdir()
    held = landlock.jail(policy(place).widened([state]))
    script = f"echo x > {state}/a && mv {state}/a {state}/b && cat {state}/b; cat {state}/../key"
    with Keeper() as keeper:
        env, out = {"PATH": "/usr/bin:/bin"}, tmp_path / "out"
        (place / "home" / ".ssh" / "key").write_text("secret")
        keeper.run(Command(("sh", "-c", script), place, env, None, out, out, jail=held))
    assert out.read_text().startswith("x\n")
    assert "secret" not in out.read_text()


HOME = {
    ".tool/bin/run": "tool",
    ".tool/token": "secret",
    ".aws/credentials": "secret",
    ".netrc": "secret",
    "code/repo/file": "code",
    "code/other": "secret",
    "dots/gitconfig": "dots",
    "dots/token": "secret",
    "cache/work/new": "work",
}


@pytest.fixture
def closed(tmp_path):
    """Return the policy of a home in which only a few things may be read, and one written."""
    home = tmp_path / "home"
    for name, text in HOME.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / ".gitconfig").symlink_to("dots/gitconfig")
    (home / ".config").symlink_to(home / "dots")
    (home / "way").symlink_to(".aws")
    names = (".tool", "code/repo", ".gitconfig", ".config/gitconfig", ".missing")
    return Policy(
        writable=(home / "cache/work",),
        hidden=(home / ".tool/token",),
        home=home,
        readable=tuple(home / name for name in names),
    )


@pytest.mark.parametrize("tier", ["A", "B"])
def test_below_the_home_only_what_is_named_can_be_read(closed, tmp_path, tier):
    if sandbox_jails.probe(tier).tier != tier:
        pytest.skip(f"TIER {tier} CANNOT RUN HERE")
    home, out = closed.home, tmp_path / "out"
    read = [".tool/bin/run", "code/repo/file", ".gitconfig", ".config/gitconfig", "cache/work/new"]
    secret = [*(name for name, text in HOME.items() if text == "secret"), "way/credentials"]
    script = f"cd {home}; cat {' '.join(read)}; cat {' '.join(secret)}; (cd .aws && cat *);"
    script += " echo x > cache/work/made; echo x > new; echo x > .tool/new; exit 0"
    with Keeper() as keeper:
        env, held = {"PATH": "/usr/bin:/bin"}, sandbox_jails.jail_for(tier, closed)
        ended = keeper.run(Command(("sh", "-c", script), home, env, None, out, out, jail=held))
    assert ended.exit_code == 0, out.read_text()
    assert out.read_text().startswith("toolcodedotsdotswork"), out.read_text()
    assert "secret" not in out.read_text()
    assert (home / "cache/work/made").exists()
    assert not (home / "new").exists()
    assert not (home / ".tool/new").exists()


def test_a_profile_for_macos_closes_the_home_before_it_opens_parts(closed):
    lines = sandbox_jails.seatbelt_profile(closed).splitlines()
    first, last = (
        lines.index(f'({word} file-read{what} (subpath "{closed.home}{path}"))')
        for word, what, path in (("deny", "-data", ""), ("deny", "* file-write*", "/.tool/token"))
    )
    opened = [at for at, line in enumerate(lines) if line.startswith("(allow file-read-data")]
    assert len(opened) == 4
    assert all(first < at < last for at in opened)


@pytest.mark.skipif(landlock.version() < landlock.OLDEST, reason="no Landlock here")
def test_reading_rules_stay_while_only_the_step_folder_changes(closed):
    steps = [closed.home / "code/repo" / name for name in ("one", "two")]
    for step in steps:
        step.mkdir()
    first, second = (landlock.jail(closed.widened([step])) for step in steps)
    assert first.lasting == second.lasting
