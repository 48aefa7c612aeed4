"""Full memories and GPUs that can't run are told; what a bug of ours raises is not."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from personaplex.core.errors import ModelError
from personaplex.core.machine.device_errors import told_device_error

GIB = 2**30
FULL = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 1 has a total capacity of 23.68 GiB of which 614.00 MiB is "
    "free. Including non-PyTorch memory, this process has 22.80 GiB memory in use."
)
NO_KERNEL = "CUDA error: no kernel image is available for execution on the device"
MORE = "\nCUDA kernel errors might be asynchronously reported at some other API call.\n"


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs, of which the second is used by this process."""
    fakes = {
        "device_count": lambda: 2,
        "get_device_name": lambda index: ["First", "NVIDIA RTX A5000"][index],
        "get_device_capability": lambda index: [(8, 0), (12, 0)][index],
        "memory_reserved": lambda index: [0, int(22.5 * GIB)][index],
        "mem_get_info": lambda index: [(70 * GIB, 80 * GIB), (int(0.6 * GIB), int(23.7 * GIB))][index],
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    monkeypatch.setattr(torch, "__version__", "2.6.0+cu124")


def told(error: BaseException) -> tuple[str, str]:
    """What is said of an error, and its mend."""
    found = told_device_error(error)
    assert isinstance(found, ModelError)
    assert found.exit_code == 3
    assert "\n" not in found.what + found.mend
    assert found.mend
    return found.what, found.mend


@pytest.mark.usefixtures("two_gpus")
def test_a_full_gpu() -> None:
    figures = "0.6 of 23.7 GiB free, 22.5 GiB held by this run"
    what, mend = told(torch.OutOfMemoryError(FULL))
    assert what == f"cuda:1 (NVIDIA RTX A5000): not enough memory: 2.50 GiB asked for, {figures}"
    assert all(option in mend for option in ("--slots", "--dtype bfloat16", "--cpu-offload", "--device"))
    assert told(torch.cuda.OutOfMemoryError(FULL)) == (what, mend)
    # The driver and cuBLAS say neither which GPU it is nor how much was asked for.
    for message in (
        "CUDA error: out of memory",
        "CUDA driver error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    ):
        assert told(RuntimeError(message + MORE))[0] == f"cuda:1 (NVIDIA RTX A5000): not enough memory: {figures}"


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize("kind", [RuntimeError, getattr(torch, "AcceleratorError", RuntimeError)])
def test_a_gpu_that_torch_has_no_kernels_for(kind: type[RuntimeError]) -> None:
    what, mend = told(kind(NO_KERNEL + MORE))
    assert what == "cuda:1 (NVIDIA RTX A5000, sm_120): torch 2.6.0+cu124 has no kernels for this GPU"
    assert "torch 2.7" in mend
    assert "CUDA 12.8" in mend
    for message in ("CUDA error: invalid device function", "cuDNN error: CUDNN_STATUS_ARCH_MISMATCH"):
        assert told(kind(message)) == (what, mend)


@pytest.mark.usefixtures("two_gpus")
def test_another_error_of_the_device() -> None:
    what, mend = told(RuntimeError("CUDA error: uncorrectable ECC error encountered" + MORE))
    assert what == "cuda:1 (NVIDIA RTX A5000): CUDA error: uncorrectable ECC error encountered"
    assert "doctor" in mend


def test_a_gpu_that_tells_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("get_device_name", "get_device_capability", "mem_get_info", "memory_reserved"):
        monkeypatch.setattr(torch.cuda, name, broken)
    assert told(torch.OutOfMemoryError(FULL))[0] == "the GPU: not enough memory: 2.50 GiB asked for"
    assert told(RuntimeError(NO_KERNEL))[0].startswith("the GPU: torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert told(torch.OutOfMemoryError("out of memory"))[0] == "the GPU: not enough memory"


def on_the_way_out(first: Exception, second: Exception) -> Exception:
    """`second` as if raised while `first` was on its way."""
    second.__context__ = first
    return second


def test_a_graph_that_memory_ran_out_for() -> None:
    """Leaving a capture that has failed raises an error of its own."""
    error = on_the_way_out(
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB."),
        RuntimeError("CUDA error: operation failed due to a previous error during capture" + MORE),
    )
    assert told(error)[0] == "the GPU: not enough memory: 2.50 GiB asked for"


def test_a_full_memory_of_apples_gpu() -> None:
    error = RuntimeError(
        "MPS backend out of memory (MPS allocated: 15.72 GiB, other allocations: 2.41 MiB, max allowed: 18.13 GiB). "
        "Tried to allocate 5.81 GiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit."
    )
    what, mend = told(error)
    assert what == (
        "mps (Apple's GPU): not enough memory: 5.81 GiB asked for, "
        "MPS allocated: 15.72 GiB, other allocations: 2.41 MiB, max allowed: 18.13 GiB"
    )
    assert "--slots" in mend


def test_a_full_memory_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    use = SimpleNamespace(available=int(0.9 * GIB), total=int(15.6 * GIB))
    monkeypatch.setattr("psutil.virtual_memory", lambda: use)
    with pytest.raises(RuntimeError) as by_torch:
        torch.empty(2**60)
    what, mend = told(by_torch.value)
    assert what == "this machine: not enough memory: 4294967296.0 GiB asked for, 0.9 of 15.6 GiB free"
    assert all(option in mend for option in ("--slots", "--dtype bfloat16"))
    windows = "[enforce fail at alloc_cpu.cpp:72] data. DefaultCPUAllocator: not enough memory: you tried to allocate "
    assert told(RuntimeError(f"{windows}{3 * GIB} bytes."))[0] == what.replace("4294967296.0", "3.0")
    assert told(MemoryError("Unable to allocate 20.0 GiB for an array"))[0] == what.replace("4294967296.0", "20.0")
    assert told(MemoryError())[0] == "this machine: not enough memory: 0.9 of 15.6 GiB free"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("3 + 4 calls in an engine for 5"),
        RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"),
        RuntimeError("CUDA error: device-side assert triggered"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: invalid configuration argument"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx(...)`"),
        RuntimeError("CUDA error: operation not permitted when stream is capturing"),
        KeyError("memory"),
    ],
    ids=str,
)
def test_a_bug_is_not_told(error: Exception) -> None:
    assert told_device_error(error) is None


def test_a_bug_on_the_way_out_is_not_told() -> None:
    assert told_device_error(on_the_way_out(MemoryError(), KeyError("a bug"))) is None


def test_nothing_slow_is_imported() -> None:
    program = (
        "import sys; from personaplex.core.machine.device_errors import told_device_error as told;"
        "told(RuntimeError('x'));"
        "told(KeyError()); print('torch' in sys.modules, 'psutil' in sys.modules); print(told(MemoryError()).mend)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("False False\n")
