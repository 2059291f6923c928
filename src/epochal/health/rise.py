"""How far a curve is above its best level, and the largest rise from which it recovered."""

from __future__ import annotations

from epochal.health.curve import Curve
from epochal.health.line_fit import fit_line

_SURE = 2.5  # standard errors: once in 160 by chance


class Rise:
    """Follows one curve: its best two blocks, the level now, and the worst rise that was undone.

    The newest two blocks cannot be the best: they are what is judged. After a shift that was to be
    expected only what came after it counts, unless it is of the ``whole_run``.
    """

    def __init__(self, *, points: int, whole_run: bool = False) -> None:
        self.best: float | None = None
        self.best_at = 0
        self.level = 0.0
        self.worst = 0.0
        self._points = points
        self._whole_run = whole_run
        self._highest = 0.0
        self._num_blocks = 0
        self._in_row = 0
        self._curve: Curve | None = None

    @property
    def height(self) -> float:
        """How far the level is above the best; 0 while there is no best."""
        return 0.0 if self.best is None else self.level - self.best

    def follow(self, curve: Curve) -> bool:
        """Process the newest point; False while there are too few."""
        if curve is not self._curve:
            self._curve = curve
            self.worst = 0.0
            self.forget()
        is_shifting = curve.is_shifting and not self._whole_run
        if is_shifting:
            self.forget()
        self._look_for_best(curve)
        if self.best is None or is_shifting:
            return False
        self.level = curve.recent_level(self._points)
        # A rise undone by more than half is one that this run recovers from.
        self._highest = max(self._highest, self.height)
        if self.height < self._highest / 2:
            self.worst = max(self.worst, self._highest)
            self._highest = max(self.height, 0.0)
        return True

    def lasts(self, is_high: bool) -> int:
        """How many points in a row it has been high, as the caller sees it, this one included."""
        self._in_row = self._in_row + 1 if is_high else 0
        return self._in_row

    def forget(self) -> None:
        """Search the best again; the worst is kept."""
        self.best, self._num_blocks, self._highest, self._in_row = None, 0, 0.0, 0

    def is_falling(self, curve: Curve) -> bool:
        """Whether the newest points lie along a line that goes down, beyond doubt."""
        window = curve.window(2 * self._points)
        if len(window) < 2 * self._points:
            return False
        fit = fit_line(window)
        return fit.slope < -_SURE * fit.slope_error

    def _look_for_best(self, curve: Curve) -> None:
        count = len(curve.blocks)
        if count == self._num_blocks:
            return
        since = None if self._whole_run else curve.shifted_at
        # Blocks are joined when they are too many, and then looked at again from the first.
        begin = max(0, self._num_blocks - 2) if self.best is not None else 0
        self._num_blocks = count
        for index in range(min(begin, max(0, count - 2)), count - 2):
            # The best of single blocks is half good luck; that of two neighbours less so.
            first, block = curve.blocks[max(0, index - 1)], curve.blocks[index]
            level = (first.level + block.level) / 2
            fits = since is None or first.first > since
            if fits and (self.best is None or level < self.best):
                self.best, self.best_at = level, block.last
