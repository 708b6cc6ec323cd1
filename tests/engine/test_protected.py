"""Which changed files decide whether a check passes."""

from pathlib import Path

import pytest

from tests.builder import git
from treadle.engine.checks import WORDS, protected
from treadle.git import repo as repos

RUST = """fn add(a: i32, b: i32) -> i32 { a - b }

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(super::add(1, 2), 3);
    }
}
"""
BASE = {
    "app.py": "x",
    "pkg/__init__.py": "",
    "pkg/core.py": "x",
    "golden/out.txt": "x",
    "proj/settings.py": "DEBUG = True\n",
    "tests/test_app.py": "x",
    "src/app.test.ts": "x",
    "README.md": "x",
    "verify.sh": "sh scripts/inner.sh\ngrep -q x README.md\n",
    "scripts/inner.sh": "x",
    "pyproject.toml": '[project]\nname = "a"\n[tool.pytest.ini_options]\naddopts = "-q"\n',
    "package.json": '{"scripts": {"test": "node t.js"}, "devDependencies": {"jest": "29"}}',
    "Cargo.toml": '[package]\nname = "a"\n[[test]]\nname = "t"\n',
    "go.mod": "module a\n\nrequire x.test/assert v1.0.0\n\nreplace x.test/assert => ./assert\n",
    "settings.gradle": 'include ":core", ":web"\n',
    "requirements-dev.txt": "pytest==8\nsix\n",
    "pom.xml": "<a/>\n<skipTests>false</skipTests>\n<dependencies>\n</dependencies>\n",
    "CMakeLists.txt": "project(a C)\nadd_library(a a.c)\nenable_testing()\n",
    "setup.cfg": "[metadata]\n",
    "build.gradle": "dependencies {\n    implementation 'a:b:1'\n}\n",
    "Gemfile": "source 'https://rubygems.org'\ngem 'rake'\n",
    "mix.exs": "defp deps do\n  [\n    {:jason, '~> 1.4'}\n  ]\nend\n",
    "tests/CMakeLists.txt": "add_executable(check check.c)\n",
    "package-lock.json": '"sure": {\n"resolved": "https://registry.npmjs.org/sure-1.tgz"\n}\n',
    "poetry.lock": '[[package]]\nname = "sure"\nversion = "1"\n',
    "src/lib.rs": RUST,
    "src/main/java/a/Calc.java": "class Calc {}",
    "src/test/java/a/CalcTest.java": "class CalcTest {}",
    "lib/big_sum.rb": "class BigSum\nend",
}
MAVEN = "<dependency>\n<artifactId>b</artifactId>\n<version>1</version>\n</dependency>"


@pytest.fixture
def changed(repo):
    """Return a function that commits a change and says what of it is protected, and why."""
    write(repo, BASE)

    def look(files, command="sh verify.sh", globs=("default",)):
        base = git(repo, "rev-parse", "HEAD").strip()
        write(repo, files)
        new = git(repo, "rev-parse", "HEAD").strip()
        found = protected.find(repos.find(repo), base, new, [command], globs)
        return {item.path: item.reason for item in found.files}

    return look


