"""Which arguments a tool says are paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from agentperm_nb import Agent, Tool, tool
from agentperm_nb.permissions.matching.paths import is_path_argument


@dataclass
class _File:
    where: str
    size: int


SCHEMA = {
    "type": "object",
    "properties": {
        "target": {"type": "string"},
        "files": {"type": "array", "items": {"$ref": "#/$defs/file"}},
        "either": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "string"}}]},
        "anything": {},
    },
    "$defs": {"file": {"type": "object", "properties": {"where": {"type": "string"}, "size": {"type": "integer"}}}},
}


def _run(**arguments: Any) -> str:
    return "done"


def test_a_tool_says_which_arguments_are_paths() -> None:
    @tool(paths=["target", "target", "sources"])
    def copy(target: str, sources: list[str]) -> str:
        return "done"

    assert copy.paths == ("target", "sources")
    assert Tool("copy", "", SCHEMA, function=_run).paths == ()


@pytest.mark.parametrize("place", ["target", "files", "files[*].where", "either[*]", "anything.deep[*].er"])
def test_a_place_that_the_schema_has_may_be_named(place: str) -> None:
    assert Tool("copy", "", SCHEMA, function=_run, paths=[place]).paths == (place,)


@pytest.mark.parametrize(
    ("place", "known"),
    [
        ("taget", "it has anything, either, files, target"),
        ("files.where", "it has none there"),
        ("files[*].wher", "it has size, where"),
        ("target[*]", "it has none there"),
        ("target.name", "it has none there"),
    ],
)
def test_a_place_that_the_schema_does_not_have_is_refused(place: str, known: str) -> None:
    with pytest.raises(ValueError, match="which is not among its arguments") as caught:
        Tool("copy", "", SCHEMA, function=_run, paths=[place])
    assert known in str(caught.value)
    assert "\nFix: " in str(caught.value)


def test_a_name_that_the_function_does_not_have_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="names 'pth', which is not among its arguments"):

        @tool(paths=["pth"])
        def read(path: str) -> str:
            return "done"


def test_a_function_that_takes_any_argument_may_have_paths_of_any_name() -> None:
    assert tool(name="run", paths=["x"])(_run).paths == ("x",)


def test_a_field_that_an_annotation_does_not_have_is_refused_when_the_agent_sees_its_tools() -> None:
    @tool(paths=["files[*].wher"])
    def read(files: list[_File]) -> str:
        return "done"

    with pytest.raises(ValueError, match="it has size, where"):
        Agent([read])
    known = tool(name="read", paths=["files[*].where"])(read.function)
    assert Agent([known]).tools


@pytest.mark.parametrize("paths", ["path", b"path", None, 5, [1], [["path"]]])
def test_what_is_no_list_of_names_is_refused(paths: Any) -> None:
    with pytest.raises(TypeError, match="takes a list of argument names"):
        Tool("copy", "", SCHEMA, function=_run, paths=paths)


@pytest.mark.parametrize("place", ["", " ", "a..b", ".a", "a[0]", "a[*", "a b", "[*]"])
def test_what_is_no_place_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="which is no place in its arguments"):
        Tool("copy", "", SCHEMA, function=_run, paths=[place])


@pytest.mark.parametrize(
    "name",
    [
        "path", "paths", "file_path", "filePath", "filename", "file", "files", "folder", "dir", "directory", "root",
        "src", "dst", "source", "destination", "cwd", "log_file", "outputDir", "target-path", "PATH", "files[*].path",
        "paths[*]", "options.config_file", "output_folder",
    ],
)  # fmt: skip
def test_an_argument_that_is_called_like_a_path_is_one(name: str) -> None:
    assert is_path_argument(None, name)


@pytest.mark.parametrize("name", ["command", "query", "pattern", "profile", "content", "pathology", "file.content", ""])
def test_another_argument_is_none(name: str) -> None:
    assert not is_path_argument(None, name)


def test_a_tool_may_say_that_another_argument_is_a_path_too() -> None:
    copy = Tool("copy", "", SCHEMA, function=_run, paths=["target", "files[*].where", "either"])
    assert is_path_argument(copy, "target")
    assert is_path_argument(copy, "files[*].where")
    assert is_path_argument(copy, "either[*]")
    assert not is_path_argument(copy, "files[*].size")
    assert is_path_argument(copy, "log_file")


_LIKE_PATHS = """
file_name filename outfile outdir logfile fname fpath infile keyfile output_file fileName workdir base_dir folder_name
config_path dir_names subdirs jobs[*].logfile
"""
_OTHERWISE = "profile profiles size name mode redirect file_size path_type user_name content direction command"


@pytest.mark.parametrize("name", _LIKE_PATHS.split())
def test_other_names_of_paths_are_known_too(name: str) -> None:
    assert is_path_argument(None, name)


@pytest.mark.parametrize("name", _OTHERWISE.split())
def test_a_name_that_only_begins_or_ends_like_one_is_none(name: str) -> None:
    assert not is_path_argument(None, name)
