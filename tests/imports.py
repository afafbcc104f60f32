"""The import graph of src/godwit, read from the source: what every module imports and which public classes it defines.

Imports inside functions and under TYPE_CHECKING count: whoever reads the module needs the other one, too.
"""

from __future__ import annotations

import ast
from pathlib import Path

import godwit

SOURCE = Path(godwit.__file__).parent


def modules() -> dict[str, ast.Module]:
    """Module name -> its tree; a package is the module of its `__init__.py`."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ["godwit", *path.relative_to(SOURCE).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text())
    return found


def imported_names(name: str, tree: ast.Module) -> set[str]:
    """Everything a module imports, as dotted names; `from a import b` gives a and a.b."""
    is_package = (SOURCE.joinpath(*name.split(".")[1:]) / "__init__.py").exists()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = name.split(".") if is_package else name.split(".")[:-1]
                base = ".".join([*here[: len(here) - node.level + 1], *([base] if base else [])])
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return found


def graph(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Module -> the modules of godwit it imports: the deepest that is named, not the packages above it."""
    edges = {}
    for name, tree in trees.items():
        targets = {t for t in imported_names(name, tree) if t in trees and t != name}
        # `from godwit.model import plan` names the package and the module: only the module is meant.
        edges[name] = {t for t in targets if not any(o.startswith(f"{t}.") for o in targets)}
    return edges


def cycles(edges: dict[str, set[str]]) -> list[frozenset[str]]:
    """The strongly connected components of more than one module (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in edges[node]:
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            component = set()
            while node not in component:
                component.add(stack.pop())
            if len(component) > 1:
                found.append(frozenset(component))

    for node in edges:
        if node not in index:
            visit(node)
    return found


def public_classes(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Class name -> the modules that define it at their top level."""
    found: dict[str, set[str]] = {}
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(name)
    return found
