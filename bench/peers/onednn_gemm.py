"""The products of speed_bench's item gemm by oneDNN itself, through its C interface.

    python bench/peers/onednn_gemm.py gemm --threads 2 [--quick] [--only TEXT]

"oneDNN default": weights as they lie in memory, row-major. "oneDNN tuned": weights packed once into the form that oneDNN
asks for. The library comes with the package onednn-cpu-gomp; numbers are the caller's threads through OpenMP.
"""

import ctypes
import glob
import os
import sys
import sysconfig

from common import arguments, best_seconds, line, wants

options = arguments(["gemm"])
os.environ["OMP_NUM_THREADS"] = str(options.threads)
found = [p for root in {sys.prefix, sysconfig.get_paths()["data"]} for p in glob.glob(root + "/lib/libdnnl.so*")]
if not found:
    sys.exit("onednn_gemm: no libdnnl.so in " + sys.prefix)
dnnl = ctypes.CDLL(sorted(found)[0])
pointer, integer = ctypes.c_void_p, ctypes.c_int
F32, BF16, ANY = 3, 2, 1
CPU, STREAM = 1, 1
SRC, WEIGHTS, DST = 1, 33, 17


class version_t(ctypes.Structure):
    _fields_ = [("major", integer), ("minor", integer), ("patch", integer)]


dnnl.dnnl_version.restype = ctypes.POINTER(version_t)


class argument(ctypes.Structure):
    _fields_ = [("arg", integer), ("memory", pointer)]


def call(name, *args):
    status = getattr(dnnl, name)(*args)
    if status != 0:
        raise RuntimeError(f"{name}: status {status}")


def created(name, *args):
    out = pointer()
    call(name, ctypes.byref(out), *args)
    return out


engine = created("dnnl_engine_create", CPU, ctypes.c_size_t(0))
stream = created("dnnl_stream_create", engine, STREAM)


def description(shape, kind, strides=None):
    dims = (ctypes.c_int64 * 2)(*shape)
    if strides is None:
        return created("dnnl_memory_desc_create_with_tag", 2, dims, kind, ANY)
    return created("dnnl_memory_desc_create_with_strides", 2, dims, kind, (ctypes.c_int64 * 2)(*strides))


def memory(desc):
    return created("dnnl_memory_create", desc, engine, ctypes.c_void_p(-1))  # DNNL_MEMORY_ALLOCATE


def execute(primitive, *pairs):
    arguments_ = (argument * len(pairs))(*[argument(k, m) for k, m in pairs])
    call("dnnl_primitive_execute", primitive, stream, len(pairs), arguments_)
    call("dnnl_stream_wait", stream)


dnnl.dnnl_primitive_desc_query_md.restype = pointer


def product(t, outputs, inputs, kind, packed):
    """src [t, i] times the transpose of weights [o, i], held in rotating copies."""
    src, dst = description((t, inputs), kind, (inputs, 1)), description((t, outputs), F32, (outputs, 1))
    plain = description((inputs, outputs), kind, (1, inputs))
    wanted = description((inputs, outputs), kind) if packed else plain
    primitive_desc = created("dnnl_matmul_primitive_desc_create", engine, src, wanted, None, dst, None)
    primitive = created("dnnl_primitive_create", primitive_desc)
    actual = pointer(dnnl.dnnl_primitive_desc_query_md(primitive_desc, 128 + 3, 0))  # dnnl_query_weights_md
    return primitive, memory(src), memory(dst), actual


def fill(m, size):
    handle = pointer()
    call("dnnl_memory_get_data_handle", m, ctypes.byref(handle))
    ctypes.memset(handle, 0x3C, size)  # small positive numbers in either type


SHAPES = (("gate_up", 9728, 896, True), ("down", 896, 4864, True), ("qkv", 1152, 896, False), ("o", 896, 896, False),
          ("tiny 256", 256, 256, False), ("tiny 128", 128, 128, False))

dnnl.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
v = dnnl.dnnl_version().contents
for name, outputs, inputs, backward in SHAPES:
    tiny = outputs <= 256
    if options.quick and not backward and outputs != 256:
        continue
    for kind, text, width in ((F32, "fp32", 4), (BF16, "bf16", 2)):
        for t in (1, 8, 64, 512):
            case = f"{name} t={t} {text} forward"
            if not wants(options, case):
                continue
            for packed in (False, True):
                who = "oneDNN tuned" if packed else "oneDNN default"
                try:
                    primitive, src, dst, actual = product(t, outputs, inputs, kind, packed)
                except RuntimeError as e:
                    print(f"# {case}, {who}: {e}", flush=True)
                    continue
                size = dnnl.dnnl_memory_desc_get_size(actual)
                copies = [memory(actual) for _ in range(1 if tiny else (768 << 20) // (outputs * inputs * width) + 1)]
                for m in copies:
                    fill(m, size)
                fill(src, t * inputs * width)
                state = [0]

                def once():
                    state[0] = (state[0] + 1) % len(copies)
                    execute(primitive, (SRC, src), (WEIGHTS, copies[state[0]]), (DST, dst))

                weights = float(outputs * inputs)
                work = (width * weights, "byte") if t <= 8 and not tiny else (2 * weights * t, "flop")
                line(options, who, case, best_seconds(once, options.budget), *work,
                     how=f"{v.major}.{v.minor}" + (", weight packed once" if packed else ""))
                for m in copies:
                    call("dnnl_memory_destroy", m)
