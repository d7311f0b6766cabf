"""Models of PyTorch with random weights, and what torch.onnx's two exporters make of them."""

import os
import sys

import torch
from safetensors.torch import save_file
from torch import nn


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.a = nn.Conv2d(8, 8, 3, padding=1)
        self.bn_a = nn.BatchNorm2d(8)
        self.b = nn.Conv2d(8, 8, 3, padding=1)
        self.dw = nn.Conv2d(8, 8, 3, groups=8, bias=False)
        self.bn_dw = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, 8)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        x = self.bn(self.stem(x)).relu()
        x = self.bn_a(self.a(x)).relu()
        x = self.b(x).relu()
        x = self.bn_dw(self.dw(x)).relu().mean((2, 3))
        return self.out(self.fc(x).relu())

    def inputs(self):
        return (torch.randn(1, 3, 8, 8),)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *(m for _ in range(4) for m in (nn.Linear(16, 16), nn.ReLU())),
            nn.BatchNorm1d(16),
            nn.Linear(16, 3),
        )

    def forward(self, x):
        return self.layers(x)

    def inputs(self):
        return (torch.randn(2, 16),)


class Tokens(nn.Module):
    """Linear layers on three dimensions: MatMul, whose weights constant folding transposes."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 16)
        for n in ("q", "k", "v", "o", "up", "down"):
            setattr(
                self, n, nn.Linear(*{"up": (16, 32), "down": (32, 16)}.get(n, (16, 16)), bias=n in "ovup")
            )
        self.ln = nn.LayerNorm(16)
        self.ln2 = nn.LayerNorm(16)
        self.head = nn.Linear(16, 30, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        h = self.emb(ids)
        n = self.ln(h)
        a = (self.q(n) @ self.k(n).transpose(1, 2)).softmax(-1) @ self.v(n)
        h = h + self.o(a)
        h = h + self.down(self.up(self.ln2(h)).relu())
        return self.head(h)

    def inputs(self):
        return (torch.randint(0, 30, (2, 5)),)


class Rnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(16, 8, batch_first=True)
        self.rnn = nn.RNN(8, 8, batch_first=True)
        self.out = nn.Linear(8, 2)

    def forward(self, ids):
        h = self.lstm(self.emb(ids))[0]
        h = self.gru(h)[0]
        h = self.rnn(h)[0]
        return self.out(h[:, -1])

    def inputs(self):
        return (torch.randint(0, 20, (1, 5)),)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))

    def inputs(self):
        return (torch.randn(2, 5, 16),)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv1d(4, 8, 3, padding=1)
        self.c1b = nn.Conv1d(8, 8, 3, padding=1)
        self.bn1 = nn.BatchNorm1d(8)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.bnu = nn.BatchNorm2d(8)
        self.gn = nn.GroupNorm(2, 8)
        self.prelu = nn.PReLU(8)
        self.inorm = nn.InstanceNorm2d(8, affine=True)
        self.shared = nn.Linear(8, 8)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        x = self.bn1(self.c1b(self.c1(x))).reshape(x.shape[0], 8, 4, 4)
        x = self.prelu(self.gn(self.bnu(self.up(x))))
        x = self.inorm(x).mean((2, 3))
        return self.last(self.shared(self.shared(x).relu()))

    def inputs(self):
        return (torch.randn(1, 4, 16),)


MODELS = {m.__name__.lower(): m for m in (Conv, Mlp, Tokens, Rnn, Attention, Mixed)}


def built(name):
    torch.manual_seed(len(name))
    model = MODELS[name]().eval()
    with torch.no_grad():
        for key, value in [*model.named_parameters(), *model.named_buffers()]:
            if value.is_floating_point():
                value.copy_(torch.randn_like(value) * 0.4)
                if "running_var" in key:
                    value.abs_().add_(0.5)
    return model


def main(out, names):
    for name in names or MODELS:
        model = built(name)
        stem = os.path.join(out, f"pt.{name}")
        state = {k: v.clone() for k, v in model.state_dict().items()}
        save_file(state, stem + ".safetensors")
        for kind, options in (
            ("dynamo", {"dynamo": True}),
            ("script", {"dynamo": False}),
            ("unfolded", {"dynamo": False, "do_constant_folding": False}),
        ):
            try:
                torch.onnx.export(
                    model,
                    model.inputs(),
                    f"{stem}.{kind}.onnx",
                    **options,
                    **({"external_data": False} if kind == "dynamo" else {}),
                )
            except Exception as e:
                print("FAILED", name, kind, type(e).__name__, str(e)[:300].replace("\n", " "))
        print("made", name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
