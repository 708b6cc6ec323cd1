"""Honest work goes on inside: every toolchain as it lies in a home, in both tiers, as anybody.

Nothing is in the sandbox's favour: the home is closed but for the list, the network is off unless
a test says so, and what a test must open by a key stands there.
"""

import functools
import http.server
import json
import os
import shutil
import ssl
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from tests.sandbox import honest
from tests.sandbox.test_hostile import NOBODY, as_nobody, place  # noqa: F401  # the fixture
from treadle.sandbox import jails

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("user", ["root", "nobody"]),
    pytest.mark.parametrize("tier", ["A", "B"]),
]
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
OWN = Path(os.environ.get("TREADLE_TEST_HOME") or os.path.expanduser(f"~{os.getenv('USER', '')}"))


class World:
    """A home, a project below it, and somebody who works there."""

    def __init__(self, root, tier, user):
        self.root, self.tier, self.user = root, tier, user
        self.home, self.work = root / "home", root / "home/code/work"
        self.work.mkdir(parents=True)
        (root / "tmp").mkdir()
        self.path = []

    def file(self, name, text, mode=0o644):
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def take(self, source, name):
        """Put a part of this machine's into the home, without copying what it holds."""
        target = self.home / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copytree(source, target, symlinks=True, copy_function=os.link)
        except (OSError, shutil.Error):
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target, symlinks=True, ignore_dangling_symlinks=True)
        return target

    def env(self, **more):
        path = ":".join([*(str(self.home / name) for name in self.path), SYSTEM])
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", **more}

    def prepare(self, *words, **more):
        """Run something of the user's own before, outside."""
        done = subprocess.run(
            words, cwd=self.work, env=self.env(**more), capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            pytest.skip(f"{words[0]} COULD NOT BE PREPARED HERE: {done.stderr[-500:]}")

    def run(self, script, *, env=None, writable=(), network=False, unix_sockets=False):
        """Return what the command said; it must end well."""
        if jails.probe(self.tier).tier != self.tier:
            pytest.skip(f"TIER {self.tier} CANNOT RUN HERE: {jails.probe(self.tier).reason}")
        case = self.root / "case.json"
        asked = {"env": self.env(**(env or {})), "script": script, "tier": self.tier, "read": []}
        asked |= {"writable": list(writable), "network": network, "unix_sockets": unix_sockets}
        case.write_text(json.dumps(asked))
        argv = [sys.executable, "-S"]
        if self.user == "root" and os.getuid() != 0:
            pytest.skip("NOT ROOT HERE: honest work was not tried as root")
        if self.user == "nobody" and os.getuid() == 0:
            argv = as_nobody(self.root)
            give_away(self.home, self.work, self.root / "tmp", *map(self.named, writable))
        done = subprocess.run(
            [*argv, honest.__file__, str(case)],
            capture_output=True,
            text=True,
            cwd="/",
            timeout=280,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert found["code"] == 0, found["said"]
        return found["said"]

    def named(self, path):
        return self.home / path.removeprefix("~/")


def give_away(home, *folders):
    """Let nobody own the home and all that may be written; toolchains may be somebody else's."""
    os.chown(home, NOBODY, NOBODY)
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def program(name):
    found = shutil.which(name, path=f"{SYSTEM}:{OWN}/.cargo/bin")
    if found is None:
        pytest.skip(f"{name} IS NOT INSTALLED: it was not tried in the sandbox")
    return found


@pytest.fixture
def world(place, tier, user):  # noqa: F811
    return World(place / "world", tier, user)


@functools.cache
def system_python():
    """Return an interpreter that everybody may start and that can load these tests' packages."""
    found = "/usr/bin/python3"
    code = "import sys; sys.exit(sys.version_info[:2] != " + repr(sys.version_info[:2]) + ")"
    if not os.path.exists(found) or subprocess.run([found, "-c", code]).returncode:
        pytest.skip(f"THE SYSTEM'S python3 IS NOT {sys.version_info[:2]}: not tried")
    return found


def environment(world, *packages):
    """Make a virtual environment in the home with some of the packages of these tests."""
    world.prepare(system_python(), "-m", "venv", "--without-pip", str(world.home / "venvs/one"))
    site = next((world.home / "venvs/one/lib").glob("python*/site-packages"))
    own = Path(pytest.__file__).parents[1]
    for name in packages or [item.name for item in own.iterdir() if item.name != "__pycache__"]:
        if (own / name).is_dir():
            world.take(own / name, str((site / name).relative_to(world.home)))
        elif (own / name).is_file() and not name.endswith(".pth"):
            shutil.copy(own / name, site / name)
    world.path.insert(0, "venvs/one/bin")


def test_pytest_with_coverage_in_a_virtual_environment(world):
    environment(world)
    world.file("code/work/t.py", "def test_it(tmp_path):\n    (tmp_path / 'x').touch()\n")
    said = world.run(
        "python -m coverage run --include=t.py -m pytest -q t.py -p no:cacheprovider\n"
        "python -m coverage report --fail-under=100"
    )
    assert "1 passed" in said


def test_node_and_npm_from_a_tarball(world):
    program("npm")
    world.file("pack/package.json", '{"name": "pad", "version": "1.0.0", "main": "pad.js"}')
    world.file("pack/pad.js", "module.exports = (text) => text.padStart(5);")
    world.prepare("npm", "pack", str(world.home / "pack"))
    world.file(
        "code/work/package.json", '{"name": "a", "dependencies": {"pad": "file:pad-1.0.0.tgz"}}'
    )
    world.prepare("npm", "install", "--package-lock-only", "--offline")
    world.file("code/work/t.js", "console.log(`[${require('pad')('x')}]`)")
    said = world.run("npm ci --offline --no-audit --no-fund\nnode t.js", writable=["~/.npm"])
    assert "[    x]" in said


def test_node_as_nvm_lays_it_out(world):
    node = program("node")
    folder = ".nvm/versions/node/v20.0.0"
    (world.home / folder / "bin").mkdir(parents=True)
    shutil.copy(node, world.home / folder / "bin/node")
    world.file(
        f"{folder}/lib/node_modules/hello/cli.js", "#!/usr/bin/env node\nconsole.log('hi')", 0o755
    )
    (world.home / folder / "bin/hello").symlink_to("../lib/node_modules/hello/cli.js")
    world.path.append(f"{folder}/bin")
    said = world.run("command -v node\nhello", env={"NVM_DIR": str(world.home / ".nvm")})
    assert said == f"{world.home}/{folder}/bin/node\nhi\n"


def test_cargo_and_rustup(world):
    cargo = Path(program("cargo")).parent
    toolchains = cargo.parents[1] / ".rustup/toolchains"
    if not toolchains.is_dir():
        pytest.skip("RUST IS NOT INSTALLED BY rustup HERE: it was not tried in the sandbox")
    chain = next(
        it for it in sorted(toolchains.iterdir(), reverse=True) if it.name.startswith("stable")
    )
    world.take(cargo, ".cargo/bin")
    for name in ("bin", "lib"):
        world.take(chain / name, f".rustup/toolchains/{chain.name}/{name}")
    (world.home / ".rustup/update-hashes").mkdir()
    (world.home / ".rustup/tmp").mkdir()
    world.file(".rustup/settings.toml", f'default_toolchain = "{chain.name}"\nversion = "12"\n')
    world.file(".cargo/config.toml", '[build]\nrustflags = ["--cfg", "company"]\n')
    world.file(".cargo/credentials.toml", '[registry]\ntoken = "secret"\n')
    world.file(
        "code/work/Cargo.toml", '[package]\nname = "hi"\nversion = "1.0.0"\nedition = "2021"\n'
    )
    world.file("code/work/src/main.rs", 'fn main() { println!("{}", cfg!(company)) }\n')
    world.path.append(".cargo/bin")
    assert "true" in world.run("rustup show active-toolchain\ncargo run --offline -q")
    said = world.run("cat ~/.cargo/credentials.toml || true")
    assert "secret" not in said


def test_go_with_a_module_from_its_cache(world):
    program("go")
    root = Path(os.path.realpath(program("go"))).parents[1]
    for name in ("bin", "src", "pkg", "misc"):
        if (root / name).exists():
            world.take(os.path.realpath(root / name), f"sdk/go/{name}")
    for name in ("VERSION", "go.env"):
        if (root / name).exists():
            shutil.copy(root / name, world.home / "sdk/go" / name)
    world.path.append("sdk/go/bin")
    shelf = world.home / "shelf/example.invalid/hi/@v"
    shelf.mkdir(parents=True)
    (shelf / "list").write_text("v1.0.0\n")
    (shelf / "v1.0.0.info").write_text('{"Version": "v1.0.0"}')
    (shelf / "v1.0.0.mod").write_text("module example.invalid/hi\n")
    with zipfile.ZipFile(shelf / "v1.0.0.zip", "w") as packed:
        packed.writestr("example.invalid/hi@v1.0.0/go.mod", "module example.invalid/hi\n")
        text = 'package hi\n\nfunc Hi() string { return "hi" }\n'
        packed.writestr("example.invalid/hi@v1.0.0/hi.go", text)
    world.file("code/work/go.mod", "module a\n\ngo 1.19\n\nrequire example.invalid/hi v1.0.0\n")
    code = 'package main\n\nimport "example.invalid/hi"\n\nfunc main() { println(hi.Hi()) }\n'
    world.file("code/work/main.go", code)
    env = {"GOROOT": str(world.home / "sdk/go")}
    offline = {
        **env,
        "GOPROXY": f"file://{world.home}/shelf",
        "GONOSUMDB": "*",
        "GOFLAGS": "-mod=mod",
    }
    world.prepare("go", "mod", "download", "all", **offline, GONOSUMCHECK="1", GOSUMDB="off")
    cache = world.home / ".cache/go-build"
    cache.mkdir(parents=True, exist_ok=True)
    script = "export GOPROXY=off GOSUMDB=off GOFLAGS=-mod=mod\ngo run ."
    assert "hi" in world.run(script, env=env, writable=["~/.cache/go-build"])


WHEEL = {
    "hello.py": "def main():\n    print('hello from a tool')\n",
    "hello-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
    "hello-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\n"
    "Tag: py3-none-any\n",
    "hello-1.0.dist-info/entry_points.txt": "[console_scripts]\nhello = hello:main\n",
    "hello-1.0.dist-info/RECORD": "",
}


def wheel(world):
    path = world.home / "hello-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in WHEEL.items():
            packed.writestr(name, text)
    return str(path)


@functools.cache
def installers():
    """Install uv and pipx once, by pip, where everybody may read them."""
    folder = Path("/tmp") / f"honest-installers-{os.getpid()}"
    done = subprocess.run([system_python(), "-m", "venv", folder], capture_output=True, text=True)
    if not done.returncode:
        words = [folder / "bin/pip", "install", "-q", "uv", "pipx"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if done.returncode:
        pytest.skip(f"uv AND pipx CANNOT BE INSTALLED HERE: {done.stderr[-300:]}")
    return folder


@pytest.fixture(scope="module", autouse=True)
def clean_up():
    yield
    if installers.cache_info().currsize:
        shutil.rmtree(installers(), ignore_errors=True)


def test_uv_and_a_tool_of_its(world):
    (world.home / ".local/bin").mkdir(parents=True)
    shutil.copy(installers() / "bin/uv", world.home / ".local/bin/uv")
    world.path.append(".local/bin")
    packed = wheel(world)
    python = system_python()
    world.prepare("uv", "tool", "install", "--offline", "-p", python, packed)
    shutil.copy(packed, world.work)
    said = world.run(
        f"hello\nexport UV_NO_CACHE=1\nuv venv -q --offline -p {python} v\n"
        "uv pip install -q --offline --no-index -p v ./hello-1.0-py3-none-any.whl\nv/bin/hello"
    )
    assert said.count("hello from a tool") == 2


def test_a_tool_that_pipx_installed(world):
    (world.home / ".local/bin").mkdir(parents=True)
    world.path.append(".local/bin")
    pipx = str(installers() / "bin/pipx")
    world.prepare(pipx, "install", "--python", system_python(), wheel(world))
    assert (world.home / ".local/bin/hello").is_symlink()
    assert world.run("hello") == "hello from a tool\n"


def test_python_as_pyenv_lays_it_out(world):
    own = Path(os.environ.get("PYENV_ROOT") or OWN / ".pyenv")
    if not own.is_dir():
        pytest.skip("pyenv IS NOT INSTALLED: it was not tried in the sandbox")
    for name in ("bin", "libexec", "shims", "pyenv.d"):
        if (own / name).is_dir():
            world.take(own / name, f".pyenv/{name}")
    # What pyenv builds knows its own place; what pyenv-virtualenv makes can be made anywhere.
    mine = world.home / ".pyenv/versions/mine"
    world.prepare(system_python(), "-m", "venv", "--without-pip", str(mine))
    world.file(".pyenv/version", "mine\n")
    for path in (world.home / ".pyenv/shims").iterdir():
        text = path.read_text().replace(str(own), str(world.home / ".pyenv"))
        path.unlink()
        path.write_text(text)
        path.chmod(0o755)
    world.path += [".pyenv/shims", ".pyenv/bin"]
    said = world.run(
        "python3 -c 'import sys, json, ssl; print(sys.prefix)'\npyenv version-name",
        env={"PYENV_ROOT": str(world.home / ".pyenv")},
    )
    assert said.splitlines() == [str(mine), "mine"]


def test_maven_offline_with_its_repository(world):
    program("mvn")
    own = OWN / ".m2/repository"
    if not own.is_dir():
        pytest.skip("MAVEN HAS NO REPOSITORY HERE: it was not tried in the sandbox")
    world.take(own, ".m2/repository")
    world.file(
        "code/work/pom.xml",
        "<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>a</artifactId>"
        "<version>1</version><packaging>pom</packaging></project>",
    )
    # Java asks the system's list of users where home is; here the home is another.
    said = world.run("mvn -Duser.home=$HOME -o -B validate")
    assert "BUILD SUCCESS" in said


def test_git_identity_ignores_and_attributes(world):
    settings = (
        "[user]\n\tname = Ada\n\temail = ada@example.invalid\n[init]\n\tdefaultBranch = main\n"
    )
    settings += "[core]\n\texcludesFile = ~/company/ignore\n\tattributesFile = ~/dots/attributes\n"
    settings += "[include]\n\tpath = company/more\n"
    world.file("dots/gitconfig", settings)
    (world.home / ".gitconfig").symlink_to("dots/gitconfig")
    world.file("company/ignore", "*.ignored\n")
    world.file("dots/attributes", "*.bin binary\n")
    world.file("company/more", "[alias]\n\tcompany = !echo ours\n")
    world.file(".config/git/ignore", "*.also\n")
    world.file("code/work/a.ignored", "")
    world.file("code/work/a.txt", "")
    said = world.run(
        "git init -q .\ngit add -A\ngit commit -qm x\ngit log -1 --format=%an:%ae\n"
        "git ls-files\ngit check-attr diff a.bin\ngit company"
    )
    assert said.splitlines() == [
        "Ada:ada@example.invalid", "a.txt", "a.bin: diff: unset", "ours",
    ]  # fmt: skip


def test_company_certificates_and_proxies(world):
    program("openssl")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(world.root / "key.pem"), "-out", str(world.file("company/ca.pem", ""))]
    world.prepare("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *files, *subject)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(world.home / "company/ca.pem", world.root / "key.pem")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    code = "import urllib.request as u; print(u.urlopen(f'https://localhost:{PORT}/').status)"
    proxies = {"HTTPS_PROXY": "http://proxy.example.invalid:3128", "NO_PROXY": "localhost"}
    try:
        said = world.run(
            f'python3 -c "{code.replace("{PORT}", str(server.server_port))}"\necho $HTTPS_PROXY',
            env={"SSL_CERT_FILE": str(world.home / "company/ca.pem"), **proxies},
            network=True,
        )
    finally:
        server.shutdown()
        server.server_close()
    assert said.splitlines() == ["200", "http://proxy.example.invalid:3128"]


def test_a_notebook(world):
    pytest.importorskip("nbclient", reason="nbclient IS NOT INSTALLED: no notebook was tried")
    environment(world)
    world.file(
        "code/work/run.py",
        "import nbformat, nbclient\n"
        "book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell('print(6 * 7)')])\n"
        "spec = {'name': 'python3', 'display_name': 'x', 'language': 'python'}\n"
        "book.metadata.kernelspec = spec\n"
        "nbclient.NotebookClient(book, timeout=120).execute()\n"
        "print(book.cells[0].outputs[0].text)\n",
    )
    folders = "export JUPYTER_RUNTIME_DIR=$TMPDIR/r IPYTHONDIR=$TMPDIR/i"
    kernel = "python -m ipykernel install --prefix=$TMPDIR/k >&2\n"
    kernel += "export JUPYTER_PATH=$TMPDIR/k/share/jupyter"
    assert "42" in world.run(f"{folders}\n{kernel}\npython run.py", network=True)


def test_a_browser_with_unix_sockets(world):
    chromium = program("chromium")
    world.file("code/work/page.html", "<p id=a></p><script>a.textContent = 6 * 7 + '!'</script>")
    flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
    said = world.run(
        f"export HOME=$TMPDIR\n{chromium} {flags} --user-data-dir=$TMPDIR/c --dump-dom"
        " file://$PWD/page.html",
        unix_sockets=True,
    )
    assert "42!" in said
