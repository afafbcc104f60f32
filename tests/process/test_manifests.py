"""The manifests for Kubernetes fit its schemas, and what they start are commands and options that there are."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from godwit.cli import processes

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
VERSION = "1.35"


def _documents() -> list[dict]:  # type: ignore[type-arg]
    files = sorted(FOLDER.glob("*.yaml"))
    return [one for file in files if file.stem != "kustomization" for one in yaml.safe_load_all(file.read_text())]


@pytest.mark.parametrize("document", _documents(), ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_a_manifest_fits_its_schema(document: dict) -> None:  # type: ignore[type-arg]
    kubernetes_validate.validate(document, VERSION, strict=True)


def test_a_misspelt_key_would_be_found() -> None:
    document = _documents()[0]
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**document, "specc": {}}, VERSION, strict=True)


def test_all_files_are_named_and_all_that_is_named_is_there() -> None:
    named = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert sorted(named) == sorted(file.name for file in FOLDER.glob("*.yaml") if file.stem != "kustomization")


def test_what_pods_start_is_a_command_with_options_that_it_knows() -> None:
    started = 0
    for document in _documents():
        for container in document.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
            if container["image"] != "godwit":
                continue
            name, *rest = container["args"]
            known = {f"--{parameter.replace('_', '-')}" for parameter in signature(getattr(processes, name)).parameters}
            asked = {one.partition("=")[0] for one in rest if one.startswith("--")}
            assert asked <= known, f"{container['name']}: {asked - known}"
            started += 1
    assert started == 3
