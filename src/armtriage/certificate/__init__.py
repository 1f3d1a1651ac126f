"""Certificates: what was lost at most, and what one more decision can lose."""

from armtriage.certificate.bounds import (
    WHOLE,
    Bounds,
    Tally,
    cut,
    ends_of,
    in_units,
    intervals_of,
    narrowed,
    within_old,
)
from armtriage.certificate.certificate import Account, Assumptions, Certificate, certificate_of
from armtriage.certificate.certify import certify
from armtriage.certificate.eligible import PatternBook, Watch
from armtriage.certificate.log import Log, Worth
from armtriage.certificate.places import Page, place_bounds, placed_certificate
from armtriage.certificate.sets import Sets, challenge, decided_by, log_bound_over, offset_of
from armtriage.certificate.slates import Exchange, Slates, by_exposure, cert_among, log_bound

__all__ = [
    "WHOLE",
    "Account",
    "Assumptions",
    "Bounds",
    "Certificate",
    "Exchange",
    "Log",
    "Page",
    "PatternBook",
    "Sets",
    "Slates",
    "Tally",
    "Watch",
    "Worth",
    "by_exposure",
    "cert_among",
    "certificate_of",
    "certify",
    "challenge",
    "cut",
    "decided_by",
    "ends_of",
    "in_units",
    "intervals_of",
    "log_bound",
    "log_bound_over",
    "narrowed",
    "offset_of",
    "place_bounds",
    "placed_certificate",
    "within_old",
]
