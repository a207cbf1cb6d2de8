"""Comparisons of activations: fair ones only, at equal parameters, equal FLOPs and equal wall-clock time."""

from actlab.studies.comparison.comparison import Comparison, compare
from actlab.studies.comparison.conditions import Condition, conditions
from actlab.studies.comparison.grid import Grid, Score
from actlab.studies.comparison.pairs import Pair, Question, parse_question
from actlab.studies.comparison.ranking import Standing
from actlab.studies.comparison.views import View

__all__ = [
    "Comparison",
    "Condition",
    "Grid",
    "Pair",
    "Question",
    "Score",
    "Standing",
    "View",
    "compare",
    "conditions",
    "parse_question",
]
