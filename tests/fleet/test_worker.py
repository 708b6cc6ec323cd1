"""A worker from its coming to its leaving."""

import os

from tests.fleet.inline import Inline
from tests.fleet.lab import wait_for
from treadle.config.schema import Config, FleetConfig
from treadle.fleet import worker
from treadle.fleet.site import LOCAL, FleetSite
from treadle.fleet.trouble import Fitness
from treadle.fleet.worker import Wishes
from treadle.layout import Layout
from treadle.store import fleet


def test_a_worker_beats_while_its_queue_opens(tmp_path):
    """One that starts longer than the deadline would be taken for dead, again and again."""
    site = FleetSite(None, LOCAL, Layout(tmp_path))

    class Slow(Inline):
        def work(self, slots, drive, is_fit):
            with site.fleet() as store:
                (first,) = fleet.living(store)
                wait_for(lambda: fleet.living(store)[0].beat_at > first.beat_at)

    def on_listed():
        with site.fleet() as store:
            listed.append([row.worker_id for row in fleet.living(store)])

    listed = []
    wishes, config = Wishes(1, idle_exit=0.0), Config(fleet=FleetConfig(beat=0.05))
    parts = site, config, wishes, Slow(), print, os.environ, on_listed
    assert worker.work_until_done(*parts) == 0
    assert listed == [["w"]]
    with site.fleet() as store:
        assert fleet.living(store) == []


def test_a_repository_that_is_away_keeps_a_worker_from_its_own_project_alone():
    fitness = Fitness(300.0, [].append)
    for _ in range(3):
        fitness.failed("remote_failed", "gone", "shop")
    fitness.worked("blog")
    assert fitness.trouble == fitness.trouble_of("shop") == "remote_failed with shop: gone"
    assert (fitness.trouble_of("blog"), fitness.trouble_of()) == (None, None)
    fitness.worked("shop")
    assert fitness.trouble is None


def test_a_worker_that_reaches_no_repository_takes_no_runs_at_all():
    fitness = Fitness(300.0, [].append)
    for number in range(5):
        fitness.failed("remote_failed", "no credentials", f"project{number}")
    assert fitness.trouble_of() == "remote_failed: no credentials"
