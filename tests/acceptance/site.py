"""A project whose runs change files by one shell command, and land under supervision."""

from tests.acceptance.untouched import lived_in, untouched
from tests.builder import git

WORK = "mkdir -p src; echo done > done.txt; echo new > src/new.txt; echo run > shared.txt"


class Site:
    """A project whose runs change files by one shell command."""

    def __init__(self, project):
        self.project = project
        self.root = project.root

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def commit(self, name, text, message="More"):
        self.write(name, text)
        git(self.root, "add", "-f", name)
        git(self.root, "commit", "-q", "-m", message, "--", name)

    def passed(self, work=WORK, *, verify="test -f done.txt", goal="Make done", extra=""):
        """Return the id of a passed run that did `work`."""
        setting = f'[agents.do]\ntype = "builtin"\nrun = ["sh", "-c", {_quoted(work)}]\n'
        self.project.settings(setting + extra)
        git(self.root, "commit", "-q", "-m", "Settings", "--", ".treadle/config.toml", check=False)
        done = self.project.treadle(
            "run",
            "--goal",
            goal,
            "--ac",
            "works",
            "--verify",
            f"AC1={verify}",
            "--anyway",
            "--json",
        )
        assert done.json["status"] == "passed", done
        return done.json["run_id"]

    def land(self, run_id, *options):
        """Land while watching over what belongs to the user."""
        with lived_in(self.root), untouched(self.root):
            return self.project.treadle("land", run_id, *options, "--json")

    def undo(self, run_id):
        with lived_in(self.root), untouched(self.root):
            return self.project.treadle("undo", run_id, "--json")

    def refused(self, run_id, code, *options):
        """Land in vain: nothing moved, and the reason stands in the timeline."""
        before = self.state()
        result = self.land(run_id, *options)
        error = result.json["error"]
        assert (result.code, error["code"]) == (3, code), result
        assert error["fix"]
        assert self.state() == before
        return error

    def state(self):
        refs = git(self.root, "for-each-ref", "--format=%(refname) %(objectname)")
        return refs, (self.root / ".git" / "HEAD").read_text()

    def tip(self, name="HEAD"):
        return git(self.root, "rev-parse", name).strip()

    def tree(self, name="HEAD"):
        return git(self.root, "rev-parse", f"{name}^{{tree}}").strip()

    def files(self, name="HEAD"):
        return git(self.root, "ls-tree", "-r", "--name-only", name).splitlines()


def _quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
