"""`treadle demo`: a whole run in a temporary repository, with recorded agents and real checks."""

import json
import os
import shlex
import tempfile
import tomllib
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from treadle.cli import output
from treadle.errors import ExitCode, TreadleError
from treadle.files import beneath
from treadle.layout import Layout
from treadle.proc import environment, helper

_HERE = Path(__file__).parent
_DATA = tomllib.loads((_HERE / "demo.toml").read_text())
_PATIENCE = 600.0  # seconds for one command of the demo
# Between the rename of the first check's folder and its transaction.
_CRASH = "after_rename:3"


def run_demo(args: Namespace) -> int:
    """Make the repository, run the wheel, show what happened."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-demo-"))
    try:
        stage = _Stage(folder, loud=not args.json)
        stage.build()
        played = stage.crash_and_resume() if args.crash else stage.play()
        stage.show(played)
        result = stage.land(played)
    finally:
        if not args.keep:
            beneath.remove_tree(folder)
    if args.json:
        kept = str(folder / "project") if args.keep else None
        output.print_json({"run": result, "crashed": args.crash, "folder": kept})
    elif args.keep:
        output.line()
        output.line(f"kept in {folder / 'project'}")
    return ExitCode.DONE if result["landed"] else ExitCode.FAILED


class _Stage:
    """The temporary repository and the commands run in it."""

    def __init__(self, folder: Path, *, loud: bool) -> None:
        self._project = folder / "project"
        self._loud = loud
        self._env = _environment(folder)

    def build(self) -> None:
        """Make a small project whose test fails."""
        self._project.mkdir()
        for name, text in _DATA["files"].items():
            (self._project / name).write_text(text)
        self._git("init", "-q")
        self._git("add", ".")
        self._git("commit", "-q", "-m", "Begin")
        self._say("A small project whose test fails, in a temporary repository.")
        self._treadle("init", "--commit")
        recording = json.dumps(str(_HERE / "demo_recording"))
        config = _DATA["config"].replace("RECORDING", recording)
        Layout(self._project).config_toml.write_text(config)
        self._git("commit", "-q", "-a", "-m", "Let the recording answer")

    def play(self) -> dict[str, object]:
        """Run the wheel to its end."""
        self._say("Recorded agents answer; git, checks and commits are real.")
        self._treadle(*_DATA["run"])
        return self._newest()

    def crash_and_resume(self) -> dict[str, object]:
        """Kill the process between rename and commit, then let recovery finish the step."""
        self._say("The process is killed between a step's rename and its commit.")
        code = self._treadle(*_DATA["run"], die_at=_CRASH)
        if code != -9:
            raise TreadleError(f"the demo should have been killed, but exited with {code}")
        self._say("killed. Its step is on disk, the store does not know it yet.")
        run_id = str(self._newest()["run_id"])
        self._say("Start again: the step is adopted as it was, nothing is repeated.")
        self._treadle("run", "--resume", run_id)
        return self._newest()

    def show(self, result: dict[str, object]) -> None:
        """Show the steps, the refuted claim and the patch."""
        run_id = str(result["run_id"])
        self._treadle("why", run_id)
        self._treadle("runs", "show", run_id)
        self._git("diff", "--stat", f"{result['base_commit']}..{result['branch']}", show=True)

    def land(self, result: dict[str, object]) -> dict[str, object]:
        """Bring the work into the branch and show the landed commit."""
        if result["status"] != "passed":
            return result | {"landed": None}
        self._treadle("land", str(result["run_id"]))
        self._git("show", "--stat", "--format=%h %s%n%n%b", "HEAD", show=True)
        shown = self._answer("runs", "show", str(result["run_id"]))
        return result | {"landed": shown["landed"]}

    def _newest(self) -> dict[str, object]:
        found = self._answer("runs", "list")["runs"]
        if not isinstance(found, list) or not found:
            raise TreadleError("the demo left no run; look above for the reason")
        return dict(found[0])

    def _answer(self, *words: str) -> dict[str, object]:
        return dict(json.loads(self._call([*words, "--json"], self._env).stdout))

    def _treadle(self, *words: str, die_at: str | None = None) -> int:
        env = self._env | ({"TREADLE_DIE_AT": die_at} if die_at else {})
        self._say(f"$ treadle {shlex.join(words)}", colour="bold")
        done = self._call(words, env)
        self._say(done.stderr.decode(errors="replace").rstrip(), colour="dim")
        self._say(done.stdout.decode(errors="replace").rstrip())
        return done.returncode

    def _git(self, *words: str, show: bool = False) -> None:
        done = helper.run(["git", "-C", str(self._project), *words], self._env)
        if done.returncode:
            raise TreadleError(f"git {words[0]}: {done.stderr.decode(errors='replace')}")
        if show:
            self._say(f"$ git {shlex.join(words)}", colour="bold")
            self._say(done.stdout.decode(errors="replace").rstrip())

    def _call(self, words: Sequence[str], env: dict[str, str]) -> helper.Captured:
        done = helper.detach(*environment.treadle_command(words, self._project, env), _PATIENCE)
        if done is None:
            raise TreadleError(f"treadle {words[0]} did not finish within {_PATIENCE:g} s")
        return done

    def _say(self, text: str, colour: output.Colour | None = None) -> None:
        if self._loud and text:
            for row in text.split("\n"):
                output.line(output.paint(row, colour) if colour else row, flush=True)


def _environment(folder: Path) -> dict[str, str]:
    """Keep the demo's traces in its own folder, and its Python first on the path."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("TREADLE_")}
    return kept | {
        **_DATA["environment"],
        "PATH": f"{Path(environment.PYTHON).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        **{f"XDG_{name.upper()}_HOME": str(folder / name) for name in ("cache", "state", "config")},
    }
