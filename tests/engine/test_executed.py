"""What commands execute and what they only read, in many spellings."""

import pytest

from treadle.engine.checks import executed


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("sh test.sh", "test.sh"),
        ("sh ./qa/../test.sh", "test.sh"),
        ("sh 'te'st.sh", "test.sh"),
        ("bash -c 'sh \"$X\"'; X=test.sh", "test.sh"),
        ("X=test.sh; bash -c 'sh \"$X\"'", "test.sh"),
        ("bash -eu -o pipefail test.sh", "test.sh"),
        ("D=qa; sh $D/test.sh", "qa/test.sh"),
        ("sh ${DIR:-qa}/test.sh", "qa/test.sh"),
        ("cd qa && sh test.sh", "qa/test.sh"),
        ("./verify", "verify"),
        ("env A=1 timeout 60s ./verify now", "verify"),
        ("PATH=bin:$PATH verify", "bin/verify"),
        ("cat test.sh | sh", "test.sh"),
        ("sh < test.sh", "test.sh"),
        (". ./test.sh", "test.sh"),
        ("set -e; source test.sh", "test.sh"),
        ('eval "$(cat test.txt)"', "test.txt"),
        ('sh -c "$(cat test.txt)"', "test.txt"),
        ("echo 'sh test.sh' | sh", "test.sh"),
        ("sh -ec \"$(printf %b 'cd qa # here\\nsh test.sh')\"", "test.sh"),
        ("find qa -name '*.sh' -exec sh {} ;", "qa/a.sh"),
        ("ls qa/*.sh | xargs -n1 sh", "qa/a.sh"),
        ("for t in qa/*.sh; do sh $t; done", "qa/a.sh"),
        ("python3 check.py README.md", "check.py"),
        ("python3 -W ignore -X dev check.py", "check.py"),
        ("python3 -m qa.check", "qa/check.py"),
        ("python3 -m qa", "qa/__main__.py"),
        ("python3 -c \"import runpy; runpy.run_path('check.py')\"", "check.py"),
        ("python -m pytest -q qa/test_a.py::test_b", "qa/test_a.py"),
        ("node -r ./hook.js check", "check.js"),
        ("node qa", "qa/index.js"),
        ("python3 -m calc", "calc.py"),
        ("python3 -m unittest -v qa.test_a", "qa/test_a.py"),
        ("node -r ./hook.js check", "hook.js"),
        ("make -f rules.mk all", "rules.mk"),
        ("make", "sub/Makefile"),
        ("npm test", "package.json"),
        ("mytool --config=rules.ini", "rules.ini"),
        ("sed -f edit.sed README.md", "edit.sed"),
        ("true && { ./verify; }", "verify"),
        ("if ./verify; then true; fi", "verify"),
        ("! ./verify", "verify"),
        ("sh test.sh 'never closed", "test.sh"),
        ("python3 -mpytest qa/a_check.py qa/b_check.py", "qa/b_check.py"),
        ("python3 -Im unittest qa.check", "qa/check.py"),
        ("make -frules.inc", "rules.inc"),
        ("pytest -ccustom.ini", "custom.ini"),
        ("npx mocha -r./hook.js qa", "hook.js"),
        ("mocha qa", "qa/deep/check.mjs"),
        ("node --test --test-reporter=tap qa/", "qa/check.mjs"),
        ("go run ./qa", "qa/main.go"),
    ],
)
def test_executed(command, path):
    assert executed.read(command).finder()(path)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("grep -q x README.md", "README.md"),
        ("cat README.md | grep -q Usage", "README.md"),
        ("test -f README.md && ! diff a.txt README.md", "README.md"),
        ("[ -s README.md ]", "README.md"),
        ("python3 check.py README.md", "README.md"),
        ("sh test.sh README.md", "README.md"),
        ("./verify README.md", "README.md"),
        ("sh test.sh", "src/app.py"),
        ("pytest -q", "src/app.py"),
        ("make test", "src/app.c"),
        ("for f in *; do test -f $f; done", "src/app.py"),
        ('python3 -c "import calc; assert calc.add(1, 2) == 3"', "calc.py"),
        ("node -e \"require('./calc').add(1, 2)\"", "calc.js"),
        ("mytool calc", "calc.py"),
        ("pytest -q tests", "src/__main__.py"),
        ("ruff check calc.py && npx mypy calc.py", "calc.py"),
        ("go run . 1", "main.go"),
        ("go build ./calc", "calc/main.go"),
    ],
)
def test_only_read_or_not_named(command, path):
    assert not executed.read(command).finder()(path)


@pytest.mark.parametrize(
    ("name", "text", "path", "expected"),
    [
        ("test.sh", "set -e\nsh inner.sh\n", "inner.sh", True),
        ("test.sh", "grep -q x README.md\n", "README.md", False),
        ("test.sh", 'test "$(sh price.sh 2)" = 6\n', "price.sh", False),
        ("verify", "#!/usr/bin/env bash\nexec ./inner \\\n  now\n", "inner", True),
        ("verify", "exec sh ./inner\n", "inner", True),
        ("verify", "#!/usr/bin/env python3\nexec sh ./inner\n", "inner", False),
        ("Makefile", "S = qa\ntest: lib\n\t@sh $(S)/t.sh\n", "qa/t.sh", True),
        ("Makefile", "T := qa/t.sh\ntest:\n\tsh $(T)\n", "qa/t.sh", True),
        ("package.json", '{"scripts": {"test": "node \\"qa/check.js\\""}}', "qa/check.js", True),
        ("package.json", '{"name": "calc", "main": "calc.js"}', "calc.js", False),
        ("package.json", "broken {", "calc.js", False),
        ("check.py", 'subprocess.run(["python", "app.py"])', "app.py", False),
    ],
)
def test_what_scripts_execute_in_turn(name, text, path, expected):
    assert executed.read_file(name, text.encode()).finder()(path) is expected
