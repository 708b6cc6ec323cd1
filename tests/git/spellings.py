"""The same few evils in every spelling, place, style and mode; many honest ways to change."""

import base64
import hashlib
import zlib

from tests.git import corpus
from tests.git.corpus import Honest, Hostile, copy, delete, edit, link, mode, new, plain, rename

GIT = (
    *(".git", ".GIT", ".Git", ".gIT", "git~1", "GIT~1", "git~2", "Git~3", "git~4", "GIT~10"),
    *(".git.", ".git..", ".git ", ".git. .", ".git::$INDEX_ALLOCATION", ".git::$DATA"),
    *(".git:$I30:$INDEX_ALLOCATION", ".git:stream", ".g\u200cit", ".gi\u200dt", "\u200e.git"),
    *(".git\u200f", ".g\u202ait", ".\u206agit", ".git\ufeff", ".G\u200cI\u200dT"),
)
SHORT = (
    *("GITMOD~1", "gitmod~2", "GI7EBA~1", "gi7eba~9", "gi7e~123", "GITATT~1", "gitatt~4"),
    *("GI7D29~1", "gi7d2~10", "GITIGN~1", "gitign~3", "GI250A~1", "MAILMA~1", "MABA30~1"),
)
STEERING = (
    *(".GitModules", ".GITATTRIBUTES", ".GitConfig", ".LFSCONFIG", ".envrc", ".ENVRC", ".npmrc"),
    *(".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".netrc", ".pypirc", "pip.conf", ".mise.toml"),
    *(".justfile", ".lefthook.yml", "lefthook.yml", ".bazelrc", "Claude.MD", "claude.local.md"),
    *("agents.override.md", "GEMINI.md", ".cursorrules", ".windsurfrules", ".clinerules/x"),
    *(".aider.conf.yml", ".roomodes", "mcp.json", "opencode.jsonc", ".travis.yml", ".drone.yml"),
    *("azure-pipelines.yml", "bitbucket-pipelines.yml", "appveyor.yml", ".woodpecker.yml"),
    *(".GitHub/workflows/x.yml", ".gitlab/x", ".gitea/x", ".buildkite/x", ".teamcity/x"),
    *(
        ".worktreeinclude",
        ".rules",
        "QWEN.md",
        ".Junie/guidelines.md",
        ".trae/x",
        ".factory/x",
        ".goosehints",
    ),
    *(".dir-locals.el", ".exrc", ".nvim.lua", ".gitpod.yml", ".replit", ".lintstagedrc.js"),
    *("lefthook-local.yml", ".simple-git-hooks.json", ".vs/x", ".tekton/x", "netlify.toml"),
    *(".Claude/settings.json", ".codex/x", ".kiro/x", ".zed/x", ".VSCode/x", ".opencode/x"),
)
HIDDEN = (
    *(0x00AD, 0x061C, 0x180E, 0x200B, 0x200E, 0x200F, 0x202A, 0x202B, 0x202C, 0x202D, 0x2060),
    *(0x2061, 0x2064, 0x2067, 0x2068, 0x2069, 0xFEFF, 0xFFF9, 0xE000, 0xE0001, 0xE0020, 0xE007F),
)
CONTROL = (0x01, 0x07, 0x08, 0x0B, 0x0C, 0x0E, 0x1A, 0x1F, 0x80, 0x85, 0x9D, 0x2029)
DEVICES = ("con", "PRN", "Aux", "NUL", "com9", "LPT1", "lpt9", "CONIN$", "conout$", "COM¹")
TARGETS = ("/", "/etc/shadow", "..", "../..", ".", "~/.ssh", ".git", "src/../../x", "a\\b")


def encoded(data):
    """Return bytes as the lines of a binary patch."""
    packed = zlib.compress(data)
    lines = [packed[at : at + 52] for at in range(0, len(packed), 52)]
    text = b"".join(_length(line) + base64.b85encode(line, pad=True) + b"\n" for line in lines)
    return text + b"\n"


def _length(line):
    size = len(line)
    return bytes([64 + size if size <= 26 else 96 + size - 26])


def binary(path, data, kind="100644", size=None):
    """Return a binary patch that adds a file."""
    head = (
        f"diff --git a/{path} b/{path}\nnew file mode {kind}\nindex {'0' * 40}..{name_of(data)}\n"
    )
    declared = len(data) if size is None else size
    return head.encode() + b"GIT binary patch\nliteral %d\n" % declared + encoded(data)


def name_of(data):
    """Return the id of a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _number(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def swollen(path, old, size):
    """Return a binary patch that makes a file of `size` bytes from copies of its old content."""
    turn = b"\xb0" + len(old).to_bytes(2, "little")  # copy from the start
    data = _number(len(old)) + _number(size) + turn * (size // len(old))
    # What the result is called matters only where it is meant to come about.
    result = name_of(old * (size // len(old))) if size <= 1 << 20 else "2" * 40
    ids = f"{name_of(old)}..{result}"
    head = f"diff --git a/{path} b/{path}\nindex {ids} 100644\nGIT binary patch\n"
    return head.encode() + b"delta %d\n" % len(data) + encoded(data)


def styles(path):
    """Return one new file in the styles that tools and models write."""
    made = new(path)
    return {
        "git": made,
        "plain": plain("/dev/null", f"b/{path}"),
        "same": plain(f"a/{path}", f"b/{path}"),
        "bare": plain("/dev/null", path),
        "dos": made.replace(b"\n", b"\r\n"),
        "fenced": b"```diff\n" + made + b"```\n",
        "mail": b"From: a@b\nSubject: x\n\n---\n" + made + b"-- \n2.39.5\n",
        "timed": plain("/dev/null", f"b/{path}\t2026-01-01 00:00:00"),
        "after-good": corpus.APP_EDIT + made,
        "before-good": made + corpus.APP_EDIT,
    }


def _hostile():
    yield from _names()
    yield from _unseen()
    yield from _windows()
    yield from _kinds()
    yield from _styles()
    yield from _bombs()
    yield from _few()


def _names():
    for n, name in enumerate(GIT):
        yield f"git-{n}-inside", new(f"{name}/config"), "git_folder"
        yield f"git-{n}-nested", new(f"src/{name}/hooks/x", mode="100755"), "git_folder"
        yield f"git-{n}-renamed", rename("README.md", f"src/{name}/x"), "git_folder"
    for name in SHORT:
        yield f"short-{name}", new(name), "risky:config"
        yield f"short-nested-{name}", new(f"src/{name}"), "risky:config"
    for name in STEERING:
        yield f"steering-{name}", new(name), "risky:config"
    for name in STEERING[::6]:
        yield f"steering-renamed-{name}", rename("README.md", f"web/{name}"), "risky:config"


def _unseen():
    for code in HIDDEN:
        yield f"hidden-{code:x}", new(f"docs/a{chr(code)}b.md"), "name_hidden"
    for code in CONTROL:
        yield f"control-{code:x}", new(f"docs/a{chr(code)}b.md"), "name_control"


def _windows():
    for name in DEVICES:
        yield f"device-{name}", new(name), "name_device"
        yield f"device-extension-{name}", new(f"src/{name}.tar.gz"), "name_device"
    for name in ("README.md::$DATA", "src/app.py:evil", "xx:y", "xx::$DATA/y", ".gitignore:z"):
        yield f"stream-{name}", new(name), "name_stream"
    for name in (".gitmodules::$DATA", ".gitattributes:x", ".github::$INDEX_ALLOCATION/x"):
        yield f"stream-steering-{name}", new(name), "name_stream"
    for name in ("x.", "src./y", "x...", ".gitignore.", ".gitattributes.", ".gitmodules.."):
        yield f"dot-{name}", new(name), "name_dot"
    for name in ("a\\b", "src\\evil.py", "x\\.gitmodules", "y\\z\\w"):
        yield f"backslash-{name}", new(name), "name_backslash"
    for name in ("TREADL~1", "treadl~2", ".Treadle", ".treadle::$DATA", ".treadle ", ".treadle.."):
        yield f"own-{name}", new(f"{name}/config.toml"), "own_folder"


def _kinds():
    for number, target in enumerate(TARGETS):
        yield f"link-{number}", link(f"docs/l{number}", target), "symlink"
    yield "link-renamed", rename(corpus.LINK, "docs/l"), "symlink"
    yield "link-copied", copy(corpus.LINK, "docs/l"), "symlink"
    yield "link-binary", binary("docs/l", b"/etc/passwd", "120000"), "symlink"
    for path in ("mod", "src/mod", ".github/mod", "src/lib/mod"):
        text = new(path, f"Subproject commit {'1' * 40}", "160000")
        yield f"gitlink-{path}", text, "gitlink"
    for kind in ("100600", "100666", "100777", "106755", "020666", "060660", "140755", "100645"):
        yield f"mode-{kind}", new("docs/m", mode=kind), "mode"
    for kind in ("100600", "104644", "120777"):
        yield f"mode-change-{kind}", mode("src/app.py", "100644", kind), "mode"


def _styles():
    for path, rule in (("../evil", "path_parent"), (".git/hooks/x", "git_folder")):
        for style, text in styles(path).items():
            yield f"{rule}-{style}", text, rule
    for style, text in styles(".treadle/treadle.db").items():
        yield f"own-{style}", text, "own_folder"
    for style, text in styles(".gitattributes").items():
        yield f"attributes-{style}", text, "risky:config"


def _bombs():
    yield "exec-binary", binary(".husky/tool.bin", bytes(64), "100755"), "risky:config"
    yield "binary-in-git", binary(".git/objects/x", bytes(64)), "git_folder"
    yield "binary-hook", binary(".husky/x", bytes(64)), "risky:config"
    yield "binary-cut-off", binary("x.bin", bytes(9))[:-12], "apply"
    yield "binary-wrong-size", binary("x.bin", bytes(9), size=8), "apply"
    yield "bomb-declared", binary("x.bin", bytes(9), size=1 << 40), "patch_unpacks"
    yield "bomb-literal", lambda: binary("x.bin", bytes(300 << 20)), "patch_unpacks"
    old = corpus.BASE["logo.bin"]
    yield "bomb-delta", lambda: swollen("logo.bin", old, 600 << 20), "patch_unpacks"
    yield "bomb-in-parts", _parts, "patch_unpacks"


def _parts():
    return b"".join(binary(f"x{n}.bin", bytes(60 << 20)) for n in range(5))


def _few():
    many = b"".join(new(f"m/{n}/../../../x{n}") for n in range(200))
    yield "two-hundred-parents", many, "path_parent"
    yield "delete-ci", delete(".github/workflows/ci.yml", "on: push"), "risky:config"
    yield "rename-agents-away", rename("AGENTS.md", "docs/old.md"), "risky:config"
    yield "copy-over-agents", copy("README.md", "src/AGENTS.md"), "risky:config"
    yield "twins-in-new-folder", new("n/Straße") + new("n/strasse"), "collision"
    yield "twins-of-composition", new("n/é") + new("n/e\u0301"), "collision"
    yield "twin-of-a-folder", new("SRC"), "collision"


def _honest():
    for style, text in styles("docs/new-page.md").items():
        extra = ("src/app.py",) if style.endswith("good") else ()
        yield f"style-{style}", text, ("docs/new-page.md", *extra)
    names = (
        *("docs/v1.2.3.md", "docs/a~b.md", "docs/git~.md", "docs/~1.md", "src/gitmodules.py"),
        *(
            "src/mailmap.py",
            "docs/.hidden/x",
            ".gitkeep",
            ".gitignore",
            ".mailmap",
            ".dockerignore",
        ),
        *("docs/数据/說明.md", "docs/Ελληνικά.md", "docs/עברית.md", "docs/ไทย.md", "docs/नमस्ते.md"),
        *("docs/a,b;c.md", "docs/100%.md", "docs/$HOME.md", "docs/`x`.md", "docs/a&b|c.md"),
        *("docs/it's.md", "docs/#1.md", "docs/@x.md", "docs/=.md", "com10.txt", "lpt.txt"),
        *("prn1.c", "docs/connect.md", "docs/nul-safe.md", "docs/" + "n" * 200 + ".md"),
    )
    for name in names:
        yield f"name-{name[:40]}", new(name), (name,)
    yield "binary-large", binary("big.bin", bytes(range(256)) * 4096), ("big.bin",)
    yield "binary-grown", swollen("logo.bin", corpus.BASE["logo.bin"], 1 << 20), ("logo.bin",)
    hundred = b"".join(new(f"m/{n}.txt", f"{n}") for n in range(100))
    yield "hundred-files", hundred, tuple(sorted(f"m/{n}.txt" for n in range(100)))
    yield "rename-up", rename("src/app.py", "app.py"), ("app.py", "src/app.py")
    yield (
        "edit-empty-line",
        edit("src/lib/names with space.py", "Y = 1", ""),
        ("src/lib/names with space.py",),
    )


HOSTILE = (*corpus.HOSTILE, *(Hostile(*case) for case in _hostile()))
HONEST = (*corpus.HONEST, *(Honest(*case) for case in _honest()))
