"""Of a home, a child reads toolchains and caches, and nobody's logins."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.builder import wait_for, write_files
from tests.sandbox import homes
from tests.sandbox.test_hostile import as_nobody, place  # noqa: F401  # the fixture
from treadle.proc.command import Command
from treadle.proc.keeper import Keeper
from treadle.sandbox import home, jails
from treadle.sandbox.policy import Policy, layers


def read_as(user, folder, tier):
    if jails.probe(tier).tier != tier:
        pytest.skip(f"TIER {tier} CANNOT RUN HERE: {jails.probe(tier).reason}")
    if user == "root" and os.getuid() != 0:
        pytest.skip("NOT ROOT HERE: the home was not read as root")
    argv = as_nobody(folder) if user == "nobody" and os.getuid() == 0 else [sys.executable, "-S"]
    argv += [homes.__file__, str(folder / "world"), tier]
    done = subprocess.run(argv, capture_output=True, text=True, cwd="/", timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("user", ["root", "nobody"])
@pytest.mark.parametrize("tier", ["A", "B"])
def test_no_secret_is_read_and_all_honest_files_are(place, tier, user):  # noqa: F811
    got = read_as(user, place, tier)
    secrets = (*homes.SECRETS.split(), *homes.ASTRAY)
    assert len(secrets) >= 100
    errors = ("FileNotFoundError", "PermissionError", "NotADirectoryError")
    # A hidden file in a readable folder is an empty one in tier A.
    assert {name: got[name] for name in secrets if got[name] not in (*errors, "")} == {}
    honest = (*homes.HONEST.split(), *homes.THROUGH)
    assert {name: got[name] for name in honest if got[name] not in ("text", "[use")} == {}


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "home"
    homes.build(folder)
    return folder


def opened(folder, **more):
    policy = home.closed({"HOME": str(folder)}, **more)
    return {item.path for item in layers(policy) if item.kind == "readable"}


def test_what_the_user_hides_stays_hidden_whatever_is_to_be_read(own):
    more = {"hide": ["~/company"], "read": ["~/company/ca.pem", "~/Documents"]}
    found = opened(own, **more, places=[own / "company/repo"])
    assert str(own / "Documents") in found
    assert not [path for path in found if "company" in path]


def test_what_the_user_asks_for_is_read_though_it_is_known_to_be_secret(own):
    policy = home.closed({"HOME": str(own)}, read=["~/.m2/settings.xml"])
    hidden = {item.path for item in layers(policy) if item.kind == "hidden"}
    assert str(own / ".m2/settings.xml") not in hidden
    assert str(own / ".m2/settings-security.xml") in hidden


def test_a_home_is_never_opened_as_a_whole(own):
    env = {"HOME": str(own), "PATH": f"{own}:{own.parent}", "GOPATH": str(own)}
    policy = home.closed(env, places=[own, own.parent, Path("/")])
    assert not [path for path in policy.readable if own.is_relative_to(path)]


def test_without_a_home_only_what_is_named_is_hidden(own):
    for env in ({}, {"HOME": "/"}):
        assert home.closed(env, hide=[str(own)]) == Policy(hidden=(own,))


def test_folders_that_lie_elsewhere_are_found_by_their_variables(own):
    (own / "caches/pip").mkdir(parents=True)
    (own / "caches/huggingface").mkdir()
    (own / "caches/huggingface/token").write_text("text")
    env = {"HOME": str(own), "XDG_CACHE_HOME": str(own / "caches")}
    found = {item.path: item.kind for item in layers(home.closed(env))}
    assert found[str(own / "caches")] == "readable"
    assert found[str(own / "caches/huggingface/token")] == "hidden"
    assert str(own / ".cache") not in found


def test_homes_of_other_users_are_closed_too(own, monkeypatch):
    others, empty = own.parent / "others", own.parent / "empty"
    (others / "ada").mkdir(parents=True)
    empty.mkdir()
    monkeypatch.setattr(home, "_HOMES", (str(others), str(empty), str(own)))
    hidden = set(map(Path, home.closed({"HOME": str(own)}).hidden))
    assert others in hidden
    assert not {empty, own} & hidden


def test_a_link_to_what_the_user_hides_elsewhere_opens_nothing(own):
    (own.parent / "vault/rvm").mkdir(parents=True)
    (own / ".rvm").unlink()
    (own / ".rvm").symlink_to(own.parent / "vault/rvm")
    found = opened(own, hide=[str(own.parent / "vault")])
    assert not [path for path in found if "vault" in path]


@pytest.mark.parametrize("tier", ["A", "B"])
def test_a_home_among_others_opens_only_its_own_parts(tmp_path, tier, monkeypatch):
    if jails.probe(tier).tier != tier:
        pytest.skip(f"TIER {tier} CANNOT RUN HERE: {jails.probe(tier).reason}")
    for name in ("ada/.cargo/bin/x", "ada/.netrc", "bob/.cargo/bin/x", "bob/notes"):
        path = tmp_path / "homes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.setattr(home, "_HOMES", (str(tmp_path / "homes"),))
    env = {"HOME": str(tmp_path / "homes/ada"), "PATH": "/usr/bin:/bin"}
    names = (".cargo/bin/x", ".netrc", "../bob/.cargo/bin/x", "../bob/notes")
    script = f"cd; for name in {' '.join(names)}; do cat $name; echo; done 2>/dev/null; echo x > x"
    out, log = tmp_path / "out", tmp_path / "log"
    with Keeper() as keeper:
        held = jails.jail_for(tier, home.closed(env))
        keeper.run(Command(("sh", "-c", script), tmp_path, env, None, out, log, jail=held))
    assert out.read_text() == "ada/.cargo/bin/x\n\n\n\n"
    assert not (tmp_path / "homes/ada/x").exists()


def grow_old(folder):
    """Wait until the change of a folder is one that its times tell from the next."""
    wait_for(lambda: time.time_ns() - folder.stat().st_ctime_ns > home._YOUNG)


def test_a_home_that_stays_as_it_is_is_looked_at_once(tmp_path, monkeypatch):
    own = tmp_path / "home"
    write_files(own, {".aws/credentials": "key", ".cargo/bin/x": "", ".config/git/config": ""})
    env = {"HOME": str(own)}
    grow_old(own)
    first, opened = home.closed(env), []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *words: opened.append(words[0]) or real(*words))

    def looked_at():
        opened.clear()
        assert home.closed(env) == first
        return list(opened)

    wait_for(lambda: looked_at() == [str(own)])  # others may change folders on the way to it


def test_a_secret_is_closed_as_soon_as_it_is_there(own, tmp_path):
    """Be it new, moved behind a link, or where a link that led nowhere leads now."""
    env, aside = {"HOME": str(own)}, tmp_path / "aside"
    aside.mkdir()
    for name in (".aws", ".kube"):
        shutil.rmtree(own / name)
    (own / ".kube").symlink_to(aside / "kube")
    grow_old(own)

    def closed(path):
        return str(path) in home.closed(env).hidden

    assert not closed(own / ".aws")
    (own / ".aws").mkdir()
    assert closed(own / ".aws")
    grow_old(own)
    assert closed(own / ".aws")
    (own / ".aws").rename(aside / "aws")
    (own / ".aws").symlink_to(aside / "aws")
    assert closed(aside / "aws")
    grow_old(own)
    assert closed(aside / "aws")
    assert not closed(aside / "kube")
    (aside / "kube").mkdir()
    assert closed(aside / "kube")
