import xml.etree.ElementTree as ElementTree

from epochal.sinks.members.wandb import pie_svg


def shapes(svg: str) -> list[str]:
    return [element.tag.rpartition("}")[2] for element in ElementTree.fromstring(svg).iter()]


def test_a_slice_and_a_line_for_each_segment() -> None:
    svg = pie_svg("memory", {"weights": 3 << 20, "optimizer": 6 << 20, "none": 0})
    assert shapes(svg).count("path") == 2
    assert svg.index("optimizer") < svg.index("weights")
    assert "none" not in svg


def test_one_segment_is_a_whole_disc() -> None:
    assert "circle" in shapes(pie_svg("memory", {"weights": 1}))


def test_names_are_escaped_and_nothing_is_drawn_of_nothing() -> None:
    assert shapes(pie_svg("<b>", {"a & b": 1}))
    assert "path" not in shapes(pie_svg("memory", {}))
