"""Random schedules of every kind."""

from __future__ import annotations

from hypothesis import strategies as st

from epochal.torch import (
    WSD,
    ConstantLR,
    Cooldown,
    CosineScheduler,
    CyclicLR,
    ExponentialLR,
    InverseSqrt,
    LinearLR,
    MultiStepLR,
    OneCycleLR,
    PermanentReduction,
    PlateauScheduler,
    ScaledLR,
    Scheduler,
    SequentialLR,
    StepDecay,
    TemporaryOverride,
    WarmupScheduler,
)


def rates() -> st.SearchStrategy[float]:
    return st.floats(0, 10)


def any_schedule() -> st.SearchStrategy[Scheduler]:
    return st.recursive(_simple(), _wrapped, max_leaves=4)


def _lengths() -> st.SearchStrategy[int]:
    return st.integers(1, 2000)


def _gammas() -> st.SearchStrategy[float]:
    return st.floats(1e-3, 1.0, exclude_min=True)


def _ordered() -> st.SearchStrategy[tuple[float, float]]:
    return st.tuples(rates(), rates()).map(lambda pair: (min(pair), max(pair)))


def _simple() -> st.SearchStrategy[Scheduler]:
    milestones = st.lists(st.integers(0, 2000), min_size=1, max_size=4).map(tuple)
    return st.one_of(
        st.builds(ConstantLR, rates()),
        st.builds(LinearLR, rates(), rates(), _lengths()),
        st.builds(StepDecay, rates(), _lengths(), _gammas()),
        st.builds(MultiStepLR, rates(), milestones, _gammas()),
        st.builds(ExponentialLR, rates(), _gammas()),
        st.builds(lambda pair, n: CosineScheduler(pair[1], pair[0], n), _ordered(), _lengths()),
        st.builds(OneCycleLR, rates(), _lengths(), st.floats(0, 1)),
        st.builds(lambda pair, up: CyclicLR(pair[0], pair[1], up), _ordered(), _lengths()),
        st.builds(
            lambda p, a, b: CyclicLR.asymmetric(p[0], p[1], a, b),
            _ordered(),
            _lengths(),
            _lengths(),
        ),
        st.builds(
            lambda p, n, w: WSD(p[1], p[0], 2 * (n + w), warmup_steps=w, shape="cosine"),
            _ordered(),
            _lengths(),
            st.integers(0, 500),
        ),
        st.builds(InverseSqrt, rates(), _lengths()),
        st.builds(
            lambda p, n, f, m: PlateauScheduler(p[1], n, f, p[0], mode=m, cooldown=n),
            _ordered(),
            _lengths(),
            st.floats(0.1, 0.9),
            st.sampled_from(["min", "max"]),
        ),
    )


def _wrapped(inner: st.SearchStrategy[Scheduler]) -> st.SearchStrategy[Scheduler]:
    return st.one_of(
        st.builds(WarmupScheduler, inner, st.none() | rates(), _lengths()),
        st.builds(Cooldown, inner, _lengths(), _lengths()),
        st.builds(TemporaryOverride, inner, rates(), _lengths(), _lengths(), st.integers(0, 50)),
        st.builds(PermanentReduction, inner, st.floats(0.1, 0.9), _lengths()),
        st.builds(ScaledLR, inner, st.floats(0.1, 10)),
        st.builds(lambda a, b, at: SequentialLR((a, b), (at,)), inner, inner, _lengths()),
    )
