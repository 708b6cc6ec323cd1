"""A run that spills every canary into every channel: none is left where anybody could read it."""

import json

import pytest

from tests.acceptance.test_serve import enter, get
from tests.builder import ADD_DONE, wait_for
from tests.sandbox.canaries import ALL, FORMS, VALUES

CODED = {f"{name} as {form}": FORMS[form](VALUES[name]) for name in VALUES for form in FORMS}
WRITTEN = [text for text, _ in ALL.values()] + list(CODED.values())
# What an agent says of itself is short; these go where words are cut or names are limited.
SHORT = [VALUES["PLAIN_TOKEN"], FORMS["base64"](VALUES["PLAIN_TOKEN"]), ALL["github p"][0]]
# Forms that are also parts of honest words, such as a few signs of base64, are no proof.
SECRETS = {name: secret for name, (_, secret) in ALL.items()} | {
    name: text for name, text in CODED.items() if "\n" not in text and "base64" not in name
}
SPILL = """
written, short = json.load(open({path!r}))
everything = "\\n\\n".join(written)
"""
AGENT = """
said = " ".join(short)
os.write(1, b""); sys.stderr.write(everything); sys.stderr.flush()
for text in short:
    sys.stderr.write(text[:9]); sys.stderr.flush(); sys.stderr.write(text[9:] + "\\n")
write("notes.md", everything)
write("files/deep/" + short[0] + "/x.txt", "x")
write("name-" + short[2] + ".txt", "x")
"""
LETTER = "# MESSAGE\\nfrom: x\\nto: human\\nintent: inform\\nsummary: {}\\n\\n{}\\n"


def leaks(data):
    text = data if isinstance(data, str) else data.decode(errors="replace")
    return [name for name, secret in SECRETS.items() if secret in text]


@pytest.fixture
def spilling(project):
    path = project.folder / "written.json"
    path.write_text(json.dumps([WRITTEN, SHORT]))
    head = SPILL.format(path=str(path)) + AGENT
    allow = {"env_allow": list(VALUES)}
    project.settings(f"[checks]\nenv_allow = {json.dumps(list(VALUES))}\n")
    project.good_agents()
    project.agent(
        "plan", head + "ok(said, files=['notes.md'], extra={short[0]: everything})", **allow
    )
    letter = f"write('outbox/a.md', {LETTER!r}.format(said, everything))\n"
    project.agent("do", head + letter + "ok(said)", **allow)
    judged = (
        "done = (repo / 'done.txt').exists()\n"
        "one = {'id': 'AC1', 'pass': done, 'evidence': everything}\n"
        "word = 'PASS' if done else 'FAIL'\n"
        "found = {'version': 1, 'verdict': word, 'criteria': [one], 'blockers': [everything]}\n"
        "write('verdict.json', json.dumps(found)); write('scorecard.md', everything); ok(said)"
    )
    project.agent("check", head + judged, **allow)
    project.agent("act", head + f"write('patch.diff', {ADD_DONE!r}); ok(said)", **allow)
    return project


def test_no_canary_is_left_of_a_run(spilling):
    project = spilling
    verify = ("--verify", "AC1=env; test -f done.txt")
    done = project.run("--json", *verify, env=VALUES)
    assert done.json["status"] == "passed", done
    run_id = done.json["run_id"]
    found = {"run": leaks(done.out + done.err)}
    for path in (project.root / ".treadle").rglob("*"):
        name = str(path.relative_to(project.root))
        found[f"name {name}"] = leaks(name)
        if path.is_file():
            found[name] = leaks(path.read_bytes())
    for words in (
        ("why", run_id), ("log", run_id), ("runs", "show", run_id), ("runs", "list", "--json"),
        ("runs", "events", run_id, "--json"), ("report", run_id), ("desk", "--json"), ("doctor",),
        ("mail", "list", "--json"), ("config", "show", "--json"), ("runs", "cost", "--json"),
    ):  # fmt: skip
        said = project.treadle(*words, env=VALUES)
        found[" ".join(words)] = leaks(said.out + said.err)
    page = project.folder / "page.html"
    project.treadle("report", run_id, "--html", str(page), env=VALUES)
    found["report --html"] = leaks(page.read_text())
    assert {where: names for where, names in found.items() if names} == {}
    assert project.treadle("doctor", "--json").json["checks"]  # every step is as its record says
    step = project.step_dir(run_id, "001-plan")
    assert "[masked]" in (step / "notes.md").read_text()
    assert (step / "files/deep/[masked]/x.txt").is_file()
    recorded = json.loads((step / "step.json").read_text())["files"]
    assert "files/deep/[masked]/x.txt" in recorded


def test_the_page_shows_none_while_the_agent_works(spilling):
    project = spilling
    go = project.folder / "go"
    code = (project.folder / "plan.py").read_text().split("\nsaid = ")[0]
    wait = (
        "\nsys.stderr.write(everything + '\\nend\\n'); sys.stderr.flush()\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\nok()"
    )
    (project.folder / "plan.py").write_text(code + wait)
    served = project.start("serve", "--no-work", "--port", "0", "--json", env=VALUES)
    running = project.start("run", "--goal", "g", "--ac", "x", "--json", env=VALUES)
    try:
        said = json.loads(served.stdout.readline())
        cookie = enter(said["link"])
        runs = project.root / ".treadle" / "runs"
        log = wait_for(lambda: next(runs.glob("*/live/stderr.txt"), None))
        wait_for(lambda: log.read_text().endswith("\nend\n"))
        run_id = log.parent.parent.name
        page = get(said["url"], f"/runs/{run_id}", cookie=cookie)[1]
        raw = get(said["url"], f"/runs/{run_id}/files/live/stderr.txt", cookie=cookie)[1]
        log = get(said["url"], f"/runs/{run_id}/log", cookie=cookie)[1]
        assert "[masked]" in log
        assert leaks(log) == []
        assert "[masked]" in page
        assert "[masked]" in raw
        assert (leaks(page), leaks(raw)) == ([], [])
    finally:
        go.touch()
        running.communicate(timeout=120)
        served.terminate()
        served.communicate(timeout=120)


def test_a_bug_report_and_errors_hold_no_secret(project):
    bad = f"https://user:{SHORT[2]}@host.invalid/x?sig={VALUES['PLAIN_TOKEN']}"
    said = project.treadle("run", "--goal", "g", "--resume", bad, "--json", env=VALUES)
    assert said.code != 0
    assert SHORT[2] not in said.out + said.err
    project.settings('store = "postgresql://ada:p@ss/geheim1@db.invalid/x"\n')
    for words in (("runs", "list"), ("config", "show"), ("doctor",)):
        said = project.treadle(*words)
        assert "geheim1" not in said.out + said.err
    project.settings('artifacts = "s3://key:p@ss/geheim2@bucket/x?sig=geheim3geheim3"\n')
    said = project.treadle("config", "show", "--json")
    assert "artifacts" in said.out
    assert "geheim" not in said.out + said.err
