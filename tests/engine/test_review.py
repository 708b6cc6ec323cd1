"""What is shown of a run, whatever its agents left."""

from treadle.engine.show import view
from treadle.layout import Layout
from treadle.store.runs import StepRow


def test_a_verdict_nested_without_end_claims_nothing(tmp_path):
    (tmp_path / "step").mkdir()
    (tmp_path / "step" / "verdict.json").write_text("[" * 100_000)
    step = StepRow("run", 1, "check", 1, "ok", "step", "2026-01-01T00:00:00Z")
    assert view.claims(Layout(tmp_path), step) == {}
