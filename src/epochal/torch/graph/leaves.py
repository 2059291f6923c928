"""Which parts of a plain module are drawn and timed as one."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

# Of torch's own modules these are made of parts worth seeing; the others are parts themselves.
_CONTAINERS = (
    nn.Sequential,
    nn.ModuleList,
    nn.ModuleDict,
    nn.Transformer,
    nn.TransformerEncoder,
    nn.TransformerDecoder,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
)


def is_leaf(module: nn.Module, path: str, *, depth: int | None) -> bool:
    """Whether a module counts as one part; at `depth` names every module does."""
    if depth is not None and path and path.count(".") + 1 >= depth:
        return True
    own = type(module).__module__.startswith("torch.nn") and not isinstance(module, _CONTAINERS)
    return own or next(module.children(), None) is None


def leaves_of(root: nn.Module, *, depth: int | None = None) -> dict[str, nn.Module]:
    """The parts of a module by path, in the order of its children, a shared one once."""
    seen: set[int] = set()
    found: dict[str, nn.Module] = {}
    for path, module in _walk(root, "", depth):
        if id(module) not in seen:
            seen.add(id(module))
            found[path] = module
    return found


def leaf_of(root: nn.Module, path: str, *, depth: int | None) -> str | None:
    """The part that a module inside belongs to; None for one that only holds parts."""
    module, walked = root, ""
    for name in path.split(".") if path else []:
        module = getattr(module, name)  # a scripted module has no get_submodule
        walked = f"{walked}.{name}" if walked else name
        if is_leaf(module, walked, depth=depth):
            return walked
    return None


def _walk(module: nn.Module, path: str, depth: int | None) -> Iterator[tuple[str, nn.Module]]:
    for name, child in module.named_children():
        inner = f"{path}.{name}" if path else name
        if is_leaf(child, inner, depth=depth):
            yield inner, child
        else:
            yield from _walk(child, inner, depth)
