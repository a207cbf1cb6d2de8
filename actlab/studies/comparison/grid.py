"""A grid: the losses of activations over learning rates and seeds, and what is read off it."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from actlab.studies.sensitivity import lr_sensitivity


class Score(NamedTuple):
    """What a run counts with, in nats; `learned` is False where that is the loss it began with."""

    loss: float
    learned: bool


@dataclasses.dataclass(frozen=True)
class Grid:
    """Scores by activation, learning rate and seed. Not every place is filled: seeds may be missing."""

    scores: Mapping[str, Mapping[float, Mapping[int, Score]]]

    @property
    def activations(self) -> tuple[str, ...]:
        """In the order of the table."""
        return tuple(self.scores)

    def rates(self, *activations: str) -> tuple[float, ...]:
        """Learning rates that all of these activations were trained at, rising."""
        return tuple(sorted(set.intersection(*(set(self.scores[name]) for name in activations))))

    def seeds(self, *activations: str) -> set[int]:
        """Seeds that any of these activations has at any rate."""
        return {seed for name in activations for at_rate in self.scores[name].values() for seed in at_rate}

    def complete_seeds(self, rates: Iterable[float], *activations: str) -> list[int]:
        """Seeds that all of these activations have at all of these rates, rising."""
        columns = [set(self.scores[name][rate]) for name in activations for rate in rates]
        return sorted(set.intersection(*columns)) if columns else []

    def losses(self, activation: str, rate: float) -> dict[int, float]:
        """Loss by seed."""
        return {seed: score.loss for seed, score in self.scores[activation][rate].items()}

    def learned(self, activation: str, rates: Iterable[float], seeds: Iterable[int]) -> bool:
        """Whether any of these runs ended below the loss it began with."""
        seeds = list(seeds)
        return any(self.scores[activation][rate][seed].learned for rate in rates for seed in seeds)

    def own_best(self, activation: str, rates: Iterable[float], seeds: Iterable[int]) -> dict[int, float]:
        """Loss by seed at the activation's own best rate, which is chosen on the mean of the other seeds.

        A lone seed has no others: its rate is chosen on itself, and nothing can be decided with it.
        """
        rates, seeds = list(rates), list(seeds)
        return {
            seed: self._loss(activation, self.best_rate(activation, rates, _others(seeds, seed)), seed)
            for seed in seeds
        }

    def at_best_mean(self, activation: str, rates: Iterable[float], seeds: Iterable[int]) -> dict[int, float]:
        """Loss by seed at the rate of the lowest mean loss over all these seeds."""
        rates, seeds = list(rates), list(seeds)
        if not seeds:
            return {}
        best = self.best_rate(activation, rates, seeds)
        return {seed: self._loss(activation, best, seed) for seed in seeds}

    def best_rate(self, activation: str, rates: Iterable[float], seeds: Iterable[int]) -> float:
        """The rate of the lowest mean loss over these seeds; of equal ones the lowest rate."""
        seeds = list(seeds)
        return min(rates, key=lambda rate: (math.fsum(self._loss(activation, rate, seed) for seed in seeds), rate))

    def sensitivities(self, activation: str, rates: Iterable[float], seeds: Iterable[int]) -> dict[int, float]:
        """Learning-rate sensitivity by seed, over these rates, which weigh alike; nats."""
        rates = list(rates)
        return {seed: self._sensitivity([self._loss(activation, rate, seed) for rate in rates]) for seed in seeds}

    def _sensitivity(self, losses: list[float]) -> float:
        # The losses are clipped at the initial one already, so that the highest changes nothing.
        return lr_sensitivity(losses, max(losses))

    def _loss(self, activation: str, rate: float, seed: int) -> float:
        return self.scores[activation][rate][seed].loss


def _others(seeds: list[int], seed: int) -> list[int]:
    return [other for other in seeds if other != seed] or [seed]
