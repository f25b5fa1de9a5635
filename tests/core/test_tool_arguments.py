"""What the arguments of a tool mean."""

from __future__ import annotations

import pytest

from takeback.core.tool_arguments import from_address, sql_in


@pytest.mark.parametrize(
    "text, path",
    [
        ("file:///a%20b", "/a b"),
        ("FILE://localhost/a", "/a"),
        ("file:///a/file:///b", "/a/file:///b"),
        ("/a%20b", "/a%20b"),
        ("https://example.org/a", "https://example.org/a"),
    ],
)
def test_a_file_s_address_is_the_path_that_it_means(text: str, path: str) -> None:
    assert from_address(text) == path


def test_sql_is_known_also_where_it_begins_with_a_comment_or_goes_on_over_lines() -> None:
    for text in ("/* of\nold */ DELETE FROM orders", "grant select\non orders to ann"):
        assert list(sql_in({"query": text})) == [text]
    assert list(sql_in({"query": "red shoes\non sale"})) == []
