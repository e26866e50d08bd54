"""Characters that a reader takes for others: how the wide reading of a text makes them one.

1. `folded` makes one of what differs only in case, in Unicode compatibility (full-width, mathematical, ligatures) or in
   characters that are not seen.
2. `skeleton` also makes one of the letters of other alphabets that look like Latin letters, digits or signs. A
   character that may be read as several makes these one as well, so the skeletons of texts that look alike are equal,
   and now and then those of others: it is for denies and asks alone, and only where a text or a pattern holds such
   characters.
3. A control character is not seen either, and blanks around a text are none of it: `plainer` has these readings, for
   denies and asks alone.
4. Letters with marks (``é``), and letters that look like two (``rn`` and ``m``), are other letters.

Which characters look alike follows Unicode's list of confusable characters (UTS #39), without what `folded` does
already, and without signs that are common in other scripts.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

__all__ = ["folded", "has_lookalikes", "plainer", "same_name", "skeleton", "without_controls", "without_unseen"]

# What a character looks like -> the characters, as `folded` leaves them. A key of several is read as any of them.
_LOOKS = {
    "!": "ǃⵑ",
    '"': "“”„‟",
    "&": "ꝸ",
    "'": "ʹʻʼʽʾˈˊˋ˴՚՝ᑊᛌ‘’‛′‵ꞌ\U00016f51\U00016f52",
    "(": "❨❲〔﴾",
    ")": "❩❳〕﴿",
    "*": "⁎∗𐌟",
    "+": "᛭➕𐊛",
    ",": "‚ꓹ",
    "-": "˗‐‒–—⁃−➖ⲻ",
    ".": "۰ꓸ꘎\U0001d16d",
    "/": "᜵⁁⁄∕╱⟋⧸ⳇ㇓𝈺",
    "2": "ƨϩᒿꙅꛯꝛ",
    "3": "ȝɜʒзӡⳍꝫ𖼻𝈆",
    "4": "Ꮞ",
    "5": "ƽ",
    "6": "бᏮⳓ",
    "7": "𐓺𝈒",
    "8": "ȣ৪੪\u0b03𐌚",
    "9": "৭੧୨൭ⳋꝯ",
    ":": "ː˸։\u0903\u0a83᛬᠃᠉⁚∶ꓽ꞉",
    "<": "˂ᐸᚲ‹❮𝈶",
    "=": "᐀⹀゠꓿",
    ">": "˃ᐳ›❯𖼿𝈷",
    "?": "ɂʔॽᎮꛫ",
    "\\": "∖⟍⧵⧹𝈏𝈻",
    "^": "˄ˆ",
    "a": "ɑαаᎪᗅᴀ⍺ꓮ𐊠𖽀",
    "b": "ƅʙβвьᏏᏴᑲᖯᗷꓐꞵ𐊂𐊡𐌁",
    "c": "σсᏟᴄⲥꓚ𐊢𐌂𐐽𐔜🝌",
    "d": "ԁᎠᏧᑯᗞᗪᴅꓒꓓ",
    "e": "εеҽᎬᴇ℮⋿ⴹꓰꬲ𐊆",
    "f": "ϝքᖴẝꓝꜰꞙꬵ𐊇𐊥𐔥𝈓",
    "g": "ƍɡɢԍցᏀᏳᶃꓖ",
    "h": "ʜηнһհᎻᏂᕼⲏꓧ𐋏",
    "i": "ıɩɪіᎥ⍳ꙇ",
    "j": "ʝϳјᎫᒍᴊꓙ",
    "k": "ĸκкᏦᛕᴋⲕꓗ𐔘",
    "l": "ʟᏞᒪⳑꓡ𐑃𐔦𖼖𝈪",
    "m": "μϻмᎷᗰᛖᴍⲙꓟ𐊰𐌑",
    "n": "ɴνոռⲛꓠ𐔓η",
    "o0": "οоօ۵०০੦૦ଠ୦௦\u0c02౦\u0c82೦\u0d02ഠ൦\u0d82๐໐ဝ၀ჿዐᴏᴑⲟⵔꓳꬽ𐊒𐊫𐐬𐓪𐔖𑓐",
    "p": "ρрᏢᑭ⍴ⲣꓑ𐊕ᴘ",
    "q": "ԛգզⵕ",
    "r": "ʀгᎡᎱᏒᖇᴦⲅꓣꭇꭈ𐓜𖼵𝈖",
    "s": "ƽѕտᏕᏚꓢꜱ𐊖𐑈𖼺",
    "t": "τтᎢᴛ⊤⟙ⲧꓔ𐊗𐊱𐌕𖼊🝨",
    "u": "ʋυսሀᑌᴜ∪⋃ꓴꞟꭎꭒ𐓶𖽂",
    "v": "νѵ۷Ꮩᐯᴠ∨⋁ⴸꓦꛟ𐔝𑜆𖼈𝈍",
    "w": "ɯѡԝաᎳᏔᴡꓪ𑜊𑜎𑜏ω",
    "x": "×χхᕁᕽ᙭᙮ᚷ╳⤫⤬⨯ⲭⵝꓫꭓ𐊐𐊴𐌗𐌢𐔧",
    "y": "ɣʏγυуүყᎩᎽᶌỿⲩꓬꭚ𐊲𖽃",
    "z": "ζᏃᴢꓜ𐋵",
    "{": "❴𝄔",
    "}": "❵",
    "~": "⁓∼",
    "il1|": "ǀӏ۱ᛁ∣⏽│ⲓⵏꓲ𐊊𐌉𐌠𖼨ι",
}

# Whole alphabets of letters in circles, squares and flags, that have no compatibility form of their own.
_ALPHABETS = (0x1F150, 0x1F170, 0x1F1E6)

# Format characters (category Cf) are not seen; these are not seen either, or shown by no font.
_UNSEEN = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065), (0x2800, 0x2800),
    (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFC), (0x1D159, 0x1D159), (0xE0000, 0xE0FFF),
)  # fmt: skip


# Control characters, without those that give a text its lines and columns.
_CONTROLS = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0)} - {*map(ord, "\t\n\r")})

_CONTROL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

_MOST_KNOWN = 20_000


class _Unseen(dict[int, int | None]):
    """For ``str.translate``: None for a character that is not seen, itself for any other."""

    def __missing__(self, code: int) -> int | None:
        gone = unicodedata.category(chr(code)) == "Cf" or any(first <= code <= last for first, last in _UNSEEN)
        kept = None if gone else code
        if len(self) < _MOST_KNOWN:
            self[code] = kept
        return kept


_unseen = _Unseen()


def without_unseen(text: str) -> str:
    """Return `text` without characters that are not seen."""
    return text if text.isascii() else text.translate(_unseen)


def folded(text: str) -> str:
    """Return `text` without what makes no difference: case, compatibility forms, characters that are not seen."""
    if text.isascii():
        return text.lower()
    once = unicodedata.normalize("NFKC", text.translate(_unseen)).casefold()
    # The dotless and the dotted i of Turkish: whether they are an i depends on who folds them.
    twice = unicodedata.normalize("NFKC", once.replace("i̇", "i").replace("ı", "i")).casefold()
    return twice.translate(_unseen)


def without_controls(text: str) -> str:
    """Return `text` without control characters; tabs and the ends of lines stay."""
    return text.translate(_CONTROLS) if _CONTROL.search(text) else text


def plainer(text: str) -> list[str]:
    """Return the other texts that one may be meant as: without control characters, and without blanks around it."""
    if text.isascii() and text.isprintable() and text[:1] != " " and text[-1:] != " ":
        return []
    bare = without_controls(without_unseen(text))
    found = dict.fromkeys((bare, bare.strip(), bare.lstrip(), bare.rstrip()))
    found.pop(text, None)
    return list(found)


def same_name(one: str, other: str) -> bool:
    """Return whether a deny takes two names of a field for one."""
    if one == other:
        return True
    low, looks = _read_name(one)
    other_low, other_looks = _read_name(other)
    if low == other_low:
        return True
    return (looks or other_looks) and skeleton(low) == skeleton(other_low)


@lru_cache(maxsize=2_000)
def _read_name(name: str) -> tuple[str, bool]:
    """Return a name folded, and whether it holds letters that look like others."""
    low = folded(without_controls(name)).strip()
    return low, has_lookalikes(low)


def skeleton(text: str) -> str:
    """Return `text` folded, and with all characters that look alike as one of them."""
    return folded(text).translate(_skeletons())


def has_lookalikes(text: str) -> bool:
    """Return whether a text holds letters or signs of elsewhere that look like those of ASCII."""
    return not text.isascii() and _foreign().search(folded(text)) is not None


@cache
def _foreign() -> re.Pattern[str]:
    foreign = {chr(code) for code in _skeletons() if code > 127}
    return re.compile(f"[{''.join(map(re.escape, sorted(foreign)))}]")


@cache
def _skeletons() -> dict[int, str]:
    groups: list[set[str]] = []
    for looks, foreign in _LOOKS.items():
        groups.append({*looks, *foreign})
    for first in _ALPHABETS:
        groups.extend({chr(first + place), chr(ord("a") + place)} for place in range(26))
    merged: list[set[str]] = []
    for group in groups:
        apart = [other for other in merged if not other & group]
        merged = [*apart, group.union(*(other for other in merged if other & group))]
    return {ord(char): min(group) for group in merged for char in group}
