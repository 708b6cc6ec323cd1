"""Patches that must be refused, gated or accepted; grow the two tables, not the tests."""

from collections.abc import Callable
from typing import NamedTuple

BASE: dict[str, str | bytes] = {
    "README.md": "# Project\n\nOne.\nTwo.\nThree.\n",
    "Makefile": "all:\n\ttrue\n",
    "café.txt": "nfc\n",
    "dos.txt": "one\r\ntwo\r\nthree\r\n",
    "empty.txt": "",
    "logo.bin": bytes(range(256)) * 4,
    "no-newline.txt": "end",
    "package-lock.json": '{"lockfileVersion": 3}\n',
    "query.sql": "-- /api/old\n",
    "src/app.py": "def main():\n    return 1\n",
    "src/lib/util.py": "X = 1\n",
    "src/lib/names with space.py": "Y = 1\n",
    ".github/workflows/ci.yml": "on: push\n",
    ".treadle/config.toml": "max_retries = 3\n",
    "AGENTS.md": "Be kind.\n",
    "aux.c": "int x;\n",
    "-dash.txt": "old\n",
}
EXECUTABLE = "run.sh"
LINK, LINK_TARGET = "link", "src"
GITLINK = "sub"


class Hostile(NamedTuple):
    """A patch and what stops it: git's `apply`, a rule, or `risky:` and a reason."""

    name: str
    made: bytes | Callable[[], bytes]  # large ones are made when they are wanted
    stopped_by: str

    @property
    def patch(self) -> bytes:
        return self.made if isinstance(self.made, bytes) else self.made()


class Honest(NamedTuple):
    """A patch and the paths it changes."""

    name: str
    patch: bytes
    paths: tuple[str, ...]


def quote(path: str | bytes) -> str:
    """Write a path the way git does in a patch."""
    raw = path.encode(errors="surrogateescape") if isinstance(path, str) else path
    if all(32 < byte < 127 and byte not in b'"\\' for byte in raw):
        return raw.decode("ascii")
    return '"' + "".join(_quoted(byte) for byte in raw) + '"'


def _quoted(byte: int) -> str:
    char = chr(byte)
    return char if 32 <= byte < 127 and char not in '"\\' else f"\\{byte:03o}"


def new(path: str | bytes, text: str = "x", mode: str = "100644") -> bytes:
    """Return a git-style patch that adds a file of one line."""
    raw = path.encode(errors="surrogateescape") if isinstance(path, str) else path
    a, b = quote(b"a/" + raw), quote(b"b/" + raw)
    head = f"diff --git {a} {b}\nnew file mode {mode}\n--- /dev/null\n+++ {b}\n"
    return f"{head}@@ -0,0 +1 @@\n+{text}\n".encode()


def link(path: str, target: str) -> bytes:
    """Return a patch that adds a symbolic link."""
    return new(path, target, "120000").removesuffix(b"\n") + b"\n\\ No newline at end of file\n"


def edit(path: str, old: str, text: str) -> bytes:
    """Return a patch that replaces a file's only line."""
    a, b = quote(f"a/{path}"), quote(f"b/{path}")
    head = f"diff --git {a} {b}\n--- {a}\n+++ {b}\n"
    return f"{head}@@ -1 +1 @@\n-{old}\n+{text}\n".encode()


def rename(old: str, to: str) -> bytes:
    """Return a patch that only renames."""
    head = f"diff --git {quote(f'a/{old}')} {quote(f'b/{to}')}\nsimilarity index 100%\n"
    return f"{head}rename from {quote(old)}\nrename to {quote(to)}\n".encode()


def copy(old: str, to: str) -> bytes:
    """Return a patch that only copies."""
    head = f"diff --git {quote(f'a/{old}')} {quote(f'b/{to}')}\nsimilarity index 100%\n"
    return f"{head}copy from {quote(old)}\ncopy to {quote(to)}\n".encode()


def mode(path: str, old: str, to: str) -> bytes:
    """Return a patch that only changes a mode."""
    return f"diff --git a/{path} b/{path}\nold mode {old}\nnew mode {to}\n".encode()


