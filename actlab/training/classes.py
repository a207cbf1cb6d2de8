"""How well classes are told: F1 by confusion, and what who knows nothing of a document would score."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Majority(NamedTuple):
    """Scores of always answering the commonest class of the training set, with the training shares as probabilities."""

    label: int
    accuracy: float
    macro_f1: float
    loss: float  # nats per document


def macro_f1(confusion: Float[np.ndarray, "*S C C"]) -> Float[np.ndarray, "*S"]:
    """Mean of F1 = 2 TP / (2 TP + FP + FN) over the classes that occur, among documents or among answers.

    The confusion has documents of each class by row, taken for each class by column. A class that occurs in neither
    has no F1 and is left out, as scikit-learn does; where there are no documents the mean is 0.
    """
    hits = np.diagonal(confusion, axis1=-2, axis2=-1)
    there = confusion.sum(axis=-1) + confusion.sum(axis=-2)  # 2 TP + FP + FN
    scores = np.divide(2 * hits, there, out=np.zeros_like(there, dtype=np.float64), where=there > 0)
    return np.asarray(scores.sum(axis=-1) / np.maximum((there > 0).sum(axis=-1), 1))


def majority(train: Int[np.ndarray, "n"], validation: Int[np.ndarray, "m"], n_classes: int) -> Majority:
    """The baseline of training labels on validation labels; shares count one document of each class more."""
    counts = np.bincount(train, minlength=n_classes)
    found = np.bincount(validation, minlength=n_classes)
    label = int(counts.argmax())
    confusion = np.zeros((n_classes, n_classes))
    confusion[:, label] = found
    shares = (counts + 1) / (counts.sum() + n_classes)
    loss = float(-(found * np.log(shares)).sum() / found.sum())
    return Majority(label, float(found[label] / found.sum()), float(macro_f1(confusion)), loss)
