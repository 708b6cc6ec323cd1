"""Ask the fleet's queue which runs it knows; loaded only when a run is under way."""

from treadle.config.schema import FleetConfig
from treadle.errors import StoreError
from treadle.fleet import queue
from treadle.fleet.site import Site


def ask(site: Site, config: FleetConfig) -> set[tuple[str, str]] | None:
    """Return project and id of each run that a job stands for; None if the queue says nothing."""
    try:
        health = queue.queue_of(site, config).health()
    except StoreError:
        return None
    return {(job.project, job.run_id) for job in (*health.waiting, *health.held)}