def gitlink_to_file() -> bytes:
    """Return a patch that puts a plain file in a submodule's place."""
    head = f"diff --git a/{GITLINK} b/{GITLINK}\ndeleted file mode 160000\n"
    gone = f"--- a/{GITLINK}\n+++ /dev/null\n@@ -1 +0,0 @@\n-Subproject commit {'2' * 40}\n"
    return f"{head}index {'2' * 40}..{'0' * 40}\n{gone}".encode() + new(GITLINK)


def delete(path: str, line: str, kind: str = "100644") -> bytes:
    """Return a patch that deletes a file of one line."""
    head = f"diff --git a/{path} b/{path}\ndeleted file mode {kind}\n--- a/{path}\n+++ /dev/null\n"
    return f"{head}@@ -1 +0,0 @@\n-{line}\n".encode()


def plain(old: str, to: str) -> bytes:
    """Return a patch without git's headers that adds a file."""
    return f"--- {old}\n+++ {to}\n@@ -0,0 +1 @@\n+x\n".encode()


README_EDIT = (
    b"--- a/README.md\n+++ b/README.md\n"
    b"@@ -1,5 +1,5 @@\n # Project\n \n-One.\n+Uno.\n Two.\n Three.\n"
)
APP_EDIT = (
    b"diff --git a/src/app.py b/src/app.py\n--- a/src/app.py\n+++ b/src/app.py\n"
    b"@@ -1,2 +1,2 @@\n def main():\n-    return 1\n+    return 2\n"
)
DOS_EDIT = (
    b"diff --git a/dos.txt b/dos.txt\n--- a/dos.txt\n+++ b/dos.txt\n"
    b"@@ -1,3 +1,3 @@\n one\r\n-two\r\n+zwei\r\n three\r\n"
)
SHIFTED = README_EDIT.replace(b"@@ -1,5 +1,5 @@", b"@@ -41,5 +41,5 @@")
APPEND = b"--- a/README.md\n+++ b/README.md\n@@ -4,2 +4,3 @@\n Two.\n Three.\n+Four.\n"
APPEND_AFTER = b"@@ -4,2 +5,3 @@\n Two.\n Three.\n+Four.\n"
PREPEND = b"--- a/README.md\n+++ b/README.md\n@@ -1,2 +1,3 @@\n+<!-- top -->\n # Project\n \n"
ADD_NEWLINE = (
    b"--- a/no-newline.txt\n+++ b/no-newline.txt\n@@ -1 +1 @@\n-end\n"
    b"\\ No newline at end of file\n+end\n"
)
FILL = b"--- a/empty.txt\n+++ b/empty.txt\n@@ -0,0 +1 @@\n+full\n"
EMPTY = (
    b"--- a/src/lib/names with space.py\n+++ b/src/lib/names with space.py\n@@ -1 +0,0 @@\n-Y = 1\n"
)
RENAMED = ("app.py", "lib/names with space.py", "src/app.py", "src/lib/names with space.py")
QUERIES, FOLDER = ("query.sql", "query/a.sql"), ("query.sql", "query.sql/a")
TWO_FILES = APP_EDIT + new("src/new.py", "Z = 1")
BINARY = (
    b"diff --git a/pixel.bin b/pixel.bin\nnew file mode 100644\n"
    b"index 0000000000000000000000000000000000000000..f76dd238ade08917e6712764a16a22005a50573d\n"
    b"GIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n"
)

RENAME_FOLDER = b"".join(rename(f"src/{name}", name) for name in RENAMED[:2])
SWAP = rename("aux.c", "query.sql") + rename("query.sql", "aux.c")
COPY_EDIT = copy("src/app.py", "src/copy.py").replace(b"100%", b"80%") + (
    b"--- a/src/app.py\n+++ b/src/copy.py\n"
    b"@@ -1,2 +1,2 @@\n def main():\n-    return 1\n+    return 3\n"
)

