import numpy as np
import pytest

from neurips25.graphs import load_heterophilous_npz, save_heterophilous_npz
from tests.graphs.small_graphs import assert_same, small_graph

KEYS = ("node_features", "node_labels", "edges", "train_masks", "val_masks", "test_masks")

# nodes, edges, features, training nodes of the first split
PUBLISHED = {
    "cornell": (183, 277, 1703, 87),
    "texas": (183, 279, 1703, 87),
    "wisconsin": (251, 450, 1703, 120),
    "actor": (7600, 26659, 932, 3648),
    "chameleon_filtered": (890, 8854, 2325, 409),
    "squirrel_filtered": (2223, 46998, 2089, 1053),
}


@pytest.fixture
def arrays():
    graph = small_graph()
    return {
        "node_features": graph.features,
        "node_labels": graph.labels.astype(np.int64),
        "edges": graph.undirected_edges.astype(np.int64),
        "train_masks": graph.train_mask,
        "val_masks": graph.val_mask,
        "test_masks": graph.test_mask,
    }


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files(data_file, tmp_path, name):
    graph = load_heterophilous_npz(data_file(f"ugcformer/heterophilous/{name}.npz"))
    nodes, edges, features, train = PUBLISHED[name]
    assert (graph.name, graph.num_nodes, graph.num_edges) == (name, nodes, edges)
    assert (graph.features.shape[1], graph.num_classes, graph.num_splits) == (features, 5, 10)
    assert graph.train_mask[0].sum() == train
    used = graph.train_mask.astype(int) + graph.val_mask + graph.test_mask
    assert used.max() == 1
    assert used.mean() > 0.98
    save_heterophilous_npz(tmp_path / f"{name}.npz", graph)
    assert_same(load_heterophilous_npz(tmp_path / f"{name}.npz"), graph)


def test_round_trip(tmp_path):
    graph = small_graph()
    save_heterophilous_npz(tmp_path / "new" / "toy.npz", graph)
    got = load_heterophilous_npz(tmp_path / "new" / "toy.npz")
    assert_same(got, graph)
    assert got.name == "toy"
    assert load_heterophilous_npz(tmp_path / "new" / "toy.npz", name="other").name == "other"
    with np.load(tmp_path / "new" / "toy.npz") as written:
        assert sorted(written.files) == sorted(KEYS)
        assert written["edges"].dtype == np.int64


def test_masks_of_one_split(tmp_path, arrays):
    first = {k: v[0] if k.endswith("masks") else v for k, v in arrays.items()}
    np.savez(tmp_path / "toy.npz", **first)
    graph = load_heterophilous_npz(tmp_path / "toy.npz")
    assert_same(graph, small_graph().with_split(small_graph().split(0)))


def test_directed_edges_with_repeats_and_integer_masks(tmp_path, arrays):
    edges = arrays["edges"]
    arrays["edges"] = np.concatenate([edges[:, ::-1], edges[:3], [[4, 4]]])
    arrays["train_masks"] = arrays["train_masks"].astype(np.uint8)
    np.savez(tmp_path / "toy.npz", **arrays)
    assert_same(load_heterophilous_npz(tmp_path / "toy.npz"), small_graph())


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("edges", np.array([[0, 1], [3, 12]]), r"edges\[1\] is \(3, 12\), .*no node 12"),
        ("edges", np.array([0, 1]), r"edges has shape \[2\]"),
        ("node_features", np.full((12, 4), np.nan), r"features\[0, 0\] is nan"),
        ("node_labels", np.zeros(11, int), r"labels has shape \[11\], needs \[12\]"),
        ("val_masks", np.zeros((2, 11), bool), r"val_mask has shape \[2, 11\], needs .*12"),
        ("val_masks", np.zeros((3, 12), bool), r"2 \(train\), 3 \(val\)"),
        ("node_labels", np.array([None] * 12), "array 'node_labels' can't be read: Object"),
    ],
)
def test_malformed_arrays_are_refused(tmp_path, arrays, key, value, named):
    np.savez(tmp_path / "toy.npz", **(arrays | {key: value}))
    with pytest.raises(ValueError, match=rf"toy\.npz: .*{named}"):
        load_heterophilous_npz(tmp_path / "toy.npz")


@pytest.mark.parametrize("key", KEYS)
def test_missing_arrays_are_named(tmp_path, arrays, key):
    del arrays[key]
    np.savez(tmp_path / "toy.npz", **arrays)
    with pytest.raises(ValueError, match=rf"toy\.npz: has no array '{key}', only .*mask"):
        load_heterophilous_npz(tmp_path / "toy.npz")


def test_files_that_are_no_npz(tmp_path, arrays):
    path = tmp_path / "toy.npz"
    with pytest.raises(FileNotFoundError):
        load_heterophilous_npz(path)
    np.savez(path, **arrays)
    whole = path.read_bytes()
    for content in (b"", b"text", whole[:-30]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"toy\.npz: not an \.npz file"):
            load_heterophilous_npz(path)
    # Zeros over the values of the features: the checksum tells.
    at = whole.index(arrays["node_features"].tobytes()[:16])
    path.write_bytes(whole[:at] + bytes(64) + whole[at + 64 :])
    with pytest.raises(ValueError, match=r"toy\.npz: array 'node_features' can't be read"):
        load_heterophilous_npz(path)


def test_no_masks_and_labels_that_are_not_known(tmp_path, arrays):
    labels = np.where(np.arange(12) == 3, np.nan, arrays["node_labels"])
    some = {key: arrays[key] for key in ("node_features", "edges")} | {"node_labels": labels}
    np.savez(tmp_path / "toy.npz", **some)
    graph = load_heterophilous_npz(tmp_path / "toy.npz")
    assert graph.num_splits == 0
    np.testing.assert_array_equal(np.flatnonzero(graph.labels < 0), [3])
    np.savez(tmp_path / "toy.npz", **some, train_masks=arrays["train_masks"])
    with pytest.raises(ValueError, match=r"toy\.npz: has no array 'val_masks'"):
        load_heterophilous_npz(tmp_path / "toy.npz")
