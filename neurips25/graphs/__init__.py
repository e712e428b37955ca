"""Node classification on one graph: readers, sampling, UGCFormer and its baselines, on jraph."""

from neurips25.graphs.adjacency import Normalization, normalized_adjacency
from neurips25.graphs.adjacency_encoder import AdjacencyEncoder
from neurips25.graphs.appnp import APPNP, personalized_propagation
from neurips25.graphs.builtin import karate_club
from neurips25.graphs.consistency import (
    ConsistencyReduction,
    consistency_loss,
    consistency_weight,
    pseudo_labels,
    sharpen,
)
from neurips25.graphs.csr_npz import load_csr_npz, save_csr_npz
from neurips25.graphs.digest import graph_digest
from neurips25.graphs.dual_cross_attention import (
    Activation,
    AttrResidual,
    CrossAttention,
    DualCrossAttention,
    Norm,
    PropagateValue,
    QKNorm,
    dense_cross_attention,
    dense_cross_attention_scores,
    linear_cross_attention,
    relative_change,
    softmax_cross_attention,
)
from neurips25.graphs.edge_list import load_edge_list, save_edge_list
from neurips25.graphs.edge_operator import EdgeOperator, edge_softmax, spmm
from neurips25.graphs.formats import load_graph
from neurips25.graphs.gat import GAT, GraphAttention, graph_attention
from neurips25.graphs.gcn import GCN, GraphConvolution
from neurips25.graphs.geom_gcn import load_geom_gcn, save_geom_gcn
from neurips25.graphs.gpr_gnn import GPRGNN, generalized_propagation, pagerank_weights
from neurips25.graphs.graph_inputs import (
    edge_weights,
    node_degrees,
    node_features,
    node_ids,
    num_nodes,
    pad_graph,
    real_nodes,
    subgraph_tuple,
)
from neurips25.graphs.graph_sage import GraphSAGE, SAGEConvolution
from neurips25.graphs.heterophilous_npz import load_heterophilous_npz, save_heterophilous_npz
from neurips25.graphs.linkx import LINKX
from neurips25.graphs.mlp import MLP
from neurips25.graphs.node_graph import NodeGraph, Split, homophily, to_graphs_tuple
from neurips25.graphs.node_losses import masked_accuracy, masked_cross_entropy, masked_roc_auc
from neurips25.graphs.node_training import (
    NodeMetric,
    NodeTask,
    PredictFn,
    SampledTask,
    coupled_adam,
    in_phases,
    init_node_variables,
    make_node_step,
    model_variables,
    node_loss_fn,
    node_predict_fn,
    node_scores,
    node_task,
    sampled_task,
    ugcformer_loss_fn,
)
from neurips25.graphs.nodeformer import NodeFormer
from neurips25.graphs.ogb_folder import load_ogb_folder, save_ogb_folder
from neurips25.graphs.planetoid import load_planetoid, save_planetoid
from neurips25.graphs.polynormer import Polynormer, sigmoid_attention
from neurips25.graphs.random_features import (
    feature_attention,
    orthogonal_projection,
    positive_features,
)
from neurips25.graphs.sampling import (
    NeighborBatches,
    SampledSubgraph,
    sample_subgraph,
    subgraph_size,
)
from neurips25.graphs.sgformer import SGFormer
from neurips25.graphs.sharding import GRAPH_RULES, shard_graph, shard_rows
from neurips25.graphs.sparse_features import SparseFeatures, sparse_features
from neurips25.graphs.splits import random_splits, random_splits_per_class
from neurips25.graphs.synthetic import power_law_dataset, sbm_dataset
from neurips25.graphs.ugcformer import UGCFormer, UGCFormerOutput, ugcformer_loss, weight_decay_mask

__all__ = [
    "APPNP",
    "GAT",
    "GCN",
    "GPRGNN",
    "GRAPH_RULES",
    "LINKX",
    "MLP",
    "Activation",
    "AdjacencyEncoder",
    "AttrResidual",
    "ConsistencyReduction",
    "CrossAttention",
    "DualCrossAttention",
    "EdgeOperator",
    "GraphAttention",
    "GraphConvolution",
    "GraphSAGE",
    "NeighborBatches",
    "NodeFormer",
    "NodeGraph",
    "NodeMetric",
    "NodeTask",
    "Norm",
    "Normalization",
    "Polynormer",
    "PredictFn",
    "PropagateValue",
    "QKNorm",
    "SAGEConvolution",
    "SGFormer",
    "SampledSubgraph",
    "SampledTask",
    "SparseFeatures",
    "Split",
    "UGCFormer",
    "UGCFormerOutput",
    "consistency_loss",
    "consistency_weight",
    "coupled_adam",
    "dense_cross_attention",
    "dense_cross_attention_scores",
    "edge_softmax",
    "edge_weights",
    "feature_attention",
    "generalized_propagation",
    "graph_attention",
    "graph_digest",
    "homophily",
    "in_phases",
    "init_node_variables",
    "karate_club",
    "linear_cross_attention",
    "load_csr_npz",
    "load_edge_list",
    "load_geom_gcn",
    "load_graph",
    "load_heterophilous_npz",
    "load_ogb_folder",
    "load_planetoid",
    "make_node_step",
    "masked_accuracy",
    "masked_cross_entropy",
    "masked_roc_auc",
    "model_variables",
    "node_degrees",
    "node_features",
    "node_ids",
    "node_loss_fn",
    "node_predict_fn",
    "node_scores",
    "node_task",
    "normalized_adjacency",
    "num_nodes",
    "orthogonal_projection",
    "pad_graph",
    "pagerank_weights",
    "personalized_propagation",
    "positive_features",
    "power_law_dataset",
    "pseudo_labels",
    "random_splits",
    "random_splits_per_class",
    "real_nodes",
    "relative_change",
    "sample_subgraph",
    "sampled_task",
    "save_csr_npz",
    "save_edge_list",
    "save_geom_gcn",
    "save_heterophilous_npz",
    "save_ogb_folder",
    "save_planetoid",
    "sbm_dataset",
    "shard_graph",
    "shard_rows",
    "sharpen",
    "sigmoid_attention",
    "softmax_cross_attention",
    "sparse_features",
    "spmm",
    "subgraph_size",
    "subgraph_tuple",
    "to_graphs_tuple",
    "ugcformer_loss",
    "ugcformer_loss_fn",
    "weight_decay_mask",
]
