from __future__ import annotations

from manyglot.corpus.base import Split
from manyglot.corpus.synthetic import Clause, NounPhrase, SyntheticCorpus, SyntheticSettings, make_synthetic_languages


def test_rows_are_reproducible_distinct_and_in_every_language() -> None:
    corpus = SyntheticCorpus(SyntheticSettings(num_languages=5))
    rows = list(corpus.rows(Split.TRAIN))
    assert len(rows) == 2000
    assert rows == list(SyntheticCorpus(corpus.settings).rows(Split.TRAIN))
    assert all(set(row) == {"qaa", "qab", "qac", "qad", "qae"} for row in rows)
    sentences = [row["qaa"] for split in Split for row in corpus.rows(split)]
    assert len(set(sentences)) == len(sentences)


def test_sentences_follow_the_grammar() -> None:
    clause = Clause(NounPhrase(0, 1, True), 2, NounPhrase(3, None, False))
    for language in make_synthetic_languages(SyntheticSettings(num_languages=12)):
        words, grammar = language.realize_clause(clause).split(), language.grammar
        noun, adjective, verb = language.nouns[0], language.adjectives[1], language.verbs[2]
        plural = language.plural_affix + noun if grammar.plural_prefix else noun + language.plural_affix
        patient = language.nouns[3] + (language.object_affix if grammar.object_marked else "")
        subject = [adjective, plural] if grammar.adjective_first else [plural, adjective]
        orders = {"SVO": [*subject, verb, patient], "SOV": [*subject, patient, verb], "VSO": [verb, *subject, patient]}
        assert words == orders[grammar.word_order]


def test_features_are_the_ground_truth_and_differ_between_languages() -> None:
    languages = make_synthetic_languages(SyntheticSettings(num_languages=20))
    features = [language.grammar.binary_features() for language in languages]
    for feature in features[0]:
        assert len({each[feature] for each in features}) == 2, f"{feature} is the same in all languages"
    assert all(sum(each[f"order_{order}"] for order in ("SVO", "SOV", "VSO")) == 1 for each in features)


def test_related_languages_share_word_shapes() -> None:
    """Sound changes are one-to-one, so only related languages repeat letters at the same positions."""

    def shape(word: str) -> tuple[int, ...]:
        return tuple(word.index(letter) for letter in word)

    a, b, c = make_synthetic_languages(SyntheticSettings(num_languages=3, num_families=2))
    assert a.family == c.family != b.family
    assert [shape(w) for w in a.nouns] == [shape(w) for w in c.nouns]
    assert [shape(w) for w in a.nouns] != [shape(w) for w in b.nouns]
