"""Archives that want out, or want too much, and what becomes of them; also runs as a program."""

import hashlib
import io
import json
import os
import sys
import tarfile
from pathlib import Path

from treadle.engine.elsewhere import archive
from treadle.engine.run import run_files
from treadle.engine.run.run_files import Manifest, Snapshot
from treadle.errors import TreadleError
from treadle.files import tar
from treadle.layout import STEP_JSON
from treadle.store.runs import Cursor, StepRow

ROW = StepRow("20260101-000000-000000", 1, "do", 1, "ok", "x", "2026")
LOG = {"logs/out.txt": b"words"}


def step_json(folder, files, *, more=(), digest=None):
    """Return the bytes of a `step.json` that names these files."""
    here = Snapshot("c", "t")
    said = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    said |= dict(more)
    run_files.write_step(folder, Manifest(ROW, Cursor("running", 1, 1), here, here, files=said))
    data = (folder / STEP_JSON).read_bytes()
    (folder / STEP_JSON).unlink()
    return data.replace(b'"do"', b'"act"') if digest else data


class Pack:
    """An archive in the making, which begins like an honest one."""

    def __init__(self, folder, files=LOG, head=True, **said):
        self.data = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.data, mode="w", format=said.pop("format", 1))  # noqa: SIM115  # closed by bytes()
        self.files = files
        if head:
            self.add("step/step.json", step_json(folder, files, **said))

    def add(self, name, data=b"", **fields):
        item = tarfile.TarInfo(name)
        item.size = len(data)
        for key, value in fields.items():
            setattr(item, key, value)
        self.tar.addfile(item, io.BytesIO(data))
        return self

    def honest(self):
        for name, data in self.files.items():
            self.add(f"step/{name}", data)
        return self

    def link(self, name, target, kind=tarfile.SYMTYPE):
        return self.add(name, type=kind, linkname=target)

    def bytes(self):
        self.tar.close()
        return self.data.getvalue()


def _named(name, **said):
    """A file under a name that leads astray, which `step.json` names as well."""

    def make(place):
        return Pack(place, {name: b"x"}, **said).honest().bytes()

    return make


def _with(**fields):
    """The honest file once more, as another kind of thing."""

    def make(place):
        return Pack(place).add("step/logs/out.txt", **fields).bytes()

    return make


def _bent(change):
    def make(place):
        return change(Pack(place).honest().bytes())

    return make


def _header(data, at, field):
    """Put a field into the first header and correct its checksum."""
    block = bytearray(data[:512])
    block[at : at + len(field)] = field
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + data[512:]


def _escape_by_links(place):
    """Follow a chain of links whose names are too long to be resolved, as a known pattern does."""
    pack = Pack(place, {"deep/escape": b"x"}, format=tarfile.PAX_FORMAT)
    long = "d" * 247
    inner = ""
    for letter in "abcdefghijklmnop":
        pack.add(f"step/{inner}{long}", type=tarfile.DIRTYPE)
        pack.link(f"step/{inner}{letter}", long)
        inner += f"{long}/"
    pack.link(f"step/{'/'.join('abcdefghijklmnop')}/{'l' * 254}", "../" * 16)
    pack.link("step/deep", f"{'/'.join('abcdefghijklmnop')}/{'l' * 254}/../../outside")
    return pack.honest().bytes()


def _links(first, second):
    def make(place):
        pack = Pack(place, {"logs/out.txt": b"x"})
        return pack.link(*first).link(*second).honest().bytes()

    return make


def _through_link(place):
    return Pack(place, {"out/canary": b"x"}).link("step/out", "../../outside").honest().bytes()


def _through_hard_link(place):
    pack = Pack(place, {"canary": b"x"})
    return pack.link("step/canary", str(place / "outside/canary"), tarfile.LNKTYPE).honest().bytes()


def _many(place):
    pack = Pack(place)
    for number in range(10_100):
        pack.add(f"step/{number}")
    return pack.bytes()


def _claims(size):
    def make(place):
        data = Pack(place, head=False).add("step/step.json").bytes()
        return _header(data, 124, b"%011o\0" % size)

    return make


def _base256(place):
    data = Pack(place, head=False).add("step/step.json").bytes()
    return _header(data, 124, b"\x80" + b"\0" * 6 + b"\xff" * 5)


def _pax(**headers):
    def make(place):
        pack = Pack(place, format=tarfile.PAX_FORMAT)
        return pack.add("step/logs/out.txt", b"words", pax_headers=headers).bytes()

    return make


