"""No canary of the table is left in a text or a file, and honest words are."""

import subprocess
import time

import pytest

from tests.sandbox.canaries import ALL, COUNT, FORMS, VALUES
from treadle.ids import mask as mask_address
from treadle.sandbox.mask import MASKED, Mask

SYSTEM_PYTHON = "/usr/bin/python3"


def test_there_are_enough():
    assert len(ALL) >= 115
    assert COUNT >= 145


@pytest.mark.parametrize("name", ALL)
def test_secrets_known_by_their_looks(name):
    text, secret = ALL[name]
    assert secret in text
    for before, after in (
        ("got ", " there"),
        ("\n", "\n"),
        (r"\n\n", r"\n"),
        ("x=[", "]"),
        ("", ""),
    ):
        shown = Mask({}).text(before + text + after)
        assert secret not in shown
        assert secret[6:] not in shown
        assert MASKED in shown


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("form", FORMS)
def test_values_of_variables_in_every_form(form, name):
    text = FORMS[form](VALUES[name])
    shown = Mask(VALUES).text(f"before {text} after")
    assert MASKED in shown
    assert text not in shown
    assert len(shown) <= len(f"before {MASKED} after") + (len(text) if "base64" in form else 4)


def test_all_of_them_in_one_file(tmp_path):
    log = tmp_path / "log.txt"
    written = [text for text, _ in ALL.values()]
    written += [form(value) for form in FORMS.values() for value in VALUES.values()]
    log.write_text("\n\n".join(f"line {text}" for text in written))
    Mask(VALUES).file(log)
    left = log.read_text()
    assert [name for name, (_, secret) in ALL.items() if secret in left] == []
    assert [name for name, value in VALUES.items() if value in left] == []


HONEST = [
    "max_tokens=200000000", "token_count: 12345678", "password = getpass.getpass(prompt)",
    "http://localhost:4873/@scope%2fpkg", "see https://host.invalid:8443/path@v2 for more",
    "user@host.invalid:path", "secrets: /run/secrets/db", "the token: identifier", "key: value",
    "git@github.invalid:me/it.git", "commit 0123456789abcdef0123456789abcdef01234567",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "src/a.py:12:5: error: x", "authorization required", "password=None, token=self.token_of(x)",
    "api_key = os.environ['API_KEY']", "-----BEGIN CERTIFICATE-----", "task-" + "a" * 30,
    "tests/sandbox/test_canaries.py::test_a_very_long_name_of_a_test_that_runs PASSED",
    "cookie: none", "design=important", "https://host.invalid/?page=2&sort=name",
]  # fmt: skip


@pytest.mark.parametrize("text", HONEST)
def test_honest_words_stay(text):
    assert Mask({}).text(text) == text


FLOODS = [
    "eyJ", "-----BEGIN PRIVATE KEY-----\n", "xsk-", "ghp_", ".", "://", "://a:", "password=", "key",
    "authorization: ", "cookie: a=", "login a\n", "_", "AKIA", "eyJaaaaaaaaaaaa.", "sig=", ":5432:",
    "-----BEGIN PRIVATE KEY-----" + "a" * 15000, "Private-Lines: 1\n", "\\", "passw", "SG.aaaaa",
    "https://" + "a" * 300 + ":" + "b" * 300 + " ", "%25", "\\u0063",
]  # fmt: skip


@pytest.mark.parametrize("flood", FLOODS, ids=lambda text: ascii(text[:12]))
def test_time_grows_with_length_only(flood):
    """A hostile text of a megabyte takes no longer than many honest ones."""
    text = flood * ((1 << 20) // len(flood))
    began = time.process_time()
    Mask({"A_TOKEN": "canary-4711-of-the-user"}).text(text)
    assert time.process_time() - began < 10


@pytest.mark.parametrize("text", [text for text, _ in ALL.values() if "://" in text])
def test_addresses_in_messages(text):
    secret = next(hidden for written, hidden in ALL.values() if written == text)
    if "slack" not in text:
        assert secret not in mask_address(text)


def test_an_address_with_anything_for_a_password():
    shown = mask_address("postgresql://ada:a b\"c'd<e>/f@g\nh@db/fleet")
    assert shown == "postgresql://ada:***@db/fleet"
    assert mask_address("password='a b\\'c d' host=x") == "password=*** host=x"
    assert mask_address("sqlite:/tmp/x.db") == "sqlite:/tmp/x.db"


def test_the_oldest_python_masks_the_same(tmp_path):
    """Debian's 3.11 reads fewer patterns than later ones."""
    log = tmp_path / "log.txt"
    log.write_text("\n\n".join(text for text, _ in ALL.values()))
    code = (
        "import sys; sys.path.insert(0, 'src'); from pathlib import Path;"
        "from treadle.sandbox.mask import Mask; Mask({}).file(Path(sys.argv[1]))"
    )
    subprocess.run([SYSTEM_PYTHON, "-I", "-c", code, str(log)], check=True)
    left = log.read_text()
    assert [name for name, (_, secret) in ALL.items() if secret in left] == []
