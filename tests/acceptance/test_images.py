"""Images of a task reach its agents."""

import json
import os

import pytest

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
LOOK = """
import re
(path,) = re.findall("`(/[^`]*[.]png)`", request["context"]["notes"])
if role == "do":
    (repo / "seen.bin").write_bytes(pathlib.Path(path).read_bytes())
ok()
"""


def test_an_image_is_kept_and_read_by_the_agents(project, tmp_path):
    (tmp_path / "a login page.png").write_bytes(PNG)
    project.agent("do", LOOK, edits=True)
    words = ("--verify", "AC1=test -f seen.bin", "--image", str(tmp_path / "a login page.png"))
    assert project.treadle("task", "add", "Make it look so", *words, "--json").json == {
        "task_id": "T-1"
    }
    (tmp_path / "a login page.png").unlink()
    shown = project.treadle("task", "show", "T-1", "--json").json["images"]
    assert shown == ["1-a-login-page.png"]
    done = project.treadle("run", "T-1", "--json")
    assert done.code == 0, done.err
    run_id = done.json["run_id"]
    assert (project.run_dir(run_id) / "images" / "1-a-login-page.png").read_bytes() == PNG
    blob = project.git("rev-parse", f"treadle/{run_id}:seen.bin").strip()
    assert int(project.git("cat-file", "-s", blob)) == len(PNG)
    project.treadle("task", "add", "Another", "--verify", "AC1=true")
    assert project.treadle("task", "show", "T-2", "--json").json["images"] == []


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda path: path.write_text("no"),
            "x.png is not an image; known are png, jpg, gif, webp",
        ),
        (lambda path: path.symlink_to(os.devnull), "x.png cannot be read"),
        (lambda path: path.mkdir(), "x.png is not a plain file"),
        (lambda path: path.write_bytes(PNG + bytes(5 << 20)), "x.png is larger than 5242880 bytes"),
        (lambda path: None, "x.png is missing"),
    ],
)
def test_what_is_no_image_is_refused(project, tmp_path, make, said):
    make(tmp_path / "x.png")
    words = ("--verify", "AC1=true", "--image", str(tmp_path / "x.png"))
    done = project.treadle("task", "add", "Look", *words, "--json")
    assert (done.code, said in done.json["error"]["message"]) == (2, True), done.out
    assert project.treadle("task", "list", "--json").json == {"tasks": []}


def test_a_task_takes_a_few_images_only(project, tmp_path):
    (tmp_path / "x.png").write_bytes(PNG)
    words = [word for _ in range(11) for word in ("--image", str(tmp_path / "x.png"))]
    done = project.treadle("task", "add", "Look", "--verify", "AC1=true", *words, "--json")
    assert "at most 10 images, not 11" in json.loads(done.out)["error"]["message"]


def test_what_lies_there_otherwise_is_not_handed_on(project, tmp_path):
    (tmp_path / "x.png").write_bytes(PNG)
    project.agent("do", LOOK, edits=True)
    words = ("--verify", "AC1=test -f seen.bin", "--image", str(tmp_path / "x.png"))
    project.treadle("task", "add", "Look", *words)
    folder = project.root / ".treadle" / "images" / "T-1"
    (folder / "0.png").symlink_to("/etc/hostname")
    (folder / "2.png").write_text("not an image")
    run_id = project.treadle("run", "T-1", "--json").json["run_id"]
    assert os.listdir(project.run_dir(run_id) / "images") == ["1-x.png"]


def test_a_link_that_a_clone_brought_is_neither_emptied_nor_filled(project, tmp_path):
    (tmp_path / "x.png").write_bytes(PNG)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "0.png").write_bytes(PNG)
    folder = project.root / ".treadle" / "images" / "T-1"
    folder.parent.mkdir()
    folder.symlink_to(outside)
    project.treadle("task", "add", "Look", "--image", str(tmp_path / "x.png"))
    assert project.treadle("task", "show", "T-1", "--json").json["images"] == ["1-x.png"]
    assert (folder.is_symlink(), os.listdir(outside)) == (False, ["0.png"])
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(outside)
    assert project.treadle("task", "show", "T-1", "--json").json["images"] == []
