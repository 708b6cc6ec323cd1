"""Every page and every action."""

from treadle.web.pages import runs
from treadle.web.site import Action, Asked, Page

PAGES = (Page("/runs", "runs.html", runs.document, label="Runs"),)


def _stop(asked: Asked) -> list[str]:
    return ["stop", asked.run, "--reason=stopped on the page"]


ACTIONS = (Action("/runs/{run}/stop", _stop),)