HOSTILE: tuple[Hostile, ...] = (
    # Outside the tree.
    Hostile("parent", new("../evil"), "path_parent"),
    Hostile("parent-deep", new("src/../../evil"), "path_parent"),
    Hostile("parent-inside", new("src/../evil"), "path_parent"),
    Hostile(
        "parent-octal",
        b'diff --git "a/\\056\\056/evil" "b/\\056\\056/evil"\n'
        b'new file mode 100644\n--- /dev/null\n+++ "b/\\056\\056/evil"\n@@ -0,0 +1 @@\n+x\n',
        "path_parent",
    ),
    Hostile("parent-backslash", new("..\\evil"), "path_parent"),
    Hostile("dot", new("./evil"), "path_dot"),
    Hostile("empty-part", new("src//evil"), "path_dot"),
    Hostile(
        "absolute",
        b"diff --git /etc/evil /etc/evil\nnew file mode 100644\n--- /dev/null\n"
        b"+++ /etc/evil\n@@ -0,0 +1 @@\n+x\n",
        "path_absolute",
    ),
    Hostile("absolute-plain", plain("/dev/null", "/etc/evil"), "path_absolute"),
    Hostile("absolute-source", plain("/etc/passwd", "b/evil"), "path_absolute"),
    Hostile("plain-parent", plain("/dev/null", "b/../../evil"), "path_parent"),
    Hostile("drive-letter", new("C:/evil"), "path_absolute"),
    Hostile("drive-relative", new("c:evil"), "path_absolute"),
    Hostile("backslash-root", new("\\evil"), "path_absolute"),
    Hostile("rename-outside", rename("README.md", "../README.md"), "path_parent"),
    Hostile("rename-from-outside", rename("../secret", "stolen"), "path_parent"),
    Hostile("copy-absolute", copy("/etc/passwd", "stolen"), "path_absolute"),
    Hostile("copy-parent", copy("../../etc/passwd", "stolen"), "path_parent"),
    Hostile("copy-git-config", copy(".git/config", "stolen"), "git_folder"),
    Hostile("delete-outside", delete("../victim", "x"), "path_parent"),
    # The repository's own folder.
    Hostile("git-config", new(".git/config"), "git_folder"),
    Hostile("git-hook", new(".git/hooks/pre-commit", mode="100755"), "git_folder"),
    Hostile("git-upper", new(".GIT/config"), "git_folder"),
    Hostile("git-mixed", new(".gIt/config"), "git_folder"),
    Hostile("git-nested", new("src/.git/config"), "git_folder"),
    Hostile("git-file", new("src/.git", "gitdir: /tmp/evil"), "git_folder"),
    Hostile("git-dot", new(".git./config"), "git_folder"),
    Hostile("git-space", new(".git /config"), "git_folder"),
    Hostile("git-stream", new(".git::$INDEX_ALLOCATION/config"), "git_folder"),
    Hostile("git-short-name", new("git~1/config"), "git_folder"),
    Hostile("git-short-name-2", new("GIT~2/config"), "git_folder"),
    Hostile("git-backslash", new(".git\\config"), "git_folder"),
    Hostile("git-zwnj", new(".g\u200cit/config"), "git_folder"),
    Hostile("git-bom", new("\ufeff.git/config"), "git_folder"),
    Hostile("git-rlo", new(".gi\u202et/config"), "git_folder"),
    Hostile("rename-into-git", rename("README.md", ".git/README.md"), "git_folder"),
    # Treadle's own state.
    Hostile("store", new(".treadle/treadle.db"), "own_folder"),
    Hostile("run-folder", new(".treadle/runs/20260101-000000-abcdef/run.json"), "own_folder"),
    Hostile("inbox", new(".treadle/inbox/1-0.md"), "own_folder"),
    Hostile("lock", new(".treadle/locks/run.lock"), "own_folder"),
    Hostile("mail", new(".treadle/mail/NEW_MESSAGES/x.md"), "own_folder"),
    Hostile("own-upper", new(".TREADLE/routines/x.sh"), "own_folder"),
    Hostile("own-hidden", new(".trea\u200cdle/routines/x.sh"), "own_folder"),
    Hostile("own-trailing-dot", new(".treadle./routines/x.sh"), "own_folder"),
    Hostile("own-unknown", new(".treadle/later/x"), "own_folder"),
    # Links and modes.
    Hostile("link-absolute", link("evil", "/etc/passwd"), "symlink"),
    Hostile("link-parent", link("evil", "../../outside"), "symlink"),
    Hostile("link-inside", link("evil", "README.md"), "symlink"),
    Hostile("link-git", link("evil", ".git/config"), "symlink"),
    Hostile(
        "link-retarget",
        f"diff --git a/{LINK} b/{LINK}\nindex 1..2 120000\n--- a/{LINK}\n"
        f"+++ b/{LINK}\n@@ -1 +1 @@\n-{LINK_TARGET}\n\\ No newline at end of file\n+/etc\n"
        "\\ No newline at end of file\n".encode(),
        "symlink",
    ),
    Hostile(
        "file-to-link",
        delete("src/lib/util.py", "X = 1") + link("src/lib/util.py", "/etc"),
        "symlink",
    ),
    Hostile("behind-link", new("link/evil"), "parent_symlink"),
    Hostile(
        "link-to-folder",
        delete(LINK, LINK_TARGET, "120000").replace(
            b"-src\n", b"-src\n\\ No newline at end of file\n"
        )
        + new("link/evil"),
        "parent_symlink",
    ),
    Hostile(
        "gitlink-new",
        b"diff --git a/mod b/mod\nnew file mode 160000\n--- /dev/null\n+++ b/mod\n"
        b"@@ -0,0 +1 @@\n+Subproject commit " + b"1" * 40 + b"\n",
        "gitlink",
    ),
    Hostile(
        "gitlink-moved",
        f"diff --git a/{GITLINK} b/{GITLINK}\nindex {'2' * 40}..{'1' * 40} 160000\n"
        f"--- a/{GITLINK}\n+++ b/{GITLINK}\n@@ -1 +1 @@\n-Subproject commit {'2' * 40}\n"
        f"+Subproject commit {'1' * 40}\n".encode(),
        "gitlink",
    ),
    Hostile(
        "gitlink-gone",
        f"diff --git a/{GITLINK} b/{GITLINK}\ndeleted file mode 160000\n"
        f"index {'2' * 40}..{'0' * 40}\n--- a/{GITLINK}\n+++ /dev/null\n@@ -1 +0,0 @@\n"
        f"-Subproject commit {'2' * 40}\n".encode(),
        "gitlink",
    ),
    Hostile("mode-folder", new("evil", mode="040000"), "mode"),
    Hostile("mode-fifo", new("evil", mode="010644"), "mode"),
    Hostile("mode-setuid", new("evil", mode="104755"), "mode"),
    Hostile("mode-garbage", new("evil", mode="999999"), "mode"),
    # Names.
    Hostile("newline", new("a\nb"), "name_control"),
    Hostile("escape", new("a\x1b[31mb"), "name_control"),
    Hostile("carriage-return", new("a\rb"), "name_control"),
    Hostile("tab", new("a\tb"), "name_control"),
    Hostile("delete-char", new("a\x7fb"), "name_control"),
    Hostile("c1-control", new("a\x9bb"), "name_control"),
    Hostile("line-separator", new("a\u2028b"), "name_control"),
    Hostile("latin-1", new(b"caf\xe9.md"), "name_encoding"),
    Hostile("overlong-utf-8", new(b"a\xc0\xafb"), "name_encoding"),
    Hostile("encoded-surrogate", new(b"a\xed\xa0\x80b"), "name_encoding"),
    Hostile("bidi-override", new("gpj.\u202esh"), "name_hidden"),
    Hostile("bidi-isolate", new("a\u2066b"), "name_hidden"),
    Hostile("zero-width-space", new("READ\u200bME.md"), "name_hidden"),
    Hostile("soft-hyphen", new("READ\u00adME.md"), "name_hidden"),
    Hostile("joiner-in-ascii", new("READ\u200dME.md"), "name_hidden"),
    Hostile("tag-character", new("a\U000e0041b"), "name_hidden"),
    Hostile("dash", new("-rf"), "name_dash"),
    Hostile("dash-in-folder", new("src/--help"), "name_dash"),
    Hostile("dash-folder", new("-x/y"), "name_dash"),
    Hostile("space-first", new(" x"), "name_space"),
    Hostile("space-last", new("x "), "name_space"),
    Hostile("device", new("CON"), "name_device"),
    Hostile("device-extension", new("src/nul.txt"), "name_device"),
    Hostile("device-port", new("com1.log"), "name_device"),
    Hostile("device-folder", new("aux/x"), "name_device"),
    Hostile("long-name", new("x" * 256), "name_long"),
    Hostile("long-path", new("/".join(["y" * 200] * 25)), "name_long"),
    Hostile("deep", new("/".join("d" * 65)), "path_depth"),
    Hostile("very-deep", new("/".join("d" * 1500)), "path_depth"),
    # Names that some systems take for the same.
    Hostile("case", new("readme.MD"), "collision"),
    Hostile("case-folder", new("SRC/evil.py"), "collision"),
    Hostile("case-nested", new("src/Lib/evil.py"), "collision"),
    Hostile("decomposed", new("cafe\u0301.txt"), "collision"),
    Hostile("ignorable", new("Make\ufefffile"), "name_hidden"),
    Hostile("both-new", new("One.txt") + new("one.txt"), "collision"),
    Hostile("sharp-s", new("straße") + new("STRASSE"), "collision"),
    Hostile("rename-onto-case", rename("src/app.py", "src/LIB"), "collision"),
    Hostile("kelvin-sign", new("K.txt") + new("\u212a.txt"), "collision"),
    Hostile("case-of-own-folder", rename("src/lib/util.py", "Src/lib/util.py"), "collision"),
    Hostile("case-of-a-copy", copy("README.md", "Readme.md"), "collision"),
    # Several files, one of them bad: none comes in.
    Hostile("good-and-parent", APP_EDIT + new("../evil"), "path_parent"),
    Hostile("good-and-git", new("docs/a.md") + new(".git/hooks/post-merge"), "git_folder"),
    Hostile("good-and-link", TWO_FILES + link("docs", "/etc"), "symlink"),
    Hostile("good-and-own", APP_EDIT + new(".treadle/treadle.db-wal"), "own_folder"),
    Hostile("good-and-risky", APP_EDIT + new(".github/CODEOWNERS"), "risky:config"),
    Hostile("link-then-file-behind", link("out", "/tmp") + new("out/evil"), "parent_symlink"),
    Hostile("many-parents", new("../" * 40 + "etc/cron.d/evil"), "path_parent"),
    Hostile("prose-then-parent", b"Sure!\n\n" + new("../evil"), "path_parent"),
    Hostile("fenced-git", b"```diff\n" + new(".git/config") + b"```\n", "git_folder"),
    Hostile("dos-git", new(".git/config").replace(b"\n", b"\r\n"), "git_folder"),
    Hostile("plain-git", plain("/dev/null", "b/.git/hooks/pre-commit"), "git_folder"),
    Hostile("unprefixed-git", plain("/dev/null", ".git/hooks/pre-commit"), "git_folder"),
    Hostile("home", new("~/.ssh/authorized_keys").replace(b"b/~", b"/root"), "path_absolute"),
    Hostile("network-path", new("\\\\host\\share"), "path_absolute"),
    Hostile("device-path", new("\\\\.\\COM1"), "path_absolute"),
    Hostile("git-of-a-submodule", new(f"{GITLINK}/.git", "gitdir: /tmp/evil"), "git_folder"),
    Hostile("gitlink-to-file", gitlink_to_file(), "gitlink"),
    Hostile("exec-link", new("evil", "/bin/sh", mode="120755"), "mode"),
    # Broken or not a patch.
    Hostile("bad-count", README_EDIT.replace(b"-1,5", b"-1,9"), "apply"),
    Hostile("wrong-context", README_EDIT.replace(b" Two.", b" Too."), "apply"),
    Hostile("truncated", README_EDIT[:-20], "apply"),
    Hostile("half-applies", APP_EDIT + README_EDIT.replace(b" Two.", b" Too."), "apply"),
    Hostile("missing-file", edit("nowhere.py", "a", "b"), "apply"),
    Hostile("exists-already", new("README.md"), "apply"),
    Hostile("prose-only", b"I could not think of a patch.\n", "apply"),
    Hostile("nothing", b"", "apply"),
    Hostile("binary-noise", bytes(range(256)), "apply"),
    Hostile(
        "binary-without-data",
        b"diff --git a/logo.bin b/logo.bin\nindex 1..2 100644\n"
        b"Binary files a/logo.bin and b/logo.bin differ\n",
        "apply",
    ),
    Hostile("delete-with-rest", delete("Makefile", "all:"), "apply"),
    # Files that steer programs outside the run: somebody must have seen them.
    Hostile("ci", edit(".github/workflows/ci.yml", "on: push", "on: [push]"), "risky:config"),
    Hostile("ci-new", new(".gitlab-ci.yml"), "risky:config"),
    Hostile("ci-circle", new(".circleci/config.yml"), "risky:config"),
    Hostile("jenkins", new("Jenkinsfile"), "risky:config"),
    Hostile("agents-file", edit("AGENTS.md", "Be kind.", "Be evil."), "risky:config"),
    Hostile("claude-nested", new("src/CLAUDE.md"), "risky:config"),
    Hostile("gemini-folder", new(".gemini/settings.json"), "risky:config"),
    Hostile("claude-folder", new(".claude/settings.json"), "risky:config"),
    Hostile("codex-folder", new(".codex/config.toml"), "risky:config"),
    Hostile("cursor-upper", new(".Cursor/rules/x.md"), "risky:config"),
    Hostile("opencode", new("opencode.json"), "risky:config"),
    Hostile("mcp", new(".mcp.json"), "risky:config"),
    Hostile("vscode-tasks", new("web/.vscode/tasks.json"), "risky:config"),
    Hostile("idea", new(".idea/workspace.xml"), "risky:config"),
    Hostile("devcontainer", new(".devcontainer/devcontainer.json"), "risky:config"),
    Hostile("attributes", new(".gitattributes", "* filter=evil"), "risky:config"),
    Hostile("attributes-nested", new("src/.gitattributes", "* diff=evil"), "risky:config"),
    Hostile("modules", new(".gitmodules"), "risky:config"),
    Hostile("bare-repository", new("docs/x/HEAD", "ref: refs/heads/x"), "risky:config"),
    Hostile("lfs", new(".lfsconfig"), "risky:config"),
    Hostile("envrc", new(".envrc"), "risky:config"),
    Hostile("npmrc", new("web/.npmrc"), "risky:config"),
    Hostile("pre-commit-config", new(".pre-commit-config.yaml"), "risky:config"),
    Hostile("husky", new(".husky/pre-push"), "risky:config"),
    Hostile("hook-file", new("tools/hooks/pre-commit"), "risky:hook"),
    Hostile("githooks", new(".githooks/post-merge"), "risky:config"),
    Hostile("install-script", new("setup.py"), "risky:config"),
    Hostile("build-script", new("native/build.rs"), "risky:config"),
    Hostile(
        "own-config",
        edit(".treadle/config.toml", "max_retries = 3", "x = 1"),
        "risky:treadle_config",
    ),
    Hostile("own-routine", new(".treadle/routines/evil.sh"), "risky:treadle_config"),
    Hostile("own-role", new(".treadle/roles/check.md"), "risky:treadle_config"),
    Hostile("own-cron", new(".treadle/cron/nightly.md"), "risky:treadle_config"),
    Hostile("own-ignore", new(".treadle/.gitignore", "!treadle.db"), "risky:treadle_config"),
    Hostile("protected", edit("src/lib/util.py", "X = 1", "X = 2"), "risky:protected"),
)

