"""Runs that other machines drive: how they wait, how their steps are kept, how they come here."""
