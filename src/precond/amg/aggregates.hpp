// Strong couplings and aggregates of a rank's rows, for smoothed aggregation.
#pragma once

#include <tacit/op/csr.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tacit::precond {

/// The nodes of a rank: node I has the rows [start[I], start[I + 1]).
struct Nodes {
  std::vector<Local> start{0};
  Local count() const { return Local(start.size()) - 1; }
};

/// Whether each node is one row.
bool is_unit(const Nodes& nodes, Local rows);

/// Strong couplings of nodes with other nodes of this rank, ascending; row I has the entries [start[I], start[I + 1]).
struct Couplings {
  std::vector<Global> start{0};
  std::vector<Local> node;
  std::vector<float> size;            ///< ||A_IJ||_F / sqrt(||A_II||_F ||A_JJ||_F)
  std::vector<std::uint8_t> outside;  ///< of each node: 1 where it couples strongly with a row of another rank
};

/// A number for each column in which a rank's rows have entries, also for those of other ranks.
template <Scalar S>
class ByColumn {
 public:
  /// `own`: of this rank's columns. Collective: as rows_of_others().
  template <Scalar T>
  ByColumn(const op::Rows<T>& rows, const layout::Space& space, std::vector<S> own);
  S operator()(Global c) const {
    if (c >= first_ && c < first_ + Global(own_.size())) return own_[std::size_t(c - first_)];
    return others_[std::size_t(std::lower_bound(column_.begin(), column_.end(), c) - column_.begin())];
  }
  /// The columns of other ranks, ascending.
  const std::vector<Global>& others() const { return column_; }

 private:
  Global first_;
  std::vector<Global> column_;  // of other ranks, ascending
  std::vector<S> own_, others_;
};

/// sqrt |a_cc|; 0 where there is no such entry. `bound` := max_i sum_j |a_ij| / |a_ii| over this rank's rows.
/// Collective.
template <Scalar T>
ByColumn<double> diagonal_roots(const op::Rows<T>& rows, const layout::Space& space, double& bound);

/// The nodes J with ||A_IJ|| > theta sqrt(||A_II|| ||A_JJ||), Frobenius norms; rows of other ranks, whose nodes are not
/// known here, by entries. Local; threads share the nodes.
template <Scalar T>
Couplings strong_couplings(const op::Rows<T>& rows, const layout::Space& space, const Nodes& nodes,
                           const ByColumn<double>& roots, double theta);

/// For nodes of one row each, by entries: 1 where i != j and |a_ij| > theta sqrt(|a_ii a_jj|), also in columns of other
/// ranks; 0 elsewhere. Local; threads share the rows.
template <Scalar T>
std::vector<std::uint8_t> strong_entries(const op::Rows<T>& rows, const layout::Space& space,
                                         const ByColumn<double>& roots, double theta);

/// What becomes of an entry of A in A_F.
constexpr std::uint8_t lumped_to_diagonal = 0, in_filtered = 1, in_row_of_identity = 2;

/// A row of I - omega D^-1 A_F: entries of A_F times `factor`, and `on_diagonal`.
template <Scalar T>
struct DampedRow {
  T d, factor, on_diagonal;
};
/// From a_ii and the sum of what is added to it; for set-up and for updates, whose real numbers are the same to the
/// bit.
template <Scalar T>
DampedRow<T> damped_row(T own, T lumped, double omega);
/// v[k] := factor v[k] for n elements.
template <Scalar T>
void scale(T* v, std::size_t n, T factor);

/// The rows of I - omega D^-1 A_F; A_F has the entries of A that couple strongly, or within a node, the others of a row
/// are added to its diagonal D: times v_j / v_i with the near-null vector v, so that A_F v = A v; null: with v = 1.
/// Entries in columns of other ranks stay where |a_ij| > theta sqrt(|a_ii a_jj|). Where D is zero the row is that of I.
/// Refers to its arguments. Local.
template <Scalar T>
class DampedIdentity {
 public:
  DampedIdentity(const op::Rows<T>& rows, const layout::Space& space, const Nodes& nodes, const Couplings& strong,
                 const ByColumn<double>& roots, const ByColumn<T>* v, double theta, double omega);
  /// With what is to become of each entry: for nodes of one row each strong_entries(), or, `again`, what another
  /// DampedIdentity has found (empty: all are in A_F); then entries of A_F stay as zeros where D is zero but was not.
  DampedIdentity(const op::Rows<T>& rows, const layout::Space& space, const std::vector<std::uint8_t>& filter,
                 const ByColumn<T>* v, double omega, bool again);
  /// Appends rows [first, last) to `to`; their D to diagonal[first] and on, and what becomes of entry k of A to
  /// filter[k] (a diagonal entry is in A_F), where these are not null; it may be the filter of the constructor.
  void append(Local first, Local last, op::Rows<T>& to, T* diagonal = nullptr, std::uint8_t* filter = nullptr) const;
  /// All rows, and D.
  op::Rows<T> rows(std::vector<T>& diagonal, std::uint8_t* filter = nullptr) const;

 private:
  const op::Rows<T>& rows_;
  Global first_, last_;
  const Couplings* strong_ = nullptr;
  const ByColumn<double>* roots_ = nullptr;
  const std::vector<std::uint8_t>* filter_ = nullptr;
  const ByColumn<T>* v_;
  double theta_ = 0, omega_;
  bool again_ = false;
  bool unit_ = true;         // each node is one row
  std::vector<Local> node_;  // else of each row
};

/// The aggregate of each node, from 0; -1 for a node without strong couplings on any rank. First nodes none of whose
/// neighbours is in an aggregate found one with all of them, then others join the aggregate that they are coupled to
/// most, and what is left joins its free neighbours. Local; one pass in the order of nodes, on one thread. Vanek,
/// Mandel, Brezina (1996), algorithm 5.1, doi 10.1007/BF02238511.
std::vector<Local> aggregates_of(const Couplings& strong, Local& count);
/// The same for strong_entries() of these rows.
template <Scalar T>
std::vector<Local> aggregates_of(const op::Rows<T>& rows, const layout::Space& space, const ByColumn<double>& roots,
                                 const std::vector<std::uint8_t>& strong, Local& count);

}  // namespace tacit::precond
