"""Turn written specs into finished, checked work with any coding agent."""

__version__ = "0.1.0"
