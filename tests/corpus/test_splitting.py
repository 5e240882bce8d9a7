from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from manyglot.corpus.base import Row, Split
from manyglot.corpus.multiway import MultiwayCorpus, MultiwaySettings
from manyglot.corpus.splitting import SplitStatistics, write_splits
from manyglot.corpus.unsplit_text import RowGroup, group_files
from manyglot.corpus.zero_shot_sets import normalize_for_leak_check
from manyglot.errors import ManyglotError
from tests.commands import mistake, run


def random_rows(count: int, seed: int) -> list[Row]:
    """Rows with gaps and with many sentences that recur in other spellings."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        number = rng.choice([rng.randrange(10 * count), rng.randrange(20)])
        texts = {"de": f"Satz {number}{rng.choice('.!?')}", "en": f"{rng.choice(['the', 'The', 'THE'])} line  {number}"}
        rows.append({code: text for code, text in texts.items() if rng.random() < 0.9})
    return rows


def split(
    folder: Path, *groups: Sequence[Row], num_dev: int = 10, num_test: int = 5, seed: int = 1
) -> tuple[dict[Split, list[Row]], SplitStatistics]:
    row_groups = [RowGroup(f"group {i}", ("de", "en"), lambda rows=rows: iter(rows)) for i, rows in enumerate(groups)]  # type: ignore[misc]
    statistics = write_splits(folder, row_groups, num_dev, num_test, seed)
    corpus = MultiwayCorpus(MultiwaySettings(path=folder))
    return {each: list(corpus.rows(each)) for each in Split}, statistics


def keys(rows: Sequence[Row]) -> set[str]:
    return {normalize_for_leak_check(text) for row in rows for text in row.values()}


@pytest.mark.parametrize("seed", range(5))
def test_splits_share_no_sentence_and_lose_only_overlapping_rows(tmp_path: Path, seed: int) -> None:
    groups = random_rows(300, seed), random_rows(300, seed + 100)
    splits, statistics = split(tmp_path / "out", *groups, seed=seed)
    assert {each: len(rows) for each, rows in splits.items()} == statistics.num_rows
    assert (len(splits[Split.DEV]), len(splits[Split.TEST])) == (20, 10)
    held_out = splits[Split.DEV] + splits[Split.TEST]
    assert not keys(held_out) & keys(splits[Split.TRAIN])
    assert not keys(splits[Split.DEV]) & keys(splits[Split.TEST])
    assert all(len(row) == 2 for row in held_out)
    left = [row for rows in groups for row in rows if row and not keys([row]) & keys(held_out)]
    assert splits[Split.TRAIN] == left, "the order is that of the corpus"
    assert statistics.num_left_out == sum(map(bool, [*groups[0], *groups[1]])) - len(left) - len(held_out)
    assert statistics.num_sentences["de"][Split.DEV] == 20


def test_sentences_that_occur_once_are_preferred(tmp_path: Path) -> None:
    rows = [{"de": f"Satz {i}", "en": f"Line {i}"} for i in range(40)] + [{"de": "Ja.", "en": "Yes."}] * 400
    _, statistics = split(tmp_path / "out", rows)
    assert statistics.num_left_out == 0


def test_the_choice_depends_on_the_seed_only(tmp_path: Path) -> None:
    rows = random_rows(2000, 7)
    first, again, other = (split(tmp_path / f"{i}", rows, seed=seed)[0] for i, seed in enumerate((1, 1, 2)))
    assert first == again
    assert first[Split.DEV] != other[Split.DEV]


def test_more_rows_than_candidates_are_sampled_from_the_whole_text(tmp_path: Path) -> None:
    rows = [{"de": f"Satz {i}", "en": f"Line {i}"} for i in range(4000)]
    splits, _ = split(tmp_path / "out", rows, num_dev=40, num_test=0)
    numbers = [int(row["de"].split()[1]) for row in splits[Split.DEV]]
    assert min(numbers) < 1000 < 3000 < max(numbers)
    assert not (tmp_path / "out" / "test.de").exists()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 0), "--dev and --test are both 0"),
        ((3, 3), "group 0 has only 5 rows in two or more languages that share no sentence, .* ask for 6"),
        ((3, 2), "No training text would be left"),
    ],
)
def test_a_failure_leaves_no_folder(tmp_path: Path, sizes: tuple[int, int], message: str) -> None:
    rows = [{"de": f"Satz {i}", "en": f"Line {i}"} for i in (0, 1, 2, 3, 4, 4)]
    with pytest.raises(ManyglotError, match=message):
        split(tmp_path / "out", rows, num_dev=sizes[0], num_test=sizes[1])
    assert list(tmp_path.iterdir()) == []


def test_files_without_text_are_named(tmp_path: Path) -> None:
    with pytest.raises(ManyglotError, match="group 0 has no rows with text in two or more languages"):
        split(tmp_path / "out", [{}, {"de": "x"}], num_dev=1, num_test=1)


def write_texts(folder: Path, *names: str, count: int = 30) -> list[Path]:
    for name in names:
        text = "".join(f"{name.split('.')[-1]} {name.split('.')[0]} {i}\n" for i in range(count))
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in names]


def test_files_are_grouped_by_name(tmp_path: Path) -> None:
    paths = write_texts(tmp_path, "news.de", "talks.v1.en", "news.en", "talks.v1.fr")
    assert [(group.name, group.languages) for group in group_files(paths)] == [
        ("news", ("de", "en")),
        ("talks.v1", ("en", "fr")),
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["news.de"], r"news.de has no translation"),
        (["news.de", "news.txt"], "news.txt: the file name should end with a language code, such as news.en"),
        (["news"], "the file name should end with a language code"),
        (["news.de", "news.en", "talks.deu", "talks.en"], r"news\.de and .*talks\.deu are in one language, German"),
        (["news.de", "a.tsv"], "a.tsv is a table .*Split it without other files"),
    ],
)
def test_unsuitable_files_are_refused(tmp_path: Path, names: list[str], message: str) -> None:
    with pytest.raises(ManyglotError, match=message):
        group_files(write_texts(tmp_path, *names))


def test_the_command_splits_files_tables_and_corpora(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files, out = write_texts(tmp_path, "news.de", "news.en"), tmp_path / "out"
    options = ("--dev", 4, "--test", 3)
    printed, hint = run(capsys, "corpus", "split", *files, "-o", out, *options)
    assert "│ de German  │    23 │   4 │    3 │" in printed
    assert f"corpus: {{kind: multiway, path: {out}}}" in hint
    assert f"{out} already exists" in mistake(capsys, "corpus", "split", *files, "-o", out, *options)

    table = tmp_path / "mine.tsv"
    table.write_text("".join(f"de {i}\ten {i}\n" for i in range(30)), encoding="utf-8")
    command = ("corpus", "split", table, "-o", tmp_path / "out2", *options)
    assert "names no language" in mistake(capsys, *command)
    printed, _ = run(capsys, *command, "--columns", "de,en", "--json")
    assert json.loads(printed)["num_rows"] == {"train": 23, "dev": 4, "test": 3}

    pairs = tmp_path / "pairs"
    pairs.mkdir()
    write_texts(pairs, "train.de-en.de", "train.de-en.en", "train.en-fr.en", "train.en-fr.fr")
    config = tmp_path / "mine.yaml"
    config.write_text(f"data: d\nrun: r\ncorpus: {{kind: bilingual, path: {pairs}}}\n", encoding="utf-8")
    printed, _ = run(capsys, "corpus", "split", config, "-o", tmp_path / "out3", *options, "--json")
    assert json.loads(printed)["num_rows"] == {"train": 32, "dev": 8, "test": 6}, "both pairs have the same English"
    assert json.loads(printed)["num_left_out"] == 14


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.de", "nowhere.en"], "nowhere.de is not a file"),
        (["."], "is not a file. Give the files in it"),
        (["nowhere.yaml"], "nowhere.yaml"),
        (["nowhere.yaml", "--columns", "de,en"], "set corpus.columns in nowhere.yaml"),
        (["nowhere.de", "--dev", "-3"], "--dev"),
        ([], "IN"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in mistake(capsys, "corpus", "split", *arguments, "-o", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
