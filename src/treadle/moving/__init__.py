"""Move in from another system: find what is there, bring it in, and account for every piece."""
