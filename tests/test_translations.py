"""The pages in Simplified Chinese: the catalog is whole, it is what the product uses, and pages speak it."""

from __future__ import annotations

import ast
import io
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po
from django.db import models
from django.template import Context, Template
from django.test import Client
from django.utils.translation import override
from django.utils.translation.template import templatize

from calculet.pages.words import WORDS
from calculet.people.models import Person
from calculet.people.roles import Role
from tests.test_architecture import PRODUCT, ROOT, TEMPLATES, name_of, tree_of
from transfers.engine.types import CheckLevel, Outcome

FOLDER = ROOT / "locale" / "zh_Hans" / "LC_MESSAGES"
MESSAGE = "django.utils.translation"
SAID = "inventory.manifests.said"
# Where in the arguments a call has its context and its message.
CALLS = {"gettext": (None, 0), "ngettext": (None, 0), "pgettext": (0, 1), "npgettext": (0, 1)}
TEXT = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
TEMPLATE_CALL = re.compile(rf"\b(_|n?p?gettext)\(({TEXT}(?:, ?{TEXT})*)")
PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]|%%|\{\w*\}|</?\w+>")
CHINESE = re.compile(r"[\u4e00-\u9fff]")
ALIKE = {
    "zstd",
    "MiB",
    "of",
    "Mbit",
    "s",
    "stated",
    "find",
    "SFTP",
    "Webhook",
}  # words that Chinese keeps, or writes as a sign

Key = tuple[str | None, str]


def key_of(message: Message) -> Key:
    return message.context, texts(message.id)[0]


def texts(value: object) -> list[str]:
    return [str(text) for text in value] if isinstance(value, (list, tuple)) else [str(value)]


def told(catalog: Catalog) -> dict[Key, tuple[list[str], list[str]]]:
    """Messages and translations, without the header."""
    return {key_of(message): (texts(message.id), texts(message.string)) for message in catalog if message.id}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return read_po(io.BytesIO((FOLDER / "django.po").read_bytes()), domain="django")


def python_messages(path: Path) -> Iterator[Key]:
    """Messages of a module: calls of what it imports for translation, whatever the names it gives them."""
    tree = tree_of(path)
    names = {
        alias.asname or alias.name: alias.name.removesuffix("_lazy").removesuffix("_noop")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == MESSAGE
        for alias in node.names
    }
    if any(isinstance(node, ast.ImportFrom) and node.module == SAID for node in ast.walk(tree)):
        names["_"] = "gettext"  # sentences of the plain parts, translated where they are shown
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        places = CALLS.get(names.get(node.func.id, ""))
        if places is None:
            continue
        given = [argument.value if isinstance(argument, ast.Constant) else None for argument in node.args]
        context, message = (None if place is None else given[place] for place in places)
        if isinstance(message, str):
            yield (context if isinstance(context, str) else None), message


def template_messages(path: Path) -> Iterator[Key]:
    """Messages of a template, read as the message extractor reads it."""
    for call in TEMPLATE_CALL.finditer(templatize(path.read_text(encoding="utf-8"), origin=str(path))):
        given = [ast.literal_eval(text) for text in re.findall(TEXT, call[2])]
        context, message = CALLS["gettext" if call[1] == "_" else call[1]]
        yield (None if context is None else given[context]), given[message]


def test_every_message_of_the_product_stands_in_the_catalog(catalog: Catalog) -> None:
    found = {(key, name_of(path)) for path in PRODUCT for key in python_messages(path)}
    found |= {(key, name_of(path)) for path in TEMPLATES for key in template_messages(path)}
    known = told(catalog)
    assert len(found) > 500, "the extractor finds next to nothing, so it proves nothing"
    assert {(where, key) for key, where in found if key not in known} == set()


def test_every_message_is_translated_and_none_is_a_guess(catalog: Catalog) -> None:
    messages = [message for message in catalog if message.id]
    assert [message.id for message in messages if message.fuzzy] == []
    bare = [message.id for message in messages if not all(texts(message.string))]
    assert bare == []


def test_every_translation_is_chinese_unless_both_languages_write_it_alike(catalog: Catalog) -> None:
    odd = [message for (_, message), (_, said) in told(catalog).items() if not CHINESE.search("".join(said))]
    assert [message for message in odd if set(re.findall(r"[^\W\d]+", PLACEHOLDER.sub("", message))) - ALIKE] == []


def test_a_translation_has_the_placeholders_of_its_message_and_no_other(catalog: Catalog) -> None:
    differing = [
        key
        for key, (asked, said) in told(catalog).items()
        if any(set(PLACEHOLDER.findall(text)) != set(PLACEHOLDER.findall("".join(asked))) for text in said)
    ]
    assert differing == []


