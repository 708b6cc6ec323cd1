"""Who has folders of its own, and so gets letters to all."""

from treadle.layout import MailLayout


def register(mail: MailLayout, agent: str) -> None:
    """Give an agent its folders; from then on it gets letters to all."""
    for folder in (mail.inbox(agent), mail.workspace(agent)):
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)


def registered(mail: MailLayout) -> list[str]:
    """Return the agents that have folders."""
    if not mail.agents.is_dir():
        return []
    return sorted(path.name for path in mail.agents.iterdir() if path.is_dir())
