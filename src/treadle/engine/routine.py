"""Run a script or a notebook: one do step under the same commit protocol as the wheel."""

from treadle.config.schema import AgentConfig, Config
from treadle.contract.role import ROLES
from treadle.engine.order import MessageOrder, NamedAgent, Order, Script
from treadle.engine.run import Run
from treadle.engine.stage import OUTBOX, Stage
from treadle.files import walk
from treadle.tasks import markdown

NAME = "message.md"


def freeze(config: Config, *, text: str, message: MessageOrder, script: Script) -> Order:
    """Write down what was asked of a routine, with the configuration of this moment."""
    limit = config.agents["do"].timeout if "do" in config.agents else AgentConfig().timeout
    worker = NamedAgent(
        name=message.routine, config=AgentConfig(type="builtin", run=script.argv, timeout=limit)
    )
    nobody = NamedAgent(name="builtin", config=AgentConfig())
    return Order(
        goal=markdown.title(text) or f"message {message.id}",
        text=text,
        criteria=(),
        budgets=config.budgets,
        agents={role: worker if role == "do" else nobody for role in ROLES},
        checks=config.checks,
        workspace=config.workspace,
        sandbox=config.sandbox,
        network=config.network,
        message=message,
        script=script,
    )


def environment(run: Run, stage: Stage) -> dict[str, str]:
    """Return what a run that carries out a message tells its children about it."""
    message, script = run.order.message, run.order.script
    if message is None:
        return {}
    stage.outbox.mkdir(exist_ok=True)
    found = {"TREADLE_OUTBOX": str(stage.outbox)}
    return found | script.env | _variables(run, message) if script else found


def close_outbox(stage: Stage) -> None:
    """Leave no folder behind where nothing was sent; moving it is quicker than deleting it."""
    if walk.is_folder(stage.outbox) and not walk.names(stage.outbox):
        stage.outbox.rename(f"{stage.live}/{OUTBOX}")


def _variables(run: Run, message: MessageOrder) -> dict[str, str]:
    root, folder = run.tools.layout.root, str(run.folder.message)
    input_file = str(root / message.input_file) if message.input_file else ""
    return {
        "spec_file": input_file if message.type == "spec" else "",
        "message_file": f"{folder}/{NAME}",
        "message_id": message.id,
        "message_dir": folder,
        "chain": message.chain,
        "seq": str(message.seq),
        "input_file": input_file,
    }
