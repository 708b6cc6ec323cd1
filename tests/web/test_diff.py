"""Patches side by side."""

from treadle.web import foreign
from treadle.web.foreign import Row, Side

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
    first, second = foreign.parse_diff(PATCH).files
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
    (found,) = foreign.parse_diff(text).files
    assert found.hunks[0].rows[0] == Row("change", Side(1, "-- drop"), Side(1, "++ keep"))


def test_plain_patches_of_several_files_are_told_apart():
    text = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-1\n+2\n"
    assert [found.path for found in foreign.parse_diff(text).files] == ["x", "y"]


def test_a_rename_and_a_binary_file_have_notes_and_no_hunks():
    text = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
    (found,) = foreign.parse_diff(text).files
    assert (found.path, found.hunks, len(found.notes)) == ("y", (), 3)


def test_a_long_patch_is_cut_and_says_so():
    body = "".join(f"+{n}\n" for n in range(foreign.MAX_LINES + 10))
    found = foreign.parse_diff(
        f"--- /dev/null\n+++ b/x\n@@ -0,0 +1,{foreign.MAX_LINES + 10} @@\n{body}"
    )
    assert found.files[0].added == foreign.MAX_LINES - 3
    assert found.hidden > 0


ENDLESS = f"diff --git a/x b/x\n@@ -{'9' * 5000} +1 @@\n-x\n+y"


def test_anything_else_is_no_patch():
    for text in ("", "hello", "@@ -1 +1 @@\n-x\n+y", "diff --git", "\0\x1b[31m", ENDLESS):
        assert all(not found.hunks for found in foreign.parse_diff(text).files)


def test_hidden_characters_are_written_out():
    found = foreign.parse_diff("--- a/x\n+++ b/x\u202e\n@@ -1 +1 @@\n-a\n+b\u202e\x1b[1m\n")
    assert found.files[0].path == "x\\u202e"
    assert found.files[0].hunks[0].rows[0].new == Side(1, "b\\u202e\\x1b[1m")
