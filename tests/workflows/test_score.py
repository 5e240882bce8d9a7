"""Any system's translations are scored as `evaluate` scores a model's."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation.results import Evaluation
from manyglot.progress import QUIET_VARIABLE
from tests.commands import mistake, run

TEXT = {
    "de": ["Guten Morgen, meine Damen und Herren.", "Das Wetter ist heute sehr schön.", "Wir gehen morgen ins Kino."],
    "en": ["Good morning, ladies and gentlemen.", "The weather is very nice today.", "We are going to the cinema."],
    "fr": ["Bonjour, mesdames et messieurs.", "Il fait très beau aujourd'hui.", "Nous allons au cinéma demain."],
}
PROFILE = ["evaluation.language_identifier=profile"]
OUTPUTS = {
    "de-en": ["Good morning, my ladies and gentlemen.", "The weather is beautiful today.", "Tomorrow we go to cinema."],
    "fr-en": ["Hello, ladies and gentlemen.", "The weather is very nice today.", ""],
    "en-de": ["Guten Morgen, die Damen und Herren.", "Das Wetter ist heute schön.", "Wir gehen ins Kino."],
}  # fmt: skip


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.fixture
def test_set(tmp_path: Path) -> Path:
    for code, lines in TEXT.items():
        write_lines(tmp_path / "test" / f"test.{code}", lines)
    return tmp_path / "test"


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    for pair, lines in OUTPUTS.items():
        write_lines(tmp_path / "nllb" / f"{pair}.txt", lines)
    return tmp_path / "nllb"


def records(evaluation: Evaluation) -> list[object]:
    return list(evaluation.directions)


def test_a_folder_of_files_is_scored(
    test_set: Path, outputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (outputs / "README.md").write_text("Translations\n")
    result = manyglot.score(outputs, test_set, tmp_path / "scores")
    error = capsys.readouterr().err
    assert "Read 3 directions from 3 files" in error
    assert "Skipping 1 files without a direction of the test set: README.md." in error
    assert "There are no translations in 3 of 6 directions: de→fr, en→fr, fr→de." in error
    assert [str(d.direction) for d in result.directions] == ["de→en", "en→de", "fr→en"]
    assert {d.zero_shot for d in result.directions} == {None}
    assert result.system is not None
    assert result.system.name == "scores"
    assert (result.system.hypotheses.path, len(result.system.hypotheses.sha256)) == (str(outputs), 64)
    assert "all directions" in repr(result)
    assert f"System: scores, from {outputs}, 20" in repr(result)
    assert result.files[Direction("de", "en")] == outputs / "de-en.txt"
    written = {path.name for path in (tmp_path / "scores").iterdir()}
    assert {
        "results.json",
        "statistics.npz",
        "translations.jsonl",
        "about.json",
        "report.html",
        "matrix.svg",
    } <= written
    assert str(outputs) in (tmp_path / "scores" / "report.html").read_text("utf-8")


@pytest.mark.parametrize("direction", ["de-en", "fr-en", "en-de"])
def test_scores_equal_those_of_sacrebleu(test_set: Path, outputs: Path, direction: str) -> None:
    source, target = direction.split("-")
    result = next(d for d in manyglot.score(outputs, test_set).directions if d.direction == (source, target))
    command = [
        sys.executable,
        "-m",
        "sacrebleu",
        str(test_set / f"test.{target}"),
        "-i",
        str(outputs / f"{direction}.txt"),
    ]
    command += ["-m", "bleu", "chrf", "--chrf-word-order", "2", "-w", "12"]
    scores = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert [round(result.bleu, 12), round(result.chrf, 12)] == [each["score"] for each in scores]
    assert result.bleu_signature.replace("nrefs:1|", "") in scores[0]["signature"].replace("nrefs:1|", "")


@pytest.mark.parametrize(
    "pattern",
    ["{0}-{1}.hyp", "hyp.{0}-{1}.{1}", "{1}/{0}-{1}.txt", "newstest.{0}-{1}.hyp.{1}.gz", "out.{2}-{3}"],
)
def test_usual_names_give_the_same_scores(test_set: Path, outputs: Path, tmp_path: Path, pattern: str) -> None:
    long = {"de": "deu_Latn", "en": "eng_Latn", "fr": "fra_Latn"}
    for pair, lines in OUTPUTS.items():
        source, target = pair.split("-")
        write_lines(tmp_path / "other" / pattern.format(source, target, long[source], long[target]), lines)
    assert records(manyglot.score(tmp_path / "other", test_set)) == records(manyglot.score(outputs, test_set))


def test_records_and_large_files_give_the_same_scores(test_set: Path, outputs: Path, tmp_path: Path) -> None:
    expected = manyglot.score(outputs, test_set)
    rows = [
        (source, target, TEXT[source][i], line, TEXT[target][i])
        for pair, lines in OUTPUTS.items()
        for source, target in [pair.split("-")]
        for i, line in enumerate(lines)
    ]
    names = ("src_lang", "tgt_lang", "src", "mt", "ref")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    write_lines(tmp_path / "a.tsv", ["\t".join(names), *("\t".join(row) for row in rows)])
    for name in ("a.jsonl", "a.tsv"):
        assert records(manyglot.score(tmp_path / name, test_set)) == records(expected)
    write_lines(tmp_path / "large", OUTPUTS["de-en"] + OUTPUTS["fr-en"])
    into_english = manyglot.score(tmp_path / "large", test_set, target="English")
    assert records(into_english) == [d for d in expected.directions if d.target == "en"]
    write_lines(tmp_path / "single", OUTPUTS["en-de"])
    single = manyglot.score(tmp_path / "single", test_set, source="en", target="de")
    assert records(single) == [d for d in expected.directions if d.target == "de"]


def test_options_complete_the_names_of_files(test_set: Path, outputs: Path, tmp_path: Path) -> None:
    expected = manyglot.score(outputs, test_set)
    write_lines(tmp_path / "from" / "out.de", OUTPUTS["en-de"])
    from_english = manyglot.score(tmp_path / "from", test_set, source="eng")
    assert records(from_english) == [d for d in expected.directions if d.target == "de"]
    for code in ("de", "fr"):
        write_lines(tmp_path / "into" / f"from.{code}", OUTPUTS[f"{code}-en"])
    into_english = manyglot.score(tmp_path / "into", test_set, target="en")
    assert records(into_english) == [d for d in expected.directions if d.target == "en"]
    with pytest.raises(ManyglotError, match="A file name says de→en, but --source and --target say fr→en"):
        manyglot.score(outputs, test_set, source="fr")


def test_a_system_may_translate_every_line(tmp_path: Path) -> None:
    """Some sentences have no reference; the number of lines tells which sentences were translated."""
    write_lines(tmp_path / "test" / "test.de", TEXT["de"])
    write_lines(tmp_path / "test" / "test.en", ["", *TEXT["en"][1:]])
    write_lines(tmp_path / "all" / "de-en.txt", OUTPUTS["de-en"])
    write_lines(tmp_path / "some" / "de-en.txt", OUTPUTS["de-en"][1:])
    whole, part = (manyglot.score(tmp_path / name, tmp_path / "test") for name in ("all", "some"))
    assert records(whole) == records(part)
    assert whole.directions[0].num_sentences == 2


def test_supervision_comes_from_options(test_set: Path, outputs: Path, trained: Experiment) -> None:
    def zero_shot(**options: object) -> list[str]:
        result = manyglot.score(outputs, test_set, **options)  # type: ignore[arg-type]
        return [str(d.direction) for d in result.directions if d.zero_shot]

    assert zero_shot(central_language="deu") == ["fr→en"]
    assert zero_shot(trained_directions="all") == []
    assert zero_shot(trained_directions="de>en, eng>fr") == ["en→de", "fr→en"]
    assert zero_shot(trained_directions=["de>en"], central_language="en") == ["en→de", "fr→en"]
    from_model, from_data = (zero_shot(trained_directions=path) for path in (trained.run / "model", trained.data))
    assert from_model == from_data
    assert from_model == ["de→en", "en→de", "fr→en"], "the model has other languages"


def test_scoring_our_translations_reproduces_the_results(trained: Experiment, tmp_path: Path) -> None:
    first, again, limited = tmp_path / "first", tmp_path / "again", tmp_path / "limited"
    manyglot.evaluate(trained.run / "model", trained.data, zero_shot=True, output=first)
    manyglot.score(first / "translations.jsonl", trained.data, again)
    manyglot.evaluate(
        trained.run / "model", trained.data, output=limited, overrides=["evaluation.max_sentences_per_direction=2"]
    )
    manyglot.score(limited, trained.data, tmp_path / "limited-again")
    for ours, theirs in ((first, again), (limited, tmp_path / "limited-again")):
        values, expected = (json.loads((folder / "results.json").read_text("utf-8")) for folder in (theirs, ours))
        assert values.pop("system")["name"] == theirs.name
        assert expected.pop("system") is None
        for part in (values, expected):
            del part["seal"]
        assert values == expected
        assert list(values) == list(expected)
        for name in ("translations.jsonl", "statistics.npz"):
            assert (theirs / name).read_bytes() == (ours / name).read_bytes()


def test_other_systems_and_our_models_are_compared(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manyglot.evaluate(trained.run / "model", trained.data, zero_shot=True, output=tmp_path / "ours")
    lines = (tmp_path / "ours" / "translations.jsonl").read_text("utf-8").splitlines()
    foreign = [json.loads(line) for line in lines]
    for record in foreign:
        record["output"] = record["reference"]
    (tmp_path / "perfect.jsonl").write_text("".join(json.dumps(record) + "\n" for record in foreign))
    manyglot.score(tmp_path / "perfect.jsonl", trained.data, tmp_path / "theirs", name="Perfect", overrides=PROFILE)
    out, error = run(
        capsys, "compare", tmp_path / "ours", tmp_path / "theirs", "--baseline", "ours", "--significance", "40"
    )
    assert "| Perfect | **100.00**†" in out
    assert "Zero-shot" in out
    assert "The training directions of 1 of 2 runs are unknown. Their directions are grouped as in" in error
    assert f"Perfect: translations from {tmp_path / 'perfect.jsonl'}" in out
    manyglot.report([tmp_path / "theirs", tmp_path / "ours"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "<title>Perfect · ours</title>" in page
    assert ">zero-shot<" in page
    assert "log.jsonl was missing" not in page, "another system has no learning curves"


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing line": (
        lambda folder: write_lines(folder / "de-en.txt", OUTPUTS["de-en"][:2]),
        "de-en.txt has 2 lines for de→en, but the test set has 3 sentences; line 3 is missing.",
    ),
    "too many lines": (
        lambda folder: write_lines(folder / "de-en.txt", [*OUTPUTS["de-en"], "x"]),
        "de-en.txt has 4 lines for de→en, but the test set has 3 sentences; line 4 is the first one without",
    ),
    "two files": (lambda folder: write_lines(folder / "de-en.hyp", OUTPUTS["de-en"]), "both have de→en."),
    "two files, one with all directions": (
        lambda folder: write_lines(folder / "en.txt", OUTPUTS["de-en"] * 2),
        "en.txt has all directions into en, and ",
    ),
    "unknown code": (
        lambda folder: write_lines(folder / "xq-en.txt", OUTPUTS["de-en"]),
        "Unknown language 'xq' in the file name xq-en.txt.",
    ),
    "empty file": (lambda folder: write_lines(folder / "de-en.txt", []), "de-en.txt is empty."),
    "shuffled sources": (
        lambda folder: write_lines(folder / "de-en.src", TEXT["de"][::-1]),
        "de-en.src, line 1: the source of de→en is 'Wir gehen morgen ins Kino.', but the test set has 'Guten Morgen, "
        "meine Damen und Herren.'. The sentences are in another order",
    ),
    "other references": (
        lambda folder: write_lines(folder / "de-en.ref", ["a", "b", "c"]),
        "de-en.ref, line 1: the reference of de→en is 'a'",
    ),
    "outputs named as a source": (
        lambda folder: write_lines(folder / "de-fr.de", ["a", "b", "c"]),
        "de-fr.de has text of de→fr, but no file has its translations.",
    ),
    "not UTF-8": (
        lambda folder: (folder / "de-en.txt").write_bytes(b"a\n\xff\nb\n"),
        "de-en.txt, line 2 is not UTF-8.",
    ),
    "half a record": (
        lambda folder: (folder / "more.jsonl").write_text('{"source": "de", "target": "fr", "output": "a"}\n{"sou'),
        "more.jsonl, line 2 is not JSON",
    ),
    "other columns": (
        lambda folder: write_lines(folder / "more.tsv", ["a\tb", "c\td"]),
        "needs the columns source_language, target_language and output; it has a, b.",
    ),
    "unknown code in a record": (
        lambda folder: write_lines(folder / "more.tsv", ["source\ttarget\toutput", "xq\ten\tx"]),
        "more.tsv, line 2: Unknown language 'xq'",
    ),
    "missing cell": (
        lambda folder: write_lines(folder / "more.tsv", ["source\ttarget\toutput", "de\tfr"]),
        "more.tsv, line 2 has 2 cells, but the first line names 3 columns.",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_mistake_is_one_line_and_nothing_is_written(
    test_set: Path,
    outputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    monkeypatch.setenv(QUIET_VARIABLE, "1")
    damage, message = BROKEN[case]
    damage(outputs)
    error = mistake(capsys, "score", outputs, "--test", test_set, "-o", tmp_path / "scores")
    assert message in error
    assert not list(tmp_path.glob("scores*"))


def test_a_file_in_a_wrong_language_is_named(test_set: Path, outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(outputs / "de-en.txt", TEXT["fr"])
    out, error = run(capsys, "score", outputs, "--test", test_set, "--json")
    assert f"100% of the outputs of de→en are in French. Is {outputs / 'de-en.txt'} the right file?" in error
    assert json.loads(out)["hypothesis_files"]["de>en"] == str(outputs / "de-en.txt")


COMET = {"de-en": [0.9, 0.8, 0.7], "fr-en": [0.9, 0.95, 0.1]}


def test_segment_scores_are_joined_averaged_and_tested(
    test_set: Path, outputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for pair, scores in COMET.items():
        write_lines(tmp_path / "comet" / f"{pair}.comet", list(map(str, scores)))
    write_lines(tmp_path / "mx.txt", [str(i) for i in range(9)])
    metrics = {"comet": tmp_path / "comet", "metricx": tmp_path / "mx.txt"}
    first = manyglot.score(outputs, test_set, tmp_path / "first", metrics=metrics)
    assert "comet has no scores in 1 of 3 directions: en→de." in capsys.readouterr().err
    by_direction = {str(d.direction): dict(d.metrics) for d in first.directions}
    assert by_direction["de→en"] == pytest.approx({"comet": 0.8, "metricx": 1})
    assert by_direction["en→de"] == {"metricx": 4}, "scores without a direction are in the order of translations.jsonl"
    assert [m.lower_is_better for m in first.metrics.values()] == [False, True]
    assert "metricx ↓" in repr(first)
    assert "0.7250" in repr(first)
    loaded = Evaluation.load(tmp_path / "first")
    assert loaded.directions == first.directions
    assert loaded.metrics == first.metrics
    for pair, scores in COMET.items():
        write_lines(tmp_path / "comet" / f"{pair}.comet", [str(score - 0.2) for score in scores])
    manyglot.score(outputs, test_set, tmp_path / "second", metrics={"comet": tmp_path / "comet"})
    comparison = manyglot.compare([tmp_path / "first", tmp_path / "second"], "first", num_bootstrap_samples=60)
    (score,) = comparison.scores_by_system["second"].values()
    comet = score.metrics["comet"]
    assert comet.num_directions == 2
    assert comet.mean.mean == pytest.approx(0.525)
    assert comet.significance is not None
    assert comet.significance.difference == pytest.approx(-0.2)
    assert comet.significance.p_value < 0.05
    assert (comet.num_significantly_better, comet.num_significantly_worse) == (0, 2)
    assert score.significance is not None
    assert score.significance.p_value == 1, "the outputs are the same"
    out, _ = run(
        capsys, "compare", tmp_path / "first", tmp_path / "second", "--baseline", "first", "--significance", "60"
    )
    assert "All directions comet" in out
    assert "0.5250†" in out
    assert "comet, All directions: 2 of 3 directions have scores." in out
    assert "metricx ↓: lower is better." in out
    latex, _ = run(capsys, "compare", tmp_path / "first", tmp_path / "second", "--format", "latex")
    assert r"metricx $\downarrow$" in latex
    manyglot.report([tmp_path / "first", tmp_path / "second"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert '"segment_metrics":[{"key":"segment:comet","label":"comet","lower_is_better":false}' in page
    assert '"segment:metricx":[null,null,null]' in page


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("de-en.txt", ["1", "2"], "de-en.txt has 2 lines for de→en, but the test set has 3 sentences"),
        ("de-fr.txt", ["1", "2", "3"], "has scores of de→fr, of which there are no translations"),
        ("de-en.json", ['{"de-en.txt": [{"COMET": 1},', ' {"COMET": NaN}]}'], "de-en.json, line 2: the score is not a"),
        ("de-en.json", ['[{"COMET": 1}, {"COMET": "x"}]'], "de-en.json, sentence 2: the score 'x' is not a finite"),
        ("de-en.json", ['[{"COMET": 1}]'], "de-en.json has 1 sentences for de→en, but the test set has 3"),
        ("all.txt", ["1", "2"], "all.txt has 2 lines, but the 3 directions have 9 sentences in the test set"),
        (
            "de-en.jsonl",
            ['{"mt": "Hello", "score": 1}'] * 3,
            "de-en.jsonl, line 1: comet scored 'Hello', but the translation of de→en is 'Good morning, my ladies and",
        ),
    ],
)
def test_scores_of_other_translations_are_refused(
    test_set: Path,
    outputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    lines: list[str],
    message: str,
) -> None:
    monkeypatch.setenv(QUIET_VARIABLE, "1")
    write_lines(tmp_path / name, lines)
    error = mistake(
        capsys, "score", outputs, "--test", test_set, "-o", tmp_path / "s", "--metric", f"comet={tmp_path / name}"
    )
    assert message in error
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("option", ["comet", "=a", "bleu=a", "comet:big=a", "comet=missing"])
def test_metric_options_are_checked(
    test_set: Path, outputs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setenv(QUIET_VARIABLE, "1")
    assert "--metric" in mistake(capsys, "score", outputs, "--test", test_set, "--metric", option)


def test_results_of_a_model_keep_its_card_when_scores_are_added(trained: Experiment, tmp_path: Path) -> None:
    manyglot.evaluate(trained.run / "model", trained.data, zero_shot=True, output=tmp_path / "ours")
    num_lines = len((tmp_path / "ours" / "translations.jsonl").read_text("utf-8").splitlines())
    write_lines(tmp_path / "ter.txt", ["0.5"] * num_lines)
    manyglot.score(tmp_path / "ours", trained.data, tmp_path / "more", metrics={"ter": tmp_path / "ter.txt"})
    card, more = (json.loads((tmp_path / name / "about.json").read_text("utf-8")) for name in ("ours", "more"))
    assert more["config"] == card["config"]
    page = (tmp_path / "more" / "report.html").read_text("utf-8")
    assert "trained directions" in page
    assert "scores of ter" in page
    (tmp_path / "ours" / "translations.jsonl").write_text("{}\n")
    with pytest.raises(ManyglotError, match=r"translations\.jsonl has changed since the evaluation"):
        manyglot.score(tmp_path / "ours", trained.data)
