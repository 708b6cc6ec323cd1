"""Who has folders of its own, and so gets letters to all."""

from treadle.ids import is_agent_id
from treadle.layout import MailLayout
from treadle.mail import address


def register(mail: MailLayout, agent: str) -> None:
    """Give an agent its folders; from then on it gets letters to all."""
    for folder in (mail.inbox(agent), mail.workspace(agent)):
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)


def registered(mail: MailLayout) -> list[str]:
    """Return the agents that have folders."""
    return sorted({address.parse(name) for name in folders(mail)})


def folders(mail: MailLayout) -> list[str]:
    """Return the names of agents' folders as they are spelled; what else lies there is nobody's."""
    if not mail.agents.is_dir():
        return []
    names = [path.name for path in mail.agents.iterdir() if path.is_dir()]
    ours = (name for name in names if is_agent_id(name.lower()))
    return sorted(name for name in ours if name.lower() != address.ALL)
