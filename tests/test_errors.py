"""What is offered in place of a name that is not known."""

from actlab.errors import suggestion


def test_the_nearest_name_is_offered_and_a_changed_place_is_nearer_than_a_lost_letter():
    assert suggestion("gleu", ["glu", "gelu", "tanh"]) == "did you mean 'gelu'?"


def test_names_are_listed_where_none_is_near_and_of_very_many_the_first():
    assert suggestion("xyz", ["tanh", "relu"]) == "valid: relu, tanh."
    many = suggestion("xyz", [f"run-{index:04d}" for index in range(1330)])
    assert many.startswith("valid: run-0000, ") and many.endswith(", run-0049 and 1,280 more.")
