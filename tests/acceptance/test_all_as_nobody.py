"""The suites against hostile work hold for a user without rights as well: they run as one."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.acceptance.clones import SHAPES
from tests.acceptance.subversions import HONEST, SUBVERSIONS
from tests.builder import GIT_IDENTITY
from tests.sandbox.test_hostile import as_nobody

REPOSITORY = Path(__file__).parents[2]
HERE = "tests/acceptance"
LOGINS = (
    "test_a_login_in_settings_of_git_is_hidden",
    "test_a_login_in_the_users_settings_of_git_is_hidden",
    "test_variables_of_the_checkout_are_hidden_unless_they_are_asked_for",
)
PIPES = (
    "test_run.py::test_a_pipe_that_git_would_wait_for_is_named_before_anything_begins",
    "test_task_trees.py::test_two_agents_work_at_once_without_seeing_each_other",
    "test_task_trees.py::test_a_dirty_worktree_stays",
)
# All of it takes most of an hour: of the tables, every twelfth case in either tier.
TABLES = {
    "subversions": ("test_subversions.py::test_no_pass_without_a_question", SUBVERSIONS),
    "honest": ("test_subversions.py::test_honest_work_passes_without_a_question", HONEST),
}
SUITES = {
    name: [
        f"{HERE}/{test}[{tier}-{case.name}]"
        for tier, first in (("A", 0), ("B", 6))
        for case in cases[first::12]
    ]
    for name, (test, cases) in TABLES.items()
} | {
    "canaries": [f"{HERE}/test_canaries.py", "tests/sandbox/test_canaries.py"],
    "outside": ["tests/sandbox/test_outside.py"],
    "git": [f"tests/git/test_{name}.py" for name in ("confined", "merge", "obstacles", "vectors")],
    "vectors": [f"{HERE}/test_vectors.py"],
    "pipes": [f"{HERE}/{test}" for test in PIPES],
    "processes": [f"tests/sandbox/test_{name}.py" for name in ("watchers", "survivors", "hogs")],
    "records": [
        *(f"{HERE}/test_forged.py", "tests/engine/test_floor.py"),
        *("tests/engine/test_hostile_archives.py", "tests/project/test_content.py"),
    ],
    "work": ["tests/inbox/test_approval.py", f"{HERE}/test_consent.py"],
    "fleet": ["tests/fleet/test_tampered.py"],
    "ways": [
        *(f"{HERE}/test_{name}.py" for name in ("enter", "import", "moving")),
        *("tests/project/test_notify.py", "tests/mail/test_handle.py", f"{HERE}/test_images.py"),
        f"{HERE}/test_mcp.py::test_init_registers_the_tools_for_who_says_yes",
        f"{HERE}/test_policy.py::test_work_for_a_project_in_a_folder_waits_too",
        f"{HERE}/test_policy.py::test_programs_of_hooks_the_router_and_notices_wait",
    ],
    "words": [f"{HERE}/test_text.py", *(f"{HERE}/test_sandbox.py::{test}" for test in LOGINS)],
    "clones": [
        f"{HERE}/test_clones.py::test_a_hostile_clone[{name}]" for name in list(SHAPES)[::4]
    ],
}
# Of these, what is tried every day; and what is for the longest suite alone.
DAILY = ("processes", "records", "work")
LONG = ("fleet", "git", "vectors", "ways", "words", *DAILY)
# Of these, nothing is left out for want of a right or a program.
WHOLE = ("fleet", "outside", "pipes", "vectors", "ways")
NAMES = [pytest.param(name, marks=pytest.mark.all if name in LONG else ()) for name in SUITES]

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture
def python():
    """Return how somebody without rights starts Python, with the packages of this one."""
    if os.getuid():
        pytest.skip("NOT ROOT HERE: all tests run as a user without rights")
    with tempfile.TemporaryDirectory(prefix="nobody-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        *drop, plain, _ = as_nobody(place)
        subprocess.run([*drop, plain, "-m", "venv", "--without-pip", place / "venv"], check=True)
        (place / ".gitconfig").write_text(GIT_IDENTITY)
        packages = next((place / "venv").glob("lib/*/site-packages"))
        (packages / "these.pth").write_text("\n".join(it for it in sys.path if it.startswith("/")))
        yield place, [*drop, str(place / "venv/bin/python")]


@pytest.mark.skipif(not shutil.which("setpriv"), reason="NO setpriv: not tried as another user")
@pytest.mark.parametrize("suite", NAMES)
def test_it_holds_for_somebody_without_rights(python, suite):
    place, argv = python
    few = ("-m", "not real") if suite in DAILY else ()
    options = (*few, "-q", "-rs", "-n", "0", "-p", "no:cacheprovider", f"--basetemp={place}/tmp")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(place), "TMPDIR": str(place)}
    done = subprocess.run(
        [*argv, "-B", "-m", "pytest", *options, *SUITES[suite]],
        cwd=REPOSITORY,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert suite not in WHOLE or "skipped" not in done.stdout, done.stdout[-3000:]
    is_counted = all("[" in test for test in SUITES[suite])
    assert not is_counted or f"{len(SUITES[suite])} passed" in done.stdout, done.stdout[-3000:]
