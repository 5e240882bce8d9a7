"""Draw docs/images/sites.svg: a layer of each stack, with the sites and the hooks of guidance."""

from __future__ import annotations

from pathlib import Path

from manyglot.model.guidance.base import Site
from manyglot.model.guidance.lee import PAPER_NUMBERS

PICTURE = Path(__file__).parent / "images" / "sites.svg"
NUMBERS = {site: number for number, site in PAPER_NUMBERS.items()}
WIDTH, HEIGHT = 820, 600
BOX, ROW = 190, 150
"""Width of a box, height of a sub-layer."""
BOTTOM = 520
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1c2733; }
.small { font-size: 12px; fill: #51606f; }
.site { font: bold 14px ui-monospace, monospace; fill: #0b5394; }
.hook { font: 13px ui-monospace, monospace; fill: #b45309; }
.title { font-size: 16px; font-weight: bold; }
rect { fill: #fff; stroke: #1c2733; }
.norm { fill: #eef2f6; }
.frame { fill: #f8fafc; stroke: #b6c2ce; stroke-dasharray: 5 4; }
.page { fill: #fff; stroke: none; }
path { fill: none; stroke: #1c2733; stroke-width: 1.4; }
.residual { stroke: #8a97a5; }
.number { fill: #0b5394; stroke: none; }
.count { fill: #fff; font-weight: bold; }
"""


def picture() -> str:
    """The whole drawing; information flows upwards."""
    encoder = {Site.ENC_SELF: "self-attention", Site.ENC_FFN: "feed-forward"}
    decoder = {Site.DEC_SELF: "self-attention", Site.DEC_CROSS: "cross-attention", Site.DEC_FFN: "feed-forward"}
    left, right = 90, 510
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="The sites of guidance in a post-norm Transformer">',
        "<defs><marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='8' markerHeight='8' "
        "orient='auto-start-reverse'><path d='M0,0 L8,4 L0,8 z' style='fill:#1c2733;stroke:none'/></marker></defs>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>',
        *_stack("encoder layer", left, encoder, "source embeddings"),
        *_stack("decoder layer", right, decoder, "target embeddings"),
        *_memory(left, right),
    ]
    return "\n".join([*parts, "</svg>", ""])


def _stack(title: str, x: int, sublayers: dict[Site, str], below: str) -> list[str]:
    top = BOTTOM - ROW * len(sublayers)
    parts = [
        f'<rect class="frame" x="{x - 70}" y="{top - 8}" width="{BOX + 165}" height="{BOTTOM - top + 16}" rx="8"/>',
        _text(x + BOX / 2 + 14, top - 18, f"{title} × N", "title"),
        _text(x + BOX / 2, BOTTOM + 50, below, "small", "middle"),
        f'<path d="M{x + BOX / 2},{BOTTOM + 36} V{BOTTOM - 8}"/>',
        f'<path d="M{x + BOX / 2},{top - 4} V{top - 34}" marker-end="url(#tip)"/>',
    ]
    for i, (site, name) in enumerate(sublayers.items()):
        parts += _sublayer(x, BOTTOM - ROW * i, site, name)
    return parts


def _sublayer(x: int, bottom: int, site: Site, name: str) -> list[str]:
    """From below: enter, the split of the residual, the function, the sum and norm, leave."""
    middle, box, norm = x + BOX / 2, bottom - 84, bottom - 122
    attention = "attention" in name
    inside = "project, merge" if attention else ""
    return [
        f'<path d="M{middle},{bottom - 8} V{box + 40}" marker-end="url(#tip)"/>',
        _number(middle, bottom - 14, NUMBERS[site]),
        _text(middle + 18, bottom - 10, "enter", "hook"),
        f'<path class="residual" d="M{middle},{bottom - 32} H{x - 26} V{norm + 12} H{x}" marker-end="url(#tip)"/>',
        f'<rect x="{x}" y="{box}" width="{BOX}" height="40" rx="5"/>',
        _text(middle, box + (17 if attention else 25), name, "", "middle"),
        _text(middle, box + 33, inside, "hook", "middle"),
        _text(x + BOX + 10, box + 25, site, "site"),
        f'<path d="M{middle},{box} V{norm + 24}" marker-end="url(#tip)"/>',
        f'<rect class="norm" x="{x}" y="{norm}" width="{BOX}" height="24" rx="5"/>',
        _text(middle - 24, norm + 17, "add, layer norm", "small", "middle"),
        _text(x + BOX - 8, norm + 17, "norm", "hook", "end"),
        f'<path d="M{middle},{norm} V{norm - 36}"/>',
        _text(middle + 18, norm - 8, "leave", "hook"),
    ]


def _memory(left: int, right: int) -> list[str]:
    """The encoder's output on its way to the cross-attention."""
    start, x, height = BOTTOM - 2 * ROW - 34, left + BOX / 2, 70
    cross = BOTTOM - ROW - 84 + 20
    turn = right - 94
    return [
        f'<path d="M{x},{start} V{height} H{turn} V{cross} H{right}" marker-end="url(#tip)"/>',
        _number(x, start - 34, NUMBERS[Site.MEMORY]),
        _text(x + 18, start - 29, "enter", "hook"),
        _text(x - 22, start - 29, Site.MEMORY, "site", "end"),
        _text(x + 16, height - 10, "project_memory", "hook"),
        _text(x + 16, height + 20, "keys and values of all layers", "small"),
    ]


def _number(x: float, y: float, number: int) -> str:
    return f'<circle class="number" cx="{x}" cy="{y}" r="10"/>' + _text(x, y + 5, str(number), "count", "middle")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>' if text else ""


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
