"""Keeps rank 0's curves of the loss, the evaluation loss and the gradient norm, and the rate."""

from __future__ import annotations

import math

from epochal.health.context import Context
from epochal.health.course import Course
from epochal.health.curve import Curve, is_usable
from epochal.health.observation import Observation
from epochal.health.rate import LearningRate
from epochal.health.roles import CURVE_ROLES
from epochal.records import Axis


class Curves:
    """Updates the curves in a context, once per record, before any rule runs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        context.rate = LearningRate()

    def note(self, observation: Observation) -> None:
        """Take in one record of rank 0."""
        if not observation.roles:
            return
        axis, position = _place(observation)
        if position is None:
            return
        self._note_rate(observation, position)
        for role in CURVE_ROLES:
            value = observation.roles.get(role)
            if value is not None and is_usable(value):
                curve = self._curve(role, axis, is_point=not observation.is_extreme)
                if curve is not None:
                    push = curve.push_extreme if observation.is_extreme else curve.push
                    push(position, value)
                    self._context.updated_curves[role] = curve
                    if role == "loss" and not observation.is_extreme:
                        self._follow_course(curve)

    def forget_from(self, step: int) -> None:
        """A new attempt takes over at a step."""
        for curve in self._context.curves.values():
            if curve.axis == "step":
                curve.forget_from(step)
        if self._context.course is not None:
            self._context.course.forget()

    def _follow_course(self, curve: Curve) -> None:
        course = self._context.course
        if course is None or course.curve is not curve:
            course = self._context.course = Course(curve)
        course.follow()

    def _note_rate(self, observation: Observation, position: int) -> None:
        rate = observation.roles.get("lr")
        if rate is None or not math.isfinite(rate):
            return
        if self._context.rate.push(position, rate, is_point=not observation.is_extreme):
            for curve in self._context.curves.values():
                curve.expect_a_shift()

    def _curve(self, role: str, axis: Axis, *, is_point: bool) -> Curve | None:
        """The curve of a role; a new one when another series plays it, None for a coarser axis.

        A curve begins with a point, not with an extreme of points that were skipped.
        """
        curve = self._context.curves.get(role)
        name = self._context.role_names[role]
        if curve is not None and curve.name == name:
            if curve.axis == axis:
                return curve
            if axis == "epoch":  # the same series was also logged by step, which tells more
                return None
        if not is_point:
            return None
        curve = self._context.curves[role] = Curve(name, axis=axis, is_log=role == "norm")
        return curve


def _place(observation: Observation) -> tuple[Axis, int | None]:
    if observation.kind == "epoch":
        epoch = observation.record.get("epoch")
        return "epoch", epoch if isinstance(epoch, int) else None
    return "step", observation.step
