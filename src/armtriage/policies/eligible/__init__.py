"""Requests that differ: arms that come and go, and other arms eligible in every round."""

from armtriage.policies.eligible.crowd import Among, Crowd, Rules

__all__ = ["Among", "Crowd", "Rules"]
