"""Which servers a configuration names."""

from __future__ import annotations

import pytest
from plaudit.errors import UsageError
from plaudit.grpo import GRPOConfig
from plaudit.grpo.generating.serving import server_urls

NAMED = [
    ({}, ["http://127.0.0.1:8000"]),
    ({"vllm_server_host": "10.0.0.7", "vllm_server_port": 9000}, ["http://10.0.0.7:9000"]),
    ({"vllm_server_base_url": "https://host/"}, ["https://host"]),
    ({"vllm_server_base_url": "http://a:1, http://b:2"}, ["http://a:1", "http://b:2"]),
    ({"vllm_server_base_url": ["http://a:1", "http://b:2/"], "vllm_server_port": 5}, ["http://a:1", "http://b:2"]),
]


@pytest.mark.parametrize(("fields", "expected"), NAMED)
def test_servers_by_url_list_or_host(fields, expected, tmp_path):
    assert server_urls(GRPOConfig(output_dir=str(tmp_path), use_cpu=True, **fields)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("localhost:8000", "'localhost:8000' is no URL"),
        ("http://a:1,,http://b:1", "'' is no URL"),
        ("http://a:1,http://a:1/", "http://a:1 twice"),
    ],
)
def test_what_is_no_server_is_named(value, expected, tmp_path):
    with pytest.raises(UsageError, match=expected):
        server_urls(GRPOConfig(output_dir=str(tmp_path), use_cpu=True, vllm_server_base_url=value))
