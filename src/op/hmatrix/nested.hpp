// The far field of an HMatrix by nested bases (H2-matrix: Hackbusch, Khoromskij, Sauter 2000; Boerm 2010): a far block
// of the clusters t and s is U_t S V_s^H, where U_t is made of the bases of t's children, U_t = [U_a E_a; U_b E_b].
//
//   x_s = V_s^H x            leaves first, then x_s = sum of E_c^H x_c over the children c of s
//   y_t = sum of S x_s       over the far blocks of t: one dense product with all of their S
//   y_t += E_t y_parent      parents first; y += U_t y_t in leaves
// Every stored number is read once. Threads write to disjoint elements, and the order of sums depends on the matrix
// only. Numbers are stored in the formats of Storage, each small matrix with one scale.
//
// On several ranks a rank has the clusters that its rows and its columns meet. Of a column cluster that ranks share
// each has the part of x_s of its columns; x_s is their sum in the order of ranks, made where it is needed.
#pragma once

#include <tacit/comm/exchange.hpp>

#include "nested_basis.hpp"

#include <map>
#include <memory>
#include <span>
#include <vector>

namespace tacit::op::detail {

/// The far blocks of one node of the row basis: the matrices S side by side, each row contiguous and conjugated, padded
/// to `length`. A run is where x_s is, its length, and the scale of S; runs are in the order of offsets.
struct FarRow {
  std::int32_t format;
  std::uint32_t chunk, length;
  std::size_t data;
  std::uint32_t first_run, last_run;
};

/// x_s of a cluster that this rank does not have alone: sums of parts, each this rank's node or values received.
struct SharedCluster {
  std::uint32_t at, rank;
  std::uint32_t first_part, last_part;
};
struct SharedPart {
  std::int64_t own;    ///< position of this rank's part among its coefficients, or -1
  std::int64_t ghost;  ///< position among the received values, or -1
};

template <Scalar T>
class NestedField {
 public:
  using R = real_t<T>;
  template <int F>
  using Stored = std::tuple_element_t<F, std::tuple<R, float, std::int16_t>>;
  using Basis = std::shared_ptr<const NestedBasis<T>>;

  /// Then add_chunk() for the numbers, complete(), connect().
  NestedField(Basis rows, Basis columns) : rows_(std::move(rows)), columns_(std::move(columns)) {}
  struct Sharing {
    std::vector<SharedCluster> clusters;
    std::vector<SharedPart> parts;
    std::size_t coefficients = 0;         // of this rank's own nodes and of the shared clusters
    std::vector<Global> offsets, ghosts;  // of the coefficients of all ranks; ascending
  };
  /// Takes one format's numbers as a chunk; returns its number.
  template <int F>
  std::uint32_t add_chunk(exec::Array<Stored<F>> numbers) {
    auto kept = std::make_shared<const exec::Array<Stored<F>>>(std::move(numbers));
    auto& chunks = std::get<F>(chunks_);
    chunks.push_back({kept->data(), kept->size()});
    owners_.push_back(kept);
    return std::uint32_t(chunks.size() - 1);
  }
  /// far: one for each node of the row basis.
  void complete(std::vector<FarRow> far, std::vector<Run> runs, Sharing sharing);
  /// Collective.
  void connect(const comm::Communicator& comm);

  /// x_s of this rank's column clusters. x: all elements in the caller's order (those of own columns are read).
  void project(const T* x, std::span<const Global> order, int k, const comm::Communicator& comm) const;
  /// Starts the exchange of x_s; `forward`: to the ranks that need them, else back, to be added.
  int post(int k, bool forward) const;
  void wait(int slot, int k, bool forward) const;
  /// rows += U (S x_s), for own rows in the order of the tree.
  void add_rows(T* rows, int k, const comm::Communicator& comm) const;
  /// x_s := S^H U^H rows, with the parts of other ranks.
  void project_adjoint(const T* rows, int k, const comm::Communicator& comm) const;
  /// columns += V x_s; columns: by position, all of them.
  void add_columns(T* columns, int k, const comm::Communicator& comm) const;

  const NestedBasis<T>& rows() const { return *rows_; }
  const NestedBasis<T>& columns() const { return *columns_; }
  std::array<double, formats> bytes() const;
  double index_bytes() const;
  double flops() const;
  bool intact() const { return checksum() == made_; }
  /// The pattern of the exchange; null on one rank.
  const comm::Pattern* pattern() const { return pattern_.get(); }

  void save(std::vector<SavedPart>& parts) const;
  /// From saved parts; connect() completes it.
  explicit NestedField(const std::vector<SavedPart>& parts);

 private:
  static constexpr int parts = is_complex<T> ? 2 : 1;

  comm::Exchange& exchange(int k) const;
  std::uint64_t checksum() const;
  void divide();
  void meet() const;
  void reserve(int k) const;
  /// z_: K planes of the elements of own positions, from value(position, column of the planes).
  template <int K, class F>
  void set_planes(Local count, F&& value) const;
  template <int K>
  void couple(std::size_t node, int plane, std::vector<R>& buffer) const;
  template <int K>
  void couple_back(int plane, const comm::Communicator& comm) const;
  /// f(integral constant K, first column) for groups of columns.
  template <class F>
  static void by_columns(int k, F&& f);

  Basis rows_, columns_;
  std::vector<FarRow> far_;
  std::vector<Run> runs_;
  Sharing sharing_;
  std::tuple<std::vector<std::span<const R>>, std::vector<std::span<const float>>,
             std::vector<std::span<const std::int16_t>>>
      chunks_;
  std::vector<std::shared_ptr<const void>> owners_;
  std::vector<std::size_t> cost_{0};
  std::uint64_t made_ = 0;
  // For adjoint products: the far rows that meet each piece of the column clusters, and the runs of these.
  struct Meeting {
    std::uint32_t node, first, last, begin;  // begin: of the first run within the row
  };
  mutable std::vector<std::vector<Meeting>> pieces_;
  std::shared_ptr<const comm::Pattern> pattern_;
  mutable std::map<int, std::unique_ptr<comm::Exchange>> exchanges_;
  // Coefficients by planes: of columns for all columns of a product, of rows for those in work.
  mutable exec::Array<R> column_values_, row_values_, z_;
  mutable std::size_t ldz_ = 0;
  std::ptrdiff_t column_ld() const { return std::ptrdiff_t(sharing_.coefficients); }
  std::ptrdiff_t row_ld() const { return std::ptrdiff_t(rows_->coefficients()); }
};

}  // namespace tacit::op::detail
