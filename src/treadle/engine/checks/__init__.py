"""See for ourselves: run the criteria's commands on a clean checkout that nothing can fool."""
