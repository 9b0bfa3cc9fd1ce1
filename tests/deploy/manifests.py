"""The manifests of deploy/kubernetes, as they lie there and as Kustomize builds them."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.dockerfile import ROOT

FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = ("render-tier", "sidecar")

Manifest = dict[str, Any]

SERVICE_MONITOR = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "monitoring.coreos.com/v1"},
        "kind": {"const": "ServiceMonitor"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["endpoints", "selector"],
            "properties": {
                "jobLabel": {"type": "string"},
                "selector": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"matchLabels": {"additionalProperties": {"type": "string"}}},
                },
                "endpoints": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "port": {"type": "string"},
                            "path": {"type": "string", "pattern": "^/"},
                            "interval": {"type": "string", "pattern": "^[0-9]+s$"},
                            "scrapeTimeout": {"type": "string", "pattern": "^[0-9]+s$"},
                            "relabelings": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "additionalProperties": False,
                                    "properties": {
                                        "targetLabel": {"type": "string"},
                                        "replacement": {"type": "string"},
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
"""The part of the Prometheus operator's schema that is used here; whatever else is written is an error."""


def files(folder: str) -> list[Path]:
    """The manifests of the base, or the patches of an overlay."""
    names = {"kustomization.yaml", "renderd.yaml"}
    return sorted(path for path in (FOLDER / folder).glob("*.yaml") if path.name not in names)


def load(path: Path) -> Manifest:
    """The one manifest of a file."""
    (manifest,) = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    assert isinstance(manifest, dict)
    return manifest


@cache
def built(overlay: str) -> dict[str, Manifest]:
    """Kind -> manifest of what is applied. Skips where neither kubectl nor kustomize is."""
    if shutil.which("kubectl"):
        command = ["kubectl", "kustomize"]
    elif shutil.which("kustomize"):
        command = ["kustomize", "build"]
    else:
        pytest.skip("neither kubectl nor kustomize is here")
    output = subprocess.run([*command, str(FOLDER / overlay)], capture_output=True, check=True).stdout
    manifests = list(yaml.safe_load_all(output))
    by_kind = {manifest["kind"]: manifest for manifest in manifests}
    assert len(by_kind) == len(manifests)
    return by_kind


def pod(manifests: dict[str, Manifest]) -> Manifest:
    """The pod's specification."""
    spec = manifests["Deployment"]["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def container(manifests: dict[str, Manifest], name: str = "renderd") -> Manifest:
    """One container of the pod."""
    (found,) = [container for container in pod(manifests)["containers"] if container["name"] == name]
    assert isinstance(found, dict)
    return found
