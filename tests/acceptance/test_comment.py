"""What a person says about a change reaches the next act step, once."""

import json

# Something else each time, and never what the criterion asks for.
PATCH = """
name = f"n{iteration}.txt"
head = f"diff --git a/{name} b/{name}\\nnew file mode 100644\\n--- /dev/null\\n+++ b/{name}\\n"
write("patch.diff", head + "@@ -0,0 +1 @@\\n+x\\n")
ok(files=["patch.diff"])
"""


def test_a_comment_is_told_to_the_next_act_step_only(project):
    project.good_agents()
    project.agent("act", PATCH)
    run = project.run_json("--budget", "max_iterations=2")
    said = project.treadle(
        *("comment", run["run_id"], "use a sum", "--step", "4"),
        *("--file", "cart.py", "--line", "7", "--json"),
    )
    assert said.json["path"] == "cart.py"
    project.treadle("run", "--resume", run["run_id"], "--budget", "max_iterations=4")
    notes = [
        json.loads(path.read_text())["context"]["notes"]
        for path in sorted(project.run_dir(run["run_id"]).glob("steps/*/input.json"))
        if path.parent.name > "007"
    ]
    told = [note for note in notes if "On step 4, cart.py line 7:\n> use a sum" in note]
    assert (len(told), len(notes) > 2) == (1, True)


def test_a_comment_nobody_would_read_is_refused(project):
    project.good_agents()
    run = project.run_json()
    refused = project.treadle("comment", run["run_id"], "late", "--step", "4", "--json")
    assert (refused.code, refused.json["error"]["code"]) == (3, "run_over")
