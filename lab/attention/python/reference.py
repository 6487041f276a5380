"""PyTorch autograd reference for equation 2 of RTBAS (section 3.3), on a Llama-architecture GGUF.

It shares no code with the Rust engine, and is run by hand: CI reads only the numbers that it wrote.

For history tokens x_0..x_{n-1} and output tokens o_0..o_{m-1}:
  L_j     = -log p(o_j | history, o_<j), read from row r_j = n-1+j of the logits
  S[j, i] = sum over layers l and heads h of |A[l,h,r_j,i] * dL_j/dA[l,h,r_j,i]|, for 0 <= i < n
A is the attention after the softmax, and each L_j has a backward pass of its own.

PyTorch, either of:
  Debian 12:  apt-get install python3-torch libopenblas0-pthread   (1.13.1; its own BLAS is 10 times
              slower), then  /usr/bin/python3 -m venv --system-site-packages DIR
  elsewhere:  pip install torch   (any version from 1.13 on; on Linux it brings CUDA along, several GB)
and then in both cases:  pip install -r requirements-reference.txt

  reference.py MODEL.gguf                 does the model itself work? perplexity, a continuation
  reference.py MODEL.gguf --golden        writes crates/saliency/tests/golden/*.json in f64; prints how far f32 is off
  reference.py MODEL.gguf --check         autograd against a backward pass written by hand, row by row
  reference.py MODEL.gguf --time N M      seconds and peak memory, N history and M output tokens
      --lean frees gradients early; --passes K stops after K backward passes and extrapolates
"""

import argparse
import hashlib
import json
import os
import resource
import time
from pathlib import Path

import gguf
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch.nn.functional import silu

NAMES = "tiny", "medium", "long"
GOLDEN = Path(__file__).resolve().parents[3] / "crates/saliency/tests/golden"
PROSE = (
    "The old lighthouse stood at the end of the harbour, and for more than a hundred years it had "
    "guided ships safely home. When the last keeper retired, the town decided to turn it into a "
    "small museum, where children could climb the stairs and look out over the sea."
)


class Model:
    """Weights and numbers of a Llama-architecture GGUF, dequantised to one dtype."""

    def __init__(self, path, dtype):
        reader = gguf.GGUFReader(path)
        meta = lambda key: reader.fields[key].contents()  # noqa: E731
        assert meta("general.architecture") == "llama"
        self.dtype = dtype
        self.layers = meta("llama.block_count")
        self.heads = meta("llama.attention.head_count")
        self.kv_heads = meta("llama.attention.head_count_kv")
        self.group = self.heads // self.kv_heads
        self.dim = meta("llama.embedding_length") // self.heads
        assert meta("llama.rope.dimension_count") == self.dim
        self.base = meta("llama.rope.freq_base")
        self.eps = meta("llama.attention.layer_norm_rms_epsilon")
        self.w = {
            t.name: torch.from_numpy(gguf.dequantize(t.data, t.tensor_type).copy()).to(dtype)
            for t in reader.tensors
        }
        self.embedding = self.w["token_embd.weight"]
        self.head = self.w.get("output.weight", self.embedding)  # tied when absent
        self.tokenizer = tokenizer(meta)

    def layer(self, index):
        names = "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down"
        return [self.w[f"blk.{index}.{name}.weight"] for name in names.split()]

    def angles(self, count):
        freq = self.base ** (-torch.arange(0, self.dim, 2, dtype=torch.float64) / self.dim)
        angle = torch.arange(count, dtype=torch.float64)[:, None] * freq
        return angle.cos().to(self.dtype)[:, None, :], angle.sin().to(self.dtype)[:, None, :]


def tokenizer(meta):
    """Byte-level BPE from the file's vocabulary and merges; digits stand alone ("smollm")."""
    tokens = meta("tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ")) for m in meta("tokenizer.ggml.merges")]
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tok.add_special_tokens([t for t, k in zip(tokens, meta("tokenizer.ggml.token_type")) if k == 3])
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tok.decoder = decoders.ByteLevel()
    return tok


