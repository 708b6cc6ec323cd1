"""Secrets of every kind that is known by its looks, each with the part that must not be seen."""

import base64
import html
import json
import random
import re
import shlex
import string
from urllib.parse import quote, quote_plus

from markupsafe import escape

_CHANCE = random.Random(11)
_WORD = string.ascii_letters + string.digits


def _some(count, letters=_WORD):
    return "".join(_CHANCE.choices(letters, k=count))


_HEX = "0123456789abcdef"
_UP = string.ascii_uppercase + string.digits
_BODY = "\n".join(_some(64, _WORD + "+/") for _ in range(12))
_PEM = "-----BEGIN {0}PRIVATE KEY{1}-----\n{2}\n-----END {0}PRIVATE KEY{1}-----"
# Tokens of known makers: all of it is secret.
TOKENS = {
    **{f"github {kind}": f"gh{kind}_{_some(36)}" for kind in "pousr"},
    "github fine": f"github_pat_{_some(22)}_{_some(59)}",
    **{f"gitlab {kind}": f"gl{kind}-{_some(20)}" for kind in ("pat", "dt", "rt", "cbt", "soat")},
    "openai": f"sk-{_some(48)}",
    "openai project": f"sk-proj-{_some(74)}",
    "anthropic": f"sk-ant-api03-{_some(93)}",
    "openrouter": f"sk-or-v1-{_some(64, _HEX)}",
    "stripe live": f"sk_live_{_some(24)}",
    "stripe test": f"sk_test_{_some(24)}",
    "stripe restricted": f"rk_live_{_some(24)}",
    "stripe webhook": f"whsec_{_some(32)}",
    "aws key": f"AKIA{_some(16, _UP)}",
    "aws session key": f"ASIA{_some(16, _UP)}",
    **{f"slack {kind}": f"xox{kind}-{_some(12, string.digits)}-{_some(24)}" for kind in "abeoprs"},
    "slack app": f"xapp-1-{_some(11, _UP)}-{_some(13, string.digits)}-{_some(64, _HEX)}",
    "google": f"AIza{_some(35)}",
    "google access": f"ya29.{_some(60)}",
    "google client": f"GOCSPX-{_some(28)}",
    "npm": f"npm_{_some(36)}",
    "hugging face": f"hf_{_some(34)}",
    "pypi": f"pypi-AgEIcHlwaS5vcmc{_some(80)}",
    "test pypi": f"pypi-AgENdGVzdC5weXBp{_some(80)}",
    "sendgrid": f"SG.{_some(22)}.{_some(43)}",
    "twilio": f"SK{_some(32, _HEX)}",
    "mailgun": f"key-{_some(32, _HEX)}",
    **{f"digital ocean {kind}": f"do{kind}_v1_{_some(64, _HEX)}" for kind in "por"},
    **{f"shopify {kind}": f"shp{kind}_{_some(32, _HEX)}" for kind in ("at", "ss", "ca", "pa")},
    "square": f"sq0atp-{_some(22)}",
    "square secret": f"sq0csp-{_some(43)}",
    "docker": f"dckr_pat_{_some(27)}",
    "vault": f"hvs.{_some(90)}",
    "terraform": f"{_some(14)}.atlasv1.{_some(67)}",
    "linear": f"lin_api_{_some(40)}",
    "notion": f"ntn_{_some(46)}",
    "notion old": f"secret_{_some(43)}",
    "figma": f"figd_{_some(40)}",
    "rubygems": f"rubygems_{_some(48, _HEX)}",
    "databricks": f"dapi{_some(32, _HEX)}",
    "pulumi": f"pul-{_some(40, _HEX)}",
    "grafana": f"glsa_{_some(32)}_{_some(8, _HEX)}",
    "new relic": f"NRAK-{_some(27, _UP)}",
    "sentry": f"sntrys_{_some(60)}",
    "groq": f"gsk_{_some(52)}",
    "replicate": f"r8_{_some(37)}",
    "xai": f"xai-{_some(80)}",
    "perplexity": f"pplx-{_some(48)}",
    "tailscale": f"tskey-auth-{_some(17)}-{_some(32)}",
    "atlassian": f"ATATT3xFfGF0{_some(60)}",
    "age": f"AGE-SECRET-KEY-1{_some(58, _UP)}",
    "telegram": f"{_some(9, '123456789')}:AA{_some(33)}",
    "azure client": f"{_some(3)}8Q~{_some(34)}",
    "jwt": f"eyJ{_some(30)}.eyJ{_some(60)}.{_some(43)}",
    "private key": _PEM.format("", "", _BODY),
    "rsa key": _PEM.format("RSA ", "", _BODY),
    "ec key": _PEM.format("EC ", "", _BODY),
    "dsa key": _PEM.format("DSA ", "", _BODY),
    "openssh key": _PEM.format("OPENSSH ", "", _BODY),
    "encrypted key": _PEM.format("ENCRYPTED ", "", _BODY),
    "pgp key": _PEM.format("PGP ", " BLOCK", f"Version: 1\n\n{_BODY}\n=aBcD"),
    "old rsa key": _PEM.format("RSA ", "", f"Proc-Type: 4,ENCRYPTED\nDEK-Info: X-Y,00\n\n{_BODY}"),
    "key in base64": base64.b64encode(_PEM.format("", "", _BODY).encode()).decode(),
}  # fmt: skip
_P = {n: _some(18) + "7" for n in range(60)}
# A secret in a setting, an address or a header: (what is written, what must not be seen).
PLACED = {
    "key without end": (f"-----BEGIN RSA PRIVATE KEY-----\n{_BODY}", _BODY[200:255]),
    "putty": (f"Private-Lines: 12\n{_BODY}\nPrivate-MAC: x", _BODY[200:255]),
    "jwk": (f'{{"kty":"EC","d":"{_some(43)}x9"}}', None),
    "gcp file": (json.dumps({"private_key": _PEM.format("", "", _BODY)}), _BODY[200:255]),
    "basic auth": (f"https://user:{_P[0]}@host.invalid/x", _P[0]),
    "unescaped @": (f"https://user:p@{_P[1]}@host.invalid/", _P[1]),
    "unescaped / and @": (f"https://user:p@ss/{_P[2]}@host.invalid/", _P[2]),
    "user with @": (f"https://me@corp:{_P[3]}@host.invalid/", _P[3]),
    "no user": (f"redis://:{_P[4]}@cache:6379/0", _P[4]),
    "postgres": (f"postgresql://u:p@{_P[5]}@h/db", _P[5]),
    "mysql": (f"mysql+pymysql://u:{_P[6]}@h:3306/db", _P[6]),
    "mongo": (f"mongodb+srv://u:{_P[7]}@h/db", _P[7]),
    "amqp": (f"amqps://u:{_P[8]}@h/vhost", _P[8]),
    "s3 address": (f"s3://AK:{_P[9]}@bucket/path", _P[9]),
    "token as user": (f"https://{_P[10]}@git.invalid/x.git", _P[10]),
    "x-access-token": (f"https://x-access-token:{_P[11]}@git.invalid/x", _P[11]),
    "ftp": (f"ftp://anonymous:{_P[12]}@h", _P[12]),
    "smtp": (f"smtps://me%40x:{_P[13]}@mail:465", _P[13]),
    "url in quotes": (f'url = "https://a:{_P[14]}@h/"', _P[14]),
    "azure sas": (f"https://a.blob.invalid/c?sv=2022&sig={_P[15]}%3D&se=x", _P[15]),
    "aws presigned": (f"https://b.invalid/o?X-Amz-Date=1&X-Amz-Signature={_P[16]}", _P[16]),
    "aws presigned credential": (f"https://b/o?X-Amz-Credential={_P[17]}%2Fx", _P[17]),
    "aws presigned token": (f"https://b/o?X-Amz-Security-Token={_P[18]}", _P[18]),
    "gcs signed": (f"https://b/o?X-Goog-Signature={_P[19]}", _P[19]),
    "query key": (f"https://api.invalid/v1?key={_P[20]}", _P[20]),
    "query token": (f"https://api.invalid/v1?a=1&access_token={_P[21]}", _P[21]),
    "query in a page": (f"https://api.invalid/?a=1&amp;sig={_P[22]}", _P[22]),
    "azure connection": (f"AccountName=a;AccountKey={_P[23]}==;EndpointSuffix=x", _P[23]),
    "azure bus": (f"Endpoint=sb://x/;SharedAccessKey={_P[24]}=", _P[24]),
    "azure signature": (f"SharedAccessSignature={_P[25]}", _P[25]),
    "bearer": (f"Authorization: Bearer {_P[26]}", _P[26]),
    "basic header": (f"authorization: Basic {_P[27]}==", _P[27]),
    "header in JSON": (json.dumps({"Authorization": f"Bearer {_P[28]}"}), _P[28]),
    "header of curl": (f"curl -H 'Authorization: token {_P[29]}' x", _P[29]),
    "header in JSON twice": (json.dumps(json.dumps({"Authorization": f"Basic {_P[30]}"})), _P[30]),
    "cookie": (f"Cookie: session={_P[31]}; a=b", _P[31]),
    "set-cookie": (f"Set-Cookie: sid={_P[32]}; HttpOnly", _P[32]),
    "api key header": (f"X-Api-Key: {_P[33]}", _P[33]),
    "gitlab header": (f"PRIVATE-TOKEN: {_P[34]}", _P[34]),
    "vault header": (f"X-Vault-Token: {_P[35]}", _P[35]),
    "netrc": (f"machine h login me password {_P[36]}", _P[36]),
    "netrc in lines": (f"machine h\n  login me\n  password {_P[37]}\n", _P[37]),
    "pgpass": (f"db.invalid:5432:shop:me:{_P[38]}", _P[38]),
    "npmrc": (f"//registry.invalid/:_authToken={_P[39]}", _P[39]),
    "npmrc password": (f"//registry.invalid/:_password={_P[40]}", _P[40]),
    "pypirc": (f"[pypi]\nusername = me\npassword = {_P[41]}\n", _P[41]),
    "docker": (f'{{"auths": {{"x": {{"auth": "{_P[42]}="}}}}}}', _P[42]),
    "kubeconfig token": (f"user:\n  token: {_P[43]}\n", _P[43]),
    "kubeconfig key": (f"  client-key-data: {_P[44]}", _P[44]),
    "aws file": (f"aws_secret_access_key = {_P[45]}", _P[45]),
    "aws session": (f"aws_session_token={_P[46]}", _P[46]),
    "aws JSON": (f'"SecretAccessKey": "{_P[47]}"', _P[47]),
    "env file": (f"DB_PASSWORD='{_P[48]}'", _P[48]),
    "export": (f'export API_KEY="{_P[49]}"', _P[49]),
    "yaml": (f"client_secret: {_P[50]}", _P[50]),
    "conninfo": (f"host=db user=u password={_P[51]} dbname=x", _P[51]),
    "quoted with signs": (f'"password": "a,b;({_P[52]})"', _P[52]),
    "slack hook": (f"https://hooks.slack.com/services/T0A1B2C3D/B0A1B2C3D/{_P[53]}ab", _P[53]),
    "oauth": (f'"refresh_token": "{_P[54]}"', _P[54]),
    "ruby": (f":secret => '{_P[55]}'", _P[55]),
}  # fmt: skip
PLACED = {name: (text, secret or text[-20:-4]) for name, (text, secret) in PLACED.items()}
ALL = {name: (text, text[12:40]) for name, text in TOKENS.items()} | PLACED

