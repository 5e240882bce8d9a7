"""How many translations the sentences of corpora have: lines for the terminal, and a histogram for each corpus."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from manyglot.corpus.languages import name_of
from manyglot.corpus.translations import Translations

WIDTH, HEIGHT, MARGIN = 420, 220, 52
COLOUR, MEAN = "#0d5972", "#d9822b"
MOST_BARS = 100
"""More translations than this are counted in the last bar."""


def translations_line(name: str, found: Translations) -> str:
    """One corpus in words."""
    sentences = f"{found.num_sentences:,} unique sentences in {name_of(found.pivot)}"
    return (
        f"{name}: {sentences}, {found.mean:.2f} translations each "
        f"({found.several:.1%} have more than one, the most have {max(found.counts)})"
    )


def translations_svg(corpora: Mapping[str, Translations]) -> str:
    """A histogram for each corpus, one under the other, with the mean as a dashed line."""
    most = min(max(max(found.counts) for found in corpora.values()), MOST_BARS)
    step = HEIGHT + 2 * MARGIN
    panels = [_panel(name, found, most, i * step) for i, (name, found) in enumerate(corpora.items())]
    width, height = WIDTH + 2 * MARGIN, step * len(corpora)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="system-ui, sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        f"{''.join(panels)}</svg>\n"
    )


def _panel(name: str, found: Translations, most: int, top: int) -> str:
    shares = [0.0] * (most + 1)
    for number, sentences in found.counts.items():
        shares[min(number, most)] += sentences / found.num_sentences
    highest, bar, bottom = max(shares), WIDTH / most, top + MARGIN + HEIGHT
    parts = [f'<text x="{MARGIN}" y="{top + 30}" font-size="14" fill="#222">{escape(name)}</text>']
    for number in range(1, most + 1):
        tall = HEIGHT * shares[number] / highest
        tip = f"{number}{' or more' if number == MOST_BARS else ''} translations: {shares[number]:.2%}"
        parts.append(
            f'<rect x="{MARGIN + (number - 1) * bar:.1f}" y="{bottom - tall:.1f}" width="{max(bar - 1, 0.5):.1f}" '
            f'height="{tall:.1f}" fill="{COLOUR}"><title>{tip}</title></rect>'
        )
    middle = MARGIN + (min(found.mean, most) - 0.5) * bar
    parts.append(
        f'<path d="M{middle:.1f} {bottom}V{top + MARGIN - 6}" stroke="{MEAN}" stroke-width="2" stroke-dasharray="5 4"/>'
        f'<text x="{middle + 6:.1f}" y="{top + MARGIN + 4}" fill="{MEAN}">mean {found.mean:.2f}</text>'
        f'<path d="M{MARGIN} {bottom}H{MARGIN + WIDTH}" stroke="#888"/>'
        f'<text x="{MARGIN - 6}" y="{top + MARGIN + 4}" text-anchor="end" fill="#555">{highest:.0%}</text>'
        f'<text x="{MARGIN - 6}" y="{bottom}" text-anchor="end" fill="#555">0</text>'
    )
    ticks = sorted({1, *range(10, most + 1, 10 if most > 20 else 5)} if most > 9 else set(range(1, most + 1)))
    parts += [
        f'<text x="{MARGIN + (tick - 0.5) * bar:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#555">{tick}</text>'
        for tick in ticks
    ]
    caption = f"translations of a unique sentence in {name_of(found.pivot)}; share of the sentences"
    parts.append(f'<text x="{MARGIN}" y="{bottom + 34}" fill="#555">{escape(caption)}</text>')
    return "".join(parts)
