"""What counts as a summary, a number of tests and a report."""

import pytest

from treadle.engine.checks import observe

BOMB = '<!DOCTYPE a [<!ENTITY b "c">]><testsuite><testcase name="&b;"/></testsuite>'


@pytest.mark.parametrize(
    ("command", "log", "fine"),
    [
        ("pytest -q", "..\n2 passed in 0.01s\n", True),
        ("python3 -m pytest", "=== 1 passed, 2 skipped in 61.20s (0:01:01) ===\n", True),
        ("cd app && A=1 uv run pytest -x", "1 passed in 0.01s", True),
        ("pytest -q", "", False),
        ("python -m pytest", "collected 3 items\n", False),
        ("pytest", "=== 1 failed, 2 passed in 0.01s ===", False),
        ("pytest", "=== 2 passed, 1 error in 0.01s ===", False),
        ("pytest -qq", "", True),
        ("pytest --collect-only", "", True),
        ("pytest > log.txt", "", True),
        ("echo pytest", "pytest", True),
        ("sh run.sh", "", True),
        ("python -m unittest", "Ran 3 tests in 0.001s\n\nOK\n", True),
        ("python -m unittest", "Ran 3 tests in 0.001s\n\nFAILED (failures=1)\n", False),
        ("python3.12 -B -m unittest discover", "", False),
        ("python3 -mpytest", "", False),
        ("python3 -W error -Im pytest", "", False),
        ("npx jest", "Tests:       1 failed, 2 passed, 3 total", False),
        ("npx jest", "Tests:       3 passed, 3 total", True),
        ("cargo test", "test result: ok. 3 passed; 0 failed", True),
        ("cargo test --all", "", False),
        ("go test ./...", "ok  \texample\t0.1s", True),
        ("go test ./...", "", False),
        # A binary that the product ended, before one that got to its end.
        (
            "cargo test",
            "running 1 test\n   Doc-tests a\n\nrunning 0 tests\n\ntest result: ok.\n",
            False,
        ),
        ("cargo test", "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed\n", True),
        ("npx mocha", "  3 passing (2ms)", True),
        ("npx mocha", "", False),
        ("vitest run", " Tests  3 passed (3)", True),
        ("vitest run", "", False),
        ("bundle exec rspec", "3 examples, 0 failures", True),
        ("rspec", "", False),
        # Make and npm show what they run.
        ("make test", "python3 -m pytest -x\n", False),
        ("make test", "python3 -m pytest -x\n3 passed in 0.1s\n", True),
        ("make test", "pytest > log.txt\n", True),
        ("CI=1 npm test", "\n> calc@1.0.0 test\n> jest --ci\n\n", False),
        ("npm test", "\n> calc@1.0.0 test\n> jest\n\nTests:   1 passed, 1 total", True),
        ("make lint", "ruff check\n", True),
        ("grep -h . notes", "pytest\n", True),
    ],
)
def test_a_runner_that_does_not_get_to_its_end(tmp_path, command, log, fine):
    path = tmp_path / "log"
    path.write_text(log)
    assert (observe.silent(command, path) is None) is fine


@pytest.mark.parametrize(
    ("log", "count"),
    [
        ("12 passed in 0.1s", 12),
        ("== 1 skipped, 3 passed, 1 xfailed in 0.1s ==", 3),
        ("Ran 5 tests in 0.1s\n\nOK (skipped=2)", 3),
        ("Ran 5 tests in 0.1s\n\nFAILED (errors=1)", 0),
        ("test result: ok. 2 passed; 0 failed\ntest result: ok. 3 passed; 0 failed", 5),
        ("# pass 4\n# fail 0", 4),
        ("Tests:  1 skipped, 6 passed, 7 total", 6),
        ("  7 passing (3ms)", 7),
        ("--- PASS: TestA (0.0s)\n    --- PASS: TestA/b (0.0s)\nPASS", 2),
        ("all fine", 0),
    ],
)
def test_counting_tests(tmp_path, log, count):
    path = tmp_path / "log"
    path.write_text(log)
    assert observe.unmet(f"tests>={count + 1}", path, tmp_path) is not None
    assert count == 0 or observe.unmet(f"tests>={count}", path, tmp_path) is None


@pytest.mark.parametrize(
    ("report", "fine"),
    [
        ("<testsuites><testsuite><testcase name='a'/></testsuite></testsuites>", True),
        ("<testsuite><testcase name='a'><skipped/></testcase></testsuite>", False),
        ("<testsuite><testcase><failure/></testcase><testcase/></testsuite>", False),
        ("<testsuite><testcase><error/></testcase></testsuite>", False),
        ("<testsuite tests='3'/>", False),
        (BOMB, False),
        ("<testsuite>", False),
        ("", False),
    ],
)
def test_reports(tmp_path, report, fine):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "r.xml").write_text(report)
    assert (observe.unmet("junit:out/r.xml", tmp_path, tmp_path) is None) is fine


def test_a_report_behind_a_link_is_none(tmp_path):
    good = "<testsuite><testcase/></testsuite>"
    (tmp_path / "good.xml").write_text(good)
    (tmp_path / "r.xml").symlink_to("good.xml")
    assert observe.unmet("junit:r.xml", tmp_path, tmp_path) is not None
    assert observe.unmet("junit:missing.xml", tmp_path, tmp_path) is not None


def test_a_report_that_lies_there_is_removed_before(tmp_path):
    (tmp_path / "r.xml").write_text("<testsuite><testcase/></testsuite>")
    observe.prepare(tmp_path, ["junit:r.xml", "junit:none/r.xml", "tests>=1"])
    assert list(tmp_path.iterdir()) == []
