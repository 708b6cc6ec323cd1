"""The working half of `treadle serve`: carry out messages and specs as they come."""

from treadle.cli import output
from treadle.cli.process import document
from treadle.cli.progress import watcher
from treadle.config.load import load
from treadle.engine import work
from treadle.engine.signals import Interrupts
from treadle.inbox import plan, serve
from treadle.inbox.serve import Server
from treadle.project import trust
from treadle.project.project import Project


def require(project: Project) -> None:
    """Stop where nothing may be carried out."""
    loaded = load(project.layout, project.env)
    trust.require(project, loaded, tuple(plan.commands(project.layout)))
    work.require_sandbox(loaded.config)


def going(project: Project, interrupts: Interrupts, as_json: bool) -> int | None:
    """Watch until a signal comes; return the exit code of a pass that one has cut off."""
    server = Server(project, watcher(as_json), interrupts.reason)
    for summary in serve.serve(server):
        if as_json:
            output.print_json(document(summary))
        else:
            done = sum(item.status == "done" for item in summary.outcomes)
            print(f"{done} done, {len(summary.outcomes) - done} not", flush=True)
        if summary.interrupted:
            return summary.exit_code
    return None
