"""Know secrets by their looks: keys, tokens of known makers, passwords in addresses and settings.

What is read is passed over, found or not, so that nobody can make us read it again and again.
Patterns keep to what every Python 3.11 reads.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from treadle.ids import IN_ADDRESS

_MARKS = b"_-.~:%"  # what most words hold and most blobs do not


class Kind(Protocol):
    """One way in which secrets look."""

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where such secrets stand."""
        ...


class After(NamedTuple):
    """A secret after words that are known; the pattern begins there, its group is the secret."""

    words: tuple[bytes, ...]
    pattern: bytes
    folds: bool = False
    back: int = 0  # how much stands before the words

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where such secrets stand."""
        where = data.lower() if self.folds else data
        for word in self.words:
            at = where.find(word)
            while at >= 0:
                found = self._at(data, at)
                if found and found.lastindex:
                    yield found.span(found.lastindex)
                at = where.find(word, max(at + 1, found.end() if found else 0))

    def _at(self, data: bytes, at: int) -> re.Match[bytes] | None:
        pattern = re.compile(self.pattern, re.IGNORECASE if self.folds else re.NOFLAG)
        if not self.back:
            return pattern.match(data, at)
        return pattern.search(data, max(at - self.back, 0), at + _LONGEST)


class Dense(NamedTuple):
    """Secrets that stand in a long run of certain signs; a text without such runs has none."""

    kinds: Sequence[tuple[bytes, Kind]]  # with what each holds
    signs: bytes  # for each byte a `w` if it belongs to a run
    shortest: int
    around: int  # how much of a secret may stand beside its run

    def spans(self, data: bytes) -> Iterator[tuple[int, int]]:
        """Yield where such secrets stand."""
        runs = self._runs(data)
        absent = {mark for mark in _MARKS if mark not in runs}
        for word, kind in self.kinds if runs else ():
            if absent.isdisjoint(word) and word in runs:
                yield from kind.spans(data)

    def _runs(self, data: bytes) -> bytes:
        shape, run = data.translate(self.signs), b"w" * self.shortest
        found, at, done = [], shape.find(run), 0
        while at >= 0:
            end = shape.find(b" ", at)
            end = len(data) if end < 0 else end
            found.append(data[max(at - self.around, done) : end + self.around])
            done = end + self.around
            at = shape.find(run, end)
        return b"".join(found)


def signs(extra: str) -> bytes:
    """Return the table of runs that are made of letters, digits and some other signs."""
    every = map(chr, range(256))
    return "".join(
        "w" if one in extra or (one.isascii() and one.isalnum()) else " " for one in every
    ).encode()


_LONGEST = 4 << 10
# Where a word may begin: in JSON also right after an escaped newline.
_B = rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
# What tokens of known makers begin with, and what all of them look like.
_MAKERS = (
    *((b"gh%c_" % kind, rb"gh._[A-Za-z0-9]{36,}") for kind in b"pousr"),
    (b"github_pat_", rb"github_pat_[A-Za-z0-9_]{22,}"),
    *(
        (b"gl%s-" % kind, rb"gl[a-z]+-[A-Za-z0-9_-]{20,}")
        for kind in b"pat dt rt cbt ptt ft soat imt agent oas".split()
    ),
    (b"sk-", _B + rb"sk-[A-Za-z0-9_-]{20,}"),  # OpenAI, Anthropic, OpenRouter and others
    (b"k_live_", _B + rb"[spr]k_live_[A-Za-z0-9]{16,}"),  # Stripe
    (b"k_test_", _B + rb"[spr]k_test_[A-Za-z0-9]{16,}"),
    (b"whsec_", rb"whsec_[A-Za-z0-9]{24,}"),
    (b"AKIA", _B + rb"AKIA[0-9A-Z]{16}\b"),
    (b"ASIA", _B + rb"ASIA[0-9A-Z]{16}\b"),
    *((b"xox%c-" % kind, rb"xox.-[A-Za-z0-9-]{10,}") for kind in b"abeoprs"),
    (b"xapp-", rb"xapp-[0-9]-[A-Za-z0-9-]{20,}"),
    (b"AIza", rb"AIza[0-9A-Za-z_-]{35}"),
    (b"ya29.", rb"ya29\.[0-9A-Za-z_-]{20,}"),
    (b"GOCSPX-", rb"GOCSPX-[0-9A-Za-z_-]{24,}"),
    (b"npm_", rb"npm_[A-Za-z0-9]{36}"),
    (b"hf_", _B + rb"hf_[A-Za-z0-9]{30,}"),
    (b"pypi-AgE", rb"pypi-AgE[A-Za-z0-9_-]{40,}"),
    (b"SG.", _B + rb"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}"),  # SendGrid
    (b"SK", _B + rb"SK[0-9a-f]{32}(?![A-Za-z0-9])"),  # Twilio
    (b"key-", _B + rb"key-[0-9a-f]{32}(?![A-Za-z0-9])"),  # Mailgun
    *((b"do%c_v1_" % kind, rb"do._v1_[0-9a-f]{64}") for kind in b"opr"),
    (b"shp", rb"shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}"),
    (b"sq0", rb"sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}"),
    (b"dckr_", rb"dckr_[po]at_[A-Za-z0-9_-]{20,}"),
    (b"hvs.", _B + rb"hvs\.[A-Za-z0-9_-]{24,}"),  # Vault
    (b".atlasv1.", _B + rb"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}"),  # Terraform
    (b"lin_", _B + rb"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    (b"ntn_", _B + rb"ntn_[A-Za-z0-9]{43,}"),
    (b"secret_", _B + rb"secret_[A-Za-z0-9]{43,}"),
    (b"figd_", rb"figd_[A-Za-z0-9_-]{36,}"),
    (b"rubygems_", rb"rubygems_[0-9a-f]{48}"),
    (b"dapi", _B + rb"dapi[0-9a-f]{32}"),  # Databricks
    (b"pul-", _B + rb"pul-[0-9a-f]{40}"),
    (b"glsa_", rb"glsa_[A-Za-z0-9_]{32,}"),  # Grafana
    (b"NRAK-", rb"NRAK-[A-Z0-9]{27}"),
    (b"sntry", rb"sntry[su]_[A-Za-z0-9_+/=-]{40,}"),
    (b"gsk_", _B + rb"gsk_[A-Za-z0-9]{36,}"),
    (b"r8_", _B + rb"r8_[A-Za-z0-9]{36,}"),
    (b"xai-", _B + rb"xai-[A-Za-z0-9]{40,}"),
    (b"pplx-", _B + rb"pplx-[A-Za-z0-9]{40,}"),
    (b"tskey-", rb"tskey-[a-z]+-[A-Za-z0-9-]{16,}"),
    (b"ATATT", rb"ATATT[A-Za-z0-9_=-]{20,}"),
    (b"AGE-SECRET-KEY-1", rb"AGE-SECRET-KEY-1[0-9A-Z]{50,}"),
    (b":AA", rb"(?<![0-9])[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}"),  # Telegram
    (b"Q~", _B + rb"[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,}"),  # Azure
    (b"LS0tLS1CRUdJTiB", rb"LS0tLS1CRUdJTiB[QSFPE][A-Za-z0-9+/=]{40,}"),  # a private key
)
_BEFORE = {b"k_live_": 2, b"k_test_": 2, b".atlasv1.": 15, b":AA": 11, b"Q~": 5}
# Without its group it is none, and what was read is passed over.
_JWT = rb"(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,})|eyJ[A-Za-z0-9_-]{10,}"
_PEM = (
    rb"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rb"(?:(?:[^-]|-(?!----)){1,16000}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    rb"|(?:(?:\s|\\+[nr]){1,8}[A-Za-z0-9+/=]{32,}){1,400}))"  # its end is missing
)
_JWK = rb"\"d\\*\":\s{0,3}\\*\"([A-Za-z0-9_-]{42,})"
_PUTTY = rb"Private-Lines: [0-9]+((?:(?:\s|\\+[nr]){1,8}[A-Za-z0-9+/=]{16,}){1,400})"
# What stands between a name and its value; a value that is no name in a program, no number, no
# path and no call, or anything in quotes that is no sentence.
_IS = rb"\\{0,3}[\"']?[ \t]{0,3}(?:=>?|:)[ \t]{0,3}"
_PLAIN = rb"[^\s\"'&,;()<>{}\[\]\\]"
_VALUE = (
    rb"(?:\\{0,3}[\"'](?![A-Za-z_. ]+[\"'\\])([^\"'\\\r\n]{6,200})(?=\\{0,3}[\"'])"
    rb"|(?![./~$\"']|https?:|(?:[A-Za-z_.]+|[0-9.]+)(?!%s))(%s{8,}))" % (_PLAIN, _PLAIN)
)
_QUOTE = rb"\\{0,3}[\"']?"
_SCHEME = rb"(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey|AWS4-HMAC-SHA256)[ \t]+"
_NAMES = (b"pass", b"pwd", b"token", b"secret", b"credential", b"auth", b"key", b"cookie", b"sig")
_NAMED = b"|".join(
    (
        rb"(?:pass(?:w(?:or)?ds?|phrase)|pwd|tokens?(?:_secret)?|credentials?|auth(?:token)?"
        rb"|secrets?(?:_?(?:access)?_?keys?)?|(?:(?<=api)|(?<=api[_-])|(?<=access)|(?<=access_)"
        rb"|(?<=account)|(?<=account_)|(?<=private_)|(?<=client-))key(?:-data)?)" + _IS + _VALUE,
        rb"auth" + _IS + _QUOTE + rb"([A-Za-z0-9+/]{7,}=)",
        rb"authorization" + _IS + _QUOTE + rb"(" + _SCHEME + rb"[^\r\n\"'\\]{6,}|[^\s\"'\\]{16,})",
        rb"cookie2?" + _IS + _QUOTE + rb"([^\s=\"'\\]{1,100}=[^\r\n\"'\\]{6,})",
        rb"(?:(?<=[?&;-])|(?<=access))(?:sig|signature|key)=([^&\s\"'<>#\\]{8,})",
    )
)
_DENSE = (
    *(
        (word, After((word,), b"(%s)" % looks, back=_BEFORE.get(word, 0)))
        for word, looks in _MAKERS
    ),
    (b"eyJ", After((b"eyJ",), _JWT)),
    (b"Private-Lines:", After((b"Private-Lines:",), _PUTTY)),
    *((word, After((word,), _JWK)) for word in (b'"d":', rb'"d\":')),
    (b"slack.com/", After((b"slack.com/",), rb"slack\.com/services/([A-Za-z0-9/]{20,})")),
)

KINDS: tuple[Kind, ...] = (
    Dense(_DENSE, signs("_-"), shortest=15, around=48),
    After((b"-----BEGIN ",), _PEM),
    After((b"://",), IN_ADDRESS.encode()),
    After(_NAMES, _NAMED, folds=True),
    After((b"login ",), rb"login[ \t]+\S{1,200}\s{1,3}password[ \t]+(\S{4,})"),  # .netrc
    After((b":5432:",), rb":5432:[^:\s]{1,100}:[^:\s]{1,100}:(\S{4,})"),  # .pgpass
)
