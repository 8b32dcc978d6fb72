// Makes nested bases from entries alone (docs/theory/hmatrix.md, "Nested bases"). For each cluster, leaves first:
//
//   G        rows of the far field of the cluster's points at sampled points, weighted so that G G^H estimates that of
//            the whole far field
//   X        G = X G(points) by QR with pivoting: all rows from those of a few points, the skeleton. Candidates are the
//            points of a leaf, or the skeletons of the children
//   W        singular vectors of G in the coordinates of the children's bases, cut at the cluster's share of the error
//   C        X in the coordinates of W
// so that a far block is A(t, s) = U_t (C_t A(points_t, points_s) C_s^H) V_s^H with orthonormal U_t and V_s. Column j
// of a basis is stored times d_j, the root of its singular value over the largest, and C is divided by it: then the
// numbers of S are about equally large, and 16-bit integers with one scale keep their significant digits.
#pragma once

#include <tacit/op/hmatrix/cluster_tree.hpp>
#include <tacit/op/hmatrix/compress.hpp>

#include "nested_basis.hpp"

#include <complex>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

namespace tacit::op::detail {

template <Scalar T>
using InDouble = std::conditional_t<is_complex<T>, std::complex<double>, double>;

/// A cluster's representation in far blocks. They are many, so C is in single precision where the tolerance allows.
template <Scalar T>
struct Skeleton {
  using W = InDouble<T>;
  using Single = std::conditional_t<is_complex<T>, std::complex<float>, float>;
  std::vector<Local> points;  ///< positions in the order of the tree
  std::vector<W> c_double;    ///< C: rank x points, by columns, rows divided by d
  std::vector<Single> c_single;
  std::vector<double> d;  ///< rank
  Local rank() const { return Local(d.size()); }
  void set(std::vector<W> c, bool single) {
    if (single) c_single.assign(c.begin(), c.end());
    else c_double = std::move(c);
  }
  /// C in double precision; `room` is used where it is not stored so.
  const W* c(std::vector<W>& room) const {
    if (c_single.empty()) return c_double.data();
    room.assign(c_single.begin(), c_single.end());
    return room.data();
  }
};

/// The clusters of one tree: what is above each, and the clusters of the other tree with which it has far blocks.
struct FarLists {
  std::vector<std::int32_t> parent;
  std::vector<std::size_t> first;  ///< of cluster c: others[first[c]] to others[first[c + 1]]
  std::vector<std::int32_t> others;
  std::span<const std::int32_t> of(std::int32_t c) const {
    return std::span(others).subspan(first[std::size_t(c)], first[std::size_t(c) + 1] - first[std::size_t(c)]);
  }
};

struct BasisBudget {
  double cut2 = 0;       ///< squared truncation error of a cluster (Frobenius)
  double skeleton2 = 0;  ///< the same of its skeleton
  double stored2 = 0;    ///< squared storage error for each number
  bool single = false;   ///< skeletons in single precision
  int samples = 64;      ///< points of a cluster's own far blocks at first; further ones of those of the clusters above
  StoragePrecision storage = StoragePrecision::automatic;
};

/// What a side of the matrix is made of. `rows`: whether tree has its rows, else its columns.
template <Scalar T>
struct BasisSide {
  const ClusterTree& tree;
  const ClusterTree& other;
  bool rows;
  const FarLists& far;
  const EntryFunction<T>& entry;
  bool concurrent;
};

template <Scalar T>
struct MadeBases {
  std::vector<Skeleton<T>> skeletons;  ///< of the clusters made here
  std::vector<Local> rank;             ///< of all clusters
  std::shared_ptr<const NestedBasis<T>> basis;
  double error2 = 0;   ///< squared, of truncation: estimate, of the clusters inside this rank's range
  double stored2 = 0;  ///< the same of storage
  Global entries = 0;
};

/// Bases of the clusters that meet positions [cuts[rank], cuts[rank + 1]), which are at bounds of leaves. Collective;
/// clusters that several ranks share are made by all ranks. poll() is called between clusters, from the calling thread.
/// Error(input) for an entry that is not finite.
template <Scalar T>
MadeBases<T> make_bases(const comm::Communicator& comm, const BasisSide<T>& side, std::span<const Global> cuts,
                        const BasisBudget& budget);

/// The nodes of the clusters with a basis that meet [first, last), in pre-order, without matrices.
std::vector<BasisNode> nodes_within(const ClusterTree& tree, std::span<const Local> rank, Local first, Local last);

/// Adds to `skeletons` those of the wanted clusters that other ranks have made. Collective.
template <Scalar T>
void fetch_skeletons(const comm::Communicator& comm, const ClusterTree& tree, std::span<const Global> cuts,
                     const std::vector<std::int32_t>& wanted, std::vector<Skeleton<T>>& skeletons);

/// The unit of 16-bit integers for numbers of at most this size. Smaller ones than `least_fixed` become 0, exactly or
/// nearly so: their units, and the inverse of these, could leave the range of double.
inline constexpr double least_fixed = 0x1p-960;
inline double fixed_unit(double most) {
  return most >= least_fixed ? most / 32767 : 1;
}

/// Appends an m x n matrix (by columns) in the lowest format of which the weighted squared error is at most `allowed2`:
/// the sum of (error_ij)^2 with weights a_i b_j, whose sums are given.
template <Scalar T>
SmallMatrix pack_small(const InDouble<T>* matrix, std::size_t m, std::size_t n, double weights, double allowed2,
                       StoragePrecision storage, typename NestedBasis<T>::Numbers& numbers, double& error2);

}  // namespace tacit::op::detail
