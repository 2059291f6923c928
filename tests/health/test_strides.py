from epochal.health.strides import StridedPast


def test_each_pace_has_its_own_past() -> None:
    past = StridedPast(3)
    ended = {}
    for step in range(130):
        for pace, points in past.push(step, float(step)):
            ended[pace] = [step for step, _ in points]
    assert ended == {1: [127, 128, 129], 8: [112, 120, 128], 64: [0, 64, 128]}


def test_what_is_cut_is_forgotten() -> None:
    past = StridedPast(3)
    for step in range(10):
        list(past.push(step, 0.0))
    past.forget_from(9)
    assert [list(points) for pace, points in past.push(9, 1.0) if pace == 1] == [
        [(7, 0.0), (8, 0.0), (9, 1.0)]
    ]
