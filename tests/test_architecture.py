"""The rooms hold: no import cycles, one class per name, layers that import downwards only, every error in one tree.

What still breaks a rule stands in a list here, which may only shrink: an entry no longer needed fails the test.
"""

from __future__ import annotations

import ast
import subprocess
import sys

import godwit
from godwit import errors
from tests.imports import SOURCE, cycles, graph, imported_names, modules, public_classes

PURE = (
    "model",
    "sql",
    "protocol",
    "control",
    "admission",
    "placement",
    "migration",
    "replan",
    "sim",
    "testing",
    "storage",
)
TREES = modules()

#: packages besides engine and mobility that import pyspark, still
SPARK_ROOMS = {"engine", "mobility"}
SPARK_STILL = {"api", "baselines", "demo", "ingest", "observe", "operators", "process", "region", "scenario"}

#: modules of `model` that import more than the standard library, godwit.errors and godwit.ids, still: what they import
MODEL_STILL = {
    "godwit.model.topology": {"networkx"},
    "godwit.model.topology_file": {"pydantic"},
}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports in functions and under TYPE_CHECKING count."""
    found = [sorted(cycle) for cycle in cycles(graph(TREES))]
    assert found == [], "an import cycle: move what both need into a module below them"


def test_no_two_public_classes_have_one_name() -> None:
    shared = {name: sorted(rooms) for name, rooms in public_classes(TREES).items() if len(rooms) > 1}
    assert shared == {}, "two classes with one name: say in the name what tells them apart"


def test_model_imports_nothing_from_above() -> None:
    found: dict[str, set[str]] = {}
    for name, tree in TREES.items():
        if name == "godwit.model" or name.startswith("godwit.model."):
            foreign = {i for i in imported_names(name, tree) if not _below_model(i)}
            if foreign:
                found[name] = {i.split(".")[0] if not i.startswith("godwit") else i for i in foreign}
    assert found == MODEL_STILL


def _below_model(imported: str) -> bool:
    top = imported.split(".")[0]
    below = ("godwit.model", "godwit.errors", "godwit.ids", "godwit.names", "godwit.yaml_files", "godwit.validation")
    return top in sys.stdlib_module_names or imported in below or imported.startswith(tuple(f"{b}." for b in below))


def test_only_engine_and_mobility_import_spark() -> None:
    rooms = {
        name.split(".")[1]
        for name, tree in TREES.items()
        if any(imported.split(".")[0] == "pyspark" for imported in imported_names(name, tree))
    }
    assert sorted(rooms - SPARK_ROOMS - SPARK_STILL) == [], "pyspark belongs into engine"
    assert not (SPARK_ROOMS | SPARK_STILL) & set(PURE)
    assert sorted(SPARK_STILL - rooms) == [], "no longer import pyspark: take them off SPARK_STILL"


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


def test_regions_name_no_stateful_operator() -> None:
    for module, tree in TREES.items():
        if module.startswith("godwit.region."):
            names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
            assert not names & {"Aggregate", "Join"}, module


def test_every_module_says_what_it_is_for() -> None:
    for module, tree in TREES.items():
        assert not tree.body or ast.get_docstring(tree), f"{module} has no docstring"


def test_every_error_class_is_in_the_drawing() -> None:
    drawn = errors.__doc__ or ""
    for name, thing in vars(errors).items():
        if isinstance(thing, type) and issubclass(thing, Exception):
            assert name in drawn, name
            assert issubclass(thing, errors.GodwitError)


def test_public_names() -> None:
    assert godwit.__all__ == ["Fleet", "GodwitError", "__version__"]
    assert godwit.Fleet.__name__ == "Fleet"
