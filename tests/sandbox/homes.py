"""Lay out a user's home, let a child read all of it, and say what it got.

Run as `python homes.py FOLDER TIER`; needs nothing but the standard library, so that an
unprivileged user can run it with any interpreter.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from treadle.proc.keeper import Command, Keeper, Limits
from treadle.sandbox import home as homes
from treadle.sandbox import jails

SECRETS = """
    .ssh/id_ed25519 .ssh/config .ssh/known_hosts .gnupg/private-keys-v1.d/a.key .aws/credentials
    .aws/config .aws/sso/cache/a.json .azure/accessTokens.json .azure/msal_token_cache.json .netrc
    .git-credentials .pypirc .npmrc .yarnrc .yarnrc.yml .kube/config .docker/config.json
    .config/gh/hosts.yml .config/glab-cli/config.yml .config/hub .config/gcloud/credentials.db
    .config/gcloud/application_default_credentials.json .config/op/config
    .config/doctl/config.yaml .config/heroku/config.json .config/configstore/firebase-tools.json
    .config/fly/config.yml .fly/config.yml .terraform.d/credentials.tfrc.json .terraformrc
    .vault-token .pgpass .my.cnf .mylogin.cnf .s3cfg .boto .databrickscfg .snowflake/config.toml
    .snowsql/config .oci/config .cargo/credentials .cargo/credentials.toml .m2/settings.xml
    .m2/settings-security.xml .gradle/gradle.properties .gem/credentials .composer/auth.json
    .config/composer/auth.json .nuget/NuGet/NuGet.Config .config/NuGet/NuGet.Config
    .huggingface/token .cache/huggingface/token .cache/huggingface/stored_tokens
    .kaggle/kaggle.json .config/rclone/rclone.conf .wgetrc .curlrc .codex/auth.json
    .codex/config.toml .claude/.credentials.json .claude.json .gemini/oauth_creds.json
    .local/share/opencode/auth.json .copilot/config.json .config/github-copilot/hosts.json
    .config/github-copilot/apps.json .cursor/mcp.json .aider.conf.yml .continue/config.json
    .bash_history .zsh_history .python_history .psql_history .mysql_history .node_repl_history
    .local/share/fish/fish_history .lesshst .viminfo .mozilla/firefox/p/logins.json
    .mozilla/firefox/p/key4.db .thunderbird/p/logins.json .config/google-chrome/Default/Cookies
    .config/chromium/Default/Login .config/BraveSoftware/b/Cookies .cache/mozilla/firefox/p/c
    .cache/google-chrome/Default/c .local/share/keyrings/login.keyring .password-store/a.gpg
    .config/Code/User/settings.json .config/Bitwarden/data.json .config/sops/age/keys.txt
    .config/pip/pip.conf .pip/pip.conf .condarc .env .envrc .bashrc .profile .zshrc
    .config/treadle/config.toml .local/state/treadle/trust.json
    .cache/treadle/agents/codex/auth.json .cache/treadle/repo-00000000/r-other/file
    .config/git/credentials .julia/servers/a/auth.toml .stack/upload/credentials.json
    .pub-cache/credentials.json .android/adbkey .minikube/ca.key .ansible/vault_pass
    .config/hcloud/cli.toml .config/containers/auth.json .erlang.cookie Documents/taxes.pdf
    code/other/.env Desktop/passwords.txt dotfiles/secrets
    .local/share/jupyter/runtime/server.json .local/share/jupyter/notebook_secret
    .local/share/uv/credentials/credentials.toml .gradle/enterprise/keys.properties
    .gradle/develocity/keys.properties .m2/.develocity/keys.properties
    .m2/.gradle-enterprise/keys.properties .opam/plugins/opam-publish/a.token
    .julia/logs/repl_history.jl .dotnet/corefx/cryptography/x509stores/my/a.pfx
    .deno/credentials.json .config/mise/age.txt .npm-global/etc/npmrc
    .luarocks/upload_config.lua .nimble/github_api_token .cache/gh/a
    .cache/snowflake/credential_cache_v1.json .cache/claude-cli-nodejs/a/log .cache/evolution/mail
    .cache/tracker3/files/a .cache/thumbnails/a.png .cache/vivaldi/c .cache/librewolf/p/c
