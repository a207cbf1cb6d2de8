"""Deciding claims: what a study's contrasts say of them, from the committed table alone."""

from actlab.studies.deciding.decisions import Decision, Ruling, decide
from actlab.studies.deciding.folder import RESULTS, Study, collect, find, table_of
from actlab.studies.deciding.orders import agreements
from actlab.studies.deciding.wording import words

__all__ = ["RESULTS", "Decision", "Ruling", "Study", "agreements", "collect", "decide", "find", "table_of", "words"]
