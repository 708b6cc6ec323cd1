"""Follow what the agent of a running step tells."""

from contextlib import closing

from treadle.cli.runs import _live_lines


def test_a_step_that_has_not_begun_says_nothing(tmp_path):
    assert next(_live_lines(tmp_path / "events.jsonl")) == []


def test_the_next_steps_file_is_read_from_its_beginning(tmp_path):
    path = tmp_path / "events.jsonl"
    with closing(_live_lines(path)) as live:
        heard = [next(live)]
        path.write_text('{"n": 1}\n{"cut')
        heard.append(next(live))
        path.unlink()
        path.write_text('{"n": 2}\n[]\n')
        heard += [next(live), next(live)]
    assert heard == [[], [b'{"n": 1}'], [b'{"n": 2}', b"[]"], []]
