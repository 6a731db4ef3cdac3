"""Finding the one thing that a reference means; every error says what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from plaudit import PluginError, UsageError, list_plugins, load_reward, load_verifier
from plaudit.plugins.known import FIRST_PARTY

LENGTH = "def length(completions, **kwargs):\n    return [float(len(c)) for c in completions]\n"
EXACT = "def exact(completion, reference):\n    return completion == reference\n"


def install_length(installed, name: str = "acme-rewards", version: str = "1.2.3", entry: str = "acme_length") -> None:
    module = name.replace("-", "_").lower()
    installed(name, version, {"plaudit.rewards": {entry: f"{module}:length"}}, {module: LENGTH})


@pytest.mark.parametrize(
    "reference",
    [
        "acme_length",
        "acme-rewards:acme_length",
        "Acme_Rewards:acme_length",
        "acme.rewards:acme_length",
        "acme_length@1.2",
        "acme_length@1.2.3",
        "acme_length>=1,<2",
        "acme-rewards:acme_length>=1.2",
        "acme_rewards:length",
    ],
)
def test_every_form_finds_an_installed_reward(installed, reference: str) -> None:
    install_length(installed)
    reward = load_reward(reference)
    assert reward(prompts=["p"], completions=["four"]) == [4.0]
    if reference != "acme_rewards:length":
        assert reward.__name__ == "acme_length"
        assert (reward.component.distribution, reward.component.version) == ("acme-rewards", "1.2.3")
    assert reward.component.reference == reference


@pytest.mark.parametrize("reference", ["acme_length@1.1", "acme_length>=2", "acme-rewards:acme_length@1.2.4"])
def test_a_version_not_met_names_found_and_wanted(installed, reference: str) -> None:
    install_length(installed)
    with pytest.raises(PluginError, match=r"wants .*found acme-rewards 1\.2\.3; pip install 'acme-rewards"):
        load_reward(reference)


def test_a_clash_lists_both_and_how_to_choose(installed) -> None:
    install_length(installed)
    install_length(installed, "zeta-rewards", "0.4")
    with pytest.raises(PluginError) as caught:
        load_reward("acme_length")
    message = str(caught.value)
    assert "acme-rewards 1.2.3 and zeta-rewards 0.4" in message
    assert "'acme-rewards:acme_length' or 'zeta-rewards:acme_length'" in message
    assert load_reward("zeta-rewards:acme_length").component.distribution == "zeta-rewards"


def test_rewards_and_verifiers_share_one_name_space(installed) -> None:
    install_length(installed, entry="shared_name")
    installed("acme-verify", "1", {"plaudit.verifiers": {"shared_name": "acme_verify:exact"}}, {"acme_verify": EXACT})
    with pytest.raises(PluginError, match="2 distributions offer 'shared_name'"):
        load_reward("shared_name")
    assert load_reward("acme-verify:shared_name").component.kind == "verifier"


def test_a_distribution_earlier_on_the_path_hides_its_older_self(installed) -> None:
    install_length(installed, version="1.0")
    install_length(installed, version="2.0")
    assert load_reward("acme_length").component.version == "2.0"


def test_a_name_may_hold_a_colon(installed) -> None:
    installed("acme-gym", "1", {"plaudit.verifiers": {"acme_gym:sums": "acme_gym:exact"}}, {"acme_gym": EXACT})
    for reference in ("acme_gym:sums", "acme-gym:acme_gym:sums"):
        assert load_reward(reference).__name__ == "acme_gym:sums"


def test_the_name_of_a_distribution_wins_over_a_module_of_that_name(installed) -> None:
    source = LENGTH + "def other(completions, **kwargs):\n    return [0.0 for c in completions]\n"
    installed("acme_both", "1", {"plaudit.rewards": {"other": "acme_both:length"}}, {"acme_both": source})
    assert load_reward("acme_both:other")(completions=["abc"]) == [3.0]
    assert load_reward("acme_both:length")(completions=["abc"]) == [3.0]


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (
            "acme_lenght",
            r"no reward or verifier named 'acme_lenght'; did you mean 'acme_length' \(acme-rewards 1\.2\.3\)",
        ),
        ("acme_lenght", r"installed: .*acme_length"),
        (
            "acme-rewards:nothing",
            r"acme-rewards has no reward or verifier named 'nothing' \(it has acme_length \(reward\)",
        ),
        ("no-such-dist:acme_length", r"called 'no-such-dist'; there is 'acme_length' \(acme-rewards 1\.2\.3\)"),
        ("no-such-dist:math", "neither an installed distribution nor a module is called 'no-such-dist'"),
        ("no_such_module.x:f", "neither an installed distribution nor a module is called 'no_such_module.x'"),
        ("acme_rewards:lengthy", "'lengthy' is not in acme_rewards; did you mean 'length'"),
        ("acme_rewards:length@1", "a version can be asked of an installed plugin"),
        ("./missing.py:f", "there is no file"),
    ],
)
def test_what_is_not_there(installed, reference: str, says: str) -> None:
    install_length(installed)
    with pytest.raises((PluginError, UsageError), match=says):
        load_reward(reference)


def test_an_unknown_name_of_ours_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plaudit.plugins.resolve.list_plugins", lambda kinds=None: [])
    with pytest.raises(
        PluginError, match="no reward or verifier named 'math'; pip install plaudit-math; installed: none"
    ):
        load_reward("math")
    with pytest.raises(PluginError, match="pip install plaudit-toolcall"):
        load_reward("toolcalls")


def test_a_file_of_that_name_is_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_reward.py").write_text(LENGTH)
    with pytest.raises(PluginError, match=r"for a file write \./my_reward\.py:function"):
        load_reward("my_reward")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "import no_such_library_at_all",
            r"cannot be imported: ModuleNotFoundError: No module named 'no_such_library_at",
        ),
        ("raise RuntimeError('needs\\na key')", "cannot be imported: RuntimeError: needs a key"),
        ("import sys; sys.exit(3)", "cannot be imported: SystemExit: 3"),
        ("def verify(:", "cannot be imported: SyntaxError"),
        ("x = 1", "'verify' is not in acme_broken"),
        ("verify = 3", "is a int; expected a function"),
        ("def verify(answer): return 1.0", "takes neither 'completions', as a reward, nor 'completion', as a verifier"),
        ("def verify(completion, /, reference): return 1.0", "positional-only"),
        ("class verify: pass", "has neither verify nor __call__"),
        (
            "class verify:\n    def __init__(self): 1 / 0\n    def verify(self, completion): ...",
            "__init__ failed with Zero",
        ),
    ],
)
def test_a_broken_plugin_is_named_with_its_error(installed, source: str, says: str) -> None:
    installed("acme-broken", "0.1", {"plaudit.verifiers": {"broken": "acme_broken:verify"}}, {"acme_broken": source})
    with pytest.raises(Exception, match=says) as caught:
        load_reward("broken")
    assert "verifier 'broken' (acme-broken 0.1)" in str(caught.value)
    assert "broken" in {plugin.name for plugin in list_plugins()}


def test_files_load_with_their_siblings_and_again_when_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "helper_of_mine.py").write_text("FACTOR = 2\n")
    file = tmp_path / "sub" / "mine.py"
    file.write_text("from helper_of_mine import FACTOR\n" + LENGTH.replace("float(len(c))", "FACTOR * len(c)"))
    monkeypatch.chdir(tmp_path)
    for reference in ("./sub/mine.py:length", "sub/mine.py:length", f"{file}:length"):
        reward = load_reward(reference)
        assert reward(completions=["abc"]) == [6.0]
        assert reward.component.reference == f"{file}:length"
        assert reward.component.distribution is None
    file.write_text(LENGTH)
    os.utime(file, (1, 1))
    assert load_reward("./sub/mine.py:length")(completions=["abc"]) == [3.0]


def test_a_module_in_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lies_here.py").write_text(LENGTH)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    assert load_reward("lies_here:length")(completions=["abc"]) == [3.0]


def test_broken_metadata_does_not_hide_the_others(installed) -> None:
    install_length(installed)
    folder = installed("acme-odd", "1", {"plaudit.rewards": {"odd": "acme_odd:f"}})
    (folder / "acme_odd-1.dist-info" / "METADATA").write_text("")
    from plaudit.plugins.registry import unreadable_distributions

    assert "acme_length" in {plugin.name for plugin in list_plugins()}
    assert any("acme_odd" in name for name, _ in unreadable_distributions())


def test_list_plugins_reads_every_group_in_order(installed) -> None:
    groups = ["rewards", "verifiers", "environments", "sandboxes", "corpora", "datasets", "models", "commands"]
    installed(
        "acme-all", "1", {f"plaudit.{g}": {"thing": "nowhere:thing"} for g in groups} | {"plaudit": {"h": "nowhere"}}
    )
    mine = [plugin for plugin in list_plugins() if plugin.distribution == "acme-all"]
    kinds = ["reward", "verifier", "environment", "sandbox", "corpus", "dataset", "model", "command", "hooks"]
    assert [plugin.kind for plugin in mine] == kinds
    assert mine[0].value == "nowhere:thing"


def test_a_reward_function_is_no_verifier(installed) -> None:
    install_length(installed)
    with pytest.raises(PluginError, match=r"'acme_length' \(acme-rewards 1\.2\.3\) is a reward function, not"):
        load_verifier("acme_length")


def test_names_of_our_own_are_told_once() -> None:
    names = [name for ours in FIRST_PARTY.values() for name in ours]
    assert len(names) == len(set(names))