# Values of variables that are named as secrets, in every form that is held.
VALUES = {
    "PLAIN_TOKEN": "canary-4711-of-the-user",
    "LONG_SECRET": _some(120),
    "ODD_PASSWORD": "p@ss w\"ör'd/<9>&+%$",
    "URL_SAFE_KEY": "ab+/cd==ef-_gh~ij",
    "SHORT_PASSWORD": "hunter2!",
}
FORMS = {
    "plain": lambda text: text,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON with Unicode": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "every sign as Unicode": lambda text: "".join(f"\\u{ord(sign):04x}" for sign in text),
    "URL": lambda text: quote(text, safe=""),
    "URL in small letters": lambda text: re.sub("%..", lambda at: at[0].lower(), quote(text, "")),
    "URL twice": lambda text: quote(quote(text, safe=""), safe=""),
    "form": quote_plus,
    "every byte for a URL": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 one later": lambda text: base64.b64encode(b"a" + text.encode() + b"c").decode(),
    "base64 two later": lambda text: base64.b64encode(b"ab" + text.encode() + b"c").decode(),
    "base64 in lines": lambda text: base64.encodebytes(b"x" * 50 + text.encode()).decode(),
    "base64 in narrow lines": lambda text: base64.encodebytes(b"x" * 55 + text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "user and password in base64": lambda text: base64.b64encode(f"u:{text}".encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "bytes of Python": lambda text: repr(text.encode())[2:-1],
    "every byte escaped": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "text of Python": lambda text: repr(text)[1:-1],
    "page": html.escape,
    "page without quotes": lambda text: html.escape(text, quote=False),
    "page of jinja": lambda text: str(escape(text)),
    "shell": shlex.quote,
    "over two lines": lambda text: f"{text[: len(text) // 2]}\n{text[len(text) // 2 :]}",
    "over two indented lines": lambda text: f"{text[:4]}\n    {text[4:]}",
}  # fmt: skip
COUNT = len(ALL) + len(VALUES) * len(FORMS)
