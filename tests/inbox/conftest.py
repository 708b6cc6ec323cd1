"""A project with an inbox, worked on by real passes in this process."""

import json
import os
import shlex
import sys
from datetime import UTC, datetime

import pytest

from tests.builder import Project, git
from treadle.config.load import load
from treadle.engine import session
from treadle.inbox.known import Scope
from treadle.inbox.process import process
from treadle.project.context import open_context
from treadle.store.store import Reader


class Inbox:
    """What a test does with a project: write files, make passes, look at what came of them."""

    def __init__(self, root):
        self.root = root
        self.layout = open_context(root, os.environ).layout
        self.layout.inbox.mkdir()
        self.told = []

    def routine(self, name, *lines, about="Do it"):
        path = self.layout.routines / f"{name}.sh"
        path.write_text("\n".join(["#!/bin/sh", f"# {about}", *lines, ""]))
        return path

    def spec(self, name, text="# Do it\n"):
        path = self.layout.specs / name
        path.write_text(text)
        return path

    def drop(self, name, text):
        path = self.layout.inbox / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def settings(self, text):
        self.layout.config_toml.write_text(text)

    def router(self, code):
        path = self.root.parent / "router.py"
        path.write_text(f"import sys\n{code}\n")
        return f"{shlex.quote(sys.executable)} -S -E {shlex.quote(str(path))}"

    def process(self, **options):
        config = load(self.layout, os.environ).config
        return self.with_tools(lambda tools: process(tools, config, Scope(**options)))

    def with_tools(self, work):
        project = open_context(self.root, os.environ)
        with session.opened(project, watch=self._hear) as tools:
            return work(tools)

    def _hear(self, moment):
        self.told.append(moment.message)

    def statuses(self, **options):
        return [(item.name, item.status) for item in self.process(**options).outcomes]

    def reason(self, name):
        return self.reasons()[name]

    def reasons(self):
        return {
            path.name.removesuffix(".reason.json"): json.loads(path.read_text())
            for path in self.layout.inbox_dead.glob("*.reason.json")
        }

    def read(self, name):
        return (self.root / name).read_text()

    def reader(self):
        return Reader.open(self.layout)

    def runs(self):
        with self.reader() as store:
            return list(reversed(store.runs(100)))

    def events(self, run_id):
        with self.reader() as store:
            return [event.type for event in store.events(run_id)]

    def tracker(self):
        return self.layout.tracker.read_text().split() if self.layout.tracker.exists() else []

    def git(self, *args):
        return git(self.root, *args)


@pytest.fixture
def inbox(repo):
    Project(repo, repo.parent).set_up()
    found = Inbox(repo)
    found.settings('default_routine = "log"\n')
    found.routine("log", 'echo "$message_id" >> log.txt', about="Write it down")
    found.git("add", ".")
    found.git("commit", "-q", "-m", "Set up")
    return found


@pytest.fixture
def now():
    return datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
