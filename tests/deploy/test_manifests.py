"""deploy/kubernetes: right by the schemas of Kubernetes, in agreement with itself, the image and the server.

What Kustomize builds is looked at where kubectl or kustomize is; the base's files are valid as they lie.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from renderd.demo import model_dir
from renderd.server.config import ServerConfig
from renderd.server.flags import parse
from tests.deploy.dockerfile import only, stages
from tests.deploy.manifests import (
    FOLDER,
    OVERLAYS,
    SERVICE_MONITOR,
    Manifest,
    built,
    container,
    files,
    load,
    pod,
)
from tests.server.running import running

IMAGE = stages()[-1]
VERSIONS = ("1.30", kubernetes_validate.latest_version())
"""The oldest release that has all that is used (a preStop that sleeps), and the newest known schema."""

BEARER = {"authorization": "Bearer key"}
overlays = pytest.mark.parametrize("overlay", OVERLAYS)


def check(manifest: Manifest) -> None:
    """Raises ValidationError if a manifest is wrong for one of the releases."""
    if manifest["kind"] == "ServiceMonitor":
        jsonschema.validate(manifest, SERVICE_MONITOR)
        return
    for version in VERSIONS:
        kubernetes_validate.validate(manifest, version, strict=True)


def config(overlay: str) -> ServerConfig:
    """What renderd makes of an overlay's flags."""
    entry = only(IMAGE, "ENTRYPOINT").argv()[2:]
    result, ignored = parse([*entry, "--config", str(FOLDER / overlay / "renderd.yaml")])
    assert not ignored
    return result


@pytest.mark.parametrize("path", files("base"), ids=lambda path: path.stem)
def test_a_manifest_of_the_base_is_valid(path: Path) -> None:
    check(load(path))


@overlays
def test_what_is_applied_is_valid(overlay: str) -> None:
    for manifest in built(overlay).values():
        check(manifest)


def test_a_wrong_manifest_is_found() -> None:
    for name, key in (("deployment", "replica"), ("servicemonitor", "endpoint")):
        manifest = load(FOLDER / "base" / f"{name}.yaml")
        manifest["spec"][key] = 1
        with pytest.raises(jsonschema.ValidationError):
            check(manifest)


def test_the_overlays_have_what_they_are_for() -> None:
    common = {"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceMonitor"}
    assert set(built("render-tier")) == {*common, "HorizontalPodAutoscaler"}
    assert set(built("sidecar")) == common
    assert "--tokens-only" in container(built("sidecar"), "vllm")["args"]
    names = {manifest["metadata"]["name"] for manifest in built("render-tier").values()}
    assert names.isdisjoint(manifest["metadata"]["name"] for manifest in built("sidecar").values())


