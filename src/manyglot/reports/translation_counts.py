"""How many translations the sentences of a corpus have: a line for the terminal and an SVG histogram."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from manyglot.corpus.languages import english_language_name
from manyglot.corpus.translation_counts import TranslationCounts

WIDTH, HEIGHT, MARGIN = 420, 220, 52
BAR_COLOR, MEAN_COLOR = "#0d5972", "#d9822b"
MAX_BARS = 100
"""The last bar includes all sentences with more translations."""


def translation_counts_line(name: str, counts: TranslationCounts) -> str:
    """Describe the translation counts of one corpus."""
    sentences = f"{counts.num_sentences:,} unique sentences in {english_language_name(counts.central_language)}"
    return (
        f"{name}: {sentences}, {counts.mean:.2f} translations each "
        f"({counts.share_with_several:.1%} have more than one, at most {max(counts.num_sentences_by_translations)})"
    )


def translation_counts_svg(corpora: Mapping[str, TranslationCounts]) -> str:
    """Draw a histogram for each corpus, stacked vertically, with the mean as a dashed line."""
    num_bars = min(max(max(counts.num_sentences_by_translations) for counts in corpora.values()), MAX_BARS)
    step = HEIGHT + 2 * MARGIN
    panels = [_histogram_svg(name, counts, num_bars, i * step) for i, (name, counts) in enumerate(corpora.items())]
    width, height = WIDTH + 2 * MARGIN, step * len(corpora)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="system-ui, sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(panels)}</svg>\n"
    )


def _histogram_svg(name: str, counts: TranslationCounts, num_bars: int, top: int) -> str:
    shares = [0.0] * (num_bars + 1)
    for number, sentences in counts.num_sentences_by_translations.items():
        shares[min(number, num_bars)] += sentences / counts.num_sentences
    highest, bar, bottom = max(shares), WIDTH / num_bars, top + MARGIN + HEIGHT
    parts = [f'<text x="{MARGIN}" y="{top + 30}" font-size="14" fill="#222">{escape(name)}</text>']
    for number in range(1, num_bars + 1):
        bar_height = HEIGHT * shares[number] / highest
        tip = f"{number}{' or more' if number == MAX_BARS else ''} translations: {shares[number]:.2%}"
        parts.append(
            f'<rect x="{MARGIN + (number - 1) * bar:.1f}" y="{bottom - bar_height:.1f}" '
            f'width="{max(bar - 1, 0.5):.1f}" height="{bar_height:.1f}" fill="{BAR_COLOR}"><title>{tip}</title></rect>'
        )
    middle = MARGIN + (min(counts.mean, num_bars) - 0.5) * bar
    parts.append(
        f'<path d="M{middle:.1f} {bottom}V{top + MARGIN - 6}" stroke="{MEAN_COLOR}" stroke-width="2" '
        f'stroke-dasharray="5 4"/>'
        f'<text x="{middle + 6:.1f}" y="{top + MARGIN + 4}" fill="{MEAN_COLOR}">mean {counts.mean:.2f}</text>'
        f'<path d="M{MARGIN} {bottom}H{MARGIN + WIDTH}" stroke="#888"/>'
        f'<text x="{MARGIN - 6}" y="{top + MARGIN + 4}" text-anchor="end" fill="#555">{highest:.0%}</text>'
        f'<text x="{MARGIN - 6}" y="{bottom}" text-anchor="end" fill="#555">0</text>'
    )
    ticks = sorted(
        {1, *range(10, num_bars + 1, 10 if num_bars > 20 else 5)} if num_bars > 9 else set(range(1, num_bars + 1))
    )
    parts += [
        f'<text x="{MARGIN + (tick - 0.5) * bar:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#555">{tick}</text>'
        for tick in ticks
    ]
    caption = (
        f"translations per unique sentence in {english_language_name(counts.central_language)}; share of sentences"
    )
    parts.append(f'<text x="{MARGIN}" y="{bottom + 34}" fill="#555">{escape(caption)}</text>')
    return "".join(parts)