def write(root, files):
    for name, text in files.items():
        path = root / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(root, "add", "-A", "-f")
    git(root, "commit", "-q", "-m", "Change")


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("tests/test_app.py", "y", "test"),
        ("tests/test_app.py", None, "test"),
        ("golden/out.txt", "y", "test"),
        ("proj/settings.py", 'TEST_RUNNER = "x"\n', "configuration"),
        ("src/app.test.ts", "y", "test"),
        ("verify.sh", "true", "executed"),
        ("scripts/inner.sh", "true", "executed"),
        ("conftest.py", "", "configuration"),
        ("deep/down/conftest.py", "", "configuration"),
        ("setup.cfg", "[tool:pytest]", "configuration"),
        ("GNUmakefile", "", "configuration"),
        ("web/jest.config.mjs", "", "configuration"),
        ("pyproject.toml", '[tool.pytest.ini_options]\naddopts = "-x"', "configuration"),
        ("pyproject.toml", BASE["pyproject.toml"] + "[tool.coverage]\na = 1", "configuration"),
        ("pyproject.toml", "not toml [", "configuration"),
        ("package.json", BASE["package.json"].replace("node", "true"), "configuration"),
        ("package.json", BASE["package.json"].replace('"29"', '"file:x"'), "configuration"),
        ("web/package.json", '{"scripts": {"test": "true"}}', "configuration"),
        ("Cargo.toml", BASE["Cargo.toml"] + "harness = false\n", "configuration"),
        ("Cargo.toml", BASE["Cargo.toml"] + "[dependencies]\nx.path = 'x'\n", "configuration"),
        ("Cargo.toml", BASE["Cargo.toml"] + "[workspace]\nexclude = ['x']\n", "configuration"),
        ("go.mod", BASE["go.mod"].replace("./assert", "./fake"), "configuration"),
        ("go.work", "use ./fake\n", "configuration"),
        ("vendor/x.test/assert/a.go", "package assert\n", "configuration"),
        ("pyproject.toml", '[tool.uv.sources]\npytest.path = "x"\n', "configuration"),
        (
            "package.json",
            BASE["package.json"].replace("{", '{"name": "jest", ', 1),
            "configuration",
        ),
        ("tsconfig.test.json", '{"compilerOptions": {"paths": {}}}', "configuration"),
        (".mvn/maven.config", "-DskipTests", "configuration"),
        ("settings.gradle", 'include ":web"\n', "configuration"),
        ("requirements-dev.txt", "pytest @ file:x\nsix\n", "configuration"),
        ("pom.xml", BASE["pom.xml"].replace("false", "true"), "configuration"),
        ("pom.xml", BASE["pom.xml"].replace("<a/>", "<packaging>pom</packaging>"), "configuration"),
        ("pom.xml", BASE["pom.xml"] + "<exclude>**/Calc*</exclude>\n", "configuration"),
        (
            "pom.xml",
            BASE["pom.xml"] + "<artifactId>surefire</artifactId>\n<version>2</version>",
            "configuration",
        ),
        ("CMakeLists.txt", f"return()\n{BASE['CMakeLists.txt']}", "configuration"),
        ("CMakeLists.txt", f"add_definitions(-DNDEBUG)\n{BASE['CMakeLists.txt']}", "configuration"),
        ("CMakeLists.txt", BASE["CMakeLists.txt"].replace("a.c", "b.c"), "configuration"),
        ("tests/CMakeLists.txt", "add_executable(check easy.c)\n", "configuration"),
        ("build.gradle", BASE["build.gradle"] + "tasks.all { enabled = false }", "configuration"),
        ("settings.gradle.kts", "tasks.all { enabled = false }\n", "configuration"),
        ("Gemfile", f"exit\n{BASE['Gemfile']}", "configuration"),
        ("mix.exs", f"System.halt(0)\n{BASE['mix.exs']}", "configuration"),
        ("composer.json", '{"autoload-dev": {"files": ["fake.php"]}}', "configuration"),
        ("composer.json", '{"require-dev": {"phpunit/phpunit": "*"}}', "configuration"),
        (
            "package.json",
            BASE["package.json"].replace("{", '{"config": {"main": "x"}, ', 1),
            "configuration",
        ),
        ("Cargo.toml", BASE["Cargo.toml"] + "[[bin]]\ntest = false\n", "configuration"),
        (
            "Cargo.toml",
            BASE["Cargo.toml"] + "[profile.dev]\ndebug-assertions = false\n",
            "configuration",
        ),
        ("pyproject.toml", BASE["pyproject.toml"] + "[tool.mypy]\na = 1", "configuration"),
        ("requirements-dev.txt", "fake-1.0-py3-none-any.whl\nsix\n", "configuration"),
        (
            "package-lock.json",
            '"sure": {\n"resolved": "fake",\n"link": true\n}\n',
            "configuration",
        ),
        (
            "package-lock.json",
            BASE["package-lock.json"].replace("npmjs.org", "npmjs.example"),
            "configuration",
        ),
        (
            "poetry.lock",
            BASE["poetry.lock"] + '[package.source]\ntype = "directory"\nurl = "fake"\n',
            "configuration",
        ),
        ("src/lib.rs", RUST.replace(", 3)", ", -1)"), "test"),
        ("src/lib.rs", RUST.replace("#[test]", "#[test]\n    #[ignore]"), "test"),
        ("src/lib.rs", RUST.replace("#[cfg(test)]", "#[cfg(any())]\n#[cfg(test)]"), "test"),
        ("src/lib.rs", RUST.replace("mod", "/*\nmod") + "*/\n", "test"),
        ("src/lib.rs", None, "test"),
        ("a.pth", "import os", "configuration"),
        ("node_modules/x/index.js", "", "configuration"),
        ("pkg/__pycache__/core.cpython-311.pyc", "x", "configuration"),
        ("json.py", "", "shadows a module"),
        ("pytest/__init__.py", "", "shadows a module"),
        ("scripts/random.py", "", "shadows a module"),
        ("scripts/pkg.py", "", "shadows a module"),
        ("_json.cpython-311-x86_64-linux-gnu.so", "x", "shadows a module"),
        ("tests/__init__.py", "import os", "hooks into the tests"),
        ("tests/test_a.py", "import os; os._exit(0)", "hooks into the tests"),
        ("main_test.go", "func TestMain(m *testing.M) {}", "hooks into the tests"),
        ("tests/test_a.py", "import app\napp.x = 1\n", "hooks into the tests"),
        ("tests/test_a.py", "from pkg import core\nsetattr(core, 'x', 1)", "hooks into the tests"),
        ("a.test.js", "const a = require('./a');\na.b.c = 1;", "hooks into the tests"),
        ("src/test/java/a/Calc.java", "class Calc {}", "hooks into the tests"),
        ("src/test/java/a/ATest.java", "final class Calc<T> {}", "hooks into the tests"),
        ("test/a_test.rb", "class BigSum\nend", "hooks into the tests"),
        ("bin/sh", "", "stands in for a program"),
    ],
)
def test_protected(changed, path, text, reason):
    assert changed({path: text}) == {path: reason}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("app.py", "y"),
        ("README.md", "y"),
        ("tests/test_new.py", "def test_new(): pass"),
        ("tests/__init__.py", ""),
        ("src/new.test.ts", "y"),
        ("src/test/java/a/SumTest.java", "class SumTest {}"),
        ("tests/test_b.py", "import app\nx = app.y\nmine.z = app.y == 1\n"),
        ("pyproject.toml", BASE["pyproject.toml"].replace('"a"', '"b"')),
        ("package.json", BASE["package.json"].replace("{", '{"version": "2", ', 1)),
        ("Cargo.toml", BASE["Cargo.toml"].replace('"a"', '"b"')),
        ("Cargo.toml", BASE["Cargo.toml"] + "[dependencies]\nserde = '1'\n"),
        ("go.mod", BASE["go.mod"].replace("require", "require x.org/more v2.0.0\nrequire", 1)),
        ("requirements-dev.txt", "pytest==8\nsix\nattrs\n"),
        ("pom.xml", BASE["pom.xml"].replace("<dependencies>", f"<dependencies>\n{MAVEN}")),
        ("CMakeLists.txt", BASE["CMakeLists.txt"].replace("a.c", "a.c\n  b.c")),
        ("build.gradle", BASE["build.gradle"].replace("}", "    implementation 'c:d:2'\n}")),
        ("Gemfile", BASE["Gemfile"] + "gem 'rails', '~> 7.0'\n"),
        (
            "package-lock.json",
            BASE["package-lock.json"].replace("-1", "-2") + '"funding": {"url": "https://a.b"}',
        ),
        ("poetry.lock", BASE["poetry.lock"].replace('"1"', '"2"')),
        ("src/lib.rs", RUST.replace("a - b", "a + b")),
        (
            "src/lib.rs",
            RUST.replace("    #[test]\n", "    #[test]\n    fn more() {\n    }\n\n    #[test]\n"),
        ),
        ("proj/settings.py", "DEBUG = False\n"),
        ("pkg/json.py", ""),
        ("newpkg/types.py", ""),
        ("scripts/new.py", ""),
    ],
)
def test_not_protected(changed, path, text):
    more = {"newpkg/__init__.py": ""} if path.startswith("newpkg") else {}
    assert changed({path: text, **more}) == {}


