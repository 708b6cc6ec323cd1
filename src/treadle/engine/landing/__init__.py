"""Bring passed work into the user's branch exactly once, or take it out again."""
