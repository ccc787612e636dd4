"""Rules that hold the house together, kept by a machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.apps import apps
from django.core.management import get_commands
from django.db import models

from calculet import checks
from calculet.celery import QUEUE_NAMES
from calculet.environment import ENVIRONMENT_NAMES

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("calculet", "inventory", "transfers")
LONGEST_FILE_LINES = 400

PRODUCT = sorted(
    path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if "migrations" not in path.parts
)
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def dotted(node: ast.AST) -> str:
    """`a.b.c` for names and attributes, empty for anything else."""
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


def faults_in(path: Path) -> Iterator[str]:
    """What the house bans in a module of the product, each with its line."""
    tree = tree_of(path)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield f"{node.lineno}: an import inside a function"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and dotted(node.func) in {"time.time", "print", "eval", "exec", "os.system"}:
            yield f"{node.lineno}: {dotted(node.func)}()"
        elif isinstance(node, ast.ImportFrom) and node.module == "time" and "time" in {n.name for n in node.names}:
            yield f"{node.lineno}: time.time under another name"
        elif isinstance(node, ast.Attribute) and node.attr in {"AutoAddPolicy", "WarningPolicy"}:
            yield f"{node.lineno}: a host key that nobody pinned"
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"{node.lineno}: an except that catches everything"
        elif isinstance(node, ast.Call) and any(
            word.arg == "shell" and isinstance(word.value, ast.Constant) and word.value.value for word in node.keywords
        ):
            yield f"{node.lineno}: a shell"


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_a_module_keeps_to_the_bans(path: Path) -> None:
    assert list(faults_in(path)) == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("def f():\n    import os", "an import inside a function"),
        ("import time\nx = time.time()", "time.time()"),
        ("from time import time", "time.time under another name"),
        ("print('x')", "print()"),
        ("try:\n    pass\nexcept:\n    pass", "an except that catches everything"),
        ("import subprocess\nsubprocess.run('ls', shell=True)", "a shell"),
        ("import paramiko\nparamiko.AutoAddPolicy()", "a host key that nobody pinned"),
    ],
)
def test_each_ban_is_seen(tmp_path: Path, line: str, fault: str) -> None:
    module = tmp_path / "module.py"
    module.write_text(line)
    assert fault in "\n".join(faults_in(module))


def states_set_in(path: Path) -> Iterator[str]:
    """Places that set a state of a row otherwise than by `advance`: `row.state = …` and `.update(state=…)`."""
    for node in ast.walk(tree_of(path)):
        for target in node.targets if isinstance(node, ast.Assign) else []:
            if isinstance(target, ast.Attribute) and target.attr == "state" and dotted(target.value) != "self":
                yield f"{target.lineno}: {dotted(target)} is assigned"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            named = {word.arg for word in node.keywords}
            if node.func.attr == "update" and "state" in named:
                yield f"{node.lineno}: update(state=…)"


def knows_models(path: Path) -> bool:
    return any(
        isinstance(node, ast.ImportFrom) and node.module is not None and re.search(r"(^|\.)models(\.|$)", node.module)
        for node in ast.walk(tree_of(path))
    )


@pytest.mark.parametrize("path", [path for path in PRODUCT if knows_models(path)], ids=name_of)
def test_states_change_in_one_place(path: Path) -> None:
    assert list(states_set_in(path)) == []


def test_the_one_place_is_the_lifecycle() -> None:
    found = {fault.split(": ")[1] for fault in states_set_in(ROOT / "calculet" / "lifecycle.py")}
    assert found == {"held.state is assigned", "update(state=…)"}


@pytest.mark.parametrize("path", PRODUCT, ids=name_of)
def test_a_module_can_be_read_in_one_sitting(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE_LINES


@pytest.mark.parametrize("path", sorted((ROOT / "static" / "js").glob("*.js")), ids=name_of)
def test_scripts_stay_a_garnish(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 150


def test_every_setting_is_documented_and_every_documented_one_exists() -> None:
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", text, flags=re.MULTILINE))
    source = (ROOT / "calculet" / "settings.py").read_text(encoding="utf-8")
    read = set(re.findall(r'(?:read_\w+|db_url)\(\s*"([A-Z_]+)"', source))
    assert documented == read
    assert {name for name in read if name.startswith("CALCULET_")} == ENVIRONMENT_NAMES


def test_every_refusal_is_documented() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    source = Path(str(checks.__file__)).read_text(encoding="utf-8")
    ids = set(re.findall(r'id="(calculet\.[A-Z]\d+)"', source))
    assert len(ids) >= 7
    assert set(re.findall(r"`(calculet\.[A-Z]\d+)`", text)) == ids


def test_every_queue_is_documented() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE)) >= set(QUEUE_NAMES)


def states_of(model: type[models.Model]) -> dict[str, str]:
    """The values of a model's state and their words."""
    field = model._meta.get_field("state")
    assert isinstance(field, models.Field)
    return {str(value): str(words) for value, words in field.flatchoices}


def stateful() -> list[type[models.Model]]:
    return [model for model in apps.get_models() if hasattr(model, "TRANSITIONS")]


