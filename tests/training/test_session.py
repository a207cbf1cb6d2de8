"""What a session makes of its data before it trains."""

import numpy as np
import pytest

import actlab.data
from actlab.config import Config, replace
from actlab.training import session


@pytest.fixture
def tokens(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, n in (("train", 40), ("valid", 9)):
        lines = [f"{name} story number {i}\n<|endoftext|>\n" for i in range(n)]
        (folder / f"{name}.txt").write_text("".join(lines))
    actlab.data.prepare("mine", tmp_path, source=folder, progress=False)
    return actlab.data.open_tokens("mine", tmp_path, "bytes", progress=False)


def feed_of(tokens, **changes):
    config = replace(Config(), **{"model.context": 8, "data.batch_size": 4, **changes})
    return session._feed(config, tokens)


def test_every_validation_token_is_weighed_once_and_the_filler_not_at_all(tokens):
    feed, floor = feed_of(tokens, **{"data.batch_size": 5})
    n_targets = len(tokens.validation.tokens) - 1
    assert feed.weights_NBL.sum() == n_targets and floor is None
    assert feed.windows_NBL.shape[1:] == (5, 9)
    assert feed.weights_NBL.size - n_targets > 8, "the test wants a whole window of filler"
    scored = feed.windows_NBL[..., 1:][feed.weights_NBL == 1]
    np.testing.assert_array_equal(scored, tokens.validation.tokens[1:])


def test_training_windows_differ_by_step_and_by_seed_and_come_in_the_order_of_steps(tokens):
    feed, _ = feed_of(tokens)
    first, later = feed.train(0, 3), feed.train(2, 3)
    assert first.shape == (1, 3, 4, 9)
    np.testing.assert_array_equal(first[:, 2], later[:, 0])
    assert not np.array_equal(first[:, 0], first[:, 1])
    assert not np.array_equal(first, feed_of(tokens, seed=1)[0].train(0, 3))