def _zipped(mode):
    def make(place):
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode=mode) as packed:
            item = tarfile.TarInfo("step/step.json")
            item.size = 32 << 20
            packed.addfile(item, io.BytesIO(b"\0" * item.size))
        return data.getvalue()

    return make


def _pax_tower(place):
    head = tarfile.TarInfo("x")
    head.type, head.size = b"x", 512
    body = b"12 path=abc\n".ljust(512, b"\0")
    return (head.tobuf() + body) * 3000


HOSTILE = {
    "absolute name": _named("/outside/canary"),
    "absolute name after the prefix": lambda place: (
        Pack(place, {"/etc/x": b"x"}, head=True).add(f"step/{place}/outside/canary", b"x").bytes()
    ),
    "name with dots": _named("../outside/canary"),
    "name with dots in the middle": _named("logs/../../../outside/canary"),
    "name with a dot": _named("logs/./out.txt"),
    "name with an empty part": _named("logs//out.txt"),
    "name of nothing": _named(""),
    "name that ends in a slash": _named("logs/"),
    "name beside the step": lambda place: Pack(place).honest().add("stepp/x", b"x").bytes(),
    "name that only looks like the step's": lambda place: (
        Pack(place).honest().add("step/../step/logs/x", b"x").bytes()
    ),
    "name with NUL": _pax(path="step/logs/a\0b"),
    "name with a newline that nobody named": lambda place: (
        Pack(place).honest().add("step/a\nb", b"x").bytes()
    ),
    "name that is not UTF-8": lambda place: Pack(place).honest().add("step/\udcff", b"x").bytes(),
    "name that is too long": _named("/".join(["d" * 200] * 25), format=tarfile.PAX_FORMAT),
    "part that is too long": _named("n" * 300, format=tarfile.PAX_FORMAT),
    "too many folders": _named("/".join(["d"] * 70), format=tarfile.PAX_FORMAT),
    "link, then a file through it": _through_link,
    "hard link, then a file over it": _through_hard_link,
    "link to a link": _links(("step/a", "../.."), ("step/logs", "a/outside")),
    "links too long to resolve": _escape_by_links,
    "link in place of a file": _with(type=tarfile.SYMTYPE, linkname="../../outside/canary"),
    "hard link in place of a file": _with(type=tarfile.LNKTYPE, linkname="step/step.json"),
    "character device": _with(type=tarfile.CHRTYPE, devmajor=1, devminor=3),
    "block device": _with(type=tarfile.BLKTYPE, devmajor=8),
    "fifo": _with(type=tarfile.FIFOTYPE),
    "folder": _with(type=tarfile.DIRTYPE),
    "contiguous file": _with(type=tarfile.CONTTYPE),
    "sparse file": _with(type=tarfile.GNUTYPE_SPARSE),
    "sparse file by its extended header": _pax(**{"GNU.sparse.realsize": "99999999999"}),
    "size by its extended header": _pax(size="99999999999"),
    "link by its extended header": _pax(linkpath="../../outside"),
    "charset by its extended header": _pax(hdrcharset="BINARY"),
    "global extended header": _with(type=tarfile.XGLTYPE),
    "kind that nobody knows": _with(type=b"Z"),
    "extended headers on top of each other": _pax_tower,
    "file twice": lambda place: Pack(place).honest().honest().bytes(),
    "step.json twice": lambda place: (
        Pack(place).honest().add("step/step.json", step_json(place, LOG)).bytes()
    ),
    "step.json that names itself": lambda place: (
        Pack(place, more={"step.json": "0" * 64}).honest().add("step/step.json", b"{}").bytes()
    ),
    "file that is a folder elsewhere": lambda place: (
        Pack(place, {"a": b"x", "a/b": b"x"}).honest().bytes()
    ),
    "folder that is a file elsewhere": lambda place: (
        Pack(place, {"a/b": b"x", "a": b"x"}).honest().bytes()
    ),
    "file that nobody named": lambda place: Pack(place).honest().add("step/x", b"x").bytes(),
    "name in another case": lambda place: (
        Pack(place).honest().add("step/LOGS/OUT.TXT", b"x").bytes()
    ),
    "name in another normal form": lambda place: (
        Pack(place, {"caf\u00e9": b"x"}).honest().add("step/cafe\u0301", b"x").bytes()
    ),
    "other bytes than named": lambda place: Pack(place).add("step/logs/out.txt", b"lies!").bytes(),
    "more bytes than named": lambda place: Pack(place).add("step/logs/out.txt", b"words+").bytes(),
    "fewer bytes than named": lambda place: Pack(place).add("step/logs/out.txt", b"word").bytes(),
    "file that is missing": lambda place: Pack(place, more={"y": "0" * 64}).honest().bytes(),
    "no step.json": lambda place: Pack(place, head=False).honest().bytes(),
    "step.json that comes late": lambda place: (
        Pack(place, head=False).honest().add("step/step.json", step_json(place, LOG)).bytes()
    ),
    "step.json that was changed": lambda place: Pack(place, digest=True).honest().bytes(),
    "step.json that is no JSON": lambda place: (
        Pack(place, head=False).add("step/step.json", b"{").bytes()
    ),
    "too many files": _many,
    "more bytes than may be": _claims(5 << 30),
    "more bytes than there are": _claims(1 << 20),
    "size below nothing": _base256,
    "gzip bomb": _zipped("w:gz"),
    "bzip2 bomb": _zipped("w:bz2"),
    "xz bomb": _zipped("w:xz"),
    "zstd": lambda place: b"\x28\xb5\x2f\xfd" + b"\0" * 2048,
    "nothing at all": lambda place: b"",
    "only the end": lambda place: b"\0" * 1024,
    "text": lambda place: b"hello " * 500,
    "cut off in a file": _bent(lambda data: data[:-10240] if len(data) > 10752 else data[:2100]),
    "cut off in a header": _bent(lambda data: data[:700]),
    "cut off before its end": _bent(lambda data: data.rstrip(b"\0")),
    "header that was changed": _bent(lambda data: data[:5] + b"X" + data[6:]),
}

