"""What mail commands say, and where letters lie."""


class Mailbox:
    """A project's letters, written and moved by the real command."""

    def __init__(self, project):
        self.project = project
        self.root = project.root / ".treadle" / "mail"

    def __call__(self, *words, code=0, **options):
        done = self.project.treadle("mail", *words, "--json", **options)
        assert done.code == code, done
        return done.json

    def send(self, sender, to, intent, *words, **options):
        return self("send", "--from", sender, "--to", to, "--intent", intent, *words, **options)

    def put(self, path, text):
        """Write a letter as another program would."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def task(self, ending):
        return (self.root / "TASKS" / f"AUTH-012.{ending}").read_text()

    def tree(self):
        """Return every letter's path."""
        files = [path for path in self.root.rglob("*.md") if path.parent.name != "TASKS"]
        return sorted(str(path.relative_to(self.root)) for path in files)
