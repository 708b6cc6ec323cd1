"""Whom a tool speaks to: nobody but the service that was configured."""

import shlex

import pytest

from tests.real.cases import TOOLS
from tests.real.conftest import good
from tests.real.model import Shell
from tests.real.tools import PATIENCE, environment, settings

pytestmark = [pytest.mark.real, pytest.mark.timeout(PATIENCE)]
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def at_once(turn):
    """Do it in the first round."""
    if turn.role == "do" and not turn.results:
        return Shell(f"echo done > {shlex.quote(turn.workspace)}/done.txt")
    return good(turn)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_proxy_that_records_every_connection_sees_only_the_service(bench, tool):
    found = bench(tool, at_once)
    # One takes no service that only a proxy reaches; whatever else it asks for would go there.
    url = found.model.url if "gemini" in tool else "http://provider.test"
    found.configure(**settings(tool, url))
    proxy = {name: found.model.url for name in (*PROXIES, *map(str.lower, PROXIES))}
    found.env = (
        environment(tool, url)
        | proxy
        | dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
    )
    run = found.run()
    assert run["status"] == "passed", found.project.treadle("why", run["run_id"]).out
    hosts = {host.removesuffix(":80") for host in found.model.hosts}
    assert hosts == {url.removeprefix("http://")}
    assert len(found.model.turns) >= 6
