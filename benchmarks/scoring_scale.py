"""Measure `manyglot score`, `report` and `compare` on all directions of a test set as large as FLORES-200.

    nice -n -10 python benchmarks/scoring_scale.py FOLDER --check 50 --compare

The first run writes to FOLDER a test set of 204 languages, each in its own script, and translations in all 41,412
directions. Words are names of languages and territories in CLDR, or invented ones of the same script. The outputs are
references with errors; a part is in English or copies the source. Each command runs as a user would run it. The time,
the peak memory of its process tree and the sizes of its files are printed. `--check` compares the BLEU and chrF++ of a
sample of directions with those of the command `sacrebleu`, and `--compare` scores a second system. `--rescore` scores
the translations.jsonl of the first result again, which must reproduce its results.json. `--open 5` opens the report
five times in Chromium. Install manyglot[ja] for the tokenizer of Japanese.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import permutations
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from babel import Locale, UnknownLocaleError

from manyglot.corpus.language_codes import parse_language_code
from manyglot.corpus.languages import Direction

_FLORES_200 = """
    ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn als_Latn amh_Ethi apc_Arab arb_Arab arb_Latn
    ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl
    bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn cjk_Latn
    ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn
    ewe_Latn fao_Latn fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gaz_Latn gla_Latn gle_Latn glg_Latn grn_Latn
    guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn
    ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor kaz_Cyrl kbp_Latn kea_Latn
    khk_Cyrl khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kmr_Latn knc_Arab knc_Latn kon_Latn kor_Hang lao_Laoo lij_Latn
    lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn lua_Latn lug_Latn luo_Latn lus_Latn lvs_Latn mag_Deva mai_Deva
    mal_Mlym mar_Deva min_Arab min_Latn mkd_Cyrl mlt_Latn mni_Beng mos_Latn mri_Latn mya_Mymr nld_Latn nno_Latn nob_Latn
    npi_Deva nso_Latn nus_Latn nya_Latn oci_Latn ory_Orya pag_Latn pan_Guru pap_Latn pbt_Arab pes_Arab plt_Latn pol_Latn
    por_Latn prs_Arab quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Olck scn_Latn shn_Mymr sin_Sinh slk_Latn
    slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn
    szl_Latn tam_Taml taq_Latn taq_Tfng tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi tpi_Latn tsn_Latn tso_Latn
    tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn
    wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans zho_Hant zsm_Latn zul_Latn
