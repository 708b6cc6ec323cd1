"""Write routines, specs and messages of a project, and read what came of them."""

import os

LOG = '#!/bin/sh\n# Write the message down\necho "$spec_file|$message_id|$seq" >> log.txt\n'


def routine(project, name, text):
    path = project.root / ".treadle" / "routines" / f"{name}.sh"
    path.write_text(text)
    path.chmod(0o755)


def spec(project, name, text="# Do it\n"):
    (project.root / "specs" / name).write_text(text)


def drop(project, name, text):
    folder = project.root / ".treadle" / "inbox"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def log(project):
    """Return what the routines wrote down, each run on top of the last one's landing."""
    return (project.root / "log.txt").read_text().splitlines()


def logged_specs(project):
    return [os.path.basename(line.split("|")[0]) for line in log(project)]


def done(project, name):
    return (project.root / ".treadle" / "inbox" / "done" / name).read_text()
