"""Know the files whose change can run code or steer agents outside a run."""

import re
from collections.abc import Collection

from treadle.git import rules


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FOLDERS = _words(
    """
    .agents .aider .amazonq .azure-pipelines .buildkite .circleci .claude .clinerules .codex
    .continue .cursor .devcontainer .drone .gemini .gitea .githooks .github .gitlab .husky .idea
    .kiro .opencode .roo .teamcity .vscode .windsurf .woodpecker .zed
    """
)
_FILES = _words(
    """
    .aider.conf.yml .appveyor.yml .bazelrc .clinerules .cursorrules .drone.yml .envrc .gitattributes
    .gitconfig .gitlab-ci.yml .gitmodules .justfile .lefthook.yml .lfsconfig .mcp.json .mise.toml
    .netrc .npmrc .opencode.json .pnpmfile.cjs .pre-commit-config.yaml .pypirc .roomodes .travis.yml
    .windsurfrules .woodpecker.yml .yarnrc .yarnrc.yml agents.md agents.override.md appveyor.yml
    azure-pipelines.yml bitbucket-pipelines.yml claude.local.md claude.md gemini.md
    jenkinsfile lefthook.yml mcp.json opencode.json opencode.jsonc pip.conf
    """
)
_HOOKS = _words(
    """
    applypatch-msg commit-msg fsmonitor-watchman post-applypatch post-checkout post-commit
    post-index-change post-merge post-receive post-rewrite post-update pre-applypatch pre-auto-gc
    pre-commit pre-merge-commit pre-push pre-rebase pre-receive prepare-commit-msg proc-receive
    push-to-checkout reference-transaction sendemail-validate update
    """
)
_GENERATED = _words(
    """
    bun.lock bun.lockb cargo.lock composer.lock deno.lock flake.lock gemfile.lock go.sum
    gradle.lockfile mix.lock npm-shrinkwrap.json package-lock.json packages.lock.json
    package.resolved pdm.lock pipfile.lock pixi.lock pnpm-lock.yaml podfile.lock poetry.lock
    pubspec.lock pylock.toml uv.lock yarn.lock
    """
)


# What lies in these is carried out, by treadle or by whoever follows a mission.
_WORK = _words("specs missions kitty-specs")
# Under these, files that git reads are found on systems that give every name a short one.
_SHORT = re.compile(
    r"(?:gitmod|gi(?:7(?:e(?:ba?)?)?)?|gitatt|gi(?:7(?:d(?:29?)?)?)?|gitign|gi(?:2(?:5(?:0a?)?)?)?"
    r"|mailma|ma(?:b(?:a(?:30?)?)?)?)~[0-9]+"
)
_NONE = "000000"  # the mode of a file that is not there


def reason(path: str, old_mode: str, new_mode: str, protected: Collection[str]) -> str | None:
    """Return why a change is risky, or None."""
    if path in protected and old_mode != _NONE:
        return "protected"
    if rules.is_own_config(path):
        return "treadle_config"
    parts = [rules.bare(part) for part in path.split("/")]
    if parts[0] in _WORK and "/" in path:
        return "work"
    if parts[-1] in _FILES or _SHORT.fullmatch(parts[-1]) or _FOLDERS.intersection(parts[:-1]):
        return "config"
    if parts[-1] in _HOOKS and any(part.endswith("hooks") for part in parts[:-1]):
        return "hook"
    return "exec_bit" if _changes_exec_bit(old_mode, new_mode) else None


def is_generated(path: str) -> bool:
    """Tell whether a tool writes this file: such lock files do not count as patch size."""
    return path.rpartition("/")[2].lower() in _GENERATED


def _changes_exec_bit(old_mode: str, new_mode: str) -> bool:
    if new_mode == "000000":
        return False
    return (old_mode == "100755") != (new_mode == "100755")
