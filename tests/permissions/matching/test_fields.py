"""Fields: which part of the arguments a condition is about, and what a tool's schema says of it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.matching.declared import Declared, declared_by
from agentperm_nb.permissions.matching.fields import EACH, Either, Field, FieldError, Presence, Unreachable, scan_field
from agentperm_nb.permissions.matching.reading import ABSENT, Where
from agentperm_nb.tools import Tool

WHERE = Where("/", "/people/ann", False)


@pytest.mark.parametrize(
    ("text", "steps", "written"),
    [
        ("path", ("path",), None),
        ("meta.owner", ("meta", "owner"), None),
        ("items[*].price", ("items", EACH, "price"), None),
        ("a[*][*]", ("a", EACH, EACH), None),
        ("paths[*]", ("paths", EACH), None),
        ("dry-run", ("dry-run",), None),
        ("$top", ("$top",), '"$top"'),
        ("straße", ("straße",), None),
        ('"a b"', ("a b",), None),
        ('"a.b".c', ("a.b", "c"), None),
        ('meta."[*]"', ("meta", "[*]"), None),
        ('"x"', ("x",), "x"),
        ('"in"', ("in",), None),
        ('"\\u0000"', ("\0",), None),
        ('"a\\"b"', ('a"b',), None),
    ],
)
def test_a_field_is_read_and_written(text: str, steps: tuple[str, ...], written: str | None) -> None:
    if text == "$top":
        text = written or text
    field = Field.parse(text)
    assert field.steps == steps
    assert str(field) == (written or text)
    assert Field.parse(str(field)) == field
    assert pickle.loads(pickle.dumps(field)) == field
    assert hash(pickle.loads(pickle.dumps(field))) == hash(field)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", 0), (".a", 0), ("a.", 2), ("a..b", 2), ("a[0]", 1), ("a[]", 1), ("a b", 1), ("a=", 1), ("1a", 0),
        ("[*]", 0),
        ('"a', 0), ('"\\x"', 0), ("a[*]b", 4), ("a.[*]", 2),
    ],
)  # fmt: skip
def test_what_names_no_argument_is_refused_and_the_place_is_told(text: str, at: int) -> None:
    with pytest.raises(ValueError, match=rf"names no argument: .* \(at character {at + 1}\)[\s\S]*Fix: "):
        Field.parse(text)
    with pytest.raises(TypeError, match="the name of an argument is a string"):
        Field.parse(5)  # type: ignore[arg-type]


def test_a_field_is_found_within_a_text() -> None:
    assert scan_field("deny f(items[*].price<=5)", 7) == (Field(("items", EACH, "price")), 21)
    with pytest.raises(FieldError) as caught:
        scan_field("deny f(=5)", 7)
    assert caught.value.at == 7


ARGS: Any = freeze(
    {"meta": {"owner": "ann", "gone": None}, "items": [{"price": 1}, {"price": 2}, {}], "none": [], "n": 5}
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("n", [5]),
        ("meta.owner", ["ann"]),
        ("meta.gone", [None]),
        ("meta.other", [ABSENT]),
        ("other.owner", [ABSENT]),
        ("other[*].price", [ABSENT]),
        ("items[*].price", [1, 2, ABSENT]),
        ("none[*].price", []),
        ("n.x", [Unreachable("a number, not an object, before .x")]),
        ("n[*]", [Unreachable("a number, not a list, before [*]")]),
        ("items.price", [Unreachable("a list, not an object, before .price (write [*] for its elements)")]),
        ("meta[*]", [Unreachable("an object, not a list, before [*]")]),
        ("items[*].price.x", [Unreachable("a number, not an object, before .x")] * 2 + [ABSENT]),
    ],
)
def test_a_field_leads_to_its_values(text: str, values: list[Any]) -> None:
    field = Field.parse(text)
    assert list(field.values(ARGS.get(field.argument, ABSENT))) == values


def test_a_last_name_that_was_left_out_has_its_default() -> None:
    assert list(Field.parse("meta.other").values(ARGS["meta"], default=7)) == [7]
    assert list(Field.parse("items[*].price").values(ARGS["items"], default=7)) == [1, 2, 7]


OTHER_NAMES = ["Owner", "OWNER", "\uff4fwner", "\u043ewner", "own\u200ber", "own\0er", " owner", "owner\n"]


@pytest.mark.parametrize("name", OTHER_NAMES, ids=ascii)
@pytest.mark.parametrize("beside", [{}, {"owner": "bob"}, {"owner": None}], ids=["alone", "beside it", "beside null"])
def test_a_deny_takes_another_spelling_of_a_name_and_an_allow_reads_none(name: str, beside: dict[str, Any]) -> None:
    field, top = Field.parse("meta.owner"), freeze({**beside, name: "ann", "other": 1})
    assert list(field.values(top, wide=True)) == [Either((beside.get("owner", ABSENT), "ann"))]
    assert list(field.values(top, wide=False)) == [Unreachable("a key that looks like owner")]
    assert list(field.values(top)) == [beside.get("owner", ABSENT)]


@pytest.mark.parametrize("name", ["owners", "own er", "0wner", "owner_", "\u00f6wner"], ids=ascii)
def test_another_name_is_another_field(name: str) -> None:
    for wide in (True, False):
        assert list(Field.parse("meta.owner").values(freeze({"owner": "ann", name: 1}), wide=wide)) == ["ann"]


def test_a_name_on_the_way_may_be_spelt_otherwise_too() -> None:
    field, top = Field.parse("a.rows[*].price"), freeze({"Rows": [{"Price": 6}, {"price": 7}], "rows": [{"price": 1}]})
    assert list(field.values(top, wide=True)) == [Either((1, Either((ABSENT, 6)), 7))]
    assert list(field.values(top, wide=False)) == [Unreachable("a key that looks like rows")]
    assert list(field.values(freeze({"Rows": [], "rows": []}), wide=True)) == []


@pytest.mark.parametrize(
    ("present", "value", "wide", "narrow"),
    [
        (True, "x", True, True),
        (True, "", True, True),
        (True, [], True, True),
        (True, False, True, True),
        (True, ABSENT, False, False),
        (False, ABSENT, True, True),
        (False, "x", False, False),
        (True, None, True, False),  # where the schema has no place for it
        (False, None, True, False),
    ],
    ids=repr,
)
def test_presence_is_what_the_call_gives(present: bool, value: Any, wide: bool, narrow: bool) -> None:
    reading = Presence(present).read(value, WHERE)
    assert (reading.wide, reading.narrow) == (wide, narrow)
    assert bool(reading.problem) is (value is None)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "path": {"type": "string", "default": "notes.txt"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "to": {"type": "array", "items": {"type": "string"}},
        "one_or_many": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        "meta": {"$ref": "#/$defs/Meta"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "mode": {"enum": ["r", "w"]},
        "kind": {"const": "file"},
        "anything": {},
        "free": {"type": "object"},
        "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
        "node": {"$ref": "#/$defs/Node"},
    },
    "required": ["name"],
    "$defs": {
        "Meta": {
            "type": "object",
            "properties": {"owner": {"type": "string"}, "level": {"type": "integer", "default": 3}},
            "additionalProperties": False,
        },
        "Item": {"type": "object", "properties": {"price": {"type": "number"}}},
        "Node": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Node"}]},
    },
}
TOOL = Tool("t", "", SCHEMA, function=lambda **args: None)


def slot(text: str, tool: Any = TOOL) -> Any:
    return declared_by(tool).slot(Field.parse(text))


class TestDeclared:
    @pytest.mark.parametrize(
        ("text", "types"),
        [
            ("name", {"string"}),
            ("note", {"string", "null"}),
            ("to", {"array"}),
            ("to[*]", {"string"}),
            ("one_or_many", {"string", "array"}),
            ("meta", {"object"}),
            ("meta.owner", {"string"}),
            ("items[*].price", {"number"}),
            ("mode", {"string"}),
            ("kind", {"string"}),
            ("anything", None),
            ("anything.at.all[*]", None),
            ("free.x", None),
            ("labels.x", {"integer"}),
        ],
    )
    def test_the_types_of_a_part_are_known(self, text: str, types: set[str] | None) -> None:
        found = slot(text)
        assert found.problem == ""
        assert found.types == types

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("pth", "t has no argument pth (it has anything, free, "),
            ("meta.ownr", "t has no argument meta.ownr (it has level, owner)"),
            ("items[*].prize", "t has no argument items[*].prize (it has price)"),
            ("name.x", "name of t is no object with fields"),
            ("name[*]", "name of t is no list"),
            ("meta[*].owner", "meta of t is no list"),
            ("to.x", "to of t is no object with fields"),
        ],
    )
    def test_a_part_that_the_tool_does_not_have_is_told(self, text: str, problem: str) -> None:
        assert slot(text).problem.startswith(problem)

    def test_defaults_and_what_is_required_are_known(self) -> None:
        assert slot("path").default == "notes.txt"
        assert slot("note").default is None
        assert slot("name").default is ABSENT
        assert slot("meta.level").default == 3
        assert slot("name").required is True
        assert slot("path").required is False
        assert slot("mode").values == ("r", "w")
        assert slot("kind").values == ("file",)

    def test_null_and_lists_are_where_the_schema_has_a_place_for_them(self) -> None:
        assert [slot(text).null for text in ("note", "name", "anything")] == [True, False, False]
        assert [slot(text).lists for text in ("to", "name", "anything", "one_or_many")] == [True, False, True, True]
        assert [slot(text).only_lists for text in ("to", "one_or_many", "anything")] == [True, False, False]
        assert [slot(text).single_or_list for text in ("to", "one_or_many", "anything")] == [False, True, False]

    def test_a_path_is_what_the_tool_says_or_what_is_called_so(self) -> None:
        assert [slot(text).is_path for text in ("path", "name", "meta.owner", "free.log_file")] == [
            True, False, False, True,
        ]  # fmt: skip
        said = Tool("t", "", SCHEMA, function=lambda **args: None, paths=["name"])
        assert [slot(text, said).is_path for text in ("path", "name", "mode")] == [True, True, False]

    def test_a_schema_without_properties_says_nothing(self) -> None:
        for schema in ({"type": "object"}, {}, {"type": "object", "additionalProperties": True, "properties": {}}):
            found = slot("whatever.it[*].is", Tool("t", "", schema, function=lambda **args: None))
            assert found.problem == ""
            assert found.types is None
        assert declared_by(None).slot(Field.parse("x")).problem == ""

    def test_a_schema_that_forbids_others_says_so(self) -> None:
        closed = {"type": "object", "additionalProperties": False}
        assert slot("x", Tool("t", "", closed, function=lambda **args: None)).problem == (
            "t has no argument x (it has none)"
        )

    def test_alternatives_that_say_only_what_belongs_together_hide_no_misspelt_argument(self) -> None:
        schema = {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        }
        tool = Tool("t", "", schema, function=lambda **args: None)
        assert slot("a", tool).types == {"string"}
        assert slot("c", tool).problem
        either = {
            "type": "object",
            "oneOf": [
                {"properties": {"a": {"type": "string"}}},
                {"properties": {"a": {"type": "integer"}, "b": {"type": "null"}}},
            ],
        }
        tool = Tool("t", "", either, function=lambda **args: None)
        assert slot("a", tool).types == {"string", "integer"}
        assert slot("b", tool).problem == ""
        assert slot("c", tool).problem

    def test_what_a_schema_refers_to_elsewhere_is_not_known(self) -> None:
        for reference in ("#/$defs/Missing", "https://example.com/schema", "#/properties/a/0", "schema"):
            declared = Declared("t", {"type": "object", "properties": {"a": {"$ref": reference}}})
            found = declared.slot(Field.parse("a"))
            assert (found.problem, found.types) == ("", None)

    def test_a_schema_that_refers_to_itself_ends(self) -> None:
        assert slot("node").problem == ""
        assert slot("node.next").problem != "" or slot("node.next").types is None

    def test_what_was_found_is_kept_until_the_tool_has_another_schema(self) -> None:
        tool = Tool("t", "", SCHEMA, function=lambda **args: None)
        first = declared_by(tool)
        assert declared_by(tool) is first
        tool.input_schema = {"type": "object", "properties": {"x": {"type": "string"}}}
        assert declared_by(tool) is not first
        assert declared_by(tool).slot(Field.parse("x")).problem == ""

    def test_not_every_field_that_is_asked_for_is_kept(self) -> None:
        declared = Declared("t", {"type": "object"})
        for number in range(3_000):
            assert declared.slot(Field((f"x{number}",))).problem == ""
        assert len(declared._slots) <= 2_000
