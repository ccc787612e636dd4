"""Plan files: what is written is read back, and whatever is wrong is told with its line, all at once."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.manifests.planfile import (
    BASES,
    KINDS,
    MODES,
    Basis,
    CapabilityLine,
    PackLine,
    PlanFile,
    PlanFileError,
    ResourceLine,
    TierLine,
    read_plan_file,
    write_plan_file,
)
from inventory.manifests.planlines import CHUNK_BYTES
from inventory.manifests.sizes import format_size, parse_size
from inventory.manifests.yamlnodes import LIMIT_BYTES
from inventory.models import ResourceKind, SizeBasis
from inventory.remote.names import RemoteName
from transfers.models import Mode

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "inventory" / "samples" / "seed-plan.yaml"


def problems(text: str | bytes) -> list[tuple[int, str]]:
    """What is told about a file that must not be taken."""
    with pytest.raises(PlanFileError) as raised:
        read_plan_file(text.encode() if isinstance(text, str) else text)
    error = raised.value
    assert str(error).splitlines()[0] == f"Line {error.line}: {error.sentence}"
    assert all("\n" not in problem.sentence for problem in error.problems)
    return [(problem.line, problem.sentence) for problem in error.problems]


def resources(*lines: str) -> str:
    return "\n".join(["version: 1", "tiers:", "- {position: 1, name: first}", "resources:", *lines])


class TestSample:
    def test_the_sample_holds_the_whole_seed(self) -> None:
        plan = read_plan_file(SAMPLE.read_bytes())
        assert [tier.position for tier in plan.tiers] == [1, 2, 3, 4, 5]
        sizes = {
            resource.name: (resource.tier, resource.size_basis, resource.size_bytes) for resource in plan.resources
        }
        assert sizes["baseline analysis archive"] == (1, "declared", 436_398_080)
        assert sizes["non-parameter .bin files"] == (2, "about", 85_500_000)
        assert sizes["param_blk0.bin"] == (5, "declared", 9_404_557_312)
        assert sizes["model directory"] == (5, "declared", 18_749_687_350)
        assert sizes["whole model archive (compressed)"] == (5, "about", 16_285_000_000)
        by_tier = [sum(resource.tier == tier for resource in plan.resources) for tier in range(1, 6)]
        assert by_tier == [8, 6, 3, 2, 4]

    def test_its_packs_come_in_the_seeds_order_and_the_parameters_wait(self) -> None:
        packs = read_plan_file(SAMPLE.read_bytes()).packs
        assert [pack.name for pack in packs] == [
            "00-critical-context",
            "baseline",
            "01-model-runtime-no-weights",
            "llama-cpp",
            "02-user-workspace-no-container-store",
            "oci-image",
            "container-home",
            "whole-home-user2",
            "model-parameters",
        ]
        assert [pack.on_hold for pack in packs] == [False] * 8 + [True]
        assert "faster channel" in packs[-1].hold_reason
        assert packs[2].exclude == ("param_blk0.bin", "param_blk1.bin")
        assert packs[0].chunk_bytes == 64 * 2**20
        assert packs[1].chunk_bytes == 8 * 2**20

    def test_its_smallest_working_set_needs_three_packs_and_no_parameters(self) -> None:
        first = read_plan_file(SAMPLE.read_bytes()).capabilities[0]
        assert first.name == "smallest working set"
        assert first.needs == (("00-critical-context",), ("01-model-runtime-no-weights",), ("llama-cpp",))
        inspection = read_plan_file(SAMPLE.read_bytes()).capabilities[3]
        assert inspection.needs == (("oci-image", "container-home"),)

    def test_what_is_written_of_it_is_read_back(self) -> None:
        plan = read_plan_file(SAMPLE.read_bytes())
        assert read_plan_file(write_plan_file(plan)) == plan

    def test_the_examples_in_its_document_are_read(self) -> None:
        text = (ROOT / "docs" / "plan-file.md").read_text()
        examples = [block.split("```")[0] for block in text.split("```yaml\n")[1:]]
        whole = [example for example in examples if example.startswith("version:")]
        assert len(whole) == 1
        plan = read_plan_file(whole[0].encode())
        assert plan.tiers and plan.resources and plan.packs and plan.capabilities


class TestWords:
    def test_kinds_bases_modes_and_limits_are_those_of_the_database(self) -> None:
        assert set(KINDS) == set(ResourceKind.values)
        assert {*BASES, "unknown"} == set(SizeBasis.values)
        assert set(MODES) == set(Mode.values)


# -- round trip --------------------------------------------------------------------------------------------------------

_character = st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"))
_name = st.text(_character, min_size=1, max_size=40).map(str.strip).filter(bool)
_text = st.text(_character | st.just("\n") | st.just("\t"), max_size=60).map(str.strip)
_pack_name = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)
_part = st.binary(min_size=1, max_size=12).filter(lambda raw: b"\0" not in raw and b"/" not in raw and raw.strip(b"."))
_path = st.lists(_part, min_size=1, max_size=3).map(lambda parts: RemoteName(b"/" + b"/".join(parts)))
_size = st.integers(0, 2**63 - 1) | st.integers(0, 10**6).map(lambda number: number * 10**5)


@st.composite
def _plans(draw: st.DrawFn) -> PlanFile:
    positions = draw(st.lists(st.integers(1, 50), unique=True, max_size=3))
    tiers = tuple(TierLine(position, draw(_name), draw(_text)) for position in positions)
    seen: dict[int | None, int] = {}
    lines = []
    for name in draw(st.lists(_name, unique=True, max_size=4)):
        tier = draw(st.sampled_from([None, *positions]))
        seen[tier] = seen.get(tier, 0) + 1
        basis: Basis = draw(st.sampled_from([*BASES, "unknown"]))
        size = None if basis == "unknown" else draw(_size)
        path = draw(st.none() | _path)
        kind = draw(st.sampled_from(KINDS))
        lines.append(ResourceLine(name, path, kind, tier, seen[tier], size, basis, draw(_text), draw(_text)))
    packs = []
    if lines:
        names = st.lists(st.sampled_from([line.name for line in lines]), unique=True, min_size=1, max_size=3)
        rules = st.lists(_text.filter(bool), max_size=3).map(tuple)
        for pack in draw(st.lists(_pack_name, unique=True, max_size=3)):
            mode, reason = draw(st.sampled_from(MODES)), draw(_text)
            chunk = draw(st.just(CHUNK_BYTES) | st.integers(2**20, 2**40))
            inside, outside = draw(rules), draw(rules)
            given = tuple(draw(names))
            packs.append(PackLine(pack, draw(_text), mode, given, inside, outside, chunk, bool(reason), reason))
    capabilities = []
    if packs:
        one = st.lists(st.sampled_from([pack.name for pack in packs]), unique=True, min_size=1, max_size=3).map(tuple)
        for name in draw(st.lists(_name, unique=True, max_size=2)):
            needs = tuple(draw(st.lists(one, min_size=1, max_size=2)))
            capabilities.append(CapabilityLine(name, draw(_text), needs))
    return PlanFile(tiers, tuple(lines), tuple(packs), tuple(capabilities))


@given(_plans())
@settings(max_examples=60, deadline=None)
def test_whatever_plan_is_written_is_read_back_equal(plan: PlanFile) -> None:
    assert read_plan_file(write_plan_file(plan)) == plan


@given(st.text(st.sampled_from(list("ab: -#&*!|>'\"\\%@`{}[],?\n\t~0\r\ud7ff\x85\u2028x"))) | st.text())
@settings(max_examples=150, deadline=None)
def test_whatever_text_is_given_is_read_or_refused_in_our_words(text: str) -> None:
    for content in (text, f"version: 1\nresources:\n- name: {text}"):
        try:
            read_plan_file(content.encode("utf-8", "surrogatepass"))
        except PlanFileError as error:
            assert error.problems


@given(st.integers(0, 2**63 - 1) | st.integers(0, 10**7).map(lambda number: number * 10**6))
@settings(max_examples=100, deadline=None)
def test_a_size_that_is_shown_is_read_back_exactly(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("85.5 MB", 85_500_000),
        ("9 GB", 9_000_000_000),
        ("1.5GiB", 1_610_612_736),
        ("64 mib", 67_108_864),
        ("436,398,080", 436_398_080),
        ("1_000 kB", 1_000_000),
        ("12 B", 12),
        ("0", 0),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "MB", "1.5.2 GB", "-3 MB", "3 XB", "1,00 MB", "1e9", "٣ MB", "9 EB", "9" * 30])
def test_what_is_no_size_is_none(text: str) -> None:
    assert parse_size(text) is None


# -- what is wrong -----------------------------------------------------------------------------------------------------


class TestFaults:
    def test_every_fault_is_told_at_once_with_its_line(self) -> None:
        found = problems(
            "version: 1\n"
            "tiers:\n"
            "  - {position: 1, name: a}\n"
            "  - {position: 1, name: b}\n"
            "resources:\n"
            "  - nam: x\n"
            "  - name: data\n"
            "    kind: foldr\n"
            "    tier: 7\n"
            "    path: relative/path\n"
            "packs:\n"
            "  - name: no spaces please\n"
            "    resources: [dat]\n"
            "    chunk: 64 KiB\n"
            "capabilities:\n"
            "  - name: use it\n"
            "    needs: [pack, {any: []}]\n"
        )
        wanted = [
            (4, "tier 1 stands in line 3 already"),
            (6, "resource 1 has no field “nam”. Did you mean “name”?"),
            (6, "resource 1 needs a “name”"),
            (8, "“foldr” is no kind of resource 2"),
            (9, "tier 7 is not among the tiers of this file (1)"),
            (10, "not absolute"),
            (12, "“no spaces please” is no pack name"),
            (13, "“dat”, which is no resource of this file. Did you mean “data”?"),
            (14, "“64 KiB” is no chunk size: between 1 MiB and 1 TiB"),
            (17, "names “pack”, which is no pack of this file"),
            (17, "names no pack: give one"),
        ]
        assert [line for line, _ in found] == [line for line, _ in wanted]
        for (_, sentence), (_, part) in zip(found, wanted, strict=True):
            assert part in sentence

    def test_a_wrong_field_names_the_nearest_known_one_or_all(self) -> None:
        assert problems("version: 1\nresorces: []") == [
            (2, "the plan file has no field “resorces”. Did you mean “resources”?")
        ]
        assert problems("version: 1\nzzz: 1")[0][1].endswith(
            "Known are: version, clear_by, stated, tiers, resources, packs, capabilities."
        )

    def test_a_field_that_stands_twice_is_told_at_its_second_place(self) -> None:
        (found,) = problems(resources("- name: a", "  kind: file", "  kind: folder"))
        assert found == (7, "resource 1 has the field “kind” twice. Keep one.")

    @pytest.mark.parametrize("section", ["resources", "packs", "capabilities"])
    def test_a_name_that_stands_twice_is_told_with_both_lines(self, section: str) -> None:
        text = (
            "version: 1\nresources: [{name: r}]\npacks: [{name: p, resources: [r]}]\n"
            "capabilities: [{name: c, needs: [p]}]\n"
        )
        line = next(line for line in text.splitlines() if line.startswith(section))
        text = text.replace(line, line[:-1] + line[line.index("[") + 1 : -1].join([",\n  ", "]"]))
        (found,) = problems(text)
        assert "already" in found[1]
        assert f"line {found[0] - 1}" in found[1]

    @pytest.mark.parametrize(
        ("size", "part"),
        [
            ("5", "needs its basis"),
            ("{declared: 9 GB}", "must be a whole number, and is “9 GB”"),
            ("{declared: 1.5}", "must be a whole number"),
            ("{declared: -1}", "must be a whole number"),
            ("{declared: 99999999999999999999}", "must lie between"),
            ("{about: much}", "“much” is no size: a number and one of B, kB"),
            ("{about: 1 GB, declared: 3}", "must have one of exact, declared, about"),
            ("{measured: 3}", "no field “measured”"),
            ("{}", "must have one of"),
        ],
    )
    def test_a_size_must_say_how_far_it_can_be_trusted(self, size: str, part: str) -> None:
        found = problems(resources("- name: a", f"  size: {size}"))
        assert {line for line, _ in found} == {6}
        assert part in " ".join(sentence for _, sentence in found)

    def test_sizes_keep_their_basis(self) -> None:
        text = resources(
            "- {name: a, size: {declared: 15500000}}",
            "- {name: b, size: {about: 9 GB}}",
            "- {name: c, size: {exact: 3}}",
            "- {name: d, size: }",
            "- name: e\n  size:\n    declared: 15,500,000",
        )
        found = [(line.size_bytes, line.size_basis) for line in read_plan_file(text.encode()).resources]
        assert found == [
            (15_500_000, "declared"),
            (9_000_000_000, "about"),
            (3, "exact"),
            (None, "unknown"),
            (15_500_000, "declared"),
        ]

    def test_words_that_yaml_would_turn_into_values_stay_text(self) -> None:
        text = resources("- {name: no, value: 1.0}", "- {name: 012, value: 2026-01-01}", "- {name: 'null', value: ~}")
        plan = read_plan_file(text.encode())
        assert [(line.name, line.value) for line in plan.resources] == [
            ("no", "1.0"),
            ("012", "2026-01-01"),
            ("null", ""),
        ]

    def test_paths_are_literal_text_or_escaped_bytes(self) -> None:
        text = resources("- {name: a, path: '/a\\n b'}", '- {name: b, path: {escaped: "/a\\\\n\\\\xff"}}')
        plan = read_plan_file(text.encode())
        assert [line.path for line in plan.resources] == [RemoteName(b"/a\\n b"), RemoteName(b"/a\n\xff")]
        spaced = read_plan_file(resources("- {name: a, path: '/a '}").encode())
        assert spaced.resources[0].path == RemoteName(b"/a ")
        assert read_plan_file(write_plan_file(spaced)) == spaced
        for bad, part in (
            ("{escaped: '/a\\q'}", "backslash"),
            ("{escaped: '/a\\x00'}", "NUL"),
            ("/a/../b", "absolute"),
        ):
            ((line, sentence),) = problems(resources("- name: a", f"  path: {bad}"))
            assert line == 6
            assert part in sentence

    def test_positions_count_within_a_tier_in_the_order_of_the_file(self) -> None:
        text = resources("- {name: a, tier: 1}", "- {name: b}", "- {name: c, tier: 1}", "- {name: d}")
        assert [line.position for line in read_plan_file(text.encode()).resources] == [1, 1, 2, 2]

    def test_control_characters_and_endless_names_are_told(self) -> None:
        assert "control character" in problems(resources('- {name: "a\\x07b"}'))[0][1]
        assert "line break" in problems(resources('- {name: "a\\nb"}'))[0][1]
        assert "121 characters" in problems(resources(f"- {{name: {'x' * 121}}}"))[0][1]

    def test_only_the_first_fifty_faults_are_shown_and_the_rest_counted(self) -> None:
        with pytest.raises(PlanFileError) as raised:
            read_plan_file(resources(*[f"- {{nam: x, name: y{number}}}" for number in range(70)]).encode())
        lines = str(raised.value).splitlines()
        assert len(lines) == 51
        assert lines[-1].startswith("And 20 more")


class TestFiles:
    @pytest.mark.parametrize(
        ("content", "line", "part"),
        [
            (b"", 1, "empty"),
            (b"# only words\n", 1, "empty"),
            (b"version: 1\ntiers:\n\t- name: x\n", 3, "indented with a tab"),
            (b"version: 1\ntiers: \xff\xfe\n", 2, "byte 8 (hex ff) is not UTF-8"),
            (b"version: 1\nx: \x00\n", 2, "U+0000"),
            (b"version: 1\ntiers: 'open\n", 3, "the YAML cannot be read here"),
            (b"version: 1\na: b: c\n", 2, "mapping values are not allowed"),
            (b"version: 1\n---\nversion: 1\n", 3, "more than one document"),
            (b"version: 1\ntiers: !!python/object/apply:os.system [id]\n", 2, "tags"),
            (b"version: 1\ntiers: &all []\n", 2, "anchors"),
            (b"version: 1\ntiers: *all\n", 2, "anchors and aliases"),
            (b"version: 1\ntiers: " + b"[" * 100_000, 2, "more than 12 deep"),
            (b'version: "\\UFFFFFFFF"\n', 1, "cannot be read"),
            (b"[version]: 1\n", 1, "a field's name must be plain text"),
            (b"- version: 1\n", 1, "must be a map of fields"),
            (b"tiers: []\n", 1, "needs a “version”"),
            (b"version: 2\n", 1, "reads version 1"),
            (b"version: one\n", 1, "must be a whole number"),
        ],
    )
    def test_a_file_that_cannot_be_read_gets_one_sentence(self, content: bytes, line: int, part: str) -> None:
        ((found_line, sentence),) = problems(content)
        assert found_line == line
        assert part in sentence

    def test_a_billion_laughs_are_refused_at_once(self) -> None:
        lines = ["version: 1", "a: &a [x, x, x, x, x, x, x, x, x]"]
        lines += [
            f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]"
            for before, after in zip("abcdefgh", "bcdefghi", strict=True)
        ]
        begun = time.monotonic()
        assert "anchors" in problems("\n".join(lines))[0][1]
        assert time.monotonic() - begun < 2

    def test_a_huge_file_is_refused_before_it_is_read(self) -> None:
        begun = time.monotonic()
        ((line, sentence),) = problems(b"version: 1\n" + b"x" * 10 * 2**20)
        assert time.monotonic() - begun < 1
        assert (line, f"at most {LIMIT_BYTES:,}" in sentence) == (1, True)

    def test_byte_order_marks_and_windows_line_ends_are_read(self) -> None:
        assert read_plan_file(b"\xef\xbb\xbfversion: 1\r\nresources:\r\n- name: a\r\n").resources[0].name == "a"
