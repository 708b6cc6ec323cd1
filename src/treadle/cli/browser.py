"""Show a file in the user's browser; loaded only when --open asks for it."""

from treadle.proc.browse import show as show
