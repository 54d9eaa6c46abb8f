"""Differences between colours as people see them: CIELAB under D65, and CIEDE2000.

G. Sharma, W. Wu, E. N. Dalal: The CIEDE2000 color-difference formula: implementation notes, supplementary test data,
and mathematical observations (Color Research and Application 30, 2005).
"""

from __future__ import annotations

import math

Lab = tuple[float, float, float]
RGB = tuple[int, int, int]
_TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
"""IEC 61966-2-1, of linear sRGB."""
_FROM_XYZ = ((3.2406, -1.5372, -0.4986), (-0.9689, 1.8758, 0.0415), (0.0557, -0.2040, 1.0570))
_WHITE = (0.9505, 1.0, 1.089)
"""What the first matrix makes of white."""


def lab_of(colour: RGB) -> Lab:
    """An sRGB colour of 8 bits as L*, a*, b*."""
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (value / 255 for value in colour)]
    x, y, z = (
        _root(sum(m * v for m, v in zip(row, linear, strict=True)) / white)
        for row, white in zip(_TO_XYZ, _WHITE, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _root(ratio: float) -> float:
    return ratio ** (1 / 3) if ratio > (6 / 29) ** 3 else ratio / (3 * (6 / 29) ** 2) + 4 / 29


def rgb_of(lab: Lab) -> RGB | None:
    """The nearest sRGB colour of 8 bits; None where the screen has none."""
    y = (lab[0] + 16) / 116
    xyz = [
        white * (f**3 if f > 6 / 29 else 3 * (6 / 29) ** 2 * (f - 4 / 29))
        for f, white in zip((y + lab[1] / 500, y, y - lab[2] / 200), _WHITE, strict=True)
    ]
    linear = [sum(m * v for m, v in zip(row, xyz, strict=True)) for row in _FROM_XYZ]
    if not all(0 <= value <= 1 for value in linear):
        return None
    red, green, blue = (round(255 * (12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055)) for v in linear)
    return red, green, blue


def ciede2000(first: Lab, second: Lab) -> float:
    """The difference of two colours, about 1 where an eye just sees it (Sharma et al. 2005, equations 2 to 22)."""
    mean_chroma = (math.hypot(*first[1:]) + math.hypot(*second[1:])) / 2
    stretch = 1 + 0.5 * (1 - math.sqrt(mean_chroma**7 / (mean_chroma**7 + 25**7)))
    (l1, c1, h1), (l2, c2, h2) = (_polar(lab, stretch) for lab in (first, second))
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180 if abs(h2 - h1) != 180 else h2 - h1
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = h1 + h2 if c1 * c2 == 0 else _mean_hue(h1, h2)
    t = 1 - 0.17 * _cos(hue - 30) + 0.24 * _cos(2 * hue) + 0.32 * _cos(3 * hue + 6) - 0.20 * _cos(4 * hue - 63)
    away = (lightness - 50) ** 2
    dl = (l2 - l1) / (1 + 0.015 * away / math.sqrt(20 + away))
    dc = (c2 - c1) / (1 + 0.045 * chroma)
    dh = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    spread = 30 * math.exp(-(((hue - 275) / 25) ** 2))
    rotation = -math.sin(math.radians(2 * spread)) * 2 * math.sqrt(chroma**7 / (chroma**7 + 25**7))
    return math.sqrt(dl * dl + dc * dc + dh * dh + rotation * dc * dh)


def _polar(lab: Lab, stretch: float) -> tuple[float, float, float]:
    """Lightness, chroma and hue in degrees, with a* stretched near grey."""
    a = stretch * lab[1]
    return lab[0], math.hypot(a, lab[2]), math.degrees(math.atan2(lab[2], a)) % 360


def _mean_hue(h1: float, h2: float) -> float:
    if abs(h1 - h2) <= 180:
        return (h1 + h2) / 2
    return (h1 + h2 + 360) / 2 if h1 + h2 < 360 else (h1 + h2 - 360) / 2


def _cos(degrees: float) -> float:
    return math.cos(math.radians(degrees))
