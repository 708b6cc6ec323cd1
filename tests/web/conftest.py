"""A served project, asked through the application itself."""

import asyncio
import os
import re

import httpx
import pytest

from tests.builder import Project, make_home
from treadle.project.context import open_context
from treadle.web import app
from treadle.web.access import Keys
from treadle.web.site import Site

PORT = 7717
URL = f"http://127.0.0.1:{PORT}"


class Client:
    """A browser without a screen: it keeps cookies, and asks the application itself."""

    def __init__(self, site, cookies=None):
        self.app = app.build(site)
        self.cookies = httpx.Cookies(cookies)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    def request(self, method, path, **options):
        return asyncio.run(self._request(method, path, options))

    async def _request(self, method, path, options):
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(
            transport=transport, base_url=URL, cookies=self.cookies
        ) as client:
            found = await client.request(method, path, **options)
            self.cookies = client.cookies
            return found


@pytest.fixture
def site(repo):
    """Return a project's site; nothing has run in it yet."""
    (repo / ".treadle").mkdir()
    (repo / ".treadle" / "config.toml").write_text("")
    return Site(open_context(repo, {}), Keys(), PORT)


@pytest.fixture
def stranger(site):
    """Return a client that was never let in."""
    return Client(site)


@pytest.fixture
def browser(site, stranger):
    """Return a client with the cookie."""
    stranger.get("/enter", params={"key": site.keys.new_link()})
    assert app.cookie_name(site) in stranger.cookies
    return stranger


def uncoloured(page):
    """Return a page without the colours in its diffs."""
    return re.sub(r"</?span[^>]*>", "", page)


class Worked:
    """A project with a run that passed in its second iteration, and a client that may see it."""

    def __init__(self, project, run, env):
        self.project, self.root, self.run, self.env = project, project.root, run, env
        self.site = Site(open_context(project.root, {**os.environ, **env}), Keys(), PORT)
        self.browser = self.client()

    def json(self, *words):
        return self.project.treadle(*words, "--json", env=self.env).json

    def client(self, **changes):
        client = Client(self.site._replace(**changes))
        client.get("/enter", params={"key": self.site.keys.new_link()})
        return client


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """Return a project in which the real command has worked."""
    root = tmp_path_factory.mktemp("worked")
    env = make_home(root / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        project = Project.make(root / "project", root / "agents", {}, env)
        project.good_agents()
        run = project.run_json("--verify", "AC1=test -f done.txt")["run_id"]
    return Worked(project, run, env)
