"""What is offered in place of a name that is not known."""

import re

from actlab.errors import suggestion


def test_the_nearest_name_is_offered_and_a_changed_place_is_nearer_than_a_lost_letter():
    assert suggestion("gleu", ["glu", "gelu", "tanh"]) == "did you mean 'gelu'?"


def test_where_none_is_near_a_few_names_are_listed_and_of_many_the_nearest_three():
    assert suggestion("xyz", ["tanh", "relu"]) == "choose one of relu, tanh."
    many = suggestion("my_run-13-of_the_sweep", [f"run-{index:04d}" for index in range(1330)])
    assert "1,330" in many and len(set(re.findall(r"'run-\d{4}'", many))) == 3 and "'run-0013'" in many
    assert len(suggestion("", map(str, range(50)))) < 80


def test_a_path_is_found_by_its_last_name_and_by_its_initials():
    paths = ["model.norm", "optimizer.learning_rate", "train.n_steps", "train.seed_every"]
    assert suggestion("steps", paths) == "did you mean 'train.n_steps'?"
    for name in ("lr", "optimizer.lr", "learning_rate"):
        assert suggestion(name, paths) == "did you mean 'optimizer.learning_rate'?"
    # An equal section alone makes nothing similar.
    assert "did you mean" not in suggestion("optimizer.type", [*paths, "optimizer.eps", *map(str, range(9))])
