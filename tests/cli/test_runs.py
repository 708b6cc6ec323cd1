"""Follow what the agent of a running step tells."""

from treadle.cli.runs import _LiveEvents


class Vanishing:
    """A file that is there when one looks and gone when one opens it."""

    def stat(self):
        return None

    def open(self, mode):
        raise FileNotFoundError


def test_a_step_that_ends_while_one_looks_is_no_error(capsys):
    _LiveEvents(Vanishing()).show(as_json=True)
    assert capsys.readouterr().out == ""


def test_the_next_steps_file_is_read_from_its_beginning(tmp_path, capsys):
    path = tmp_path / "events.jsonl"
    live = _LiveEvents(path)
    live.show(as_json=True)
    path.write_text('{"n": 1}\n{"cut')
    live.show(as_json=True)
    path.unlink()
    path.write_text('{"n": 2}\n[]\n')
    live.show(as_json=True)
    live.show(as_json=True)
    live._open.close()
    assert capsys.readouterr().out.split() == ['{"n":', "1}", '{"n":', "2}"]
