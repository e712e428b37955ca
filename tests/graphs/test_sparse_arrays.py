import numpy as np
import pytest
import scipy.sparse

from neurips25.graphs.sparse_arrays import csr_matrix, labels_from_one_hot


def test_csr_matrix():
    dense = np.array([[0, 2.0, 0], [0, 0, 0], [1, 0, 3]])
    matrix = scipy.sparse.csr_array(dense)
    built = csr_matrix(matrix.data, matrix.indices, matrix.indptr, (3, 3), "m_")
    np.testing.assert_array_equal(built.toarray(), dense)
    with pytest.raises(ValueError, match=r"m_indices\[1\] is 3 \(row 2\): columns are 0 to 2"):
        csr_matrix(matrix.data, np.array([1, 3, 2]), matrix.indptr, (3, 3), "m_")
    with pytest.raises(ValueError, match="m_indptr falls after entry 1, row 1"):
        csr_matrix(matrix.data, matrix.indices, np.array([0, 2, 1, 3]), (3, 3), "m_")


@pytest.mark.parametrize("wrap", [np.array, scipy.sparse.csr_array, scipy.sparse.csc_matrix])
def test_one_hot(wrap):
    rows = np.array([[0, 1, 0], [0, 0, 0], [1, 0, 0]])
    assert labels_from_one_hot(wrap(rows)).tolist() == [1, -1, 0]
    rows[2] = [1, 0, 1]
    with pytest.raises(ValueError, match="row 2 has 2 classes"):
        labels_from_one_hot(wrap(rows))
    rows[2] = [0, -1, 0]
    with pytest.raises(ValueError, match="row 2 holds -1, not 0/1"):
        labels_from_one_hot(wrap(rows))


def test_one_hot_of_something_else():
    with pytest.raises(ValueError, match=r"labels are int64 \[3\]"):
        labels_from_one_hot(np.arange(3))
    with pytest.raises(ValueError, match="labels are object"):
        labels_from_one_hot(np.array([[None]]))
