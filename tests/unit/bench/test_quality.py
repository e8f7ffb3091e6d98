"""The page of placement quality is made section by section, and none is lost by measuring another."""

from bench.quality import PAGE, measured


def test_every_section_of_the_page_is_found_again_as_it_stands() -> None:
    text = PAGE.read_text()
    sections = measured(text)
    assert sections
    assert text.endswith("\n".join(sections.values()))
