"""Probe the checkpoints of training runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from manyglot.probing.language_distance_analysis import MantelResult, mantel_tests_with_uriel
from manyglot.probing.language_representations import LanguageRepresentation
from manyglot.probing.typology_probe import (
    ProbeResult,
    ProbeSettings,
    TypologyProber,
    merge_exclusions,
    print_lowered_k_values,
)
from manyglot.probing.uriel import Exclusion, UrielDatabase


@dataclass(frozen=True)
class CheckpointProbeResult:
    """The probe and Mantel results of one representation at one training step."""

    step: int
    probe_result: ProbeResult
    mantel_results: tuple[MantelResult, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for `--json`."""
        mantel_results = [result.to_dict() for result in self.mantel_results]
        return {"step": self.step} | self.probe_result.to_dict() | {"mantel_results": mantel_results}


def probe_checkpoints(
    uriel: UrielDatabase,
    representations_by_step: Iterable[tuple[int, Sequence[LanguageRepresentation]]],
    settings: ProbeSettings,
) -> tuple[list[CheckpointProbeResult], dict[str, Exclusion]]:
    """Probe the representations of each training step; return the results and the excluded languages.

    Steps are consumed one at a time, so only one step's representations are in memory. Every step uses the same
    permutations, so that differences between steps come from the model alone.
    """
    probers: dict[tuple[str, ...], TypologyProber] = {}
    results = []
    for step, representations in representations_by_step:
        for representation in representations:
            codes = representation.codes
            if codes not in probers:
                probers[codes] = TypologyProber(uriel, codes, settings)
                if settings.k_values is None:
                    print_lowered_k_values(probers[codes].k_values)
            probe_result = probers[codes].probe(representation.model_name, representation.method, representation.values)
            mantel_results = mantel_tests_with_uriel(uriel, representation, settings.num_permutations, settings.seed)
            results.append(CheckpointProbeResult(step, probe_result, tuple(mantel_results)))
    return results, merge_exclusions(probers.values())
