"""`manyglot evaluate` with engines: the command line of another program, and exports for CTranslate2."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import manyglot
from manyglot.config.experiment import Experiment
from manyglot.corpus.languages import Direction
from manyglot.errors import ManyglotError
from manyglot.evaluation import test_set_translation
from manyglot.reports.report_run import read_system_facts
from tests.commands import mistake, run

TEXT = {
    "de": ["Guten Morgen, meine Damen und Herren.", "Das Wetter ist heute sehr schön."],
    "en": ["Good morning, ladies and gentlemen.", "The weather is very nice today."],
    "fr": ["Bonjour, mesdames et messieurs.", "Il fait très beau aujourd'hui."],
}
REVERSE = """
import os, pathlib, sys
source, target, folder = sys.argv[1:4]
calls = pathlib.Path(folder, "calls")
calls.open("a").write(f"{source}-{target}\\n")
if os.path.exists(os.path.join(folder, f"break-{target}")):
    print("Loading the model", file=sys.stderr)
    sys.exit("out of luck")
for line in sys.stdin.buffer:
    words = line.decode().split()
    sys.stdout.buffer.write((" ".join([target, *reversed(words)]) + "\\n").encode())
"""


@pytest.fixture
def test_set(tmp_path: Path) -> Path:
    (tmp_path / "test").mkdir()
    for code, lines in TEXT.items():
        (tmp_path / "test" / f"test.{code}").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "test"


def python(program: str, *arguments: object) -> str:
    """Return a command that runs a Python program."""
    return shlex.join([sys.executable, "-S", "-E", "-c", program, *map(str, arguments)])


@pytest.fixture
def reverse(tmp_path: Path) -> str:
    return python(REVERSE, "{source}", "{target}", tmp_path)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_a_command_translates_every_direction(
    test_set: Path, reverse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mirror"
    command = ["evaluate", "--engine-command", reverse, "--engine-language", "German=DE", "--test", test_set]
    command += ["--engine-code-style", "flores"]
    out, _ = run(capsys, *command, "-o", output, "--engine-jobs", 3)
    assert sorted(calls(tmp_path)) == [
        *("DE-eng_Latn", "DE-fra_Latn", "eng_Latn-DE", "eng_Latn-fra_Latn", "fra_Latn-DE", "fra_Latn-eng_Latn")
    ]
    assert "all directions" in out
    assert f"System: mirror, from {reverse[:30]}" in out
    card = read_system_facts(output)
    assert card["engine"] == {"command": shlex.split(reverse), "languages": {"de": "DE"}, "code_style": "flores"}
    assert card["test"]["folder"] == str(test_set)
    examples = [json.loads(line) for line in (output / "translations.jsonl").read_text("utf-8").splitlines()]
    assert len(examples) == 12
    by_direction = {(each["source"], each["target"]): each["output"] for each in reversed(examples)}
    assert by_direction["en", "de"] == "DE gentlemen. and ladies morning, Good"
    assert not list(tmp_path.glob("*.unfinished"))
    rescored = manyglot.score(output, test_set)
    assert [each.bleu for each in rescored.directions] == [
        each["bleu"] for each in json.loads(run(capsys, *command, "--json")[0])["directions"]
    ]


def test_an_interrupted_evaluation_repeats_only_missing_directions(
    test_set: Path, reverse: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine, output = manyglot.CommandEngine(reverse), tmp_path / "mirror"
    (tmp_path / "break-fr").touch()
    with pytest.raises(ManyglotError, match=r"^The engine failed for de→fr with exit code 1: out of luck$"):
        manyglot.evaluate(engine, test=test_set, output=output)
    first = calls(tmp_path)
    (tmp_path / "break-fr").unlink()
    capsys.readouterr()
    result = manyglot.evaluate(engine, test=test_set, output=output, trained_directions=["de>en", "en>de"])
    assert "already translated" not in capsys.readouterr().err  # other directions are another evaluation
    assert {(str(d.direction), d.zero_shot) for d in result.directions} == {("de→en", False), ("en→de", False)}
    (tmp_path / "calls").unlink()
    (tmp_path / "break-fr").touch()
    with pytest.raises(ManyglotError, match="de→fr"):
        manyglot.evaluate(engine, test=test_set, output=tmp_path / "again")
    (tmp_path / "break-fr").unlink()
    again = manyglot.evaluate(engine, test=test_set, output=tmp_path / "again")
    assert "1 of 6 directions are already translated." in capsys.readouterr().err
    assert calls(tmp_path).count("de-en") == 1
    assert first == ["de-en", "de-fr"]
    assert len(again.directions) == 6
    some = manyglot.evaluate(engine, test=test_set, directions=["de>French", "fr>en"], central_language="en")
    assert {(str(d.direction), d.zero_shot) for d in some.directions} == {("de→fr", True), ("fr→en", False)}
    known = manyglot.evaluate(engine, test=test_set, zero_shot=True, central_language="English")
    assert {str(d.direction) for d in known.directions if d.zero_shot} == {"de→fr", "fr→de"}


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.stdin.read(); print('one')", "wrote 1 lines for the 2 sentences of de→en. It must write one"),
        ("import sys; sys.exit(3)", "failed for de→en with exit code 3."),
        ("import sys; sys.exit('Error: no mode. Try:\\n en-de')", "with exit code 1: Error: no mode. Try:"),
        ("import os; os.kill(os.getpid(), 9)", "failed for de→en with exit code -9."),
        ("import os; os.write(1, b'one\\n\\xff\\n')", "output for de→en is not UTF-8 in line 2."),
    ],
)
def test_a_failing_command_names_its_direction(test_set: Path, program: str, message: str) -> None:
    engine = manyglot.CommandEngine(python(program, "{target}"))
    with pytest.raises(ManyglotError, match=r"^The engine(?:'s)? ") as error:
        manyglot.evaluate(engine, test=test_set)
    assert message in str(error.value)


def is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_a_slow_command_is_killed_with_its_children(test_set: Path, tmp_path: Path) -> None:
    program = f"import subprocess; subprocess.run(['sh', '-c', 'echo $$ > {tmp_path}/pid; sleep 60'])"
    engine = manyglot.CommandEngine(python(program, "{target}"), timeout=0.6, jobs=2)
    start = time.monotonic()
    with pytest.raises(ManyglotError, match=r"took more than 0\.6 s for (de→en|de→fr)\. Raise --engine-timeout"):
        manyglot.evaluate(engine, test=test_set)
    assert time.monotonic() - start < 20
    child = int((tmp_path / "pid").read_text())
    while is_running(child):
        assert time.monotonic() - start < 20
        time.sleep(0.01)


def test_mistakes_are_explained(
    test_set: Path, trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = ["--test", test_set]
    model = ["evaluate", trained.run / "model"]
    assert "Give either a model or --engine-command" in mistake(capsys, "evaluate", *test)
    assert "Give either a model" in mistake(capsys, *model, *test, "--engine-command", "cat")
    assert "need --engine-command" in mistake(capsys, *model, *test, "--engine-jobs", 2)
    assert "Give --data" in mistake(capsys, *model)
    own = mistake(capsys, *model, "--data", trained.data, "--central-language", "qaa")
    assert "knows its trained directions" in own
    some = mistake(capsys, *model, "--data", trained.data, "--directions", "qaa>qab")
    assert "in its trained directions, or in all with --zero-shot" in some
    engine = ["evaluate", "--engine-command"]
    assert "no test set" in mistake(capsys, *engine, "cat {target}")
    assert "is empty" in mistake(capsys, *engine, " ", *test)
    assert "Check its quotes" in mistake(capsys, *engine, "cat '", *test)

    def last_line(*arguments: object) -> str:  # after the line about the layout of the test set
        return run(capsys, *arguments, code=2)[1].splitlines()[-1]

    assert "no program 'no-such-program'" in last_line(*engine, "no-such-program {target}", *test)
    assert "has no {target}, but there are 3 target languages" in last_line(*engine, "cat", *test)
    cat = [*engine, "cat {target}", *test]
    assert "--directions: 'de'" in last_line(*cat, "--directions", "de>fr,de")
    assert "--directions: Unknown language 'xx'" in last_line(*cat, "--directions", "de>xx")
    assert "Unknown language 'xx'" in last_line(*cat, "--engine-language", "xx=a")
    assert "such as zh=zh-CN" in last_line(*cat, "--engine-language", "zh")
    assert "--engine-timeout is 0.0" in last_line(*cat, "--engine-timeout", 0)
    assert "'floress' is not known" in last_line(*cat, "--engine-code-style", "floress")
    assert "--engine-jobs is 0" in last_line(*cat, "--engine-jobs", 0)
    assert "decoding" in last_line(*cat, "--set", "decoding.beam_size=1")
    script = tmp_path / "broken"
    script.write_text("#!/no/such/interpreter\n")
    os.chmod(script, 0o755)
    assert "cannot start for de→en" in last_line(*engine, f"{script} {{target}}", *test)


def test_engines_run_in_one_process(test_set: Path, reverse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ManyglotError, match=r"Engines do not run under torchrun\. Start one process"):
        manyglot.evaluate(manyglot.CommandEngine(reverse), test=test_set)


def test_the_evaluation_of_an_export_resumes(
    trained: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setattr("manyglot.decoding.ctranslate2.engine.DEFAULT_BLOCK_SIZE", 4)
    export, output = tmp_path / "export", tmp_path / "scores"
    manyglot.export(trained.run / "model", export, targets=["qab"])
    translate, translated = test_set_translation.translate_directions, list[int]()

    def interrupt(*arguments: Any) -> dict[Direction, list[str]]:
        if len(translated) == 1:
            raise KeyboardInterrupt
        outputs = translate(*arguments)
        translated.append(sum(map(len, outputs.values())))
        return outputs

    def evaluate(**options: Any) -> Any:
        profile = ["evaluation.language_identifier=profile"]
        return manyglot.evaluate(export, trained.data, directions=["qaa>qab"], overrides=profile, **options)

    with monkeypatch.context() as patched:
        patched.setattr(test_set_translation, "translate_directions", interrupt)
        with pytest.raises(KeyboardInterrupt):
            evaluate(output=output)
    assert translated == [4]
    capsys.readouterr()
    assert evaluate(output=output).directions == evaluate().directions
    assert "4 of 8 sentences are already translated" in capsys.readouterr().err


def test_an_export_gets_the_scores_of_its_model(
    trained: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2")
    export, output = tmp_path / "export", tmp_path / "scores"
    manyglot.export(trained.run / "model", export, targets=["qab", "qac"])
    expected = manyglot.evaluate(trained.run / "model", trained.data, zero_shot=True)
    profile = ["evaluation.language_identifier=profile"]
    result = manyglot.evaluate(
        export, trained.data, zero_shot=True, output=output, overrides=profile, trained_directions=trained.run / "model"
    )
    assert (
        "Skipping directions into languages that it does not translate into: qab→qaa, qac→qaa."
        in capsys.readouterr().err
    )
    bleu = {each.direction: (each.zero_shot, each.bleu, each.chrf) for each in expected.directions}
    assert {d.direction for d in result.directions} == {d for d in bleu if d.target != "qaa"}
    assert {d.direction: (d.zero_shot, d.bleu, d.chrf) for d in result.directions}.items() <= bleu.items()
    assert result.system is not None
    assert result.system.hypotheses.path == str(export)
    assert read_system_facts(output)["engine"]["decoding"]["beam_size"] == 2
    assert Direction("qaa", "qab") in {d.direction for d in result.directions}
    other = tmp_path / "test"
    other.mkdir()
    for code in ("de", "qab"):
        (other / f"test.{code}").write_text("duka\n")
    with pytest.raises(ManyglotError, match="The model does not know 'de'"):
        manyglot.evaluate(export, test=other)