"""
FLORES_200 = _FLORES_200.split()
ENGLISH = "eng_Latn"
CODE_POINT_RANGES = {
    "Arab": [(0x621, 0x64A)],
    "Armn": [(0x561, 0x586)],
    "Beng": [(0x985, 0x9B9)],
    "Cyrl": [(0x430, 0x44F)],
    "Deva": [(0x905, 0x939)],
    "Ethi": [(0x1200, 0x1357)],
    "Geor": [(0x10D0, 0x10F0)],
    "Grek": [(0x3B1, 0x3C9)],
    "Gujr": [(0xA85, 0xAB9)],
    "Guru": [(0xA05, 0xA39)],
    "Hang": [(0xAC00, 0xB000)],
    "Hans": [(0x4E00, 0x5200)],
    "Hant": [(0x5200, 0x5600)],
    "Hebr": [(0x5D0, 0x5EA)],
    "Jpan": [(0x3042, 0x3093), (0x30A2, 0x30F3), (0x4E00, 0x4F00)],
    "Khmr": [(0x1780, 0x17A2)],
    "Knda": [(0xC85, 0xCB9)],
    "Laoo": [(0xE81, 0xEAE)],
    "Latn": [(0x61, 0x7A), (0x61, 0x7A), (0xE0, 0x17E)],
    "Mlym": [(0xD05, 0xD39)],
    "Mymr": [(0x1000, 0x1020)],
    "Olck": [(0x1C5A, 0x1C77)],
    "Orya": [(0xB05, 0xB39)],
    "Sinh": [(0xD85, 0xDC6)],
    "Taml": [(0xB85, 0xBB9)],
    "Telu": [(0xC05, 0xC39)],
    "Tfng": [(0x2D30, 0x2D65)],
    "Thai": [(0xE01, 0xE2E)],
    "Tibt": [(0xF40, 0xF6A)],
}
"""Ranges of letters of each script of FLORES-200."""
UNSPACED_SCRIPTS = ("Hans", "Hant", "Jpan", "Khmr", "Laoo", "Mymr", "Thai", "Tibt")
VOCABULARY_SIZE, WORDS_PER_SENTENCE = 1500, 21
SAMPLE_SECONDS = 0.2


class Usage(NamedTuple):
    """What a command needed."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    """The largest sum of the resident memory of the command and all its child processes."""


def main() -> None:
    """Write the test set, run the commands and print what they need."""
    arguments = _arguments()
    folder: Path = arguments.folder
    codes = _select_languages(arguments.languages)
    test, options = folder / "test", [option for value in arguments.set for option in ("--set", value)]
    systems = {"first": 1, "second": 2} if arguments.compare else {"first": 1}
    for name, seed in systems.items():
        start = time.perf_counter()
        size = write_system(test, folder / "translations" / name, codes, arguments.sentences, seed)
        print(f"{name}: {size} in {time.perf_counter() - start:.0f} s", flush=True)
    for name in systems:
        run(f"score {name}", _score(folder / "translations" / name, test, folder / f"scores-{name}", *options))
        _print_sizes(folder / f"scores-{name}")
    run("report", ["report", str(folder / "scores-first"), "-o", str(folder / "report.html")])
    _print_sizes(folder / "report.html")
    if arguments.open:
        open_in_browser(folder / "report.html", arguments.open)
    if arguments.compare:
        pair = [str(folder / f"scores-{name}") for name in systems]
        run("compare", ["compare", *pair, "--baseline", pair[0]])
        run("compare --significance 1000", ["compare", *pair, "--baseline", pair[0], "--significance", "1000"])
        run("report of both", ["report", *pair, "-o", str(folder / "both.html")])
        _print_sizes(folder / "both.html")
    if arguments.rescore:
        again = folder / "scores-again"
        run("score translations.jsonl", _score(folder / "scores-first" / "translations.jsonl", test, again, *options))
        _print_rescored(folder / "scores-first", again)
    if arguments.check:
        check_with_sacrebleu(folder / "scores-first", test, folder / "translations" / "first", arguments.check)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--languages", type=int, default=len(FLORES_200), help="Number of languages.")
    parser.add_argument("--sentences", type=int, default=100, help="Sentences per direction.")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="Settings of `manyglot score`.")
    parser.add_argument("--compare", action="store_true", help="Score a second system and compare the two.")
    parser.add_argument("--rescore", action="store_true", help="Score translations.jsonl again.")
    parser.add_argument("--open", type=int, default=0, help="Number of times to open the report in Chromium.")
    parser.add_argument("--check", type=int, default=0, help="Number of directions to compare with sacreBLEU.")
    return parser.parse_args()


def _select_languages(number: int) -> list[str]:
    """Return languages that are spread evenly over the list, with English."""
    spread = [FLORES_200[i * len(FLORES_200) // number] for i in range(number)]
    return sorted({*(spread if ENGLISH in spread else spread[1:]), ENGLISH})


# ---- text ------------------------------------------------------------------------------------------------------------


@cache
def _vocabulary(code: str) -> list[str]:
    """Return words of a language in CLDR, and invented ones in its script; the first are the most frequent."""
    rng, script = random.Random(code), code.split("_")[1]
    letters = [chr(point) for first, last in CODE_POINT_RANGES[script] for point in range(first, last + 1)]
    letters = [letter for letter in letters if unicodedata.category(letter) in ("Ll", "Lo")]
    letters = rng.sample(letters, min(len(letters), 40 if script not in ("Hans", "Hant", "Hang") else 400))
    longest = 3 if script in ("Hans", "Hant", "Hang", "Jpan") else 10
    words = {"".join(rng.choices(letters, k=rng.randint(1, longest))) for _ in range(VOCABULARY_SIZE)}
    known = _cldr_words(code)
    words = {*known, *sorted(words)[: VOCABULARY_SIZE // 10 if len(known) > VOCABULARY_SIZE // 4 else None]}
    ordered = sorted(words)
    rng.shuffle(ordered)
    return ordered


def _cldr_words(code: str) -> set[str]:
    """Return the words in the names of languages and territories, without those of other scripts."""
    parsed = parse_language_code(code).with_likely_subtags()
    try:
        locale = Locale.parse(str(parsed._replace(region="")), sep="-")
    except (UnknownLocaleError, ValueError):
        return set()
    names = [*locale.languages.values(), *locale.territories.values()]
    words = {word.lower() for name in names for word in re.findall(r"[^\W\d_]+(?:[^\W\d_]|\u200c|['’\-])*", str(name))}
    ranges = CODE_POINT_RANGES[code.split("_")[1]]
    return {word for word in words if len(word) > 2 and any(a <= ord(c) <= b for c in word for a, b in ranges)}


def make_sentence(code: str, rng: random.Random) -> str:
    """Return a sentence of invented text with punctuation, capitals and numbers; words are Zipf-distributed."""
    words = _vocabulary(code)
    number = rng.randint(WORDS_PER_SENTENCE // 2, WORDS_PER_SENTENCE * 3 // 2)
    chosen = [words[int(len(words) ** rng.random()) - 1] for _ in range(number)]
    if rng.random() < 0.3:
        chosen[rng.randrange(number)] = rng.choice(["1,250.5", "2019-2020", "(3.4%)", "$12", "10.30"])
    chosen[rng.randrange(number)] += ","
    script = code.split("_")[1]
    mark = {"Hans": "。", "Hant": "。", "Jpan": "。", "Deva": " ।", "Tibt": "།", "Arab": "."}.get(script, ".")
    text = ("" if script in UNSPACED_SCRIPTS else " ").join(chosen) + mark
    return text[:1].upper() + text[1:]


def translate(reference: str, source: str, english: str, code: str, quality: float, rng: random.Random) -> str:
    """Return a reference with errors; sometimes a copy of the source, English or nothing, the more the worse."""
    chance = rng.random() * quality
    if chance < 0.03:
        return source if chance < 0.006 else "" if chance < 0.007 else english
    is_spaced = code.split("_")[1] not in UNSPACED_SCRIPTS
    units, vocabulary = reference.split(" ") if is_spaced else list(reference), _vocabulary(code)
    for _ in range(int((1 - quality) * len(units) * (0.5 + rng.random()))):
        place = rng.randrange(len(units))
        word = vocabulary[int(len(vocabulary) ** rng.random()) - 1]
        units[place] = word if is_spaced else word[0]
    if rng.random() > quality:
        cut = rng.randrange(len(units))
        units = units[cut:] + units[:cut]
    return (" " if is_spaced else "").join(units)


def write_system(test: Path, folder: Path, codes: Sequence[str], num_sentences: int, seed: int) -> str:
    """Write the test set in the layout of FLORES-200 and a file per direction, unless the files exist."""
    devtest = test / "devtest"
    devtest.mkdir(parents=True, exist_ok=True)
    texts = {}
    for code in codes:
        rng = random.Random(f"test {code}")
        texts[code] = [make_sentence(code, rng) for _ in range(num_sentences)]
        path = devtest / f"{code}.devtest"
        if not path.exists():
            path.write_text("".join(f"{text}\n" for text in texts[code]), "utf-8", newline="\n")
    folder.mkdir(parents=True, exist_ok=True)
    skill = {code: random.Random(f"skill {code}").uniform(0.2, 0.9) for code in codes}
    num_bytes, num_files = 0, 0
    for direction in (Direction(*pair) for pair in permutations(codes, 2)):
        path = folder / f"{direction.source}-{direction.target}.txt"
        if not path.exists():
            rng = random.Random(f"{seed} {direction}")
            quality = (0.7 * skill[direction.target] + 0.3 * skill[direction.source]) * (1 + 0.05 * rng.random())
            lines = zip(texts[direction.target], texts[direction.source], texts[ENGLISH], strict=True)
            outputs = [translate(*line, direction.target, min(quality, 0.95), rng) for line in lines]
            path.write_text("".join(f"{output}\n" for output in outputs), "utf-8", newline="\n")
        num_bytes, num_files = num_bytes + path.stat().st_size, num_files + 1
    size = f"{num_files * num_sentences:,} outputs, {num_bytes / 1e6:,.0f} MB"
    return f"{num_files:,} directions of {len(codes)} languages, {size}"


# ---- measurements ----------------------------------------------------------------------------------------------------


def _score(hypotheses: Path, test: Path, output: Path, *options: str) -> list[str]:
    return ["score", str(hypotheses), "--test", str(test), "-o", str(output), *options]


def run(task: str, arguments: Sequence[str]) -> Usage:
    """Run a command of manyglot, and print its time and the peak memory of all its processes."""
    start, children = time.perf_counter(), os.times()
    process = subprocess.Popen([sys.executable, "-m", "manyglot", *arguments], stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, _resident_bytes(process.pid))
        time.sleep(SAMPLE_SECONDS)
    if process.returncode:
        raise SystemExit(f"{task} failed")
    after = os.times()
    cpu = after.children_user + after.children_system - children.children_user - children.children_system
    usage = Usage(time.perf_counter() - start, cpu, peak / 2**20)
    print(
        f"{task}: {usage.seconds:.1f} s, {usage.cpu_seconds:.0f} s of CPU time, {usage.peak_mib:,.0f} MiB", flush=True
    )
    return usage


def _resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and its descendants; pages that they share count once for each."""
    total = 0
    for child in _process_tree(pid):
        try:
            total += int(Path(f"/proc/{child}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:  # it has ended
            continue
    return total


def _process_tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                yield from _process_tree(int(child))
    except OSError:
        return


def _print_sizes(path: Path) -> None:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    print("  " + ", ".join(f"{file.name} {file.stat().st_size / 1e6:,.1f} MB" for file in files), flush=True)


TIMER = """<script>addEventListener("load", () => {
  const times = { "ready": performance.getEntriesByName("report-ready")[0].startTime };
  const timed = (name, work) => { const start = performance.now(); work(); times[name] = performance.now() - start; };
  const select = (k, value) => {
    const control = document.querySelectorAll("#direction-heatmap select")[k];
    control.value = value;
    control.dispatchEvent(new Event("change"));
  };
  timed("other order", () => select(1, "script"));
  timed("other metric", () => select(0, "chrf"));
  const search = document.querySelector("#direction-table input");
  search.value = "german";
  timed("search in the table", () => search.dispatchEvent(new Event("input")));
  const outcome = document.createElement("pre");
  outcome.id = "outcome";
  outcome.textContent = JSON.stringify(times);
  document.body.append(outcome);
});</script></body>"""
"""Measures, in milliseconds, when the page is drawn and takes input, and how long it then takes to react."""


def open_in_browser(report: Path, number: int) -> None:
    """Print the median times of a report in headless Chromium, each time with a fresh profile."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("Install Chromium to open the report.")
    runs: list[dict[str, float]] = []
    with TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        page.write_text(report.read_text("utf-8").replace("</body>", TIMER), "utf-8")
        for i in range(number):
            options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
            options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
            options += [f"--user-data-dir={folder}/profile{i}", "--window-size=1400,1000", "--timeout=30000"]
            done = subprocess.run([browser, *options, "--dump-dom", page.as_uri()], capture_output=True, text=True)
            match = re.search('<pre id="outcome">(.*?)</pre>', done.stdout)
            assert match, done.stderr[-1000:]
            runs.append(json.loads(match[1]))
    times = ", ".join(f"{name} {median(run[name] for run in runs):.0f} ms" for name in runs[0])
    print(f"the report in Chromium, median of {number}: {times}", flush=True)


def _print_rescored(first: Path, again: Path) -> None:
    """Compare the results, except for the name and origin of the translations, and the statistics."""
    kept = ("averages", "directions", "identifier_signature", "chrf_signature", "output_language_counts", "settings")
    results = [json.loads((folder / "results.json").read_text("utf-8")) for folder in (first, again)]
    same = all(json.dumps(results[0][key]) == json.dumps(results[1][key]) for key in kept)
    statistics, lines = (
        (first / name).read_bytes() == (again / name).read_bytes() for name in ("statistics.npz", "translations.jsonl")
    )
    print(f"  the same results: {same}, statistics.npz: {statistics}, translations.jsonl: {lines}")


def check_with_sacrebleu(scores: Path, test: Path, translations: Path, number: int) -> int:
    """Compare a sample of directions with the command `sacrebleu`; print and return how many scores differ."""
    directions = json.loads((scores / "results.json").read_text("utf-8"))["directions"]
    sample = random.Random(1).sample(directions, min(number, len(directions)))
    rare = [d for d in directions if "tok:13a" not in d["bleu_signature"]]  # other tokenizers
    rare = random.Random(2).sample(rare, min(len(rare), max(number // 5, 1)))
    sample = [*rare, *[d for d in sample if d not in rare]][:number]
    num_different = 0
    for d in sample:
        reference = test / "devtest" / f"{d['target']}.devtest"
        outputs = translations / f"{d['source']}-{d['target']}.txt"
        tokenizer = next(part[4:] for part in d["bleu_signature"].split("|") if part.startswith("tok:"))
        tokenizer = tokenizer.partition("-MeCab")[0].partition("-0")[0]
        expected = sacrebleu_scores(reference, outputs, tokenizer)
        scored = [f"{d[key]:.{DIGITS}f}" for key in ("bleu", "chrf")]
        if expected != scored:
            num_different += 1
            print(f"  {d['source']}>{d['target']}: {scored}, sacreBLEU {expected}")
    print(f"scores of {len(sample)} directions that differ from those of `sacrebleu -w {DIGITS}`: {num_different}")
    return num_different


DIGITS = 12
"""Number of decimals that are compared."""


def sacrebleu_scores(reference: Path, outputs: Path, tokenizer: str) -> list[str]:
    """Return BLEU and chrF++ as the command `sacrebleu` prints them."""
    command = [sys.executable, "-m", "sacrebleu", str(reference), "-i", str(outputs), "-m", "bleu", "chrf"]
    command += ["--chrf-word-order", "2", "--tokenize", tokenizer, "-w", str(DIGITS), "--format", "text", "--force"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return re.findall(r"version:\S+ = ([0-9.]+)", done.stdout)


if __name__ == "__main__":
    main()
