"""Scenarios around the small program `toy`: one that is right, several that must be caught."""

import sys
from pathlib import Path

from tests.crash import toy
from tests.crash.scenario import Outcome
from tests.crash.supervise import Command

_PROGRAM = Path(toy.__file__)


class Careful:
    """The right protocol: sync, rename, sync, commit; recovery adopts what is whole."""

    flaw = "none"

    def prepare(self, world: Path) -> None:
        """Make an empty store."""
        (world / "steps").mkdir()
        store = toy.open_store(world)
        store.execute("CREATE TABLE steps (number INTEGER PRIMARY KEY, status TEXT, word TEXT)")
        store.close()

    def command(self, world: Path) -> Command:
        """Commit all steps."""
        return self._command(world, "work")

    def recovery(self, world: Path) -> list[Command]:
        """Adopt what is whole, remove the rest."""
        return [self._command(world, "recover")]

    def verify(self, world: Path, seen: Outcome) -> list[str]:
        """Promised steps are there; a step that the store calls `ok` is whole; none is demoted."""
        found = [f"{path.name} is left over" for path in (world / "steps").glob("*.tmp")]
        store = toy.open_store(world)
        rows = dict(store.execute("SELECT number, status FROM steps"))
        words = {
            number for (number,) in store.execute("SELECT number FROM steps WHERE word = 'own'")
        }
        store.close()
        promised = {int(word) for word in seen.printed.split() if word.isdigit()}
        if seen.code == 0:
            promised |= set(range(toy.STEPS))
        for number in promised | set(rows):
            if number in promised - words:
                found.append(f"step {number} has lost its word")
            if rows.get(number) != "ok":
                found.append(f"step {number} has status {rows.get(number)}")
            elif not toy.is_whole(world / "steps" / str(number)):
                found.append(f"step {number} is not whole")
        return found

    def _command(self, world: Path, verb: str) -> Command:
        argv = [sys.executable, "-I", "-S", str(_PROGRAM), verb, str(world), self.flaw]
        return Command(argv, world, {})


class NoSync(Careful):
    """Survives a kill; a power cut takes it apart."""

    flaw = "no-sync"


class NoFileSync(Careful):
    """Forgets the files."""

    flaw = "no-file-sync"


class NoParentSync(Careful):
    """Forgets the folder that the step is renamed in."""

    flaw = "no-parent-sync"


class RowFirst(Careful):
    """Tells the store before the folder is there."""

    flaw = "row-first"


class EarlyWord(Careful):
    """Promises before it has committed."""

    flaw = "early-word"


class Deaf(Careful):
    """Goes on when a write has failed."""

    flaw = "deaf"


class Demoting(Careful):
    """Throws away a step that was whole but not in the store yet."""

    flaw = "demoting"


class Orphaning(Careful):
    """Leaves a child behind when it is killed."""

    flaw = "orphaning"


class Odd(Careful):
    """Uses every way to write that the replay knows; the model must equal the disk."""

    def prepare(self, world: Path) -> None:
        """Have something to overwrite, to follow and to move."""
        (world / "a").mkdir()
        (world / "b").mkdir()
        (world / "old").write_bytes(b"0123456789" * 50)
        (world / "way").symlink_to("a")

    def command(self, world: Path) -> Command:
        """Write in odd ways."""
        return Command([sys.executable, "-I", "-S", str(_PROGRAM.with_name("odd.py"))], world, {})

    def recovery(self, world: Path) -> list[Command]:
        """Nothing to recover."""
        return []

    def verify(self, world: Path, seen: Outcome) -> list[str]:
        """The program must have come to its end."""
        return [] if seen.code == 0 else [seen.printed]
