"""Patches side by side."""

from treadle.web import diff
from treadle.web.diff import Row, Side

PATCH = """diff --git a/cart.py b/cart.py
index 1..2 100644
--- a/cart.py
+++ b/cart.py
@@ -1,4 +1,3 @@ def total
 def total():
-    x = 0
-    return x
+    return 0
 # end
diff --git a/new.txt b/new.txt
new file mode 100755
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+hello
"""


def test_what_goes_and_what_comes_stand_beside_each_other():
    first, second = diff.parse_diff(PATCH).files
    assert first.hunks[0].rows == (
        Row("same", Side(1, "def total():"), Side(1, "def total():")),
        Row("change", Side(2, "    x = 0"), Side(2, "    return 0")),
        Row("change", Side(3, "    return x"), None),
        Row("same", Side(4, "# end"), Side(3, "# end")),
    )
    assert (first.path, first.added, first.removed) == ("cart.py", 1, 2)
    assert (second.path, second.notes) == ("new.txt", ("new file mode 100755",))


def test_a_removed_line_of_dashes_is_no_file_name():
    text = "--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,2 @@\n--- drop\n+++ keep\n same\n"
    (found,) = diff.parse_diff(text).files
    assert found.hunks[0].rows[0] == Row("change", Side(1, "-- drop"), Side(1, "++ keep"))


def test_plain_patches_of_several_files_are_told_apart():
    text = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-1\n+2\n"
    assert [found.path for found in diff.parse_diff(text).files] == ["x", "y"]


def test_a_rename_and_a_binary_file_have_notes_and_no_hunks():
    text = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
    (found,) = diff.parse_diff(text).files
    assert (found.path, found.hunks, len(found.notes)) == ("y", (), 3)


def test_a_long_patch_is_cut_and_says_so():
    body = "".join(f"+{n}\n" for n in range(diff.MAX_LINES + 10))
    found = diff.parse_diff(f"--- /dev/null\n+++ b/x\n@@ -0,0 +1,{diff.MAX_LINES + 10} @@\n{body}")
    assert found.files[0].added == diff.MAX_LINES - 3
    assert found.hidden > 0


ENDLESS = f"diff --git a/x b/x\n@@ -{'9' * 5000} +1 @@\n-x\n+y"


def test_anything_else_is_no_patch():
    for text in ("", "hello", "@@ -1 +1 @@\n-x\n+y", "diff --git", "\0\x1b[31m", ENDLESS):
        assert all(not found.hunks for found in diff.parse_diff(text).files)


def test_hidden_characters_are_written_out():
    found = diff.parse_diff("--- a/x\n+++ b/x\u202e\n@@ -1 +1 @@\n-a\n+b\u202e\x1b[1m\n")
    assert found.files[0].path == "x\\u202e"
    assert found.files[0].hunks[0].rows[0].new == Side(1, "b\\u202e\\x1b[1m")


def test_names_are_written_as_people_write_them():
    name = r"\303\274bersetzungen/\346\227\245\346\234\254.txt"
    text = f'diff --git "a/{name}" "b/{name}"\nnew file mode 100644\nindex 0..1\n'
    (found,) = diff.parse_diff(text).files
    assert found.path == "übersetzungen/日本.txt"
    (found,) = diff.parse_diff(f'{text}--- /dev/null\n+++ "b/{name}"\n@@ -0,0 +1 @@\n+a\n').files
    assert (found.path, found.sides) == ("übersetzungen/日本.txt", "new")


def test_a_language_has_its_colours_and_a_line_what_differs_in_it():
    lines = "-    return total(1)\n+    return total(2)\n # </b>\n"
    text = f"--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n{lines}"
    (found,) = diff.paint_all(diff.parse_diff(text)).files
    change, same = found.hunks[0].rows
    assert '<span class="hk">return</span>' in change.old.markup
    assert '<span class="hn x">1</span>' in change.old.markup
    assert '<span class="hn x">2</span>' in change.new.markup
    assert same.new.markup == '<span class="hc"># &lt;/b&gt;</span>'


def test_some_rows_of_a_file_are_cut_out_of_its_hunks():
    body = "".join(f"+{n}\n" for n in range(10))
    (found,) = diff.parse_diff(f"--- /dev/null\n+++ b/x\n@@ -0,0 +1,10 @@\n{body}").files
    part = diff.cut(found, 3, 4)
    assert [row.new.text for row in part.hunks[0].rows] == ["3", "4", "5", "6"]
    assert (part.length, part.added) == (4, 10)
