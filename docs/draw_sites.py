"""Draw docs/images/sites.svg: one encoder and one decoder layer with the sites and hooks of guidance."""

from __future__ import annotations

from pathlib import Path

from manyglot.model.guidance.base import Site
from manyglot.model.guidance.lee import SITE_BY_PAPER_NUMBER

OUTPUT = Path(__file__).parent / "images" / "sites.svg"
NUMBER_BY_SITE = {site: number for number, site in SITE_BY_PAPER_NUMBER.items()}
WIDTH, HEIGHT = 870, 640
BOX_WIDTH, SUBLAYER_HEIGHT = 230, 162
BOTTOM = 560
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


def sites_svg() -> str:
    """Return the whole drawing; information flows upwards."""
    encoder = {Site.ENC_SELF: "self-attention", Site.ENC_FFN: "feed-forward"}
    decoder = {Site.DEC_SELF: "self-attention", Site.DEC_CROSS: "cross-attention", Site.DEC_FFN: "feed-forward"}
    left, right = 90, 540
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="The guidance sites in a post-norm Transformer">',
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
    top = BOTTOM - SUBLAYER_HEIGHT * len(sublayers)
    parts = [
        f'<rect class="frame" x="{x - 70}" y="{top - 8}" width="{BOX_WIDTH + 165}" '
        f'height="{BOTTOM - top + 16}" rx="8"/>',
        _text(x + BOX_WIDTH / 2 + 14, top - 18, f"{title} × N", "title"),
        _text(x + BOX_WIDTH / 2, BOTTOM + 50, below, "small", "middle"),
        f'<path d="M{x + BOX_WIDTH / 2},{BOTTOM + 36} V{BOTTOM - 8}"/>',
        f'<path d="M{x + BOX_WIDTH / 2},{top - 4} V{top - 34}" marker-end="url(#tip)"/>',
    ]
    for i, (site, name) in enumerate(sublayers.items()):
        parts += _sublayer(x, BOTTOM - SUBLAYER_HEIGHT * i, site, name)
    return parts


def _sublayer(x: int, bottom: int, site: Site, name: str) -> list[str]:
    """Draw a sub-layer from bottom to top: input hook, residual branch, function, addition and norm, output hook."""
    middle, box, norm = x + BOX_WIDTH / 2, bottom - 84, bottom - 134
    is_attention = "attention" in name
    inside = "qkv_term, output_term" if is_attention else ""
    return [
        f'<path d="M{middle},{bottom - 8} V{box + 40}" marker-end="url(#tip)"/>',
        _number(middle, bottom - 14, NUMBER_BY_SITE[site]),
        _text(middle + 18, bottom - 10, "pre_sublayer", "hook"),
        f'<path class="residual" d="M{middle},{bottom - 32} H{x - 26} V{norm + 12} H{x}" marker-end="url(#tip)"/>',
        f'<rect x="{x}" y="{box}" width="{BOX_WIDTH}" height="40" rx="5"/>',
        _text(middle, box + (17 if is_attention else 25), name, "", "middle"),
        _text(middle, box + 33, inside, "hook", "middle"),
        _text(x + BOX_WIDTH + 10, box + 25, site, "site"),
        f'<path d="M{middle},{box} V{norm + 24}" marker-end="url(#tip)"/>',
        _text(middle + 18, box - 8, "sublayer_output_term", "hook"),
        f'<rect class="norm" x="{x}" y="{norm}" width="{BOX_WIDTH}" height="24" rx="5"/>',
        _text(middle - 24, norm + 17, "add, layer norm", "small", "middle"),
        _text(x + BOX_WIDTH - 8, norm + 17, "norm_terms", "hook", "end"),
        f'<path d="M{middle},{norm} V{norm - 36}"/>',
        _text(middle + 18, norm - 8, "post_sublayer", "hook"),
    ]


def _memory(left: int, right: int) -> list[str]:
    """Draw the path of the encoder's output to the cross-attention."""
    start, x, height = BOTTOM - 2 * SUBLAYER_HEIGHT - 34, left + BOX_WIDTH / 2, 70
    cross = BOTTOM - SUBLAYER_HEIGHT - 84 + 20
    turn = right - 94
    return [
        f'<path d="M{x},{start} V{height} H{turn} V{cross} H{right}" marker-end="url(#tip)"/>',
        _number(x, start - 34, NUMBER_BY_SITE[Site.MEMORY]),
        _text(x + 18, start - 29, "pre_sublayer", "hook"),
        _text(x - 22, start - 29, Site.MEMORY, "site", "end"),
        _text(x + 16, height - 10, "memory_kv_term", "hook"),
        _text(x + 16, height + 20, "keys and values of all layers", "small"),
    ]


def _number(x: float, y: float, number: int) -> str:
    return f'<circle class="number" cx="{x}" cy="{y}" r="10"/>' + _text(x, y + 5, str(number), "count", "middle")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>' if text else ""


if __name__ == "__main__":
    OUTPUT.write_text(sites_svg(), encoding="utf-8")
