"""The schema explains itself."""

from treadle.config import schema
from treadle.config.schema import AgentConfig


def test_every_key_says_what_it_expects():
    assert [key.path for key in schema.leaves() if schema.expectation(key.type) == "a table"] == []


def test_keys_with_free_names_are_listed_once():
    paths = {schema.dotted(key.path) for key in schema.leaves()}
    assert {"sandbox", "budgets.max_iterations", "agents.NAME.cmd", "verify.NAME"} <= paths


def test_odd_names_are_quoted():
    assert schema.dotted(("verify", 'all "tests"')) == 'verify."all \\"tests\\""'


def test_variables_are_spelled_from_the_path():
    assert schema.variable(("agents", "big-one.x", "timeout")) == "TREADLE_AGENTS_BIG_ONE_X_TIMEOUT"


def test_every_agent_key_belongs_to_some_backend():
    taken = {key for type_ in schema.BACKENDS for key in schema.takes(type_)} | {"use"}
    assert set(schema.field_types(AgentConfig)) == taken