def test_globs_of_the_user(changed):
    assert changed({"app.py": "y", "pkg/core.py": "y"}, globs=("pkg/**", "ap?.{py,js}")) == {
        "app.py": "test",
        "pkg/core.py": "test",
    }
    assert changed({"tests/test_app.py": "z", "verify.sh": "z"}, globs=("nothing",)) == {
        "verify.sh": "executed"
    }


@pytest.mark.parametrize(
    ("link", "target", "reason"),
    [
        ("check.py", "tools/real.py", "executed"),
        ("conftest.py", "tools/fixtures.py", "configuration"),
        ("app/check.py", "../tools/real.py", "executed"),
        ("check.py", "/tools/real.py", None),
        ("app/calc.py", "../tools/real.py", None),
    ],
)
def test_what_a_link_leads_to(changed, repo, link, target, reason):
    (repo / "app").mkdir()
    (repo / link).symlink_to(target)
    files = {"tools/real.py": "x", "tools/fixtures.py": "x"}
    changed(files)
    found = changed(dict.fromkeys(files, "y"), "python3 check.py")
    assert found == ({f"tools/{target.rpartition('/')[2]}": reason} if reason else {})


def patterns(section):
    """Return the patterns of a section of steering.txt, each with its names."""
    text = Path(__file__).with_name("steering.txt").read_text().partition(f"[{section}]\n")[2]
    lines = (line.split() for line in text.partition("\n[")[0].splitlines())
    return {words[0]: words[1:] for words in lines}


@pytest.mark.parametrize(
    ("section", "reason"), [("steering", "configuration"), ("shadows", "shadows a module")]
)
def test_every_pattern_protects_what_it_is_there_for(changed, section, reason):
    table = patterns(section)
    assert list(table) == WORDS[section].split()
    names = {name for found in table.values() for name in found}
    assert changed(dict.fromkeys(names, "x")) == dict.fromkeys(names, reason)
    if section == "steering":
        assert changed(dict.fromkeys(names)) == dict.fromkeys(names, reason)


def test_the_first_build_file_steers_nothing_yet(repo):
    base = git(repo, "rev-parse", "HEAD").strip()
    write(repo, {"CMakeLists.txt": "project(a C)\nset(A 1)\n", "pom.xml": "<skipTests>\n"})
    found = protected.find(repos.find(repo), base, "HEAD", ["make"], ("default",))
    assert found.paths == ("pom.xml",)


@pytest.mark.parametrize(
    "line",
    ["a" * 500_000, " " * 500_000 + "<x>", f"version = {' ' * 500_000}!", "file " * 100_000],
    ids=["word", "blanks", "padded", "keys"],
)
def test_no_line_is_too_long_to_be_judged(changed, line):
    names = ["pom.xml", "CMakeLists.txt", "package-lock.json", "src/lib.rs", "tests/test_new.py"]
    assert set(changed(dict.fromkeys(names, line))) <= set(names)
