"""Fuzz one parser with atheris: python -m tests.fuzz NAME SECONDS FOLDER."""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["treadle"]):
    from tests.fuzz.targets import TARGETS, attempt


def main() -> None:
    """Begin from the known inputs and go on until time is up or something breaks."""
    name, seconds, folder = sys.argv[1:]
    target, corpus = TARGETS[name], Path(folder) / name
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed{number}").write_bytes(seed)
    options = [f"-max_total_time={seconds}", "-max_len=4096", f"-artifact_prefix={corpus}/"]
    options += ["-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup([name, *options, str(corpus)], lambda data: attempt(target, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
