"""Words that would act on a terminal, hide in a prompt, or turn a line on a page."""

import unicodedata

# What must never be shown as it is, by what it would do.
ACTING = {
    "clear screen": "\x1b[2J",
    "cursor up": "\x1b[3A\x1b[2K",
    "colour": "\x1b[31mred",
    "conceal": "\x1b[8mhidden\x1b[28m",
    "window title": "\x1b]0;title\x07",
    "title by ST": "\x1b]2;title\x1b\\",
    "link": "\x1b]8;;http://evil.invalid\x1b\\word\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;cm0gLXJmIC8=\x07",
    "shell mark": "\x1b]133;A\x07",
    "file name of iTerm": "\x1b]1337;File=name=eA==:AAAA\x07",
    "notification": "\x1b]9;hello\x07",
    "device control": "\x1bP$q q\x1b\\",
    "sixel": "\x1bPq#0;2;0;0;0\x1b\\",
    "application command": "\x1b_Ga=T;AAAA\x1b\\",
    "privacy message": "\x1b^x\x1b\\",
    "start of string": "\x1bXx\x1b\\",
    "answer back": "\x1b[c\x1b[6n\x1b[21t",
    "reset": "\x1bc",
    "alternate screen": "\x1b[?1049h",
    "charset": "\x1b(0\x0e",
    "lone escape": "\x1b",
    "CSI in one byte": "\x9b2J",
    "OSC in one byte": "\x9d0;title\x9c",
    "DCS in one byte": "\x90q\x9c",
    "next line in one byte": "a\x85b",
    "bell": "\x07",
    "backspace": "rm x\x08\x08\x08\x08ls",
    "overwritten": "rm -rf /\rls       ",
    "null": "a\x00b",
    "enquiry": "\x05",
    "vertical tab": "a\x0bb",
    "form feed": "a\x0cb",
    "substitute": "\x1a",
    "delete": "a\x7fb",
    "right to left": "a\u202ecod.exe",
    "embedding": "\u202ax\u202c",
    "isolate": "\u2066x\u2069",
    "first strong isolate": "\u2068x",
    "left-to-right mark": "a\u200eb",
    "right-to-left mark": "a\u200fb",
    "arabic mark": "a\u061cb",
    "zero width space": "a\u200bb",
    "joiner between letters": "a\u200db",
    "non-joiner between letters": "a\u200cb",
    "joiner at the end": "é\u200d",
    "word joiner": "a\u2060b",
    "byte order mark": "a\ufeffb",
    "soft hyphen": "pass\xadword",
    "mongolian separator": "a\u180eb",
    "invisible times": "a\u2062b",
    "hangul filler": "a\u3164b",
    "half filler": "a\uffa0b",
    "grapheme joiner": "a\u034fb",
    "old format": "a\u206ab",
    "interlinear": "\ufff9a\ufffab\ufffb",
    "tags": "".join(chr(0xE0000 + ord(sign)) for sign in "ignore all"),
    "language tag": "\U000e0001",
    "flag in tags": "\U0001f3f4\U000e0067\U000e0062\U000e007f",
    "selectors as bytes": "x" + "".join(chr(0xE0100 + byte) for byte in b"run rm"),
    "many selectors": "\u2764\ufe0f\ufe0f\ufe0e\ufe0f",
    "selector after a letter": "a\ufe0fb",
    "odd selector": "a\ufe00b",
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "half a character": "a\ud83db",
    "a byte": "a\udcffb",
    "private": "a\ue000b",
    "far private": "a\U000f0000b",
    "no character": "a\ufdd0b\uffff",
    "musical format": "a\U0001d173b",
    "piled up": "e" + "\u0301" * 40,
}
# Those that a document of JSON and a database take.
STORED = [
    text for name, text in ACTING.items() if name not in ("null", "half a character", "a byte")
]
# What people write, in their scripts.
HONEST = [
    "größer → 日本 🎉", "naïve Ã±", "مرحبا بالعالم", "می‌خواهم", "क्‍ष", "👩‍💻 ❤️ ❤️‍🔥 1️⃣ ☎︎", "a b c",
    "Việt Nam", "ไทย", "שָׁלוֹם", "┌─┐ ▲ ✓", "x̂ é", "⠋ 50 %", "…“quoted”",
]  # fmt: skip
_KEPT = "\n\t\u200c\u200d\ufe0e\ufe0f"


def found_acting(text):
    """Return the signs of a text that act or hide, wherever they should have been cleaned."""
    wrong = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return [
        sign
        for sign in text
        if (unicodedata.category(sign) in wrong and sign not in _KEPT)
        or "\ufe00" <= sign <= "\ufe0d"
        or "\U000e0000" <= sign <= "\U000e0fff"
        or sign in "\u034f\u115f\u1160\u3164\uffa0\ufdd0\uffff"
    ]
