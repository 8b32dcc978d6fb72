// Nested cluster bases, as products read them: this rank's clusters of one tree.
#pragma once

#include "storage_impl.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

namespace tacit::op::detail {

/// A small matrix by columns (a complex column as real part, then imaginary part), times `scale`.
struct SmallMatrix {
  std::int32_t format = native;
  std::size_t data = 0;
  double scale = 1;
};

/// A cluster with a basis. Nodes are in pre-order: a subtree is contiguous, parents come first.
struct BasisNode {
  std::int32_t cluster;
  std::int32_t parent;    ///< node, or -1 where the cluster above has no basis
  std::int32_t child[2];  ///< nodes, or -1
  std::int32_t end;       ///< one past its subtree
  Local begin, count;     ///< positions of a leaf, from the first of this rank; count is 0 elsewhere
  Local rank;
  std::uint32_t at;      ///< of its coefficients
  SmallMatrix leaf;      ///< count x rank
  SmallMatrix transfer;  ///< rank x rank of the parent
};

template <Scalar T>
class NestedBasis {
 public:
  using R = real_t<T>;
  template <int F>
  using Stored = std::tuple_element_t<F, std::tuple<R, float, std::int16_t>>;
  using Numbers = std::tuple<std::vector<R>, std::vector<float>, std::vector<std::int16_t>>;
  static constexpr int parts = is_complex<T> ? 2 : 1;

  /// Positions [first, first + count) of the tree's order.
  NestedBasis(Local first, Local count, std::vector<BasisNode> nodes, Numbers numbers);
  NestedBasis(const std::string& name, const std::vector<SavedPart>& parts);
  void save(const std::string& name, std::vector<SavedPart>& parts) const;

  Local first() const { return first_; }
  Local count() const { return count_; }
  const std::vector<BasisNode>& nodes() const { return nodes_; }
  std::size_t coefficients() const { return coefficients_; }

  /// values := (basis)^H z of all nodes, for 1, 2 or 4 planes: z has this rank's positions.
  void up(int planes, const R* z, std::ptrdiff_t ldz, R* values, std::ptrdiff_t ld,
          const comm::Communicator& comm) const;
  /// y += basis * values, y: this rank's positions, k interleaved columns; values of nodes gain those of their parents.
  void down(int planes, R* values, std::ptrdiff_t ld, T* y, int k, int column, const comm::Communicator& comm) const;

  std::array<double, formats> bytes() const;
  double index_bytes() const { return double(nodes_.size() * sizeof(BasisNode)); }
  double flops() const { return flops_; }
  void add_to(exec::Checksum& sum) const;

 private:
  template <int F>
  const Stored<F>* numbers(const SmallMatrix& m) const {
    return std::get<F>(numbers_).data() + m.data;
  }
  /// out (+)= M^H in, M: rows x columns.
  template <int K>
  void project(const SmallMatrix& m, Local rows, Local columns, const R* in, std::ptrdiff_t ldi, R* out,
               std::ptrdiff_t ldo, std::vector<R>& buffer) const;
  /// y += M in.
  template <int K>
  void expand(const SmallMatrix& m, Local rows, Local columns, const R* in, std::ptrdiff_t ldi, R* y,
              std::ptrdiff_t ldy) const;
  template <int K>
  void up_all(const R* z, std::ptrdiff_t ldz, R* values, std::ptrdiff_t ld, const comm::Communicator& comm) const;
  template <int K>
  void down_all(R* values, std::ptrdiff_t ld, T* y, int k, int column, const comm::Communicator& comm) const;
  template <int K>
  void up_node(const BasisNode& node, const R* z, std::ptrdiff_t ldz, R* values, std::ptrdiff_t ld,
               std::vector<R>& buffer) const;
  template <int K>
  void down_node(const BasisNode& node, R* values, std::ptrdiff_t ld, T* y, int k, int column,
                 std::vector<R>& buffer) const;
  void divide();

  Local first_ = 0, count_ = 0;
  std::vector<BasisNode> nodes_;
  std::size_t coefficients_ = 0;
  double flops_ = 0;
  std::tuple<std::span<const R>, std::span<const float>, std::span<const std::int16_t>> numbers_;
  std::vector<std::shared_ptr<const void>> owners_;
  // Nodes with large subtrees, parents first, and the subtrees below them, which threads share.
  std::vector<std::int32_t> top_;
  std::vector<std::int32_t> subtrees_;
  std::vector<std::size_t> subtree_cost_{0};
};

}  // namespace tacit::op::detail
