"""What the arguments of a tool mean."""

from __future__ import annotations

import pytest

from takeback.core.tool_arguments import from_address


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
