"""The labels by which the predictions of an identifier are compared with the languages of the data.

A label is a language without its script, as most identifiers know a language in one script only. But if the data has
one language in several scripts, such as srp_Cyrl and srp_Latn, their labels keep the script. The letters of the text
show the script of the output. Scripts with the same letters, such as zho_Hans and zho_Hant, are separated if the
identifier has labels for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from manyglot.corpus.language_codes import parse_language_code
from manyglot.corpus.languages import Languages
from manyglot.corpus.scripts import have_different_letters, script_ratio
from manyglot.langid.variants import is_identifiable, language_label


class LanguageLabels:
    """The labels of the languages of the data, and of the codes that an identifier predicts."""

    def __init__(self, languages: Languages, identifier_codes: Iterable[str], merge_language_variants: bool) -> None:
        merge, identifier_codes = merge_language_variants, list(identifier_codes)
        identifiable = [code for code in languages if is_identifiable(code, identifier_codes, merge)]
        self._merge = merge
        self._scripts: dict[str, list[str]] = {}
        """By label, the scripts of the data that labels keep."""
        self._separated_by_letters: set[str] = set()
        """Labels whose scripts the letters of a text tell apart."""
        for label, scripts in _find_languages_in_several_scripts(identifiable, merge).items():
            known = {_script(code) for code in identifier_codes if language_label(code, merge) == label}
            if have_different_letters(scripts):
                self._separated_by_letters.add(label)
            elif not known.issuperset(scripts):
                continue
            self._scripts[label] = scripts
        self.by_language: Mapping[str, str] = {code: self._label_of(code) for code in identifiable}
        self.of_data = frozenset(self.by_language.values())

    def may_be_of_data(self, code: str) -> bool:
        """Whether a code that the identifier predicts can be a language of the data, in some script."""
        return self._label_of(code) in self.of_data or language_label(code, self._merge) in self._separated_by_letters

    def of_prediction(self, code: str, text: str) -> str:
        """Return the label of a code that the identifier predicts for a text."""
        label = language_label(code, self._merge)
        if label not in self._scripts:
            return label
        if label not in self._separated_by_letters:
            return self._label_of(code)
        ratio, script = max((script_ratio(text, script), script) for script in self._scripts[label])
        return f"{label}-{script}" if ratio else label

    def _label_of(self, code: str) -> str:
        label, script = language_label(code, self._merge), _script(code)
        return f"{label}-{script}" if script in self._scripts.get(label, ()) else label


def _find_languages_in_several_scripts(codes: Sequence[str], merge_language_variants: bool) -> dict[str, list[str]]:
    """Return the labels of languages that the codes name in several scripts, each with all scripts of the label."""
    scripts_by_language: dict[str, set[str]] = defaultdict(set)
    for code in codes:
        scripts_by_language[language_label(code, False)].add(_script(code))
    labels = {
        language_label(code, merge_language_variants)
        for code in codes
        if len(scripts_by_language[language_label(code, False)]) > 1
    }
    return {
        label: sorted({_script(code) for code in codes if language_label(code, merge_language_variants) == label})
        for label in labels
    }


def _script(code: str) -> str:
    return parse_language_code(code).with_likely_subtags().script
