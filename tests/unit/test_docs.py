"""What the documentation says is so: pages are fresh, links lead somewhere, commands are understood."""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from sublet.cli import asking
from sublet.cli.main import build_parser, main
from sublet.cli.manifest import read_pods
from sublet.contract.dialects.interface import Options
from sublet.model.claim import PodAsk
from sublet.model.reasons import EXPLANATIONS, REFUSALS, REPORTS, Reason, RefusalCode, ReportCode
from tools.reference.__main__ import FOLDER, PAGES, stale

ROOT = Path(__file__).parents[2]
FOLDERS = ("*.md", "changes/*.md", "services/*/*.md", "docs/**/*.md")
DOCUMENTS = sorted(document for folder in FOLDERS for document in ROOT.glob(folder))
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#[^)]*)?\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(
    r"^```console\n(?:\$ .*\n)*\$ sublet ((?:claims|place|cards --inventory|health replay) .*)\n```"
    r"\n\n```text\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
TARGET = re.compile(r"^([a-z-]+):.*##", re.MULTILINE)
FRAGMENT = re.compile(r"(added|changed|deprecated|removed|fixed|security)-\d{8}T\d{4}-[a-z-]+\.md")

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def blocks(language: str) -> Iterator[str]:
    for document in DOCUMENTS:
        for found, text in BLOCK.findall(document.read_text()):
            if found == language:
                yield text


def commands(program: str) -> list[str]:
    lines = [line for text in blocks("console") for line in text.splitlines()]
    return sorted({line.removeprefix("$ ") for line in lines if line.startswith(f"$ {program} ")})


@pytest.mark.timeout(60)  # it reads every module of the tree
def test_the_reference_says_what_the_code_says() -> None:
    assert stale() == [], "run `make docs`, then read the diff"


def test_commands_that_only_have_further_ones_have_a_section_too() -> None:
    sections = (FOLDER / "commands.md").read_text().split("\n## ")
    of = {title: text for title, _, text in (one.partition("\n") for one in sections)}
    assert "`show`, `lint`" in of["sublet health policy"]
    assert "half-open" in of["sublet health breaker"]
    assert "hold|release|ack" not in of["sublet health breaker"]


@pytest.mark.parametrize("name", PAGES)
def test_every_reference_page_is_linked_from_the_index(name: str) -> None:
    assert f"(reference/{name})" in (FOLDER.parent / "README.md").read_text()


def test_every_reason_has_an_explanation_and_a_way_out() -> None:
    assert set(EXPLANATIONS) == set(Reason)
    assert set(REFUSALS) == set(RefusalCode)
    assert set(REPORTS) == set(ReportCode)
    explained = (*EXPLANATIONS.values(), *REFUSALS.values(), *REPORTS.values())
    assert all(one.text and one.way_out for one in explained)


@pytest.mark.parametrize("one", [*Reason, *RefusalCode, *ReportCode])
def test_every_reason_is_raised_in_some_test(one: Reason | RefusalCode | ReportCode) -> None:
    words = (f"{type(one).__name__}.{one.name}", f'"{one}"', f"={one}", f'{one}"')
    tests = (path for path in (ROOT / "tests").rglob("*.py") if path.name != "test_docs.py")
    assert any(word in path.read_text() for path in tests for word in words), one


@every_document
def test_a_link_leads_to_a_file(document: Path) -> None:
    links = [found for found in LINK.findall(document.read_text()) if found]
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("command", commands("sublet"))
def test_a_documented_command_is_understood(command: str) -> None:
    build_parser().parse_args(shlex.split(command)[1:])


@pytest.mark.parametrize("command", [one for one in commands("sublet") if "docs/examples/" in one])
def test_a_documented_command_on_an_example_does_its_work(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", commands("make"))
def test_a_documented_target_is_there(command: str) -> None:
    assert command.split()[1] in TARGET.findall((ROOT / "Makefile").read_text())


def test_a_shown_output_is_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    shown = [pair for document in DOCUMENTS for pair in SHOWN.findall(document.read_text())]
    assert shown
    for command, output in shown:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert main(shlex.split(command)) == 0
        assert printed.getvalue() == output


def test_a_documented_manifest_is_read_without_refusal(tmp_path: Path) -> None:
    manifests = [text for text in blocks("yaml") if "kind: Pod\n" in text]
    assert manifests
    for number, text in enumerate(manifests):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text)
        for pod in read_pods([str(file)]):
            assert isinstance(asking.read_ask(pod, Options()), PodAsk), pod["metadata"]["name"]


def test_documented_python_compiles() -> None:
    for text in blocks("python"):
        compile(text, "documentation", "exec")


def test_a_fragment_of_the_changelog_is_named_by_kind_and_time() -> None:
    names = [path.name for path in (ROOT / "changes").glob("*.md") if path.name != "README.md"]
    assert [name for name in names if not FRAGMENT.fullmatch(name)] == []
