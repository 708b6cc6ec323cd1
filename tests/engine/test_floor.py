"""A record never gets more than today's own configuration allows: a table of both sides."""

import msgspec
import pytest

from treadle.config.schema import Config
from treadle.engine.run import order as run_order
from treadle.engine.run.order import NamedAgent, Order

SH = {"type": "exec", "cmd": ["sh", "agent.sh"]}


def order(**parts):
    """Return an order as a configuration of these parts would freeze it."""
    config = msgspec.convert(parts, Config)
    agents = {role: NamedAgent(name=role, config=agent) for role, agent in config.agents.items()}
    return Order(
        goal="g",
        text="g",
        criteria=(),
        budgets=config.budgets,
        agents=agents,
        checks=config.checks,
        workspace=config.workspace,
        sandbox=config.sandbox,
        network=config.network,
    )


def held(asked, today):
    return run_order.held_to(order(**asked), msgspec.convert(today, Config))


def sandbox(**keys):
    return {"sandbox": keys}


def checks(**keys):
    return {"checks": keys}


def agent(**keys):
    return {"agents": {"do": {**SH, **keys}}}


def do(found):
    return found.agents["do"].config


@pytest.mark.parametrize("asked", ["off", "auto", "required"])
@pytest.mark.parametrize("today", ["off", "auto", "required"])
def test_the_stricter_mode_of_the_sandbox_counts(asked, today):
    ranks = ["off", "auto", "required"]
    found = held(sandbox(mode=asked), sandbox(mode=today)).sandbox.mode
    assert found == ranks[max(ranks.index(asked), ranks.index(today))]


@pytest.mark.parametrize(
    ("asked", "today", "found"), [("A", "B", "A"), ("B", "A", "A"), ("B", "B", "B")]
)
def test_the_better_tier_counts(asked, today, found):
    assert held(sandbox(tier=asked), sandbox(tier=today)).sandbox.tier == found


def test_what_either_hides_is_hidden():
    found = held(sandbox(hide=["~/.ssh"]), sandbox(hide=["~/.aws", "~/.ssh"])).sandbox.hide
    assert set(found) == {"~/.ssh", "~/.aws"}


@pytest.mark.parametrize(
    ("key", "asked", "today", "found"),
    [
        ("place", "workspace", "clean", "clean"),
        ("place", "clean", "workspace", "clean"),
        ("place", "workspace", "workspace", "workspace"),
        ("protect_mode", "warn", "ask", "ask"),
        ("protect_mode", "warn", "fail", "fail"),
        ("protect_mode", "ask", "warn", "ask"),
        ("protect", ["qa/**"], ["default"], ("qa/**", "default")),
        ("expect", [], "tests>=2", ("tests>=2",)),
        ("expect", "tests>=2", [], "tests>=2"),
        ("expect", "tests>=2", ["junit:r.xml"], ("tests>=2", "junit:r.xml")),
    ],
)
def test_a_check_means_what_the_stricter_side_says(key, asked, today, found):
    assert getattr(held(checks(**{key: asked}), checks(**{key: today})).checks, key) == found


@pytest.mark.parametrize(
    ("asked", "today", "found"),
    [
        (["A"], [], ()),
        ([], ["A"], ()),
        (["A", "B"], ["B", "C"], ("B",)),
        (["AWS_*"], ["AWS_REGION"], ("AWS_REGION",)),
        (["AWS_REGION"], ["AWS_*"], ("AWS_REGION",)),
        (["A*"], ["AWS_*"], ("AWS_*",)),
        (["AWS_*"], ["AZURE_*"], ()),
        (["AWS"], ["AWS_*"], ()),
    ],
)
@pytest.mark.parametrize("where", ["checks", "agent"])
def test_variables_pass_that_both_allow(where, asked, today, found):
    if where == "checks":
        got = held(checks(env_allow=asked), checks(env_allow=today)).checks.env_allow
    else:
        got = do(held(agent(env_allow=asked), agent(env_allow=today))).env_allow
    assert got == found


@pytest.mark.parametrize(
    ("asked", "today", "found"),
    [
        (["/"], [], ()),
        (["/"], ["/srv/cache"], ("/srv/cache",)),
        (["/srv"], ["/srv/cache"], ("/srv/cache",)),
        (["/srv/cache/"], ["/srv/cache"], ("/srv/cache",)),
        (["/srv/cache"], ["/srv/cache-of-others"], ()),
        (["/srv/cache/link"], ["/srv/cache"], ()),
        (["/srv/cache/../.."], ["/srv/cache"], ()),
        (["~/.cache/go"], ["~/.cache/go", "~/.m2"], ("~/.cache/go",)),
        (["~/.."], ["~/.cache"], ()),
    ],
)
@pytest.mark.parametrize("where", ["checks", "agent"])
def test_folders_are_writable_that_both_allow(where, asked, today, found):
    if where == "checks":
        got = held(checks(writable=asked), checks(writable=today)).checks.writable
    else:
        got = do(held(agent(writable=asked), agent(writable=today))).writable
    assert got == found


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("today", [True, False])
def test_unix_sockets_need_both(asked, today):
    found = held(checks(unix_sockets=asked), checks(unix_sockets=today)).checks.unix_sockets
    assert found == (asked and today)


NETWORKS = [
    # what the record says for all and for the agent, what today says, what the agent gets
    ("full", None, "full", None, "full"),
    ("full", None, "none", None, "none"),
    ("full", "full", "none", None, "none"),
    ("none", "full", "none", None, "none"),
    ("none", None, "full", "full", "none"),
    ("full", None, "full", "none", "none"),
    ("full", "full", "full", "none", "none"),
    ("full", "full", "none", "full", "full"),
    ("none", "full", "none", "full", "full"),
    ("full", "none", "full", None, "none"),
]


