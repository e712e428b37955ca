"""PyTorch forms of what :mod:`experiments.benchmarks.ugcformer` times, from the same parameters.

They are written as a careful PyTorch user would: features dense (or CSR, to see what that brings),
adjacency matrices in CSR, fused Adam with weight decay in the gradient. Import it where PyTorch is
installed; GCN and GAT also need ``torch_geometric``.
"""

import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from neurips25 import graphs
from neurips25.training.mesh import path_name

Weights = dict[str, torch.nn.Parameter]

# That CSR tensors are in beta, and their invariants not checked.
warnings.filterwarnings("ignore", "Sparse ", UserWarning)


def _csr_parts(matrix: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    matrix = scipy.sparse.csr_array(matrix)
    matrix.sort_indices()
    # MKL works on int32; with int64 it would convert the indices in every product.
    rows, columns = (torch.from_numpy(i.astype(np.int32)) for i in (matrix.indptr, matrix.indices))
    return rows, columns, torch.from_numpy(matrix.data.astype(np.float32))


@torch.library.custom_op("neurips25::symmetric_product", mutates_args=())
def _symmetric_product(
    rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    return torch.sparse_csr_tensor(rows, columns, values, (x.size(0), x.size(0))) @ x


@_symmetric_product.register_fake
def _(
    rows: torch.Tensor, columns: torch.Tensor, values: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    return torch.empty_like(x)


_symmetric_product.register_autograd(
    lambda ctx, grad: (None, None, None, _symmetric_product(*ctx.saved_tensors, grad)),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[:3]),
)


class SymmetricMatrix(NamedTuple):
    """A symmetric CSR matrix, whose product is an operator of its own for two reasons.

    Autograd would transpose a CSR tensor in every backward pass, which takes longer than the
    product itself; and ``torch.compile`` stops at CSR tensors.
    """

    rows: torch.Tensor
    columns: torch.Tensor
    values: torch.Tensor

    def __matmul__(self, x: torch.Tensor) -> torch.Tensor:
        return _symmetric_product(self.rows, self.columns, self.values, x)

    def tensor(self) -> torch.Tensor:
        """A CSR tensor."""
        n = len(self.rows) - 1
        return torch.sparse_csr_tensor(self.rows, self.columns, self.values, (n, n))


class TorchTask(NamedTuple):
    """A graph and its first split.

    Attributes:
      x: [n, f], dense or CSR.
      edges: int64 [2, 2m], senders and receivers, as PyTorch Geometric takes them.
      adjacency: A.
      adj_norm: Ã.
      labels: int64 [n].
      train: int64, the training nodes.
    """

    x: torch.Tensor
    edges: torch.Tensor
    adjacency: SymmetricMatrix
    adj_norm: SymmetricMatrix
    labels: torch.Tensor
    train: torch.Tensor


def torch_task(graph: graphs.NodeGraph, sparse_x: bool = False) -> TorchTask:
    """A graph as PyTorch tensors; ``sparse_x`` for features in CSR."""
    n = graph.num_nodes
    ones = np.ones(len(graph.senders), np.float32)
    adjacency = scipy.sparse.csr_array((ones, graph.senders, graph.row_starts), (n, n))
    root = scipy.sparse.diags_array((graph.degrees + 1.0) ** -0.5)
    adj_norm = root @ (adjacency + scipy.sparse.eye_array(n)) @ root
    x = torch.from_numpy(graph.features)
    if sparse_x:
        rows, columns, values = _csr_parts(graph.features)
        x = torch.sparse_csr_tensor(rows, columns, values, x.shape)
    return TorchTask(
        x,
        torch.from_numpy(np.stack([graph.senders, graph.receivers]).astype(np.int64)),
        SymmetricMatrix(*_csr_parts(adjacency)),
        SymmetricMatrix(*_csr_parts(adj_norm)),
        torch.from_numpy(graph.labels.astype(np.int64)),
        torch.from_numpy(np.flatnonzero(graph.split(0).train)),
    )


def torch_weights(params: Any) -> Weights:
    """Parameters of a linen module by their paths."""
    return {
        path_name(path): torch.nn.Parameter(torch.from_numpy(np.array(leaf)))
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    }


def dca(q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """:func:`~neurips25.graphs.linear_cross_attention` of one head, q and v [n, d].

    Plain matrix products are a fifth faster here than ``einsum`` over arrays with a head axis.
    """
    scale = 1 / (q.square().sum() * q.size(0))
    num = torch.addmm(v, q, scale * (q.T @ v))
    return num / (1 + q @ (scale * q.sum(0))).unsqueeze(-1)


def _dense(w: Weights, name: str, x: torch.Tensor) -> torch.Tensor:
    if x.layout == torch.sparse_csr:
        return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]
    return torch.addmm(w[f"{name}/bias"], x, w[f"{name}/kernel"])


def ugcformer(
    w: Weights, task: TorchTask, model: graphs.UGCFormer, training: bool = True
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Logits [n, C] of UGCFormer with one head and its default options, mixed and per channel.

    Args:
      w: parameters of the model.
      task: the graph.
      model: gives ``num_layers``, ``alpha``, ``dropout`` and ``remat``.
      training: with dropout.
    """

    def drop(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, model.dropout, training)

    def layer(name: str, z: Any, b: Any, b0: Any) -> tuple[torch.Tensor, torch.Tensor]:
        v_topo, v_attr = (
            _dense(w, f"{name}/v_{space}", drop(h)) for space, h in (("topo", z), ("attr", b))
        )
        attended = (
            dca(_dense(w, f"{name}/{q}", h), v)
            for q, h, v in (("q_attr", b, v_topo), ("q_topo", z, v_attr))
        )
        gates = (w[f"{name}/{gate}"].tanh() for gate in ("lambda", "gamma"))
        kept = (task.adj_norm @ v_topo, b0)
        out = [(1 - g) * own + g * new for g, own, new in zip(gates, kept, attended)]
        for i, ln in enumerate(("ln_topo", "ln_attr")):
            scale, bias = w[f"{name}/{ln}/scale"], w[f"{name}/{ln}/bias"]
            out[i] = F.layer_norm(out[i], scale.shape, scale, bias, 1e-5).relu()
        return out[0], out[1]

    def head(h: torch.Tensor) -> torch.Tensor:
        return _dense(w, "head/dense_1", _dense(w, "head/dense_0", h).relu())

    z = (task.adjacency @ w["topo/table"] + w["topo/bias"]).relu()
    z = _dense(w, "topo/mlp/dense_0", drop(z))
    b0 = _dense(w, "attr/dense_1", drop(_dense(w, "attr/dense_0", task.x).relu()))
    b = b0
    for i in range(model.num_layers):
        if model.remat:
            z, b = checkpoint(layer, f"layer_{i}", z, b, b0, use_reentrant=False)
        else:
            z, b = layer(f"layer_{i}", z, b, b0)
    return head((1 - model.alpha) * z + model.alpha * b), head(z), head(b)


def ugcformer_loss(outputs: Iterable[torch.Tensor], task: TorchTask, beta: float) -> torch.Tensor:
    """:func:`~neurips25.graphs.ugcformer_loss` with its defaults."""
    logits, *channels = outputs
    p_topo, p_attr = (h.softmax(-1) for h in channels)
    powers = ((p_topo + p_attr) / 2).detach() ** 2
    target = powers / powers.sum(-1, keepdim=True)
    far = (target - p_topo).square().sum(-1) + (target - p_attr).square().sum(-1)
    return F.cross_entropy(logits[task.train], task.labels[task.train]) + beta * 0.5 * far.mean()


def _drop_features(x: torch.Tensor, rate: float) -> torch.Tensor:
    if x.layout != torch.sparse_csr:
        return F.dropout(x, rate)
    values = F.dropout(x.values(), rate)
    return torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape)


class GCN(torch.nn.Module):
    """Two convolutions of PyTorch Geometric, over the edges or with ``adj_norm`` in CSR."""

    def __init__(self, params: Any, dropout: float, adj_norm: torch.Tensor | None):
        super().__init__()
        from torch_geometric.nn import GCNConv

        self.dropout, self.adj_norm, edges = dropout, adj_norm, adj_norm is None
        kernels = [params["gcn"][f"conv_{i}"]["kernel"].shape for i in (0, 1)]
        self.convs = torch.nn.ModuleList(
            GCNConv(*shape, cached=edges, normalize=edges) for shape in kernels
        )
        for i, conv in enumerate(self.convs):
            own = params["gcn"][f"conv_{i}"]
            _fill(conv, {"lin.weight": own["kernel"].T, "bias": own["bias"]})

    def forward(self, task: TorchTask) -> torch.Tensor:
        edges = task.edges if self.adj_norm is None else self.adj_norm
        x = _drop_features(task.x, self.dropout)
        x = F.dropout(self.convs[0](x, edges).relu(), self.dropout)
        return self.convs[1](x, edges)


class GAT(torch.nn.Module):
    """Two attention layers of PyTorch Geometric, joined heads and then one."""

    def __init__(self, params: Any, dropout: float):
        super().__init__()
        from torch_geometric.nn import GATConv

        self.dropout = dropout
        self.convs = torch.nn.ModuleList()
        for i in (0, 1):
            own = params[f"layer_{i}"]
            inputs, heads, width = own["kernel"].shape
            conv = GATConv(inputs, width, heads, concat=i == 0, dropout=dropout)
            values = {
                "lin.weight": own["kernel"].reshape(inputs, -1).T,
                "att_src": own["att_src"][None],
                "att_dst": own["att_dst"][None],
                "bias": own["bias"],
            }
            _fill(conv, values)
            self.convs.append(conv)

    def forward(self, task: TorchTask) -> torch.Tensor:
        x = _drop_features(task.x, self.dropout)
        x = F.dropout(F.elu(self.convs[0](x, task.edges)), self.dropout)
        return self.convs[1](x, task.edges)


def _fill(module: torch.nn.Module, values: dict[str, Any]) -> None:
    module.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in values.items()})


def torch_step(
    model: Any, params: Any, graph: graphs.NodeGraph, variant: str, beta: float, lr: float,
    decay: float, threads: int,
) -> Callable[[], float]:  # fmt: skip
    """A training step; each call returns the loss before the update.

    Args:
      model: UGCFormer, GCN or GAT of :mod:`neurips25.graphs`.
      params: its parameters to start from.
      graph: the graph, with a split.
      variant: of UGCFormer ``torch``, ``torch_csr_x`` or ``torch_compile``; of the others ``pyg``
        or ``pyg_csr_x``, and of GCN also ``pyg_csr``.
      beta: of UGCFormer's loss.
      lr, decay: of Adam.
      threads: that PyTorch may use.

    Returns:
      The step.
    """
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    task = torch_task(graph, sparse_x=variant.endswith("csr_x"))
    gates: list[torch.nn.Parameter] = []
    if isinstance(model, graphs.UGCFormer):
        w = torch_weights(params)
        gates = [p for name, p in w.items() if name.endswith(("/lambda", "/gamma"))]
        decayed = [p for name, p in w.items() if not name.endswith(("/lambda", "/gamma"))]

        def loss_fn() -> torch.Tensor:
            return ugcformer_loss(ugcformer(w, task, model), task, beta)

        if variant == "torch_compile":
            loss_fn = torch.compile(loss_fn)
    else:
        if isinstance(model, graphs.GCN):
            csr = task.adj_norm.tensor() if variant.startswith("pyg_csr") else None
            module: torch.nn.Module = GCN(params, model.dropout, csr)
        else:
            module = GAT(params, model.dropout)
        decayed = list(module.parameters())

        def loss_fn() -> torch.Tensor:
            return F.cross_entropy(module(task)[task.train], task.labels[task.train])

    groups = [{"params": decayed, "weight_decay": decay}, {"params": gates, "weight_decay": 0.0}]
    optimizer = torch.optim.Adam(groups[: 2 if gates else 1], lr=lr, fused=True)

    def run() -> float:
        optimizer.zero_grad()
        loss = loss_fn()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return run


def torch_attention(
    q: np.ndarray, v: np.ndarray, cotangent: np.ndarray, compiled: bool, threads: int
) -> Callable[[], float]:
    """Forward and backward of :func:`dca` on [n, d]; a call gives one number of the gradient."""
    torch.set_num_threads(threads)
    tensors = [torch.from_numpy(a.copy()).requires_grad_() for a in (q, v)]
    pulled = torch.from_numpy(cotangent.copy())
    attend = torch.compile(dca) if compiled else dca

    def run() -> float:
        gradients = torch.autograd.grad(attend(*tensors), tensors, pulled)
        return float(gradients[0][0, 0])

    return run