"""
# What honest work reads: toolchains, caches, settings of git, certificates that variables name.
HONEST = """
    .cargo/bin/cargo .cargo/registry/index .cargo/config.toml .rustup/toolchains/stable/bin/rustc
    .pyenv/shims/python .pyenv/versions/3.12.1/lib/os.py .nvm/versions/node/v20/bin/node
    go/pkg/mod/a .local/bin/uv .local/lib/python3.11/site-packages/a.py
    .local/share/uv/tools/a/bin/a .local/share/pipx/venvs/a/bin/a .local/share/pnpm/a
    .m2/repository/a.jar .gradle/caches/a .gradle/wrapper/dists/a .sdkman/candidates/java/a
    .asdf/shims/a .volta/bin/a .bun/bin/bun .deno/bin/deno .dotnet/dotnet .rbenv/shims/ruby
    .gem/ruby/a .cache/pip/a .cache/uv/a .cache/huggingface/hub/a .cache/ms-playwright/a
    .npm/_cacache/a .npm-global/lib/node_modules/a/cli.js .npm-global/bin/plain
    miniconda3/bin/python .julia/packages/a .opam/a .stack/programs/a .gitconfig
    .config/git/ignore .config/git/attributes .gitignore_global company/ca.pem company/ignore
    company/attributes company/included tools/node/bin/node tools/node/lib/a venvs/one/bin/python
    venvs/one/lib/a.py code/repo/file added/file
"""
LINKS = {
    ".local/bin/linked": "../share/uv/tools/a/bin/a",
    ".npm-global/bin/a": "../lib/node_modules/a/cli.js",
    ".pyenv/versions/3.12": "3.12.1",
    ".rvm": "dotfiles/rvm",
    ".cache/way": "../.ssh",
    ".fonts": ".aws",
    ".cpan": ".",
}
THROUGH = (".local/bin/linked", ".npm-global/bin/a", ".rvm/a")
ASTRAY = (".cache/way/id_ed25519", ".fonts/credentials", ".cpan/.netrc")
GIT = """[user]
    name = A
[core]
    excludesFile = ~/company/ignore
    attributesfile = "{home}/company/attributes"
[include]
    path = company/included
"""
READER = """
import json, sys
got = {}
for path in json.load(open(sys.argv[1])):
    try:
        got[path] = open(path).read()[:4]
    except OSError as error:
        got[path] = type(error).__name__
json.dump(got, open(sys.argv[2], "w"))
"""


def build(home):
    """Make the home of a user who works with everything."""
    for name in (*SECRETS.split(), *HONEST.split(), "dotfiles/rvm/a"):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    (home / ".gitconfig").write_text(GIT.format(home=home))
    (home / "venvs/one/pyvenv.cfg").write_text("")
    for name, target in LINKS.items():
        (home / name).symlink_to(target)


def environment(home):
    folders = (".local/bin", ".npm-global/bin", "tools/node/bin", "venvs/one/bin", ".cargo/bin")
    path = ":".join([*(f"{home}/{name}" for name in folders), str(home), "/usr/bin:/bin"])
    return {"PATH": path, "HOME": str(home), "SSL_CERT_FILE": f"{home}/company/ca.pem"}


def main(root, tier):
    root = Path(root)
    home, step = root / "home", root / "step"
    step.mkdir(parents=True)
    build(home)
    names = (*SECRETS.split(), *HONEST.split(), *THROUGH, *ASTRAY)
    (step / "paths.json").write_text(json.dumps([str(home / name) for name in names]))
    (step / "reader.py").write_text(READER)
    env = environment(home)
    policy = homes.closed(env, read=["~/added"], places=[home / "code/repo"])
    words = (sys.executable, "-I", "-S", "reader.py", "paths.json", "got.json")
    held = jails.jail_for(tier, policy.widened([step]))
    with Keeper() as keeper:
        out = root / "out"
        command = Command(words, step, env, None, out, out, Limits(wall=60), held)
        ended = keeper.run(command)
    if ended.exit_code:
        sys.exit(out.read_text() + str(ended))
    got = json.loads((step / "got.json").read_text())
    print(json.dumps({os.path.relpath(path, home): word for path, word in got.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
