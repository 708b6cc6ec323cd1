"""The wheel: plan, do, check, act, one committed step after the other, until the run ends."""