def test_every_state_is_documented_in_the_words_of_the_pages() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert len(stateful()) >= 5
    for model in stateful():
        for value, words in states_of(model).items():
            assert f"*{words}*" in text, f"{model.__name__}: {value}"


@pytest.mark.parametrize("model", stateful(), ids=lambda model: model.__name__)
def test_every_state_says_what_may_follow(model: type[models.Model]) -> None:
    states = set(states_of(model))
    transitions = {str(state): {str(after) for after in follows} for state, follows in model.TRANSITIONS.items()}  # type: ignore[attr-defined]
    assert set(transitions) == states
    assert set().union(*transitions.values()) <= states
    assert all(state not in follows for state, follows in transitions.items())


class Loads(HTMLParser):
    """What a template loads or runs that the strict policy forbids."""

    ADDRESSES = frozenset({"src", "srcset", "poster", "data", "formaction", "action"})
    LOADING = frozenset({"link", "base", "use", "image"})  # where href loads; a plain link may lead elsewhere

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self._script_is_inline = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _value in attrs}
        self._script_is_inline = tag == "script" and "src" not in names
        for name, value in attrs:
            loads = name in self.ADDRESSES or (name == "href" and tag in self.LOADING)
            if loads and re.match(r"\s*(https?:)?//", value or ""):
                self.faults.append(f"<{tag} {name}> loads {value}")
            if name.startswith("on") or name == "style" or name.startswith("hx-on"):
                self.faults.append(f"<{tag} {name}> is inline")
            if (value or "").strip().lower().startswith("javascript:"):
                self.faults.append(f"<{tag} {name}> runs a script")
        if tag == "style" or self._script_is_inline:
            self.faults.append(f"<{tag}> is inline")


def loads_of(text: str) -> list[str]:
    parser = Loads()
    parser.feed(re.sub(r"{%.*?%}|{#.*?#}", "", text, flags=re.DOTALL))
    return parser.faults


# A report is also a file of its own, opened without the site: its style stands in it.
PAGES = [path for path in TEMPLATES if "documents" not in path.relative_to(ROOT / "templates").parts]


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_template_loads_nothing_from_elsewhere_and_holds_no_script_or_style(path: Path) -> None:
    assert loads_of(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", [path for path in TEMPLATES if path not in PAGES], ids=name_of)
def test_a_document_loads_nothing_from_elsewhere_and_runs_nothing(path: Path) -> None:
    assert [fault for fault in loads_of(path.read_text(encoding="utf-8")) if fault != "<style> is inline"] == []


@pytest.mark.parametrize(
    "text",
    [
        '<img src="https://elsewhere.example/a.png">',
        '<script src="//elsewhere.example/a.js"></script>',
        '<link href="http://elsewhere.example/a.css">',
        "<script>go()</script>",
        "<style>a{}</style>",
        '<p style="color:red">',
        '<a onclick="go()">',
        '<a href="javascript:go()">',
    ],
)
def test_what_a_template_must_not_load_is_seen(text: str) -> None:
    assert loads_of(text)


FORM = re.compile(r"<form\b[^>]*\bmethod=[\"']post[\"'][^>]*>.*?</form>", re.DOTALL | re.IGNORECASE)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_form_that_acts_carries_its_token(path: Path) -> None:
    for form in FORM.findall(path.read_text(encoding="utf-8")):
        assert "{% csrf_token %}" in form, form[:120]


PATH = re.compile(r"^(?:[\w.-]+/)*[\w.-]+\.(?:md|py|html|css|toml|yaml|yml|txt|sh)$|^(?:[\w.-]+/)+$")
ELSEWHERE = ("var/", "keys/", "landing/", "anchors/", "files/", "log/", "report/", "unpacked/", ".venv/")
# Files that the product writes, named in documents by their own names.
WRITTEN = frozenset({"anchors.txt", "report.html"})


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_documents_name_no_file_that_is_not_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for word in re.findall(r"`([^`\n]+)`", text):
        if not PATH.match(word) or word.startswith(ELSEWHERE) or word in WRITTEN:
            continue
        places = [ROOT / word, path.parent / word, *(ROOT / package / word for package in PACKAGES)]
        assert any(place.exists() for place in places), word


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_documents_name_no_command_that_is_not_there(path: Path) -> None:
    named = set(re.findall(r"manage\.py ([a-z_]+)", path.read_text(encoding="utf-8")))
    assert named <= set(get_commands())
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert set(re.findall(r"`?make ([a-z-]+)(?:`|\n| ONCE)", path.read_text(encoding="utf-8"))) <= targets


@pytest.mark.parametrize("path", [ROOT / "requirements.txt", ROOT / "requirements-dev.txt"], ids=name_of)
def test_every_requirement_is_pinned_and_explained(path: Path) -> None:
    lines = [
        line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith(("#", "-r"))
    ]
    assert all(re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?==[\w.]+", line) for line in lines), lines
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").lower()
    if path.name == "requirements.txt":
        for line in lines:
            assert re.split(r"\[|==", line)[0].lower() in text, line
