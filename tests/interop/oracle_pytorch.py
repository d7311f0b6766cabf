"""Files of `torch.save`, and what torch says is in them; run by PyTorch's Python (2.13).

A tensor is [dtype, shape, SHA-256 of its bytes in C order]; nested keys are joined as in our reader.
"""

import hashlib
import os
import zipfile

import torch

DTYPES = (
    *(f"float{bits}" for bits in (16, 32, 64)),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("bfloat16", "bool", "complex64", "complex128"),
    *(f"float8_{kind}" for kind in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz")),
)


def _told(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    raw = bytes(tensor.reshape(-1).view(torch.uint8).tolist()) if tensor.numel() else b""
    return [str(tensor.dtype).removeprefix("torch."), list(tensor.shape), hashlib.sha256(raw).hexdigest()]


def _flat(value, prefix=""):
    if isinstance(value, torch.Tensor):
        yield prefix, value
        return
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list | tuple)
        else ()
    )
    for key, each in items:
        yield from _flat(each, f"{prefix}/{key}" if prefix else str(key))


def _training(seed):
    network = torch.nn.Sequential(
        torch.nn.Linear(3 + seed, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2)
    )
    kinds = (torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad)
    optimizer = kinds[seed % 3](network.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        network(torch.randn(8, 3 + seed)).square().mean().backward()
        optimizer.step()
    return {"model": network.state_dict(), "optimizer": optimizer.state_dict(), "epoch": seed}


def _views(seed):
    base = torch.randn(6 + seed, 8)
    deep = torch.randn(3, 4, 5 + seed)
    numbers = torch.randn(4, 3, dtype=torch.complex64)
    tied = torch.nn.Parameter(torch.randn(2, 3))
    return {
        "row": base[1],
        "column": base[:, 3],
        "transposed": base.t(),
        "block": base[1:4, 2:7],
        "every_third": base.flatten()[::3],
        "permuted": deep.permute(2, 0, 1),
        "windows": torch.arange(10.0).unfold(0, 4, 1),
        "expanded": torch.randn(1, 3).expand(4, 3),
        "expanded_twice": torch.randn(3, 1).expand(2, 3, 4),
        "conjugated": numbers.conj(),
        "conjugated_transposed": numbers.mH,
        "negative": torch.randn(3, dtype=torch.complex64).conj().imag,
        "real": torch.randn(3, dtype=torch.complex64).real,
        "as_integers": torch.randn(5, 2).view(torch.int32)[2:],
        "tied": tied,
        "tied_again": tied,
    }


def _dtypes(seed):
    drawn = torch.randn(2, 3 + seed) * 3
    kinds = {name: drawn.abs().to(getattr(torch, name)) for name in DTYPES}
    return kinds | {"scalar": torch.tensor(1.5), "empty": torch.empty(0, 4), "one": torch.ones(1, 1, 1)}


def written(folder, seed):
    """Write files of all kinds in both forms; return what is in each."""
    torch.manual_seed(seed)
    objects = {
        "training": _training(seed),
        "state_dict": _training(seed)["model"],
        "views": _views(seed),
        "dtypes": _dtypes(seed),
        "odd_keys": {"a.b": torch.ones(1), "ключ": torch.ones(2), 7: torch.ones(3), ("t", 1): torch.ones(4)},
        "nested": [{"x": (torch.ones(2), [torch.zeros(1)])}, torch.tensor(3), "text"],
        "tensor": torch.randn(4),
    }
    truth = {}
    for name, value in objects.items():
        for suffix, is_zip in ((".pt", True), (".pth", False)):
            torch.save(value, os.path.join(folder, name + suffix), _use_new_zipfile_serialization=is_zip)
            truth[name + suffix] = {key: _told(tensor) for key, tensor in _flat(value)}
    _deflate(os.path.join(folder, "views.pt"), os.path.join(folder, "deflated.pt"))
    return {**truth, "deflated.pt": truth["views.pt"]}


def _deflate(source, target):
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as write:
        for member in read.infolist():
            write.writestr(member.filename, read.read(member))


def without_values(path):
    """Write tensors that torch keeps otherwise than as views of plain storages."""
    values = {
        "complex32": torch.zeros(2, dtype=torch.complex32),
        "quantized": torch.quantize_per_tensor(torch.randn(2, 3), 0.1, 3, torch.qint8),
        "quantized_by_channel": torch.quantize_per_channel(
            torch.randn(2, 3), torch.tensor([0.1, 0.2]), torch.tensor([0, 1]), 0, torch.quint8
        ),
        "sparse": torch.eye(3).to_sparse(),
        "sparse_csr": torch.eye(3).to_sparse_csr(),
        "meta": torch.zeros(2, device="meta"),
        "nested": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "float8_e8m0fnu": torch.zeros(2, dtype=torch.float8_e8m0fnu),
    }
    torch.save({**values, "plain": torch.ones(2)}, path)
    return {key: list(value.shape) for key, value in values.items() if key != "nested"}


def allowed():
    """Return the names that `torch.load(weights_only=True)` takes."""
    from torch._weights_only_unpickler import _get_allowed_globals

    return sorted(_get_allowed_globals())


def same(ours, theirs):
    """Return what differs of two files, all that is in them compared; and whether both can be mapped."""
    for mmap in (False, True):
        found = list(_differences(_loaded(theirs, mmap), _loaded(ours, mmap)))
        if found:
            return found
    return []


def _loaded(path, mmap):
    is_zip = zipfile.is_zipfile(path)
    is_deflated = is_zip and any(info.compress_type for info in zipfile.ZipFile(path).infolist())
    return torch.load(path, weights_only=True, mmap=mmap and is_zip and not is_deflated)


def _differences(left, right, at=""):
    if type(left) is not type(right) and not isinstance(left, torch.Tensor):
        yield f"{at}: {type(left)} {type(right)}"
    elif isinstance(left, torch.Tensor):
        if _told(left) != _told(right):
            yield f"{at}: {_told(left)} {_told(right)}"
    elif isinstance(left, dict):
        if list(left) != list(right) or getattr(left, "_metadata", 0) != getattr(right, "_metadata", 0):
            yield f"{at}: {list(left)} {list(right)}"
        for key in left.keys() & right.keys():
            yield from _differences(left[key], right[key], f"{at}/{key}")
    elif isinstance(left, list | tuple):
        if len(left) != len(right):
            yield f"{at}: {len(left)} {len(right)}"
        for number, (one, other) in enumerate(zip(left, right, strict=False)):
            yield from _differences(one, other, f"{at}/{number}")
    elif left != right:
        yield f"{at}: {left!r} {right!r}"


def aliases(path):
    """Return the keys of a flat file that share memory with another one."""
    loaded = torch.load(path, weights_only=True)
    places = [tensor.untyped_storage().data_ptr() for tensor in loaded.values()]
    return [key for key, place in zip(loaded, places, strict=True) if places.count(place) > 1]


def goes_on(path, seed):
    """Load a training checkpoint into a model and an optimizer as a program does; return its next losses."""
    torch.manual_seed(seed)
    network = torch.nn.Sequential(
        torch.nn.Linear(3 + seed, 5), torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 2)
    )
    kinds = (torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad)
    optimizer = kinds[seed % 3](network.parameters(), lr=1e-2)
    saved = torch.load(path, weights_only=True)
    network.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = network(torch.randn(8, 3 + seed)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def told_by_safetensors(path):
    """Return what the library of safetensors says is in a file."""
    from safetensors.torch import load_file

    return {key: _told(tensor) for key, tensor in load_file(path).items()}


def told(path):
    """Return what is in a file, tensor by tensor."""
    return {key: _told(tensor) for key, tensor in _flat(torch.load(path, weights_only=True))}


_SHAPES = {"rows": (7, 5), "columns": (3, 8), "square": (6, 6), "whole": (4,), "tall": (1, 9), "half": (9, 2)}


def _drawn(seed):
    torch.manual_seed(seed)
    tensors = {name: torch.randn(shape) for name, shape in _SHAPES.items()}
    return tensors | {
        "half": tensors["half"].bfloat16(),
        "scalar": torch.tensor(seed),
        "empty": torch.empty(0, 3),
    }


def _save_one_rank(rank, folder, ranks, seed, meeting):
    import torch.distributed as dist
    from torch.distributed.checkpoint import save
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    line = init_device_mesh("cpu", (ranks,))
    square = init_device_mesh("cpu", (2, ranks // 2))
    ways = {
        "rows": (line, [Shard(0)]),
        "columns": (line, [Shard(1)]),
        "square": (square, [Shard(0), Shard(1)]),
        "whole": (line, [Replicate()]),
        "tall": (line, [Shard(1)]),
        "half": (square, [Shard(0), Replicate()]),
    }
    drawn = _drawn(seed)
    model = {name: distribute_tensor(drawn[name], *way) for name, way in ways.items()}
    model |= {name: drawn[name] for name in ("scalar", "empty")}
    optimizer = {
        "state": {"rows": {"exp_avg": model["rows"] * 2, "step": torch.tensor(3.0)}},
        "param_groups": [{"lr": 0.5}],
    }
    save({"model": model, "optimizer": optimizer, "epoch": seed}, checkpoint_id=folder)
    dist.destroy_process_group()


def distributed(folder, ranks, seed):
    """Save a distributed checkpoint as so many processes do; return what is in it."""
    if ranks == 1:
        from torch.distributed.checkpoint import save

        save({"model": _drawn(seed), "epoch": seed}, checkpoint_id=folder)
        return {f"model.{name}": _told(tensor) for name, tensor in _drawn(seed).items()}
    import torch.multiprocessing as mp

    mp.spawn(_save_one_rank, (folder, ranks, seed, folder + ".meeting"), nprocs=ranks)
    told = {f"model.{name}": _told(tensor) for name, tensor in _drawn(seed).items()}
    state = {"exp_avg": _drawn(seed)["rows"] * 2, "step": torch.tensor(3.0)}
    return told | {f"optimizer.state.rows.{name}": _told(tensor) for name, tensor in state.items()}
