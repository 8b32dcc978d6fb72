// Strength of couplings for classical algebraic multigrid: who depends on whom, over ranks.
#pragma once

#include <tacit/comm/exchange.hpp>
#include <tacit/op/csr.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace tacit::precond {

/// Indices that a rank knows of, as local numbers: its own ones first, then those of other ranks, ascending.
class Halo {
 public:
  /// `others`: of other ranks, in any order. Collective.
  Halo(const layout::Space& space, std::vector<Global> others);
  const layout::Space& space() const { return space_; }
  Local own() const { return own_; }
  Local count() const { return own_ + Local(others().size()); }
  bool is_own(Global c) const { return c >= first_ && c < first_ + own_; }
  Local operator()(Global c) const {
    if (is_own(c)) return Local(c - first_);
    return own_ + Local(std::lower_bound(others().begin(), others().end(), c) - others().begin());
  }
  Global global(Local i) const { return i < own_ ? first_ + i : others()[std::size_t(i - own_)]; }
  const std::vector<Global>& others() const { return pattern_->ghosts; }
  /// Brings v[own() ...] from the ranks that own these indices. Collective: one exchange.
  template <class S>
  void update(std::vector<S>& v) const {
    static_assert(sizeof(S) <= element);
    v.resize(std::size_t(count()));
    if (!exchange_) return;
    const int number = exchange_->open();
    std::byte* const out = exchange_->outgoing(number);
    for (std::size_t k = 0; k < pattern_->send_index.size(); ++k)
      std::memcpy(out + k * element, &v[std::size_t(pattern_->send_index[k])], sizeof(S));
    exchange_->post(number);
    exchange_->wait(number);
    const std::byte* const in = exchange_->incoming(number);
    for (std::size_t k = 0; k < others().size(); ++k)
      std::memcpy(&v[std::size_t(own_) + k], in + k * element, sizeof(S));
    exchange_->close(number);
  }

 private:
  static constexpr std::size_t element = 8;
  layout::Space space_;
  Global first_;
  Local own_;
  std::shared_ptr<const comm::Pattern> pattern_;
  std::unique_ptr<comm::Exchange> exchange_;  // null on one rank
};

/// The graph of strong couplings: i depends on the nodes S_i, and the nodes S_i^T depend on i.
struct Graph {
  Halo halo;
  std::vector<Global> start;  ///< S_i = node[start[i] ... start[i + 1]), in the order of global indices
  std::vector<Local> node;
  std::vector<Global> start_of_dependants;
  std::vector<Local> dependant;
  std::size_t size() const { return start.size() - 1; }
};

/// Calls f(j) for the points that i depends on; the same for those that depend on i.
template <class F>
void each_strong(const Graph& g, std::size_t i, F&& f) {
  for (auto k = std::size_t(g.start[i]); k < std::size_t(g.start[i + 1]); ++k) f(std::size_t(g.node[k]));
}
template <class F>
void each_dependant(const Graph& g, std::size_t i, F&& f) {
  for (auto k = std::size_t(g.start_of_dependants[i]); k < std::size_t(g.start_of_dependants[i + 1]); ++k)
    f(std::size_t(g.dependant[k]));
}

/// The graph in which row i depends on column[start[i]] ... column[start[i + 1] - 1], global indices; its halo has the
/// indices `more` too. Collective: one message between neighbours, and Halo's.
Graph graph_of(const layout::Space& space, std::vector<Global> start, std::span<const Global> column,
               std::vector<Global> more = {});

/// The kind of each row: among the unknowns of a node its number, -1 for a row without other entries than its diagonal
/// (Dirichlet conditions that were not eliminated, zero rows). `unknown`: the number of each row among those of its
/// node, 0 everywhere where a node has one.
template <Scalar T>
std::vector<Local> kinds_of(const op::Rows<T>& rows, const layout::Space& space, const std::vector<Local>& unknown);

/// i depends on j where -a_ij >= theta max_k -a_ik > 0, the signs being those relative to a_ii (for complex entries the
/// real part of -a_ij conj(a_ii) / |a_ii|), j and k of the kind of i. Rows whose sum exceeds 0.9 |a_ii| depend on none:
/// smoothers do for these. `kind` gets the kinds of other ranks' columns, in the order of the graph's halo. Collective.
/// Source: Ruge, Stueben (1987), doi 10.1137/1.9781611971057.ch4.
template <Scalar T>
Graph classical_strength(const op::Rows<T>& rows, const layout::Space& space, std::vector<Local>& kind, double theta);

}  // namespace tacit::precond
