"""A mission in a project, and shortcuts through its phases."""

from pathlib import Path

SPEC = "# Log in\n\n## Functional Requirements\n\n| ID | Requirement |\n|---|---|\n{rows}\n"
REAL_SPEC = SPEC.format(rows="| FR-001 | Users can log in |")
SCAFFOLD_SPEC = SPEC.format(rows="")
REAL_PLAN = "# Plan\n\n## Technical Context\n\n- **Language/Version**: C11\n- **Storage**: files\n"


class Mission:
    """The mission `auth` of a project."""

    def __init__(self, project, slug: str = "auth", home: str = "missions"):
        self.project = project
        self.slug = slug
        self.folder: Path = project.root / home / slug
        self.spec = self.folder / "spec.md"
        self.plan = self.folder / "plan.md"

    def create(self):
        assert self.project.treadle("mission", "create", self.slug).code == 0
        return self

    def commit(self, path: Path, text: str | None = None) -> None:
        if text is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.project.git("add", str(path))
        self.project.git(
            "commit", "-q", "--allow-empty", "-m", f"Write {path.name}", "--", str(path)
        )

    def specified(self):
        self.commit(self.spec, REAL_SPEC)
        return self

    def planned(self):
        self.specified()
        self.plan.write_text(REAL_PLAN)
        assert self.setup_plan().json["phase_complete"]
        return self

    def with_tasks(self, *heads: str):
        """Commit WP01, WP02, … with these fields."""
        self.planned()
        for number, head in enumerate(heads, 1):
            text = f"---\nwork_package_id: WP{number:02}\ntitle: Part {number}\n{head}---\nDo it.\n"
            self.task(number).parent.mkdir(exist_ok=True)
            self.task(number).write_text(text)
        self.commit(self.folder / "tasks")
        return self

    def task(self, number: int) -> Path:
        return self.folder / "tasks" / f"WP{number:02}-part.md"

    def work(self, name: str = "work.txt", text: str | None = None) -> str:
        """Do some work: commit a file that is not as it was; return the commit."""
        path = self.project.root / name
        old = path.read_text() if path.exists() else ""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{old}more\n" if text is None else text)
        self.project.git("add", "--", name)
        self.project.git("commit", "-q", "-m", f"Work on {name}", "--", name)
        return self.project.git("rev-parse", "HEAD").strip()

    def setup_plan(self):
        return self.project.treadle("mission", "setup-plan", "--json")

    def next(self, *words: str) -> dict:
        result = self.project.treadle("next", "--json", *words)
        assert result.code == 0, result
        return result.json

    def move(self, task: str, lane: str, *words: str):
        return self.project.treadle("task", "move", task, "--to", lane, *words, "--json")

    def lane(self, task: str) -> str:
        return self.project.treadle("task", "show", task, "--json").json["lane"]