@overlays
def test_selectors_find_the_pods_of_their_overlay_alone(overlay: str) -> None:
    manifests = built(overlay)
    (other,) = set(OVERLAYS) - {overlay}
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    others = built(other)["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors: list[dict[str, str]] = [
        manifests["Deployment"]["spec"]["selector"]["matchLabels"],
        manifests["Service"]["spec"]["selector"],
        manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        manifests["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        *(spread["labelSelector"]["matchLabels"] for spread in pod(manifests)["topologySpreadConstraints"]),
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
        assert not selector.items() <= others.items()
    monitored = manifests["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= manifests["Service"]["metadata"]["labels"].items()
    assert not monitored.items() <= built(other)["Service"]["metadata"]["labels"].items()


@overlays
def test_every_port_has_a_name_that_is_there(overlay: str) -> None:
    manifests = built(overlay)
    containers = pod(manifests)["containers"]
    ports = {port["name"]: port["containerPort"] for part in containers for port in part["ports"]}
    assert len(ports) == sum(len(part["ports"]) for part in containers)
    service = {port["name"]: port["targetPort"] for port in manifests["Service"]["spec"]["ports"]}
    assert set(service.values()) == set(ports)
    assert {end["port"] for end in manifests["ServiceMonitor"]["spec"]["endpoints"]} <= set(service)
    admitted = {
        port["port"] for rule in manifests["NetworkPolicy"]["spec"]["ingress"] for port in rule["ports"]
    }
    assert admitted == set(ports)
    for part in containers:
        own = {port["name"] for port in part["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert part[probe]["httpGet"]["port"] in own


@overlays
def test_ports_are_those_of_the_server(overlay: str) -> None:
    named = {port["name"]: port["containerPort"] for port in container(built(overlay))["ports"]}
    assert named == {"http": config(overlay).port, "probes": config(overlay).probe_port}


@overlays
def test_pods_end_after_their_requests(overlay: str) -> None:
    manifests = built(overlay)
    grace = pod(manifests)["terminationGracePeriodSeconds"]
    for part in pod(manifests)["containers"]:
        pause = part["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert pause + config(overlay).drain_seconds < grace
    engine = [part["args"] for part in pod(manifests)["containers"] if part["name"] == "vllm"]
    for args in engine:
        assert f"--shutdown-timeout={config(overlay).drain_seconds:.0f}" in args


@overlays
def test_renderd_is_confined(overlay: str) -> None:
    manifests = built(overlay)
    spec, own = pod(manifests)["securityContext"], container(manifests)["securityContext"]
    user, _, group = only(IMAGE, "USER").rest.partition(":")
    assert spec["runAsNonRoot"] is True
    assert (spec["runAsUser"], spec["runAsGroup"], spec["fsGroup"]) == (int(user), int(group), int(group))
    assert spec["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert pod(manifests)["automountServiceAccountToken"] is False
    for part in pod(manifests)["containers"]:
        assert part["securityContext"]["allowPrivilegeEscalation"] is False
        assert part["securityContext"].get("runAsUser", 1) != 0
        assert {"cpu", "memory"} <= set(part["resources"]["requests"])
        assert "memory" in part["resources"]["limits"]


@overlays
def test_what_renderd_reads_and_writes_is_mounted(overlay: str) -> None:
    manifests = built(overlay)
    mounts = {mount["mountPath"]: mount for mount in container(manifests)["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod(manifests)["volumes"]}
    assert {mount["name"] for mount in mounts.values()} <= set(volumes)
    writable = {path for path, mount in mounts.items() if not mount.get("readOnly")}
    assert writable == {only(IMAGE, "VOLUME").rest, only(IMAGE, "WORKDIR").rest}
    assert volumes[mounts["/tmp"]["name"]]["emptyDir"]["medium"] == "Memory"
    key_file = config(overlay).api_key_file
    assert key_file is not None
    assert volumes[mounts[str(Path(key_file).parent)]["name"]]["secret"]["secretName"] == "renderd-api-keys"
    (file,) = [arg for arg in container(manifests)["args"] if arg.startswith("/")]
    assert file == str(Path("/etc/renderd/config", *manifests["ConfigMap"]["data"]))
    assert Path(file).parent.as_posix() in mounts
    mapped = volumes[mounts["/etc/renderd/config"]["name"]]["configMap"]["name"]
    assert mapped == manifests["ConfigMap"]["metadata"]["name"]


@overlays
def test_the_flags_of_an_overlay_are_its_own(overlay: str) -> None:
    """Not those of the base."""
    text = (FOLDER / overlay / "renderd.yaml").read_text(encoding="utf-8")
    assert built(overlay)["ConfigMap"]["data"] == {"renderd.yaml": text}


@pytest.mark.parametrize("overlay", ["base", *OVERLAYS])
def test_renderd_takes_the_flags(overlay: str) -> None:
    assert config(overlay).model
    assert config(overlay).workers >= 1


@overlays
def test_renderd_starts_with_the_flags(overlay: str, tmp_path: Path) -> None:
    """With the carried model, and keys that are in a file here."""
    keys = tmp_path / "keys"
    keys.write_text("key\n")
    flags = ("--config", str(FOLDER / overlay / "renderd.yaml"), "--api-key-file", str(keys))
    # The carried model is shorter than the real one.
    with running(str(model_dir()), *flags, "--max-model-len", "8192") as server:
        body = {"model": config(overlay).served_model_name[0], "prompt": "Hello"}
        answers = [server.post("/v1/completions/render", body, **key) for key in ({}, BEARER)]
        assert [answer.status_code for answer in answers] == [401, 200]
        assert server.stop() == 0


@overlays
def test_whatever_is_asked_for_fits_into_the_memory_of_the_pod(overlay: str) -> None:
    """By the table of memory in docs/limits.md, with half a gigabyte for the model and the processes."""
    flags = config(overlay)
    assert flags.renderer_num_workers and flags.max_text_chars
    thread = 26 * flags.max_body_bytes + 160 * flags.max_text_chars + 3 * flags.max_answer_bytes
    worker = flags.renderer_num_workers * thread + flags.max_pending_bytes + 3 * (64 << 20)
    assert not flags.trust_request_chat_template
    limit: str = container(built(overlay))["resources"]["limits"]["memory"]
    assert flags.workers * worker + (512 << 20) < int(limit.removesuffix("Gi")) << 30


def test_the_sidecar_serves_the_model_of_its_engine() -> None:
    args: list[str] = container(built("sidecar"), "vllm")["args"]
    assert args[0] == config("sidecar").model
    assert f"--max-model-len={config('sidecar').max_model_len}" in args


def test_the_sidecar_is_a_gateway_by_one_line(tmp_path: Path) -> None:
    """That of its flags which is commented out; its pod has the engine's key for it."""
    text = (FOLDER / "sidecar" / "renderd.yaml").read_text(encoding="utf-8")
    assert text.count("# engine-url: ") == 1
    path = tmp_path / "renderd.yaml"
    path.write_text(text.replace("# engine-url: ", "engine-url: "))
    flags, ignored = parse(["--config", str(path)])
    assert not ignored
    (port,) = (port["containerPort"] for port in container(built("sidecar"), "vllm")["ports"])
    assert flags.engine_url == [f"http://localhost:{port}"]
    assert "RENDERD_ENGINE_API_KEY" in {one["name"] for one in container(built("sidecar"))["env"]}


def test_the_autoscaler_asks_for_metrics_that_are_there() -> None:
    """And leaves the number of pods to nobody else."""
    scaler = built("render-tier")["HorizontalPodAutoscaler"]["spec"]
    deployment = built("render-tier")["Deployment"]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment["metadata"]["name"]}
    assert scaler["scaleTargetRef"] == target
    assert "replicas" not in deployment["spec"]
    asked: list[dict[str, Any]] = scaler["metrics"]
    assert [metric["resource"]["name"] for metric in asked if metric["type"] == "Resource"] == ["cpu"]
    names = [metric["pods"]["metric"]["name"] for metric in asked if metric["type"] == "Pods"]
    assert names == ["renderd_requests_in_flight"]
    with running() as server:
        shown = server.get("/metrics").text
    assert all(f"\n# TYPE {name} gauge\n" in shown for name in names)


def test_paths_of_probes_and_metrics_are_there() -> None:
    manifests = built("render-tier")
    probes = [container(manifests)[name] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    paths = {probe["httpGet"]["path"] for probe in probes}
    paths |= {end["path"] for end in manifests["ServiceMonitor"]["spec"]["endpoints"]}
    with running() as server:
        for path in paths:
            assert server.get(path).status_code == 200, path


def test_alerts_look_for_the_job_that_is_scraped() -> None:
    alerts = (FOLDER.parent / "prometheus" / "renderd-alerts.yaml").read_text(encoding="utf-8")
    label = built("render-tier")["ServiceMonitor"]["spec"]["jobLabel"]
    for overlay in OVERLAYS:
        job = built(overlay)["Service"]["metadata"]["labels"][label]
        assert f'up{{job="{job}"}}' in alerts


def test_every_kustomization_names_every_file() -> None:
    for folder in ("base", *OVERLAYS):
        text = (FOLDER / folder / "kustomization.yaml").read_text(encoding="utf-8")
        content = yaml.safe_load(text)
        named = {*content["resources"], *(patch.get("path") for patch in content.get("patches", ()))}
        assert {path.name for path in files(folder)} <= named
