import enum

import pytest

from neurips25.nn import parse_enum


class Colour(enum.StrEnum):
    RED = "red"
    GREEN = "green"


@pytest.mark.parametrize("value", ["green", Colour.GREEN])
def test_text_and_members_give_the_member(value):
    assert parse_enum(Colour, value, "colour") is Colour.GREEN


@pytest.mark.parametrize("value", ["gren", "GREEN"])
def test_unknown_text_lists_the_options_and_the_nearest(value):
    with pytest.raises(ValueError, match=rf"colour='{value}' is not one of red, green; did"):
        parse_enum(Colour, value, "colour")


def test_the_nearest_option_is_named():
    with pytest.raises(ValueError, match="did you mean 'green'"):
        parse_enum(Colour, "gren", "colour")
