"""Which routine a text gets, and what decides when a router is of no use."""

import os
import sys

import pytest

from treadle.config.schema import Config, SandboxConfig
from treadle.inbox import routine
from treadle.inbox.routine import External, Host, choose
from treadle.layout import Layout
from treadle.proc.keeper import Keeper
from treadle.project.context import open_repository
from treadle.sandbox import jails


def host(root, env, keeper, config=None):
    config = config or Config(sandbox=SandboxConfig(mode="off"))
    return Host(open_repository(root, os.environ)._replace(env=env), config, keeper)


@pytest.fixture
def known(tmp_path):
    layout = Layout(tmp_path)
    layout.routines.mkdir(parents=True)
    (layout.routines / "fix.sh").write_text(
        "#!/bin/sh\n# Fix\n# when: crash*|error|regress|bad trip\n"
    )
    (layout.routines / "docs.sh").write_text("# Write\n# when: manual, guide\nexit 0\n")
    return routine.discover(layout, notebooks=False)


def picked(known, text, *, spec=None, config="develop", external=None):
    found = choose(text, known, external, spec=spec, default=config)
    return found.routine.name, found.source


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It CRASHES with an error", ("fix", "router")),
        ("a bad  trip", ("fix", "router")),
        ("a bad day on a trip", ("develop", "config")),
        ("all regressed", ("develop", "config")),
        ("write a guide for the manual", ("docs", "router")),
        ("an error in the guide", ("develop", "config")),
        ("one error, one crash, one guide", ("fix", "router")),
        ("nothing known", ("develop", "config")),
        ("", ("develop", "config")),
        ("terror", ("develop", "config")),
    ],
)
def test_the_embedded_router_takes_the_unique_best_match(known, text, expected):
    assert picked(known, text) == expected


@pytest.mark.parametrize(
    ("pattern", "word", "expected"),
    [
        ("fix", "fix", True),
        ("fix", "fixture", False),
        ("fix*", "fixture", True),
        ("*ing", "ing", True),
        ("a*a", "a", False),
        ("a*b*c", "axxbxxc", True),
        ("a*b*c", "axxcxxb", False),
        ("*b*", "abc", True),
        ("a*bc*c", "abc", False),
    ],
)
def test_a_star_stands_for_any_part_of_a_word(known, pattern, word, expected):
    only = {**known, "fix": known["fix"]._replace(when=pattern)}
    assert (picked(only, word) == ("fix", "router")) is expected


@pytest.mark.timeout(20)
def test_no_pattern_takes_for_ever(known):
    odd = known["fix"]._replace(when="(c+)+$|" + "a*" * 200 + "b|" + "a " * 200 + "b")
    assert picked({**known, "fix": odd}, "a" * 60_000 + "! " + "a " * 2_000)[1] == "config"


def test_what_nobody_decides_falls_to_spec_then_config_then_develop(known):
    assert picked(known, "x", spec="docs", config="fix") == ("docs", "spec")
    assert picked(known, "x", spec="gone", config="fix") == ("fix", "config")
    assert picked(known, "x", spec="gone", config="gone") == ("develop", "built-in")


def test_a_single_routine_needs_no_router(known):
    only = {"develop": known["develop"]}
    assert picked(only, "x", external=External(["never-run"], None)) == (
        "develop",
        "config",
    )


@pytest.mark.parametrize(
    ("code", "expected", "reason"),
    [
        ("print('docs')", "docs", "answered 'docs'"),
        ("print(' \"`fix`.\" ')", "fix", "answered 'fix'"),
        ("print('I would take fix')", "develop", "is not a routine"),
        ("print('fix\\ndocs')", "develop", "is not a routine"),
        ("print('unknown')", "develop", "is not a routine"),
        ("", "develop", "is not a routine"),
        ("print('fix'); sys.exit(1)", "develop", "exited with 1"),
        ("import time; time.sleep(1000)", "develop", "did not end"),
        ("while True: print('x' * 10000)", "develop", "did not end"),
        ("print('fix' if 'Mend it' in sys.stdin.read() else '?')", "fix", "answered"),
    ],
)
def test_a_router_of_ones_own_decides_only_by_a_known_name(known, repo, code, expected, reason):
    with Keeper() as keeper:
        argv = [sys.executable, "-S", "-E", "-c", f"import sys\n{code}"]
        patience = 2.0 if reason == "did not end" else 120.0
        external = External(argv, host(repo, {}, keeper), timeout=patience)
        found = choose("Mend it", known, external)
    assert found.routine.name == expected
    assert reason in found.reason
    assert "## Task\nMend it\n" in found.transcript


@pytest.mark.parametrize("command", [["echo", "{prompt}"], "echo {prompt}"])
def test_a_router_may_take_the_prompt_as_an_argument(known, repo, command):
    with Keeper() as keeper:
        external = External(command, host(repo, {"PATH": "/usr/bin:/bin"}, keeper))
        found = choose("Mend it", known, external)
    assert "Select the most appropriate routine" in found.reason


def test_a_router_that_is_not_there_is_no_harm(known, repo):
    with Keeper() as keeper:
        external = External(["./no-such-router"], host(repo, {}, keeper))
        assert picked(known, "x", external=external) == ("develop", "config")


@pytest.mark.skipif(jails.probe("A").tier == "0", reason="no sandbox here")
def test_a_router_may_write_nothing_but_temporary_files(known, tmp_path, repo):
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    code = "import sys\nopen(sys.argv[1] + '/x', 'w').close(); print('fix')"
    with Keeper() as keeper:
        for place, expected in (("$TMPDIR", "fix"), (str(tmp_path), "develop")):
            argv = ["sh", "-c", f'{sys.executable} -S -E -c "{code}" {place}']
            external = External(argv, host(repo, env, keeper, Config()))
            found = choose("Mend it", known, external)
            assert found.routine.name == expected
    assert "the sandbox blocked a write to" in found.reason
    assert not (tmp_path / "x").exists()
