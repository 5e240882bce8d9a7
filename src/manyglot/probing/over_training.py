"""What a model knows of its languages at the steps of its training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from manyglot.probing.language_map import Mantel, correlations
from manyglot.probing.probe import Prober, ProbeResult, ProbeSettings
from manyglot.probing.representations import Representation
from manyglot.probing.uriel import Exclusion, Uriel


@dataclass(frozen=True)
class Moment:
    """What one representation tells at a step."""

    step: int
    result: ProbeResult
    mantels: tuple[Mantel, ...]

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {"step": self.step} | self.result.as_json() | {"mantel": [each.as_json() for each in self.mantels]}


def follow(
    uriel: Uriel, steps: Iterable[tuple[int, Sequence[Representation]]], settings: ProbeSettings
) -> tuple[list[Moment], dict[str, Exclusion]]:
    """Probe the representations of each step as they come; also the languages that are left out, with the reasons.

    Only those of one step are in memory. Permutations are the same at every step, so that what changes is the model.
    """
    probers: dict[tuple[str, ...], Prober] = {}
    moments = []
    for step, representations in steps:
        for each in representations:
            if each.codes not in probers:
                probers[each.codes] = Prober(uriel, each.codes, settings)
            result = probers[each.codes].probe(each.model, each.method, each.values)
            related = correlations(uriel, each, settings.num_permutations, settings.seed)
            moments.append(Moment(step, result, tuple(related)))
    left_out = {code: why for prober in probers.values() for code, why in prober.located.left_out.items()}
    return moments, dict(sorted(left_out.items()))
