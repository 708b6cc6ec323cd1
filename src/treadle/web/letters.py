"""Read the store with every letter in it, as the commands do."""

from collections.abc import Iterator
from contextlib import contextmanager

from treadle.mail import folders, sync
from treadle.store.store import Reader
from treadle.web.site import Site


@contextmanager
def store(site: Site) -> Iterator[Reader]:
    """Take in what others wrote, if there is anything, then read."""
    layout = site.project.layout
    with site.store() as reader:
        if not layout.mail.root.is_dir() or not folders.is_stale(reader, layout.mail):
            yield reader
            return
    # What cannot be read is set aside, and stands in the list of what was.
    fresh, _ = sync.fresh(layout, site.now())
    fresh.close()
    with site.store() as reader:
        yield reader
