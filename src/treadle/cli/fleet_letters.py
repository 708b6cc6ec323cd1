"""Send the letters that runs of the fleet left; loaded only when there are any."""

import os

from treadle.cli import output
from treadle.cli.progress import watcher
from treadle.config.load import load
from treadle.engine import orchestrator
from treadle.errors import LockedError, TreadleError
from treadle.project.project import open_project, place_mail
from treadle.project.root import here


def bring() -> None:
    """Let recovery send them; whoever works in the project right now has done it on entry."""
    project = open_project(here(), os.environ)
    place_mail(project, load(project.layout, project.env).config)
    try:
        with orchestrator.opened(project, watch=watcher(True)):
            pass
    except LockedError:
        return
    except TreadleError as error:
        output.warn(f"letters of the fleet are not here yet: {error.message}")