def test_the_catalog_says_which_language_it_is_and_that_chinese_has_one_form(catalog: Catalog) -> None:
    assert (str(catalog.locale), catalog.charset) == ("zh_Hans", "utf-8")
    assert (catalog.num_plurals, catalog.plural_expr) == (1, "0")
    assert {len(said) for _, said in told(catalog).values()} == {1}


def test_the_compiled_catalog_holds_what_the_written_one_says(catalog: Catalog) -> None:
    compiled = read_mo(io.BytesIO((FOLDER / "django.mo").read_bytes()))
    assert told(compiled) == told(catalog)


def labels() -> Iterator[str]:
    """Labels of every choice of the models, and what checks and roles are called."""
    for choices in models.TextChoices.__subclasses__():
        if choices.__module__.split(".")[0] in ("calculet", "inventory", "transfers"):
            yield from choices.labels
    enums: tuple[type[StrEnum], ...] = (CheckLevel, Outcome, Role)
    yield from (str(member) for enum in enums for member in enum)


def test_every_label_of_the_models_is_a_word_that_pages_translate() -> None:
    found = set(labels())
    assert {"needs a decision", "container image", "could not read"} <= found
    assert found - WORDS == set()


def test_every_word_that_a_template_gives_to_a_state_or_a_digest_is_one_that_pages_translate() -> None:
    given = {
        (name_of(path), words)
        for path in TEMPLATES
        for tag in re.findall(r"{% (?:state|digest) [^%]*%}", path.read_text(encoding="utf-8"))
        for words in re.findall(r' "([^"]+)" %}', tag)
    }
    assert len(given) > 10
    states = {"paused"}  # a state's own name stands for its words
    assert {(path, words) for path, words in given if words not in WORDS and words not in states} == set()
    assert states <= WORDS


@pytest.mark.parametrize("asked", ["zh-hans", "zh-CN,zh;q=0.9,en;q=0.8"])
@pytest.mark.django_db
def test_a_browser_that_asks_for_chinese_gets_the_sign_in_page_in_chinese(client: Client, asked: str) -> None:
    page = client.get("/", headers={"accept-language": asked}, follow=True).content.decode()
    assert '<html lang="zh-hans">' in page
    assert "<h1>登录</h1>" in page
    assert "登录名" in page and "Sign-in name" not in page


@pytest.mark.parametrize("asked", [None, "fr,de;q=0.8"])
@pytest.mark.django_db
def test_any_other_browser_gets_it_in_english(client: Client, asked: str | None) -> None:
    page = client.get("/", headers={"accept-language": asked} if asked else {}, follow=True).content.decode()
    assert '<html lang="en">' in page
    assert "<h1>Sign in</h1>" in page
    assert not CHINESE.search(page.replace("中文", ""))


@pytest.mark.django_db
def test_switching_the_language_comes_back_to_the_same_page(client: Client) -> None:
    page = client.get("/packs/?host=far", follow=True).content.decode()
    kept = re.search(r'action="/language/".*?name="next" value="([^"]+)"', page, re.DOTALL)
    assert kept is not None
    address = unescape(kept[1])
    assert unquote(address).endswith("?next=/packs/?host=far"), "it knows where its visitor was going"
    answer = client.post("/language/", {"language": "zh-hans", "next": address})
    assert (answer.status_code, answer.headers["location"]) == (302, address)
    assert "<h1>登录</h1>" in client.get(address).content.decode()
    client.post("/language/", {"language": "en", "next": address})
    assert "<h1>Sign in</h1>" in client.get(address).content.decode()


@pytest.mark.django_db
def test_switching_the_language_never_leads_to_another_site(client: Client) -> None:
    answer = client.post("/language/", {"language": "zh-hans", "next": "https://elsewhere.example/"})
    assert urlsplit(answer.headers["location"]).netloc == ""


@pytest.mark.django_db
def test_every_area_of_the_product_opens_in_chinese(ada: Person, signed_in: Callable[[Person], Client]) -> None:
    browser = signed_in(ada)
    browser.post("/language/", {"language": "zh-hans"})
    page = browser.get("/").content.decode()
    areas = re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', page.split("</nav>")[0].split("<nav")[1])
    assert len(areas) > 5
    for address, words in areas:
        assert CHINESE.search(words), words
        answer = browser.get(address)
        heading = re.search(r"<h1>(.*?)</h1>", answer.content.decode(), re.DOTALL)
        assert answer.status_code == 200, address
        assert heading is not None and CHINESE.search(heading[1]), address


def test_figures_are_grouped_alike_in_both_languages() -> None:
    shown = set()
    for language in ("en", "zh-hans"):
        with override(language):
            shown.add(Template('{{ n|floatformat:"0g" }}').render(Context({"n": 1234567})))
    assert shown == {"1,234,567"}
