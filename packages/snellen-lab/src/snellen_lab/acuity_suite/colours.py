"""Colours as people see them: CIELAB under D65, and differences by CIEDE2000.

G. Sharma, W. Wu, E. N. Dalal: The CIEDE2000 color-difference formula: implementation notes, supplementary test data,
and mathematical observations. Color Research and Application 30, 2005.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Lab = tuple[float, float, float]
RGB = tuple[int, int, int]
# IEC 61966-2-1, for linear sRGB.
_TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
_FROM_XYZ = ((3.2406, -1.5372, -0.4986), (-0.9689, 1.8758, 0.0415), (0.0557, -0.2040, 1.0570))
_WHITE_XYZ = (0.9505, 1.0, 1.089)
"""XYZ of white by the first matrix."""
_KNEE = 6 / 29
"""Root of the ratio below which CIELAB replaces the cube root by a line."""


def lab_of(colour: RGB) -> Lab:
    """Return an sRGB colour of 8 bits as L*, a*, b*."""
    linear = []
    for channel in colour:
        value = channel / 255
        if value <= 0.04045:
            linear.append(value / 12.92)
        else:
            linear.append(((value + 0.055) / 1.055) ** 2.4)

    roots = []
    for row, white in zip(_TO_XYZ, _WHITE_XYZ, strict=True):
        ratio = _dot(row, linear) / white
        if ratio > _KNEE**3:
            roots.append(ratio ** (1 / 3))
        else:
            roots.append(ratio / (3 * _KNEE**2) + 4 / 29)
    x, y, z = roots
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def rgb_of(lab: Lab) -> RGB | None:
    """Return the nearest sRGB colour of 8 bits; None if sRGB does not contain the colour."""
    lightness, a, b = lab
    # L*, a* and b* are computed from the cube roots of X, Y and Z as shares of those of white (CIE 1976).
    root_of_y = (lightness + 16) / 116
    roots = (root_of_y + a / 500, root_of_y, root_of_y - b / 200)
    xyz = []
    for root, white in zip(roots, _WHITE_XYZ, strict=True):
        ratio = root**3 if root > _KNEE else 3 * _KNEE**2 * (root - 4 / 29)
        xyz.append(white * ratio)

    channels = []
    for row in _FROM_XYZ:
        value = _dot(row, xyz)
        if not 0 <= value <= 1:
            return None
        if value <= 0.0031308:
            encoded = 12.92 * value
        else:
            encoded = 1.055 * value ** (1 / 2.4) - 0.055
        channels.append(round(255 * encoded))
    red, green, blue = channels
    return red, green, blue


def _dot(row: Sequence[float], values: Sequence[float]) -> float:
    """Return the scalar product of two vectors of the same length."""
    return sum(factor * value for factor, value in zip(row, values, strict=True))


def ciede2000(first: Lab, second: Lab) -> float:
    """Return the CIEDE2000 difference of two colours: 1 is about what the eye just sees.

    Equations 2 to 22 of Sharma et al. (2005), with all weights 1.

    Args:
        first: Lightness L*, a* (red minus green) and b* (yellow minus blue) of a colour.
        second: The same for the other colour.
    """
    # a* is stretched near grey (equations 2 to 5).
    _, first_a, first_b = first
    _, second_a, second_b = second
    mean_chroma_ab = (math.hypot(first_a, first_b) + math.hypot(second_a, second_b)) / 2
    stretch = 1 + 0.5 * (1 - _high_chroma(mean_chroma_ab))
    lightness1, chroma1, hue1 = _polar(first, stretch)
    lightness2, chroma2, hue2 = _polar(second, stretch)

    # Differences and means of hues, which have no meaning for grey (equations 10 and 14).
    has_grey = chroma1 * chroma2 == 0
    if has_grey:
        hue_difference = 0.0
        hue = hue1 + hue2
    else:
        hue_difference = hue2 - hue1
        if abs(hue_difference) != 180:
            hue_difference = (hue_difference + 180) % 360 - 180
        hue = _mean_hue(hue1, hue2)
    lightness = (lightness1 + lightness2) / 2
    chroma = (chroma1 + chroma2) / 2

    # Weighting functions (equations 15 to 20).
    t = (
        1
        - 0.17 * _cos(hue - 30)
        + 0.24 * _cos(2 * hue)
        + 0.32 * _cos(3 * hue + 6)
        - 0.20 * _cos(4 * hue - 63)
    )
    squared_offset = (lightness - 50) ** 2
    lightness_weight = 1 + 0.015 * squared_offset / math.sqrt(20 + squared_offset)
    chroma_weight = 1 + 0.045 * chroma
    hue_weight = 1 + 0.015 * chroma * t

    # Weighted differences of lightness, chroma and hue (equation 11 and the terms of 22).
    dl = (lightness2 - lightness1) / lightness_weight
    dc = (chroma2 - chroma1) / chroma_weight
    half_turn = math.sin(math.radians(hue_difference / 2))
    dh = 2 * math.sqrt(chroma1 * chroma2) * half_turn / hue_weight

    # Rotation for blue (equations 16, 17 and 21).
    distance_from_blue = (hue - 275) / 25
    rotation_angle = 30 * math.exp(-(distance_from_blue**2))
    rotation = -2 * _high_chroma(chroma) * math.sin(math.radians(2 * rotation_angle))
    return math.sqrt(dl * dl + dc * dc + dh * dh + rotation * dc * dh)


def _high_chroma(chroma: float) -> float:
    """Return sqrt(C^7 / (C^7 + 25^7)), which rises from 0 for grey to 1 for strong colours."""
    return math.sqrt(chroma**7 / (chroma**7 + 25**7))


def _polar(lab: Lab, stretch: float) -> tuple[float, float, float]:
    """Return lightness, chroma, and hue in degrees, with a* stretched."""
    lightness, a, b = lab
    a *= stretch
    return lightness, math.hypot(a, b), math.degrees(math.atan2(b, a)) % 360


def _mean_hue(first: float, second: float) -> float:
    """Return the mean of two hues in degrees, on the shorter arc between them."""
    if abs(first - second) <= 180:
        return (first + second) / 2
    if first + second < 360:
        return (first + second + 360) / 2
    return (first + second - 360) / 2


def _cos(degrees: float) -> float:
    """Return the cosine of an angle in degrees."""
    return math.cos(math.radians(degrees))
