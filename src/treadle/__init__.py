"""Turn written specs into finished, checked work with any coding agent."""

__version__ = "0.1.0"
# Where the user stands; only a process that treadle itself started somewhere else is told.
here: str | None = None