HONEST = {
    "a few files": {"input.json": b"{}", "logs/out.txt": b"words", "empty": b""},
    "a long name": {"/".join(["d" * 100] * 6): b"x"},
    "a name that is not ASCII": {"caf\u00e9/\u65e5\u672c.md": b"x"},
    "a long name that is not ASCII": {"/".join(["\u65e5" * 60] * 4): b"x"},
    "a name with a newline": {"a\nb": b"x"},
    "names that differ in case": {"README": b"x", "readme": b"y"},
    "a name of a hundred bytes": {"n" * 95: b"x", "m" * 96: b"y"},
    "a big file": {"big": b"0123456789abcdef" * 200_000},
    "no files": {},
}


def world(folder):
    """Make what an archive must not reach, and return where archives are unpacked."""
    (folder / "outside").mkdir(parents=True)
    (folder / "outside" / "canary").write_text("alive")
    (folder / "place").mkdir()
    return folder / "place"


def seen(folder):
    """Return everything below a folder: kinds, sizes, contents."""
    found = {}
    for above, _, names in os.walk(folder):
        for name in names:
            path = Path(above) / name
            plain = path.is_file() and not path.is_symlink()
            found[str(path.relative_to(folder))] = path.read_bytes() if plain else "odd"
    return found


def judge(name, folder):
    """Unpack a hostile archive and say what became of it; `refused` is the only good answer."""
    place = world(folder)
    data, before = HOSTILE[name](folder), seen(folder)
    try:
        archive.unpack(data, place / "001-do")
    except TreadleError as error:
        if error.code != "archive_damaged":
            return f"odd error {error.code}"
    else:
        return "unpacked"
    if seen(folder) != before or list(place.iterdir()):
        return "left something"
    return "refused"


def compare(name, folder):
    """Pack an honest folder and unpack it; `same` is the only good answer."""
    place, source = world(folder), folder / "source"
    source.mkdir()
    files = HONEST[name]
    with tar.new_folder(source / "001-do") as write:
        for path, data in files.items():
            write(path, [data])
        write("step.json", [step_json(folder, files)])
    data = archive._packed(source / "001-do", b"pack").getvalue()
    archive.unpack(data, place / "001-do")
    whole = seen(place / "001-do") == seen(source / "001-do")
    return "same" if whole and archive.held(data) == b"pack" else "different"


def main(folder):
    """Print what becomes of every archive."""
    results = {name: judge(name, folder / f"h{at}") for at, name in enumerate(HOSTILE)}
    results |= {name: compare(name, folder / f"g{at}") for at, name in enumerate(HONEST)}
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
