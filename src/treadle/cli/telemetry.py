"""Send what a run did to an OpenTelemetry collector: `telemetry`."""

from argparse import Namespace

from treadle.cli import output
from treadle.cli.run import open_configured
from treadle.engine import notices, telemetry
from treadle.engine.show.view import find_run
from treadle.errors import BlockedError, ExitCode
from treadle.ids import utc
from treadle.store.store import Store
from treadle.text import plural


def export_run(args: Namespace) -> int:
    project, _ = open_configured()
    if not notices.has_collector(project.env):
        text = f"{notices.COLLECTOR} is not set, so there is no collector to send to"
        fix = [f"export {notices.COLLECTOR}=http://127.0.0.1:4318"]
        raise BlockedError(text, code="no_collector", fix=fix)
    with Store.open(project.layout) as store:
        row = find_run(store, args.run)
        sent = telemetry.export(project, store, row)
        if sent.error:
            told = {"message": sent.error, "kind": "telemetry", "tries": 1, "at": utc(store.now())}
            store.leave(row.run_id, notices.FAILED, told)
        else:
            store.leave(row.run_id, telemetry.MARK, {"step": sent.last_step})
    said = sent.error or f"sent {plural(sent.spans, 'span')} of run {row.run_id}"
    output.say(args.json, {"run_id": row.run_id, **sent._asdict()}, said)
    return ExitCode.FAILED if sent.error else ExitCode.DONE
