"""What is done to the numbers of a scan before images are made of them.

A scan goes through these stages, slice by slice, so that no stage needs the whole scan in memory (phase retrieval reads
some rows beside the wanted ones). Each stage is an option with the default in brackets and can be switched off; each
repair is counted, and the counts are printed and in the JSON document under "repairs".

1. *Empty projections* are left out (:meth:`scans.Frames.taken_of`), always.
2. ``zingers`` [8 standard deviations; 0: none]: values far above those of the projections before and after and of the
   bins beside them (:func:`repairs.replace_zingers`), in white and dark frames above those of the other frames.
3. ``dead`` ["interpolate"; "none"]: bins whose white frames are not above the dark ones, and gaps of up to three values
   without counts or without numbers, from the bins beside them.
4. Transmission by the mean white and dark frame (:func:`counts.normalise`); levels that cannot be right are
   reported (:func:`doubts`).
5. ``phase`` [none]: :class:`phase.Paganin`.
6. Line integrals, minus the logarithm of the transmission, which is at least 1e-6.
7. ``rings`` ["offset"; "none", or an algorithm of algotom] and ``ring_width``: :func:`rings.remove_rings`.

Then, once the axis is known, half acquisition and samples wider than the detector (`reconstruction`). Line integrals
and sinograms in raw files are taken as they are unless an option says otherwise.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support import Array, choose, real_number, whole_number
from . import repairs
from .counts import normalise
from .phase import Paganin
from .rings import RINGS, remove_rings

__all__ = ["DEAD", "KINDS", "Paganin", "Preparation", "doubts", "sentences"]

DEAD = ("interpolate", "none")
LEAST = 1e-6  # transmission
STRIPE = 5e-3  # an offset of a bin, relative to the largest line integral, from which it counts as one

#: What is counted: the sentence, for how many.
KINDS = {
    "zingers": "{} zingers replaced by the mean of the projections before and after",
    "frame zingers": "{} zingers in white and dark frames replaced by the median of the frames",
    "dead": "{} dead bins (in all slices) interpolated from the bins beside them",
    "no numbers": "{} values that are no numbers interpolated from the bins beside them",
    "without counts": "{} values without counts are interpolated from the bins beside them",
    "rings": "{} bins (in all slices) corrected for rings",
}
LOST = ("no numbers", "without counts")  # these are also warnings: what was there is not known


@dataclass(frozen=True)
class Preparation:
    """The options of the stages above."""

    dead: str = "interpolate"
    zingers: float = 8.0
    rings: str = "offset"
    ring_width: int = 21
    phase: Paganin | None = None

    def __post_init__(self) -> None:
        choose("dead", self.dead, DEAD)
        choose("rings", self.rings, RINGS)
        if not 0 <= real_number(self.zingers, "zingers") < math.inf:
            raise ValueError(f"zingers is {self.zingers}; a number of standard deviations, or 0 for none, is needed")
        if whole_number(self.ring_width, "ring_width") < 3:
            raise ValueError(f"ring_width is {self.ring_width}; at least 3 bins are needed")

    @property
    def margin(self) -> int:
        """Slices that are read on either side of the wanted ones."""
        return self.phase.margin if self.phase else 0

    def counts(
        self, data: Array, white: Array, dark: Array, angles: Array, tally: Counter[str]
    ) -> tuple[Array, Array, Array]:
        """Stage 2: data (angles, slices, bins), changed in place; white and dark frames."""
        white, first = repairs.flawed_frames(white, self.zingers)
        dark, second = repairs.flawed_frames(dark, self.zingers)
        tally["frame zingers"] += first + second
        if self.zingers:
            level = dark.mean(0) if len(dark) else np.zeros(data.shape[1:], np.float32)
            tally["zingers"] += repairs.replace_zingers(data, level, angles, self.zingers)
        return data, white, dark

    def integrals(self, data: Array, white: Array, dark: Array, tally: Counter[str]) -> Array:
        """Stages 3 to 6: line integrals (angles, slices, bins) of counts, or of a transmission, without frames."""
        p = normalise(data, white, dark, LEAST)
        if len(white) and len(dark):
            dead = ~(white.mean(0) > dark.mean(0))
            tally["dead"] += int(dead.sum())
            if self.dead == "none":
                p[:, dead] = np.nan
        self.gaps(p, tally)
        if self.phase:
            p = -np.log(np.maximum(self.phase(np.exp(-p)), np.float32(LEAST)))
        return p

    def given(self, p: Array, tally: Counter[str]) -> Array:
        """Stage 3 of line integrals; ValueError for stages that need counts."""
        if self.phase or self.zingers:
            name = "phase" if self.phase else "zingers"
            raise ValueError(f"{name} needs counts or a transmission, and the numbers are line integrals")
        self.gaps(p, tally, counted=False)
        return p

    def gaps(self, p: Array, tally: Counter[str], counted: bool = True) -> None:
        """Fills gaps of line integrals (.., bins), in place. A bin that is a gap in all projections is filled whatever
        its width.
        """
        if self.dead == "none":
            return
        nan = ~np.isfinite(p)
        if nan.any():
            always = np.broadcast_to(nan.all(0), nan.shape)
            tally["no numbers"] += repairs.fill(p, nan & always, None) + repairs.fill(p, nan & ~always)
        if counted:
            with np.errstate(invalid="ignore"):
                empty = p >= -np.log(LEAST) * (1 - 1e-6)
            tally["without counts"] += repairs.fill(p, empty)

    def sinograms(self, s: Array, tally: Counter[str]) -> Array:
        """Stage 7, of sinograms (slices, angles, bins)."""
        if self.rings == "none":
            return s
        made = np.empty_like(s)
        for i, one in enumerate(s):
            made[i] = remove_rings(one, self.rings, self.ring_width)
            moved = np.abs(np.median(made[i] - one, axis=0))
            tally["rings"] += int((moved > STRIPE * float(np.abs(one).max(initial=0.0))).sum())
        return made

    def facts(self) -> dict[str, Any]:
        """For the JSON document."""
        phase = vars(self.phase) if self.phase else None
        return {name: getattr(self, name) for name in ("dead", "zingers", "rings", "ring_width")} | {"phase": phase}


#: Line integrals are taken as they are.
AS_GIVEN = Preparation(dead="none", zingers=0.0, rings="none")


def sentences(tally: Counter[str]) -> list[str]:
    """What was repaired, as sentences."""
    return [text.format(tally[kind]) for kind, text in KINDS.items() if tally[kind] > 0]


def doubts(data: Array, white: Array, dark: Array, limit: float | None) -> list[str]:
    """What cannot be right about counts (angles, slices, bins) and their frames, as sentences; `limit`: the largest
    number of their type.
    """
    found: list[str] = []
    level = white.mean(0) - dark.mean(0)
    if not (level > 0).any() or not np.isfinite(level).all():
        return found  # an error when it is read
    light, none = float(np.nanmean(white)), float(np.nanmean(dark))
    if none > 0.5 * light:
        found.append(
            f"dark frames have {none:.4g} counts where white ones have {light:.4g}: is the shutter open in the dark"
            " frames, or are both the same?"
        )
    live = level > 0
    share = (data - dark.mean(0))[:, live] / level[live]
    share = share[np.isfinite(share).all(1)]
    if not len(share):
        return found
    mean = share.mean(0)  # of each bin over the projections, with little noise
    brightest, usual = float(mean.max()), float(np.percentile(mean, 95))
    if usual > 1.1:
        found.append(
            f"projections are brighter than the white frames ({usual:.2f} times as bright beside the sample): have the"
            " beam or the exposure time changed? images are off by an offset"
        )
    elif brightest < 0.1:
        found.append(
            f"no bin of a usual projection has more than {brightest:.2g} of the white frames' counts: a sample wider"
            " than the detector, or a beam that was weaker than for the white frames"
        )
    if limit is not None and (full := float((data >= limit).mean())) > 1e-3:
        found.append(f"{full:.1%} of the counts are {limit:.0f}, the largest possible: the detector is saturated")
    if len(white) > 3:
        half = len(white) // 2
        first, second = float(np.nanmean(white[:half]) - none), float(np.nanmean(white[half:]) - none)
        if min(first, second) > 0 and abs(first - second) > 0.05 * max(first, second):
            found.append(
                f"the beam changes: {first:.4g} counts in the first half of the white frames, {second:.4g} in the other"
            )
    return found
