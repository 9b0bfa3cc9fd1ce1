"""Families from outside: the page docs/adding-a-parser.md, entry points, plugin files, `auto`."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from parsers import MixedParsersError, ModelFacts, ReasoningGrammar, ToolGrammar, build, plugins, registry
from parsers.choose import choose
from parsers.grammar import Signs
from parsers.plugins import PluginError, load_file, load_installed

PAGE = (Path(__file__).parents[2] / "docs" / "adding-a-parser.md").read_text(encoding="utf-8")
FAMILY, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_REASONING", list(registry._REASONING))
    monkeypatch.setattr(registry, "_TOOLS", list(registry._TOOLS))


@pytest.fixture
def brackets(tmp_path: Path) -> Iterator[Path]:
    """The page's family."""
    (tmp_path / "brackets.py").write_text(FAMILY, encoding="utf-8")
    yield tmp_path / "brackets.py"
    sys.modules.pop("brackets", None)


def model(template: str, *tokens: str) -> ModelFacts:
    return ModelFacts(is_token=lambda text: text in tokens, chat_template=template)


def test_the_page_is_short() -> None:
    assert len([line for line in (FAMILY + TEST).splitlines() if line.strip()]) < 60


def test_the_pages_test_passes(brackets: Path) -> None:
    (brackets.parent / "test_brackets.py").write_text(TEST, encoding="utf-8")
    code = "import test_brackets; test_brackets.test_brackets()"
    root = str(Path(__file__).parents[2])
    subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = ['.', {root!r}]; {code}"],
        cwd=brackets.parent,
        check=True,
    )


def test_a_plugin_file_registers_and_is_found_by_its_signs(brackets: Path) -> None:
    load_file(str(brackets))
    assert build("brackets", "brackets").has_tools
    picks = choose(model("Write [[call NAME]]...[[end]]"))
    assert [pick.name for pick in picks] == ["brackets", "brackets"]
    assert picks[0].reason == "the chat template has '[[call ' and '[[end]]'"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("from vllm.tool_parsers import ToolParser\n", "written for vLLM's parser classes"),
        ("def f():\n    import vllm\n", "docs/adding-a-parser.md shows how to write one"),
        ("x = 1\n", "registers no new parser"),
        ("x = (\n", "is not Python"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("from parsers import register\nregister(3)\n", "neither a ReasoningGrammar nor a ToolGrammar"),
        (
            "from parsers import ToolGrammar, register\nregister(ToolGrammar(names=('hermes',)))\n",
            "plugin.py cannot be used: the tool parser name hermes is taken; parsers of an installed package",
        ),
        (
            "from parsers import ToolGrammar, register\nregister(ToolGrammar(names=('auto',)))\n",
            "the tool parser name auto is taken",
        ),
    ],
)
def test_a_plugin_that_cannot_work_is_refused(tmp_path: Path, source: str, why: str) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(PluginError, match=re.escape(why)):
        load_file(str(path))


@pytest.mark.parametrize("name", ["nothing.py", "brackets.txt"])
def test_a_file_that_is_no_python_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "brackets.txt").write_text("x = 1", encoding="utf-8")
    with pytest.raises(PluginError, match=r"cannot be read|must end in \.py"):
        load_file(str(tmp_path / name))


def installed(monkeypatch: pytest.MonkeyPatch, **values: Any) -> None:
    """Entry points whose objects are `values`."""
    module = types.ModuleType("their_parsers")
    vars(module).update(values)
    monkeypatch.setitem(sys.modules, "their_parsers", module)
    points = EntryPoints(
        EntryPoint(name, f"their_parsers:{name}", plugins.ENTRY_POINTS) for name in [*values, *_MISSING]
    )
    monkeypatch.setattr(plugins, "entry_points", lambda group: points.select(group=group))


_MISSING = ["gone"]


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails does not keep the others out, and loading twice does no harm."""
    one, two = ReasoningGrammar(names=("theirs",)), ToolGrammar(names=("theirs",))
    taken = ToolGrammar(names=("hermes",))
    installed(monkeypatch, one=one, both=(one, two), wrong="no grammar", taken=taken)
    for _ in range(2):
        failures = load_installed()
        wrong = ["their_parsers:wrong", "their_parsers:taken", "their_parsers:gone"]
        assert [failure.split()[6] for failure in failures] == wrong
        assert failures[1].endswith(" cannot be used: the tool parser name hermes is taken")
    family = build("theirs", "theirs")
    assert (family.reasoning, family.tools) == (one, two)


def grammars(*all_signs: Signs, framing: str = "", needs: tuple[str, ...] = ()) -> None:
    """Register a family of both kinds for each of the signs: `their0`, `their1`, ..."""
    for number, signs in enumerate(all_signs):
        name = f"{framing or 'their'}{number}"
        registry.register(
            ReasoningGrammar(names=(name,), signs=(signs,), framing=framing, required_tokens=needs),
            ToolGrammar(names=(name,), signs=(signs,), framing=framing, required_tokens=needs),
        )


def test_the_most_signs_win() -> None:
    grammars(
        Signs(template=("<<a>>",)),
        Signs(template=("<<a>>", "<<b>>"), lacks=("<<no>>",)),
        Signs(template=("<<a>>", "<<c>> <<d>>")),
        Signs(template=("<<a>>", "<<b>>"), tokens=("<<a>>", "<<d>>")),
    )
    assert choose(model("<<a>>"))[0].name == "their0"
    assert choose(model("<<a>> <<b>> <<no>>"))[0].name == "their0"
    assert choose(model("<<a>> <<b>>"))[0].name == "their1"
    assert choose(model("<<a>> <<b>> <<c>> <<d>>"))[0].name == "their2"
    assert choose(model("<<a>> <<b>>", "<<a>>", "<<d>>"))[1].name == "their3"


def test_a_family_that_the_vocabulary_does_not_fit_is_not_chosen() -> None:
    grammars(Signs(template=("<<a>>",)), needs=("<<a>>",))
    assert choose(model("<<a>>"))[0].name is None
    assert choose(model("<<a>>", "<<a>>"))[0].name == "their0"


def test_nothing_fits() -> None:
    nothing = choose(model("Hello"))
    assert {pick.name for pick in nothing} == {None}
    assert nothing[0].reason.startswith("chat template, vocabulary and model type have not")
    assert choose(ModelFacts(is_token=lambda text: False))[0].reason == (
        "the model has no chat template to go by"
    )


def test_framings_are_not_mixed() -> None:
    """Where one of two picks shares a framing, the other follows it; what is settled stays."""
    registry.register(ToolGrammar(names=("plain",), signs=(Signs(template=("<<a>>", "<<b>>", "<<c>>")),)))
    grammars(Signs(template=("<<a>>", "<<b>>")), framing="frame")
    facts = model("<<a>> <<b>> <<c>>")
    assert [pick.name for pick in choose(facts)] == [None, "plain"]
    assert choose(facts, "frame0", "auto")[1].name == "frame0"
    with pytest.raises(MixedParsersError, match="frame0 and --tool-call-parser plain cannot be combined"):
        build("frame0", "plain")
