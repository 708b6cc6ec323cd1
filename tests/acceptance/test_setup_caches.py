"""Package managers of the setup have caches they can write; a denial is told with its key."""

import os
import pwd
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.agents import fake
from tests.builder import git

CACHE = "${npm_config_cache:-$HOME/.npm}"


@pytest.fixture
def home(project):
    """Return the user's home, for a project whose setup fills the cache of npm."""
    project.agent("do", '(repo / "done.txt").touch(); ok()', edits=True)
    return Path(os.environ["HOME"])


def run(project, tier, script, more=""):
    setup = f'[workspace]\nsetup = ["sh", "-c", \'{script}\']\n'
    project.settings(f'[sandbox]\ntier = "{tier}"\n{setup}[checks]\n{more}\n')
    path = fake.program(project.folder, "npm", "true")
    return project.run_json("--verify", "AC1=test -f done.txt", env={"PATH": path})


@pytest.mark.parametrize("tier", ["A", "B"])
def test_a_cache_is_made_and_kept_for_the_next_run(project, home, tier):
    script = f"[ -d {CACHE}/one ] && touch again; mkdir -p {CACHE}/one"
    assert run(project, tier, script)["status"] == "passed"
    assert not (home / ".npm").exists()
    second = run(project, tier, script)
    ready = project.event(second["run_id"], "workspace_ready")["data"]
    assert ready["kept"] == ["again"]


def test_a_shared_cache_is_the_users_own(project, home):
    script = f"mkdir -p {CACHE}/one"
    assert run(project, "B", script, 'caches = "shared"')["status"] == "passed"
    assert (home / ".npm" / "one").is_dir()


@pytest.mark.parametrize("caches", ["private", "shared"])
def test_a_setup_that_runs_an_agents_code_fills_no_cache_of_others(project, home, caches):
    script = f"[ -f {CACHE}/bad ] && touch poisoned; [ ! -f done.txt ] || touch {CACHE}/bad"
    assert run(project, "B", script, f'caches = "{caches}"')["status"] == "passed"
    second = run(project, "B", script, f'caches = "{caches}"')
    assert project.event(second["run_id"], "workspace_ready")["data"].get("kept", []) == []
    assert not (home / ".npm" / "bad").exists()


@pytest.mark.parametrize("tier", ["A", "B"])
def test_what_go_and_cargo_fetch_is_there_for_builds(project, home, tier):
    (home / ".cargo").mkdir(exist_ok=True)
    (home / ".cargo" / "config.toml").write_text("[net]\n")
    here = 'cat "$GOMODCACHE/cache/m" "$CARGO_HOME/registry/c" "$CARGO_HOME/config.toml" > seen'
    writes = 'mkdir -p "$GOCACHE"; touch "$GOCACHE/x"'
    builds = project.folder / "builds"
    builds.write_text(f"set -e; {here}; {writes}; if touch $GOMODCACHE/new; then exit 1; fi\n")
    project.agent("do", f"os.system('sh {builds}') and exit(1); os.remove('seen'); "
        '(repo / "done.txt").touch(); ok()', edits=True)  # fmt: skip
    fill = "mkdir -p $GOMODCACHE/cache $CARGO_HOME/registry"
    fill += "; echo m > $GOMODCACHE/cache/m; echo c > $CARGO_HOME/registry/c; touch $GOCACHE/y"
    setup = f'[workspace]\nsetup = ["sh", "-c", \'{fill}\']\n'
    project.settings(f'[sandbox]\ntier = "{tier}"\nread = ["{project.folder}"]\n{setup}')
    found = project.run_json("--verify", f"AC1=test -f done.txt && sh {builds}")
    assert found["status"] == "passed", project.treadle("why", found["run_id"]).out
    assert not (home / "go").exists()


