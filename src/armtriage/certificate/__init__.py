"""Certificates: what was lost at most, and what one more decision can lose."""

from armtriage.certificate.bounds import (
    Bounds,
    Tally,
    Watch,
    by_exposure,
    cert_among,
    intervals_of,
    log_bound,
    narrowed,
)
from armtriage.certificate.certificate import Account, Certificate, Exchange, certificate_of, in_json, listed
from armtriage.certificate.certify import certify
from armtriage.certificate.eligible import DecisionWatch, PatternBook
from armtriage.certificate.informative import Stake, caveat
from armtriage.certificate.over_decisions import (
    DecisionCertificate,
    certificate_of_decisions,
    challenge,
    decided_by,
    log_bound_over,
    offset_of,
)

__all__ = [
    "Account",
    "Bounds",
    "Certificate",
    "DecisionCertificate",
    "DecisionWatch",
    "Exchange",
    "PatternBook",
    "Stake",
    "Tally",
    "Watch",
    "by_exposure",
    "caveat",
    "cert_among",
    "certificate_of",
    "certificate_of_decisions",
    "certify",
    "challenge",
    "decided_by",
    "in_json",
    "intervals_of",
    "listed",
    "log_bound",
    "log_bound_over",
    "narrowed",
    "offset_of",
]
