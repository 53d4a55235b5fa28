"""Tables 1 to 5 of Tromble & Eisner (2006), under the names that the paper gives its rules."""

CANDIDATES, AT_LEAST, VERB, DISALLOW = (
    "ARGUMENT CANDIDATES",
    "AT LEAST ONE ARGUMENT",
    "KNOWN VERB POSITION",
    "DISALLOW ARGUMENTS",
)
TABLE_1 = {
    "A0": (2849, 79.27),
    "A1": (4029, 75.59),
    "A2": (943, 55.68),
    "A3": (149, 46.41),
    "A4": (147, 81.82),
    "A5": (4, 25.00),
    "All": (8121, 74.51),
}
TABLE_2 = {  # milliseconds per proposition
    "product": 522.0,
    "ilp": 162.0,
    "lazy_intersection": 9.22,
    "lazy_intersection, soft": 13.57,
}
TABLE_3 = {
    CANDIDATES: 0.376,
    "NO DUPLICATE A1": 0.209,
    "NO DUPLICATE A0": 0.081,
    "NO DUPLICATE A2": 0.035,
    AT_LEAST: 0.025,
    DISALLOW: 0.011,
    "NO DUPLICATE A3": 0.003,
    "NO DUPLICATE A4": 0.001,
    "NO DUPLICATE A5": 0.000,
    VERB: 0.000,
}
TABLE_4 = (0.550, 0.200, 0.211, 0.036, 0.002, 0.000)
TABLE_5 = {
    CANDIDATES: 0.0209,
    AT_LEAST: 0.0063,
    "NO DUPLICATE A2": 0.0007,
    "NO DUPLICATE A0": 0.0005,
    "NO DUPLICATE A1": 0.0005,
    "NO DUPLICATE A3": 0.0002,
    "NO DUPLICATE A4": 0.0002,
}
INTERSECTIONS = 0.65
