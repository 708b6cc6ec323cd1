"""Programs that say what the real tools said, for tests without them."""

from pathlib import Path

from msgspec.structs import replace

from treadle.agents import oneshot
from treadle.agents.backend import AgentSpec, Ask
from treadle.config.schema import AgentConfig
from treadle.proc.keeper import Keeper, Limits

RECORDED = Path(__file__).parent / "recorded"


def program(folder: Path, tool: str, script: str | None = None) -> str:
    """Put a program named like the tool into `folder`/bin and return a PATH that finds it."""
    binaries = folder / "bin"
    binaries.mkdir(exist_ok=True)
    path = binaries / tool
    path.write_text("#!/bin/sh\n" + (script or f"cat > /dev/null; cat {RECORDED / tool}.jsonl\n"))
    path.chmod(0o755)
    return f"{binaries}:/usr/bin:/bin"


def spec(folder: Path, keeper: Keeper, tool: str, path: str, **config) -> AgentSpec:
    """Return an agent of this tool that works below `folder`."""
    for name in ("step", "live", "workspace", "home"):
        (folder / name).mkdir(exist_ok=True)
    return AgentSpec(
        name="do",
        config=AgentConfig(type=tool, **config),
        root=folder,
        workspace=folder / "workspace",
        environment={"PATH": path, "HOME": str(folder / "home")},
        stdout=folder / "live" / "stdout.txt",
        stderr=folder / "live" / "stderr.txt",
        limits=Limits(wall=120, output_bytes=1 << 20),
        keeper=keeper,
        should_stop=lambda: None,
        on_tick=lambda elapsed: None,
    )


def ask(found: AgentSpec, tool, role="do", **changes) -> Ask:
    """Return what the tool would be asked."""
    first = oneshot.ask(found, role, found.root / "step", found.root / "state")
    return replace(first, **changes)