def rms(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def rotate(x, cos, sin):
    """RoPE on [rows, heads, dim]: GGUF's Llama weights are permuted so that (2i, 2i+1) is a pair."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def forward(model, ids, first_row, watch=None, caches=None):
    """Logits of the rows from first_row on.

    watch(layer, A) sees each layer's attention [heads, rows, columns], a node of the graph;
    caches collects each layer's rotated keys and values, [tokens, kv_heads, dim].
    """
    count = len(ids)
    cos, sin = model.angles(count)
    rows = torch.arange(count)
    hidden = rows[None, :] > rows[:, None]
    x = model.embedding[torch.tensor(ids)].clone()
    if watch is not None:
        x.requires_grad_()
    for index in range(model.layers):
        norm1, wq, wk, wv, wo, norm2, gate, up, down = model.layer(index)
        h = rms(x, norm1, model.eps)
        q = rotate((h @ wq.T).view(count, model.heads, model.dim), cos, sin)
        k = rotate((h @ wk.T).view(count, model.kv_heads, model.dim), cos, sin)
        v = (h @ wv.T).view(count, model.kv_heads, model.dim)
        if caches is not None:
            caches.append((k.detach(), v.detach()))
        k, v = (t.repeat_interleave(model.group, 1).transpose(0, 1) for t in (k, v))
        scores = q.transpose(0, 1) @ k.transpose(1, 2) / model.dim**0.5
        a = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        if watch is not None:
            watch(index, a)
        x = x + (a @ v).transpose(0, 1).reshape(count, -1) @ wo.T
        h = rms(x, norm2, model.eps)
        x = x + (silu(h @ gate.T) * (h @ up.T)) @ down.T
    return rms(x[first_row:], model.w["output_norm.weight"], model.eps) @ model.head.T


def losses_of(logits, output):
    return torch.nn.functional.cross_entropy(logits, torch.tensor(output), reduction="none")


def autograd(model, history, output, lean=False, passes=None, marks=None):
    """The full way: one graph over all tokens, and a backward pass for each output token.

    lean drops each layer's gradient as soon as its one row is read, for when memory is short;
    passes stops after so many; marks collects the clock after the forward and each backward pass.
    Returns the losses, S and per output token the rows of A and its gradient, [layers, heads, row + 1].
    """
    n, row, attention, grads = len(history), [0], [], {}
    marks = [] if marks is None else marks

    def watch(index, a):
        attention.append(a)
        if lean:
            a.register_hook(lambda g: grads.update({index: g[:, row[0]].clone()}))
        else:
            a.retain_grad()

    losses = losses_of(forward(model, history + output[:-1], n - 1, watch), output)
    marks.append(time.perf_counter())
    saliency, a_rows, g_rows = [], [], []
    for j in range(len(output) if passes is None else passes):
        row[0] = n - 1 + j
        losses[j].backward(retain_graph=True)
        if not lean:
            grads = {index: a.grad[:, row[0]] for index, a in enumerate(attention)}
        a_rows.append(torch.stack([a.detach()[:, row[0], : row[0] + 1] for a in attention]))
        g_rows.append(torch.stack([grads[index][:, : row[0] + 1] for index in range(model.layers)]))
        saliency.append((a_rows[j] * g_rows[j]).abs().sum((0, 1))[:n])
        for a in attention:
            a.grad = None
        marks.append(time.perf_counter())
    return losses.detach(), torch.stack(saliency), a_rows, g_rows


def rms_backward(grad, x, weight, eps):
    inv = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    g = grad * weight
    return inv * (g - x * inv.square() * (g * x).mean(-1, keepdim=True))


@torch.no_grad()
def row_local(model, history, output):
    """The same numbers by hand: keys and values of earlier rows are constants, the row's own are not.

    Derivatives are written out, and no autograd is used. The m rows are one batch. Returns the
    saliency [m, n] and per layer the gradients [m, heads, tokens]; columns after a row hold 0.
    """
    ids, n, m = history + output[:-1], len(history), len(output)
    count, caches, kept = len(ids), [], []
    forward(model, ids, n - 1, caches=caches)
    rows = torch.arange(n - 1, count)
    hidden = torch.arange(count)[None, :] > rows[:, None]
    cos, sin = (t[rows] for t in model.angles(count))
    heads, group, scale = model.heads, model.group, model.dim**-0.5
    wide = lambda t: t.repeat_interleave(group, 1)  # noqa: E731  kv heads -> heads

    x = model.embedding[torch.tensor(ids)][rows]
    for index, (keys, values) in enumerate(caches):
        norm1, wq, _, _, wo, norm2, gate, up, down = model.layer(index)
        q = rotate((rms(x, norm1, model.eps) @ wq.T).view(m, heads, model.dim), cos, sin)
        scores = torch.einsum("jhd,ihd->jhi", q, wide(keys)) * scale
        a = scores.masked_fill(hidden[:, None, :], float("-inf")).softmax(-1)
        mid = x + torch.einsum("jhi,ihd->jhd", a, wide(values)).reshape(m, -1) @ wo.T
        h = rms(mid, norm2, model.eps)
        g, u = h @ gate.T, h @ up.T
        kept.append((x, q, a, mid, g, u))
        x = mid + (silu(g) * u) @ down.T

    norm = model.w["output_norm.weight"]
    grad = (rms(x, norm, model.eps) @ model.head.T).softmax(-1)
    targets = torch.arange(m), torch.tensor(output)
    grad[targets] = 0  # p - 1 as the sum of the others: in f32 ten times more exact than autograd
    grad[targets] = -grad.sum(-1)
    grad = rms_backward(grad @ model.head, x, norm, model.eps)
    saliency, gradients = torch.zeros(m, n, dtype=model.dtype), []
    for index in reversed(range(model.layers)):
        norm1, wq, wk, wv, wo, norm2, gate, up, down = model.layer(index)
        (x, q, a, mid, g, u), (keys, values) = kept.pop(), caches[index]
        inner, sig = grad @ down, g.sigmoid()
        dh = (inner * u * sig * (1 + g * (1 - sig))) @ gate + (inner * silu(g)) @ up
        grad = grad + rms_backward(dh, mid, norm2, model.eps)
        out = (grad @ wo).view(m, heads, model.dim)
        da = torch.einsum("jhd,ihd->jhi", out, wide(values)).masked_fill(hidden[:, None, :], 0)
        saliency += (a * da).abs().sum(1)[:, :n]
        gradients.insert(0, da)
        ds = a * (da - (a * da).sum(-1, keepdim=True)) * scale
        own = lambda t: t[torch.arange(m), :, rows, None]  # noqa: E731
        narrow = lambda t: t.view(m, model.kv_heads, group, model.dim).sum(2)  # noqa: E731
        dq = torch.einsum("jhi,ihd->jhd", ds, wide(keys))
        dk, dv = narrow(own(ds) * q), narrow(own(a) * out)
        dq, dk = rotate(dq, cos, -sin), rotate(dk, cos, -sin)  # a rotation's transpose
        dh = dq.reshape(m, -1) @ wq + dk.reshape(m, -1) @ wk + dv.reshape(m, -1) @ wv
        grad = grad + rms_backward(dh, x, norm1, model.eps)
    return saliency, gradients


def inputs(model, name):
    text = json.loads((GOLDEN / "inputs.json").read_text())[name]
    return model.tokenizer.encode(text["history"]).ids, model.tokenizer.encode(text["output"]).ids


def relative(a, b):
    """Largest |a-b|: over b's row maximum; over the entry itself (entries above 1e-4 of the row's
    maximum, then all entries); of the row sums."""
    diff, top = (a.double() - b.double()).abs(), b.double().amax(-1, keepdim=True)
    own = diff / b.double()
    sums = (a.double().sum(-1) / b.double().sum(-1) - 1).abs()
    figures = (diff / top).max(), own[b.double() > 1e-4 * top].max(), own.max(), sums.max()
    return "of row maximum %.1e, of entry %.1e (all entries %.1e), of row sum %.1e" % figures


def nines(t):
    """A tensor as nested lists, rounded to 9 significant digits."""
    return [nines(row) for row in t] if t.dim() else float(f"{t.item():.9g}")


def golden(args):
    model = Model(args.model, torch.float64)
    digest = hashlib.sha256(Path(args.model).read_bytes()).hexdigest()
    for name in NAMES:
        history, output = inputs(model, name)
        n, m = len(history), len(output)
        losses, s, a_rows, g_rows = autograd(model, history, output)
        file = {"model_sha256": digest, "history": history, "output": output, "losses": nines(losses)}
        if name != "long":
            file["saliency"] = nines(s)
        file["row_sums"] = nines(s.sum(1))
        file["weighted_sums"] = nines(s @ torch.arange(1, n + 1, dtype=s.dtype))  # of (i + 1) * S[j, i]
        file["top"] = [[[i, nines(s[j, i])] for i in s[j].argsort(descending=True)[:10].tolist()] for j in range(m)]
        file["rows"] = [
            {"layer": l, "head": h, "output": j, "attention": nines(a_rows[j][l, h]), "gradient": nines(g_rows[j][l, h])}
            for l, h, j in ((0, 0, 0), (model.layers // 2, model.heads // 2, m // 2), (model.layers - 1, model.heads - 1, m - 1))
        ]  # fmt: skip
        path = GOLDEN / f"{name}.json"
        path.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in file.items()) + "\n}\n")
        f32 = Model(args.model, torch.float32)
        single = autograd(f32, history, output)
        print(f"{name}: {n}+{m} tokens, {path.stat().st_size} bytes, mean loss {losses.mean():.4f}")
        print(f"  S in f32, autograd, against f64: {relative(single[1], s)}")
        print(f"  S in f32, row-local, against f64: {relative(row_local(f32, history, output)[0], s)}")
        print(f"  losses in f32 against f64: {((single[0].double() - losses) / losses).abs().max():.1e} relative")


def check(args, model):
    for name in NAMES:
        history, output = inputs(model, name)
        _, s, _, g_rows = autograd(model, history, output)
        mine, gradients = row_local(model, history, output)
        worst = 0.0
        for j, rows in enumerate(g_rows):  # [layers, heads, n + j]
            diff = torch.stack(gradients)[:, j, :, : rows.shape[-1]] - rows
            worst = max(worst, (diff.abs().amax((1, 2)) / rows.abs().amax((1, 2))).max().item())
        print(f"{name}, {model.dtype}: row-local against autograd, gradients {worst:.1e} of the layer's largest")
        print(f"  S: {relative(mine, s)}")


def timing(args, model):
    n, m = args.time
    ids = (model.tokenizer.encode(PROSE).ids * (1 + (n + m) // 50))[: n + m]
    passes, cpu, marks = min(args.passes or m, m), time.process_time(), [time.perf_counter()]
    _, s, _, _ = autograd(model, ids[:n], ids[n:], args.lean, passes, marks)
    graph, each = marks[1] - marks[0], (marks[-1] - marks[1]) / passes
    busy = (time.process_time() - cpu) / (marks[-1] - marks[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    known = "measured" if passes == m else f"extrapolated from {passes} backward passes"
    print(f"{n}+{m}, {torch.get_num_threads()} threads{', lean' if args.lean else ''}: {graph + m * each:.1f} s ({known}); "
          f"forward {graph:.2f} s, each backward {each:.2f} s; {busy:.2f} cores busy; peak {peak:.2f} GiB with weights")  # fmt: skip
    start = time.perf_counter()
    mine, _ = row_local(model, ids[:n], ids[n:])
    print(f"  row by row, by hand, in PyTorch: {time.perf_counter() - start:.2f} s; S: {relative(s, mine[:passes])}")


@torch.no_grad()
def sanity(args, model):
    ids = model.tokenizer.encode(PROSE).ids
    loss = losses_of(forward(model, ids[:-1], 0), ids[1:]).mean()
    ids = model.tokenizer.encode("The capital of France is").ids
    for _ in range(12):
        ids.append(forward(model, ids, len(ids) - 1).argmax().item())
    print(f"perplexity of prose {loss.exp():.2f}; {model.tokenizer.decode(ids)!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for flag in "--f64", "--golden", "--check", "--lean":
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--time", type=int, nargs=2, metavar=("N", "M"))
    parser.add_argument("--passes", type=int)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.golden:
        return golden(args)
    model = Model(args.model, torch.float64 if args.f64 else torch.float32)
    chosen = check if args.check else timing if args.time else sanity
    return chosen(args, model)


if __name__ == "__main__":
    main()
