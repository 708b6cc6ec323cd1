"""Show runs to people and programs: find one, explain it, report it, count what it cost."""