PROTECTED = frozenset({"src/lib/util.py"})

HONEST: tuple[Honest, ...] = (
    Honest("git-style", APP_EDIT, ("src/app.py",)),
    Honest("plain", README_EDIT, ("README.md",)),
    Honest("exec-new", new("tool", mode="100755"), ("tool",)),
    Honest("exec-gain", mode("src/app.py", "100644", "100755"), ("src/app.py",)),
    Honest("exec-loss", mode(EXECUTABLE, "100755", "100644"), (EXECUTABLE,)),
    Honest(
        "plain-without-prefix", README_EDIT.replace(b"a/", b"").replace(b"b/", b""), ("README.md",)
    ),
    Honest(
        "git-without-prefix",
        APP_EDIT.replace(b"a/src", b"src").replace(b"b/src", b"src"),
        ("src/app.py",),
    ),
    Honest(
        "plain-with-times",
        README_EDIT.replace(b"README.md\n", b"README.md\t2026-01-01 00:00:00\n"),
        ("README.md",),
    ),
    Honest(
        "mnemonic-prefix",
        APP_EDIT.replace(b"a/src", b"i/src").replace(b"b/src", b"w/src"),
        ("src/app.py",),
    ),
    Honest("two-files", TWO_FILES, ("src/app.py", "src/new.py")),
    Honest(
        "prose-around", b"Here is the fix:\n\n" + APP_EDIT + b"\nThat is all.\n", ("src/app.py",)
    ),
    Honest("fenced", b"```diff\n" + APP_EDIT + b"```\n", ("src/app.py",)),
    Honest(
        "mail-style",
        b"From: a@b\nSubject: [PATCH] x\n\nbody\n---\n src/app.py | 2 +-\n\n"
        + APP_EDIT
        + b"-- \n2.39.5\n",
        ("src/app.py",),
    ),
    Honest("new-file", new("docs/guide.md"), ("docs/guide.md",)),
    Honest("new-file-bare", plain("/dev/null", "docs/guide.md"), ("docs/guide.md",)),
    Honest("new-file-bare-twice", plain("docs/g.md", "docs/g.md"), ("docs/g.md",)),
    Honest(
        "new-file-git-bare",
        new("docs/guide.md").replace(b"a/docs", b"docs").replace(b"b/docs", b"docs"),
        ("docs/guide.md",),
    ),
    Honest("two-folders", plain("old/docs/g.md", "new/docs/g.md"), ("docs/g.md",)),
    Honest("new-file-plain", plain("/dev/null", "b/docs/guide.md"), ("docs/guide.md",)),
    Honest(
        "removed-comment",
        b"--- a/query.sql\n+++ b/query.sql\n@@ -1 +1 @@\n--- /api/old\n+-- /api/new\n",
        ("query.sql",),
    ),
    Honest(
        "new-empty", b"diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n", ("e",)
    ),
    Honest(
        "delete",
        delete("src/lib/util.py", "X = 1")
        .replace(b"util", b"names with space")
        .replace(b"X", b"Y"),
        ("src/lib/names with space.py",),
    ),
    Honest(
        "delete-empty",
        b"diff --git a/empty.txt b/empty.txt\ndeleted file mode 100644\nindex e69de29..0000000\n",
        ("empty.txt",),
    ),
    Honest("rename", rename("src/app.py", "src/main.py"), ("src/app.py", "src/main.py")),
    Honest("rename-case-only", rename("src/app.py", "src/App.py"), ("src/App.py", "src/app.py")),
    Honest(
        "rename-and-edit",
        rename("src/app.py", "src/main.py").replace(b"100%", b"80%")
        + APP_EDIT.partition(b"\n")[2].replace(b"b/src/app", b"b/src/main"),
        ("src/app.py", "src/main.py"),
    ),
    Honest("copy", copy("src/app.py", "src/copy.py"), ("src/copy.py",)),
    Honest("binary-new", BINARY, ("pixel.bin",)),
    Honest("dos-file", DOS_EDIT, ("dos.txt",)),
    Honest("dos-patch", APP_EDIT.replace(b"\n", b"\r\n"), ("src/app.py",)),
    Honest("dos-patch-adds", new("docs/guide.md").replace(b"\n", b"\r\n"), ("docs/guide.md",)),
    Honest(
        "no-newline",
        b"--- a/no-newline.txt\n+++ b/no-newline.txt\n@@ -1 +1 @@\n-end\n"
        b"\\ No newline at end of file\n+END\n\\ No newline at end of file\n",
        ("no-newline.txt",),
    ),
    Honest(
        "lock-file",
        edit("package-lock.json", '{"lockfileVersion": 3}', '{"lockfileVersion": 2}'),
        ("package-lock.json",),
    ),
    Honest("unicode-name", new("docs/übersicht-数据.md"), ("docs/übersicht-数据.md",)),
    Honest("decomposed-name", new("docs/e\u0301te\u0301.md"), ("docs/e\u0301te\u0301.md",)),
    Honest("joiner-in-script", new("docs/می\u200cخواهم.md"), ("docs/می\u200cخواهم.md",)),
    Honest("emoji-name", new("docs/👩\u200d🚀.md"), ("docs/👩\u200d🚀.md",)),
    Honest(
        "space-in-name",
        edit("src/lib/names with space.py", "Y = 1", "Y = 2"),
        ("src/lib/names with space.py",),
    ),
    Honest("old-device-name", edit("aux.c", "int x;", "int y;"), ("aux.c",)),
    Honest("old-dash-name", edit("-dash.txt", "old", "new"), ("-dash.txt",)),
    Honest(
        "remove-link",
        delete(LINK, LINK_TARGET, "120000").replace(
            b"-src\n", b"-src\n\\ No newline at end of file\n"
        ),
        (LINK,),
    ),
    Honest("hooks-of-a-framework", new("src/hooks/useThing.ts"), ("src/hooks/useThing.ts",)),
    Honest("gitignore", new(".gitignore", "*.log"), (".gitignore",)),
    Honest(
        "git-in-name",
        new("docs/git.md") + new("docs/.gitkeep") + new("src/git/x.py"),
        ("docs/.gitkeep", "docs/git.md", "src/git/x.py"),
    ),
    Honest(
        "device-like",
        new("console.py") + new("src/auxiliary.c") + new("nullable.ts"),
        ("console.py", "nullable.ts", "src/auxiliary.c"),
    ),
    Honest("treadle-like", new(".treadlerc") + new("treadle/x.py"), (".treadlerc", "treadle/x.py")),
    Honest(
        "index-line",
        APP_EDIT.replace(b"\n---", b"\nindex 1..2 100644\n---", 1),
        ("src/app.py",),
    ),
    Honest("svn-style", b"Index: README.md\n" + b"=" * 67 + b"\n" + README_EDIT, ("README.md",)),
    Honest("hunk-heading", README_EDIT.replace(b"+1,5 @@", b"+1,5 @@ # Project"), ("README.md",)),
    Honest("moved-lines", SHIFTED, ("README.md",)),
    Honest("wrong-time", README_EDIT.replace(b"md\n@@", b"md\t(revision 7)\n@@"), ("README.md",)),
    Honest("append-at-end", APPEND, ("README.md",)),
    Honest("insert-at-start", PREPEND, ("README.md",)),
    Honest("two-hunks", PREPEND + APPEND_AFTER, ("README.md",)),
    Honest("whitespace-errors", new("docs/w.md", "trailing \t"), ("docs/w.md",)),
    Honest("dos-file-new", new("docs/dos.txt", "x\r"), ("docs/dos.txt",)),
    Honest("nul-byte-free-text", new("docs/n.md", "\\0 and %00"), ("docs/n.md",)),
    Honest("text-like-a-patch", new("docs/p.md", "-- a/x"), ("docs/p.md",)),
    Honest("text-names-git", new("docs/g.md", "see .git/config and ../x"), ("docs/g.md",)),
    Honest("add-newline-at-end", ADD_NEWLINE, ("no-newline.txt",)),
    Honest("fill-empty", FILL, ("empty.txt",)),
    Honest("empty-a-file", EMPTY, ("src/lib/names with space.py",)),
    Honest("rename-folder", RENAME_FOLDER, RENAMED),
    Honest("swap-names", SWAP, ("aux.c", "query.sql")),
    Honest("copy-and-edit", COPY_EDIT, ("src/copy.py",)),
    Honest("delete-and-add", delete("query.sql", "-- /api/old") + new("query/a.sql"), QUERIES),
    Honest("file-to-folder", delete("query.sql", "-- /api/old") + new("query.sql/a"), FOLDER),
    Honest("hidden-file", new(".editorconfig"), (".editorconfig",)),
    Honest("dots-in-names", new("docs/a..b...md"), ("docs/a..b...md",)),
    Honest("plus-and-brackets", new("app/[id]/(x)+@y.tsx"), ("app/[id]/(x)+@y.tsx",)),
    Honest("quote-in-name", new('docs/say "hi".md'), ('docs/say "hi".md',)),
    Honest("same-name-elsewhere", new("docs/README.md"), ("docs/README.md",)),
    Honest("deepest", new("/".join("d" * 64)), ("/".join("d" * 64),)),
    Honest(
        "edit-executable",
        b"--- a/run.sh\n+++ b/run.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-true\n+false\n",
        (EXECUTABLE,),
    ),
)
