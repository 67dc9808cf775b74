"""What the machine is: versions, flags, memory, and the rates that set a floor to everything else.

Costs a second on a GPU.
"""

import os
import platform
import statistics
import subprocess
from importlib.metadata import PackageNotFoundError, version

import torch

from tests.gpu.checks import Figures, Setting, timed

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy", "pandas")


def machine(setting: Setting, figures: Figures) -> None:
    """Versions, flags and rates; products of float32 must be exact by default."""
    figures.note("python", platform.python_version())
    figures.note("platform", platform.platform())
    figures.note("cores", os.cpu_count())
    figures.note("threads", torch.get_num_threads())
    for package in PACKAGES:
        figures.note(package, _version(package))
    figures.note("cuda", torch.version.cuda)
    figures.note("cudnn", torch.backends.cudnn.version())
    figures.holds("float32 products are exact", torch.get_float32_matmul_precision() == "highest")
    figures.holds("no TF32 in products", not torch.backends.cuda.matmul.allow_tf32)
    figures.note("TF32 in convolutions", torch.backends.cudnn.allow_tf32)
    figures.note(
        "sums of bf16 in bf16",
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
    )
    if setting.on_gpu:
        properties = torch.cuda.get_device_properties(0)
        free, total = torch.cuda.mem_get_info()
        figures.note("card", properties.name)
        figures.note("driver", _driver())
        figures.note("capability", f"{properties.major}.{properties.minor}")
        figures.note("processors", properties.multi_processor_count)
        figures.note("memory_gib", round(total / 2**30, 1))
        figures.holds("bf16", torch.cuda.is_bf16_supported())
        figures.at_least("share of memory that is free", free / total, 0.9)
    half = torch.bfloat16 if setting.on_gpu else torch.float32
    for name, dtype in {"fp32": torch.float32, "half": half}.items():
        figures.note(f"TFLOP/s {name}", round(matrix_rate(setting, dtype) / 1e12, 3))
    figures.note("GB/s", round(copy_rate(setting) / 1e9, 1))
    figures.note("ms from host to device, 64 MiB pinned", _upload(setting))


def matrix_rate(setting: Setting, dtype: torch.dtype) -> float:
    """FLOPs a second of a large matrix product."""
    size = 8192 if setting.on_gpu and not setting.small else 512
    one, two = (torch.randn(size, size, device=setting.device).to(dtype) for _ in range(2))
    took = [timed(setting, lambda: one @ two)[1] for _ in range(12)][2:]
    return 2 * size**3 / statistics.median(took)


def copy_rate(setting: Setting) -> float:
    """Bytes a second, read and written, of a copy on the device."""
    size = 1 << 28 if setting.on_gpu and not setting.small else 1 << 22
    many = torch.zeros(size, device=setting.device)
    other = torch.ones_like(many)
    took = [timed(setting, lambda: other.copy_(many))[1] for _ in range(12)][2:]
    return 2 * 4 * size / statistics.median(took)


def _upload(setting: Setting) -> float | None:
    if not setting.on_gpu:
        return None
    host = torch.zeros(1 << 24).pin_memory()
    took = [timed(setting, lambda: host.to(setting.device))[1] for _ in range(5)]
    return round(1e3 * min(took), 2)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()[0] if done.stdout else None
