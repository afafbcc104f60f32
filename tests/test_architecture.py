"""The layers hold: only runtime and mobility know Spark, and a newcomer finds every error in one tree."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import godwit
from godwit import errors

SOURCE = Path(godwit.__file__).parent
PURE = ("model", "sql", "protocol", "control", "admission", "placement", "migration", "sim")


def test_pure_layers_do_not_import_spark() -> None:
    """Importing every module of every pure layer, in a fresh process, must not load pyspark."""
    modules = [
        ".".join(("godwit", *path.relative_to(SOURCE).with_suffix("").parts))
        for layer in PURE
        for path in sorted((SOURCE / layer).rglob("*.py"))
        if path.name != "__init__.py"
    ]
    program = f"import importlib, sys\nfor m in {modules!r}:\n    importlib.import_module(m)\n"
    program += "sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_no_pure_module_mentions_pyspark_in_an_import() -> None:
    for layer in PURE:
        for path in (SOURCE / layer).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not any(name.split(".")[0] == "pyspark" for name in names), path


def imports() -> dict[str, set[str]]:
    """module -> the modules of ours that it imports, also inside functions or for type checking only"""
    paths = {".".join(("godwit", *p.relative_to(SOURCE).with_suffix("").parts)): p for p in SOURCE.rglob("*.py")}
    found: dict[str, set[str]] = {name: set() for name in paths}
    for name, path in paths.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in paths:
                found[name].add(node.module)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("godwit"):
                found[name] |= {f"{node.module}.{a.name}" for a in node.names} & paths.keys()
    return found


def test_regions_and_operators_import_each_other_in_one_direction() -> None:
    """No module of theirs can be reached from itself; one that is for type checking only counts as well."""
    direct = imports()
    for name in direct:
        if name.startswith(("godwit.region.", "godwit.operators.")):
            seen, todo = set[str](), [*direct[name]]
            while todo:
                if (found := todo.pop()) not in seen:
                    seen.add(found)
                    todo += direct[found]
            assert name not in seen, f"{name} imports itself, by way of others"


def test_regions_name_no_stateful_operator() -> None:
    for path in (SOURCE / "region").rglob("*.py"):
        names = {n.id for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Name)}
        assert not names & {"Aggregate", "Join"}, path


def test_every_module_says_what_it_is_for() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{path} has no docstring"


def test_every_error_class_is_in_the_drawing() -> None:
    drawn = errors.__doc__ or ""
    for name, thing in vars(errors).items():
        if isinstance(thing, type) and issubclass(thing, Exception):
            assert name in drawn, name
            assert issubclass(thing, errors.GodwitError)


def test_public_names() -> None:
    assert godwit.__all__ == ["Fleet", "GodwitError", "__version__"]
    assert godwit.Fleet.__name__ == "Fleet"