@pytest.mark.parametrize(("general", "own", "today", "today_own", "found"), NETWORKS)
@pytest.mark.parametrize("where", ["checks", "agent"])
def test_no_network_wins_for_all_for_agents_and_for_checks(
    where, general, own, today, today_own, found
):
    def config(general, own):
        part = {"network": own} if own else {}
        return {"network": general, **(checks(**part) if where == "checks" else agent(**part))}

    got = held(config(general, own), config(today, today_own))
    part = got.checks if where == "checks" else do(got)
    assert (part.network or got.network) == found
    assert got.network == ("none" if "none" in (general, today) else "full")


@pytest.mark.parametrize(
    "other",
    [
        {"cmd": ["sh", "other.sh"]},
        {"type": "codex", "cmd": None},
        {"cmd": ["sh", "agent.sh", "--more"]},
        {"extra_args": ["--settings", "evil.json"]},
    ],
)
def test_another_program_under_the_same_name_gets_nothing_of_its_grants(other):
    grants = {"env_allow": ["KEY"], "writable": ["/srv"], "network": "full"}
    today = {"network": "none", **agent(**grants)}
    found = held(agent(**grants, **other), today)
    assert (do(found).env_allow, do(found).writable) == ((), ())
    assert do(found).network == "none"


def test_an_agent_that_stands_for_another_has_the_grants_of_that_one():
    today = {"agents": {"do": {"use": "worker"}, "worker": {**SH, "env_allow": ["KEY"]}}}
    assert do(held(agent(env_allow=["KEY"]), today)).env_allow == ("KEY",)


def test_an_agent_that_nobody_here_knows_gets_nothing():
    assert do(held(agent(env_allow=["KEY"], writable=["/"]), {})).env_allow == ()


def test_the_configuration_an_order_was_frozen_from_takes_nothing_away():
    config = {
        "network": "none",
        **sandbox(mode="off", tier="B", hide=["~/.ssh"]),
        **checks(env_allow=["A*"], writable=["/srv"], unix_sockets=True, network="full"),
        **agent(env_allow=["KEY"], writable=["~/.cache/x"], network="full"),
    }
    assert held(config, config) == order(**config)
    assert run_order.lowered(order(**config), held(config, config)) == []


def test_holding_twice_is_holding_once():
    asked = {**sandbox(mode="off"), **checks(writable=["/"]), **agent(network="full")}
    today = msgspec.convert({"network": "none"}, Config)
    once = run_order.held_to(order(**asked), today)
    assert run_order.held_to(once, today) == once


def test_what_was_lowered_is_named_by_its_keys():
    asked = {**sandbox(mode="off", hide=[]), **checks(writable=["/"]), **agent(env_allow=["K"])}
    found = run_order.lowered(order(**asked), held(asked, {"network": "none"}))
    assert found == [
        "sandbox.mode",
        "sandbox.hide",
        "network",
        "checks.writable",
        "agents.do.env_allow",
    ]


@pytest.mark.parametrize(
    ("asked", "today", "found"),
    [(None, None, None), (1, None, 1), (None, 2, 2), (1, 2, 1), (2, 1, 1)],
)
@pytest.mark.parametrize("key", ["memory_mb", "processes", "disk_mb"])
def test_the_lower_limit_counts(key, asked, today, found):
    kind = msgspec.defstruct("Sandbox", [(key, int | None)])
    assert getattr(run_order._sandbox(kind(asked), kind(today)), key) == found


@pytest.mark.parametrize(
    ("asked", "today", "found"), [(["/"], [], ()), (["~/.x", "~/.y"], ["~/.y"], ("~/.y",))]
)
def test_files_are_readable_that_both_allow(asked, today, found):
    assert held(sandbox(read=asked), sandbox(read=today)).sandbox.read == found


def test_a_key_of_the_sandbox_without_a_rule_is_todays():
    """A new key must not be an opening until somebody says which of two values is stricter."""

    class Sandbox(msgspec.Struct, frozen=True):
        mode: str = "auto"
        new: str = "strict"

    found = run_order._sandbox(Sandbox("off", "loose"), Sandbox())
    assert (found.mode, found.new) == ("auto", "strict")


@pytest.mark.parametrize(
    ("asked", "today", "found"),
    [
        ("junit:a.xml", ("tests>=2",), ("junit:a.xml", "tests>=2")),
        ((), "tests>=2", ("tests>=2",)),
    ],
)
def test_what_both_expect_of_checks_is_expected(asked, today, found):
    rules = run_order._CHECKS
    assert rules["expect"](asked, today) == found
    assert rules["place"]("workspace", "clean") == rules["place"]("clean", "workspace") == "clean"
    assert rules["protect_mode"]("warn", "ask") == "ask"


def test_a_run_that_goes_on_takes_what_the_advice_on_a_trouble_names_from_today():
    (began,) = order(agents={"do": SH | {"timeout": 5}}).agents.values()
    today = {"do": SH | {"timeout": 50, "env_allow": ["TOKEN"]}}
    now = run_order.mended(began, msgspec.convert({"agents": today}, Config)).config
    assert (now.timeout, now.env_allow) == (50, began.config.env_allow)
    other = {"do": SH | {"timeout": 50, "cmd": ["sh", "other.sh"]}}
    assert run_order.mended(began, msgspec.convert({"agents": other}, Config)) == began