@pytest.mark.real
@pytest.mark.skipif(not shutil.which("go"), reason="go is not installed")
@pytest.mark.parametrize("tier", ["A", "B"])
def test_go_builds_with_what_the_setup_fetched(project, home, tier):
    proxy = project.folder / "proxy" / "example.com" / "m" / "@v"
    proxy.mkdir(parents=True)
    (proxy / "v1.0.0.info").write_text('{"Version": "v1.0.0"}')
    (proxy / "v1.0.0.mod").write_text("module example.com/m\n")
    with zipfile.ZipFile(proxy / "v1.0.0.zip", "w") as archive:
        archive.writestr("example.com/m@v1.0.0/go.mod", "module example.com/m\n")
        archive.writestr("example.com/m@v1.0.0/m.go", 'package m\n\nconst Word = "hello"\n')
    files = {
        "go.mod": "module example.com/own\n\nrequire example.com/m v1.0.0\n",
        "main.go": 'package main\n\nimport "example.com/m"\n\nfunc main() { println(m.Word) }\n',
    }
    for name, text in files.items():
        (project.root / name).write_text(text)
    git(project.root, "add", *files)
    git(project.root, "commit", "-q", "-m", "A program")
    env = {"GOPROXY": f"file://{proxy.parents[2]}", "GOFLAGS": "-mod=mod", "GONOSUMDB": "*"}
    project.agent("do", "os.system('go build -o /dev/null .') and exit(1); ok()", edits=True)
    setup = '[workspace]\nsetup = ["go", "mod", "download"]\n'
    project.config["do"] += '\nenv_allow = ["GO*"]'
    project.settings(f'[sandbox]\ntier = "{tier}"\nread = ["{project.folder}"]\n{setup}')
    found = project.run_json("--verify", "AC1=go build -o /dev/null .", "--anyway", env=env)
    assert found["status"] == "passed", project.treadle("why", found["run_id"]).out
    assert not (home / "go").exists()


@pytest.mark.real
@pytest.mark.skipif(not shutil.which("cargo"), reason="cargo is not installed")
@pytest.mark.parametrize("tier", ["A", "B"])
def test_cargo_builds_with_what_the_setup_fetched(project, home, tier):
    other = project.folder / "dep"
    package = '[package]\nname = "{}"\nversion = "0.1.0"\nedition = "2021"\n'
    files = {"Cargo.toml": package.format("dep"), "src/lib.rs": 'pub const WORD: &str = "hello";\n'}
    write(other, files)
    needs = f'[dependencies]\ndep = {{ git = "file://{other}" }}\n'
    text = 'fn main() { println!("{}", dep::WORD) }\n'
    own = {"Cargo.toml": package.format("own") + needs, "src/main.rs": text}
    write(project.root, own | {".gitignore": "target/\nCargo.lock\n"})
    build = "cargo build -q --offline"
    project.agent("do", f"os.system('{build}') and exit(1); ok()", edits=True)
    setup = '[workspace]\nsetup = ["cargo", "fetch", "-q"]\n'
    project.settings(f'[sandbox]\ntier = "{tier}"\nread = ["{project.folder}"]\n{setup}')
    there = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".rustup"  # of whoever runs the tests
    env = {"RUSTUP_HOME": str(there)} if there.is_dir() else {}
    found = project.run_json("--verify", f"AC1={build}", "--anyway", env=env)
    assert found["status"] == "passed", project.treadle("why", found["run_id"]).out
    assert not (home / ".cargo").exists()


def write(folder, files):
    """Commit files to a repository, new or not."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    git(folder, "add", *files)
    git(folder, "commit", "-q", "-m", "A program")


def test_a_denial_is_told_with_the_narrowest_key_and_following_it_helps(project, home):
    script = "touch $HOME/.odd/x"
    (home / ".odd").mkdir()
    failed = run(project, "B", script)
    key = 'checks.writable = ["~/.odd"]'
    assert key in project.treadle("why", failed["run_id"]).out
    (home / ".odd").rmdir()
    assert run(project, "B", script, key.removeprefix("checks."))["status"] == "passed"
