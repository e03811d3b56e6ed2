"""Builds the package with CMake, for the PyTorch of the environment.

The metadata stands in pyproject.toml. Here stands what depends on the machine: the extension (CMake makes it), the
one PyTorch minor version that the wheel is for, and the two NVIDIA packages whose files the build reads.
"""

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import setuptools
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


def torch_version() -> str:
    """The version of the environment's PyTorch; stops the build with one sentence where there is none."""
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        text = Path(spec.origin).with_name("version.py").read_text()
        if found := re.search(r"^__version__ = '([^']+)'", text, re.MULTILINE):
            return found[1]
    if any("pip-build-env-" in entry for entry in sys.path):
        sys.exit("tilewright is built for the PyTorch of your environment: pass --no-build-isolation to pip")
    sys.exit(
        "tilewright is built for the PyTorch of your environment, and there is none: "
        "install torch first, and pass --no-build-isolation to pip"
    )


def require_bdist_wheel() -> None:
    """Setuptools before 70.1 makes wheels with the help of the package `wheel`, which pip does not add by itself."""
    version = tuple(int(part) for part in setuptools.__version__.split(".")[:2])
    if version < (70, 1) and importlib.util.find_spec("wheel") is None:
        sys.exit(f"setuptools {setuptools.__version__} cannot make a wheel: pip install --upgrade setuptools")


def torch_requirement(version: str) -> str:
    """`torch>=2.13,<2.14` of `2.13.0+cpu`: C++ extensions hold for one minor version."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return f"torch>={major}.{minor},<{major}.{minor + 1}"


def requirements(name: str) -> list[str]:
    lines = (ROOT / ".ci" / "requirements" / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def nvidia_files(folder: Path) -> list[str]:
    """CMake options for NVIDIA's files: none where the environment has them, else they are fetched into `folder`."""
    if os.environ.get("TILEWRIGHT_LIBDEVICE") and os.environ.get("TILEWRIGHT_CUDA_INCLUDE"):
        return [f"-D{name}={os.environ[name]}" for name in ("TILEWRIGHT_LIBDEVICE", "TILEWRIGHT_CUDA_INCLUDE")]
    spec = importlib.util.find_spec("nvidia")
    installed = [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    wanted = ("libdevice.10.bc", "cuda.h", "nvJitLink.h")
    if all(any(next(place.rglob(name), None) for place in installed) for name in wanted):
        return []
    found = {name: next(folder.rglob(name), None) for name in wanted}
    if not all(found.values()):
        fetch_nvidia_wheels(folder)
        found = {name: next(folder.rglob(name)) for name in wanted}
    includes = sorted({str(found[name].parent) for name in wanted if name.endswith(".h")})
    return [f"-DTILEWRIGHT_LIBDEVICE={found['libdevice.10.bc']}", f"-DTILEWRIGHT_CUDA_INCLUDE={';'.join(includes)}"]


def fetch_nvidia_wheels(folder: Path) -> None:
    wheels = [line for line in requirements("build.txt") if line.startswith("nvidia-")]
    print(f"fetching {', '.join(wheels)} for libdevice and the CUDA headers", flush=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *wheels], check=True
    )
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / wheel.stem)


class CMakeBuild(build_ext):
    """Builds the core and tilewright/_C with CMake, straight into the place where setuptools wants the extension.

    TILEWRIGHT_CORE_LIBRARY names a core that is already built: then only the files with torch headers are compiled.
    """

    def build_extension(self, ext: Extension) -> None:
        package = Path(self.get_ext_fullpath(ext.name)).resolve().parent
        build = ROOT / f"build-{sys.implementation.cache_tag}"
        build.mkdir(parents=True, exist_ok=True)
        options = [
            "-DCMAKE_BUILD_TYPE=Release",
            "-DTILEWRIGHT_BUILD_TESTS=OFF",
            f"-DTILEWRIGHT_PYTHON={sys.executable}",
            f"-DTILEWRIGHT_MODULE_DIR={package}",
        ]
        if core := os.environ.get("TILEWRIGHT_CORE_LIBRARY"):
            options += ["-DTILEWRIGHT_BUILD_CORE=OFF", f"-DTILEWRIGHT_CORE_LIBRARY={core}"]
        else:
            options += nvidia_files(build / "nvidia")
        subprocess.run(["cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja", *options], check=True)
        subprocess.run(["cmake", "--build", str(build), "--target", "tilewright_python"], check=True)


require_bdist_wheel()
setup(
    ext_modules=[Extension("tilewright._C", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    install_requires=[torch_requirement(torch_version())],
    extras_require={"demo": requirements("demo.txt")},
    # A folder of its own, so that a wheel's build and ./dev's `build` never meet.
    options={"build": {"build_base": "build-wheel"}},
)
