"""The languages of M2M100 in the order of their tokens. The files of its tokenizer name only the list."""

from __future__ import annotations

_M2M100 = """
    af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy id
    ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si
    sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
"""
M2M100_LANGUAGES = {"m2m100": tuple(_M2M100.split()), "wmt21": ("en", "ha", "is", "ja", "cs", "ru", "zh", "de")}
"""The languages by the name of the list in tokenizer_config.json (`language_codes`)."""
