"""Complaints of PyTorch about checkpoints, provoked; run by PyTorch's Python.

`python tests/interop/oracle_explain_torch.py` prints them, shortened: tests/data/explain/torch.json.
"""

import zipfile

import torch
from provoking import Provocations

provoked = Provocations()
names, text = provoked.names, provoked.text


@provoked
def state_dict_of_other_names():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3))
    torch.save({f"module.{name}": value for name, value in model.state_dict().items()}, "model.pt")
    model.load_state_dict(torch.load("model.pt"))


@provoked
def state_dict_of_other_sizes():
    torch.save(torch.nn.Linear(4, 3).state_dict(), "model.pt")
    torch.nn.Linear(4, 5).load_state_dict(torch.load("model.pt"))


class Settings:
    """An object that people save next to their weights."""


@provoked
def pickled_class():
    torch.save({"settings": Settings()}, "model.pt")
    torch.load("model.pt")


def _write_pointer():
    with open("model.pt", "w", encoding="ascii") as file:
        file.write("version https://git-lfs.github.com/spec/v1\n" * 4)


@provoked
def pointer_unpickled():
    _write_pointer()
    torch.load("model.pt", weights_only=False)


@provoked
def pointer_as_weights():
    _write_pointer()
    torch.load("model.pt")


@provoked
def tensors_of_a_gpu():
    torch.save(torch.nn.Linear(4, 3).state_dict(), "model.pt")
    here, there = (b"X" + len(name).to_bytes(4, "little") + name for name in (b"cpu", b"cuda:0"))
    with zipfile.ZipFile("model.pt") as before, zipfile.ZipFile("gpu.pt", "w") as after:
        for name in before.namelist():
            after.writestr(name, before.read(name).replace(here, there))
    torch.load("gpu.pt")


if __name__ == "__main__":
    provoked.main()
