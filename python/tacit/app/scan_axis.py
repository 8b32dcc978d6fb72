"""The rotation axis of a scan, from some of its slices."""

from __future__ import annotations

import warnings

import numpy as np

from .._core import InputError
from .axis import CERTAIN, Axis, find_centre
from .scans import Scan

__all__ = ["centre_of"]

APART = 1.5  # bins by which the axes of slices may differ


def centre_of(scan: Scan, given: str | None) -> float | Axis:
    """The rotation axis: a number, "auto" (from some slices), or nothing (the middle of the detector). ValueError
    for an axis that is not on the detector.
    """
    if given is None:
        return scan.detectors / 2
    if given != "auto":
        centre = float(given)
        if not 0 <= centre <= scan.detectors:
            raise ValueError(
                f"the rotation axis at {centre:g} lies beside the detector; 0 to {scan.detectors} bins are possible"
            )
        return centre
    return _found(scan)


def _found(scan: Scan) -> Axis:
    """The axis by three slices, or by others where none of these has one that is certain: their mean, each weighted by
    its error, with the error of the mean or half of what they differ by. InputError where there is none, and where
    slices differ by more than 1.5 bins.
    """
    n = scan.slices
    usual, others = (n // 2, n // 4, 3 * n // 4), (n // 8, 7 * n // 8)
    failed: dict[int, str] = {}
    found: dict[int, Axis] = {}
    for at in dict.fromkeys((*usual, *others)):
        if at not in usual and found:
            break
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                found[at] = find_centre(scan.peek(at), scan.angles)
        except (ValueError, UserWarning) as error:
            failed[at] = str(error)
    if not found:
        raise InputError(f"{scan.path}: slice {n // 2}: {failed[n // 2]}; --centre BINS gives the axis")
    if n // 2 in failed:
        named = " and ".join(map(str, sorted(found)))
        slices = "slice" if len(found) == 1 else "slices"
        scan.assumed.append(f"{scan.path}: slice {n // 2}: {failed[n // 2]}; the axis is that of {slices} {named}")
    return _mean_axis(scan, found)


def _mean_axis(scan: Scan, found: dict[int, Axis]) -> Axis:
    """The mean of the axes of these slices."""
    if len(found) == 1:
        return next(iter(found.values()))
    weights = np.array([1 / axis.uncertainty**2 for axis in found.values()])
    places = np.array([float(axis) for axis in found.values()])
    apart = float(np.ptp(places))
    listed = ", ".join(
        f"{float(axis):.2f} +- {axis.uncertainty:.2g} (slice {at})" for at, axis in sorted(found.items())
    )
    if apart > APART:
        raise InputError(
            f"{scan.path}: slices disagree about the axis: {listed}. Is the detector tilted, or one of them wrong?"
            " --slices FIRST:END with --centre BINS reconstructs some with an axis of their own"
        )
    middle = float((weights * places).sum() / weights.sum())
    error = float(weights.sum() ** -0.5)
    if apart > 3 * max(axis.uncertainty for axis in found.values()) and apart > CERTAIN:
        error = max(error, apart / 2)
        scan.assumed.append(f"{scan.path}: the axis moves over the slices: {listed}; images are about their mean")
    return Axis(middle, error, found[min(found)].method)
