"""Measure treadle against the least that any program would have to do for the same effect."""
