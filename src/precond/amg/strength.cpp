#include "strength.hpp"

#include <tacit/exec/parallel.hpp>

#include <cmath>
#include <complex>
#include <cstdint>
#include <utility>

namespace tacit::precond {
namespace {

using layout::Space;

/// Rows whose sum is larger than this times the diagonal are left to the smoother.
constexpr double largest_row_sum = 0.9;

std::vector<Global> sorted_once(std::vector<Global> v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
  return v;
}

std::vector<Global> outside(const Space& space, std::span<const Global> columns) {
  std::vector<Global> found;
  if (space.comm().size() == 1) return found;
  for (const Global c : columns)
    if (c < space.begin() || c >= space.end()) found.push_back(c);
  return sorted_once(std::move(found));
}

/// The couplings (own row j, row i of another rank) of which j is the column, from the ranks that own i.
std::vector<Global> coupled_from_others(const Space& space, const std::vector<Global>& start,
                                        std::span<const Global> column) {
  using Parcel = comm::Communicator::Parcel;
  const auto& comm = space.comm();
  std::vector<Global> pairs;
  if (comm.size() == 1) return pairs;
  std::vector<std::vector<Global>> to(std::size_t(comm.size()), std::vector<Global>{});
  for (std::size_t i = 0; i + 1 < start.size(); ++i)
    for (auto k = std::size_t(start[i]); k < std::size_t(start[i + 1]); ++k)
      if (const Global c = column[k]; c < space.begin() || c >= space.end()) {
        auto& message = to[std::size_t(space.partition().owner(c))];
        message.push_back(c);
        message.push_back(space.begin() + Global(i));
      }
  std::vector<Parcel> parcels;
  for (std::size_t r = 0; r < to.size(); ++r)
    if (!to[r].empty()) {
      const auto bytes = std::as_bytes(std::span(to[r]));
      parcels.push_back({int(r), {bytes.begin(), bytes.end()}});
    }
  for (const auto& p : comm.sparse_exchange(parcels)) {
    const std::size_t before = pairs.size();
    pairs.resize(before + p.bytes.size() / sizeof(Global));
    std::memcpy(pairs.data() + before, p.bytes.data(), p.bytes.size());
  }
  return pairs;
}

}  // namespace

Halo::Halo(const Space& space, std::vector<Global> others)
    : space_(space), first_(space.begin()), own_(space.local_size()) {
  if (space.comm().size() == 1) {
    pattern_ = std::make_shared<const comm::Pattern>();
    return;
  }
  pattern_ = std::make_shared<const comm::Pattern>(
      comm::Pattern::build(space.comm(), space.partition().offsets(), sorted_once(std::move(others))));
  exchange_ = std::make_unique<comm::Exchange>(space.comm(), pattern_, element);
}

Graph graph_of(const Space& space, std::vector<Global> start, std::span<const Global> column,
               std::vector<Global> more) {
  const auto pairs = coupled_from_others(space, start, column);
  for (std::size_t k = 1; k < pairs.size(); k += 2) more.push_back(pairs[k]);
  const auto ghosts = outside(space, column);
  more.insert(more.end(), ghosts.begin(), ghosts.end());
  Graph g{Halo(space, std::move(more)), std::move(start), std::vector<Local>(column.size()), {}, {}};
  const auto own = std::size_t(g.halo.own());
  exec::parallel_for(column.size(), column.size() > 20000, [&](std::size_t k) { g.node[k] = g.halo(column[k]); });
  // Counted, then placed: first in the order of own rows, then of those of others.
  auto& at = g.start_of_dependants;
  at.assign(own + 1, 0);
  for (const Local j : g.node)
    if (std::size_t(j) < own) ++at[std::size_t(j) + 1];
  for (std::size_t k = 0; k < pairs.size(); k += 2) ++at[std::size_t(g.halo(pairs[k])) + 1];
  for (std::size_t i = 1; i < at.size(); ++i) at[i] += at[i - 1];
  g.dependant.resize(std::size_t(at.back()));
  std::vector<Global> next(at.begin(), at.end() - 1);
  for (std::size_t i = 0; i < own; ++i)
    for (auto k = std::size_t(g.start[i]); k < std::size_t(g.start[i + 1]); ++k)
      if (const auto j = std::size_t(g.node[k]); j < own) g.dependant[std::size_t(next[j]++)] = Local(i);
  for (std::size_t k = 0; k < pairs.size(); k += 2)
    g.dependant[std::size_t(next[std::size_t(g.halo(pairs[k]))]++)] = g.halo(pairs[k + 1]);
  return g;
}

template <Scalar T>
std::vector<Local> kinds_of(const op::Rows<T>& rows, const Space& space, const std::vector<Local>& unknown) {
  std::vector<Local> kind = unknown;
  exec::parallel_for(kind.size(), kind.size() > 5000, [&](std::size_t i) {
    bool alone = true;
    for (auto k = std::size_t(rows.start[i]); alone && k < std::size_t(rows.start[i + 1]); ++k)
      alone = rows.column[k] == space.begin() + Global(i) || rows.value[k] == T(0);
    if (alone) kind[i] = -1;
  });
  return kind;
}

template <Scalar T>
Graph classical_strength(const op::Rows<T>& rows, const Space& space, std::vector<Local>& kind, double theta) {
  const auto n = std::size_t(rows.count());
  const auto ghosts = outside(space, rows.column);
  const Halo columns(space, ghosts);
  columns.update(kind);
  // Twice: strong couplings counted, then stored.
  const auto each_strong = [&](std::size_t i, auto&& take) {
    const Global own = space.begin() + Global(i);
    const auto first = std::size_t(rows.start[i]), last = std::size_t(rows.start[i + 1]);
    T d{};
    for (std::size_t k = first; k < last; ++k)
      if (rows.column[k] == own) d = rows.value[k];
    if (d == T(0) || kind[i] < 0) return;
    const T sign = conj(d) / std::abs(d);
    const auto coupling = [&](std::size_t k) { return -double(std::real(rows.value[k] * sign)); };
    const auto is_alike = [&](std::size_t k) {
      return rows.column[k] != own && kind[std::size_t(columns(rows.column[k]))] == kind[i];
    };
    double most = 0;
    std::complex<double> sum(d);
    for (std::size_t k = first; k < last; ++k)
      if (is_alike(k)) most = std::max(most, coupling(k)), sum += std::complex<double>(rows.value[k]);
    if (!(most > 0) || std::abs(sum) > largest_row_sum * double(std::abs(d))) return;
    for (std::size_t k = first; k < last; ++k)
      if (is_alike(k) && coupling(k) >= theta * most && coupling(k) > 0) take(rows.column[k]);
  };
  std::vector<Global> start(n + 1, 0), column;
  exec::parallel_for(n, n > 5000, [&](std::size_t i) {
    Global count = 0;
    each_strong(i, [&](Global) { ++count; });
    start[i + 1] = count;
  });
  for (std::size_t i = 0; i < n; ++i) start[i + 1] += start[i];
  column.resize(std::size_t(start.back()));
  exec::parallel_for(n, n > 5000, [&](std::size_t i) {
    auto at = std::size_t(start[i]);
    each_strong(i, [&](Global c) { column[at++] = c; });
  });
  Graph g = graph_of(space, std::move(start), column, ghosts);
  g.halo.update(kind);
  return g;
}

#define TACIT_INSTANTIATE(T)                                                                                    \
  template std::vector<Local> kinds_of<T>(const op::Rows<T>&, const layout::Space&, const std::vector<Local>&); \
  template Graph classical_strength<T>(const op::Rows<T>&, const layout::Space&, std::vector<Local>&, double);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
