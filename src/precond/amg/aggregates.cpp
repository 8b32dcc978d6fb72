#include "aggregates.hpp"

#include "../scalar.hpp"

#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace tacit::precond {

namespace {

/// The node of each row.
std::vector<Local> node_of_rows(const Nodes& nodes) {
  std::vector<Local> node(std::size_t(nodes.start.back()));
  for (Local I = 0; I < nodes.count(); ++I)
    for (Local i = nodes.start[std::size_t(I)]; i < nodes.start[std::size_t(I) + 1]; ++i) node[std::size_t(i)] = I;
  return node;
}

/// 2^-e with the e for which the square root of `size` is about 2^e; 1 for 0.
double inverse_root(double size) {
  return size > 0 ? std::ldexp(1.0, -std::ilogb(size) / 2) : 1;
}

/// strong_couplings() of nodes of one row each.
template <Scalar T>
Couplings scalar_couplings(const op::Rows<T>& rows, const layout::Space& space, double theta) {
  const Global first = space.begin(), last = space.end();
  const auto count = std::size_t(rows.count());
  std::vector<double> root(count, 0);  // of |a_ii|
  exec::parallel_for(count, count > 5000, [&](std::size_t i) {
    for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k)
      if (rows.column[k] == first + Global(i)) root[i] = std::sqrt(double(std::abs(rows.value[k])));
  });
  const auto each_coupling = [&](std::size_t i, auto&& take) {
    for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k) {
      const Global c = rows.column[k];
      if (c < first || c >= last || c == first + Global(i)) continue;
      const double a = double(std::abs(rows.value[k])), scale = root[i] * root[std::size_t(c - first)];
      if (a > theta * scale && a > 0) take(Local(c - first), float(scale > 0 ? a / scale : 1));
    }
  };
  Couplings found;
  found.start.assign(count + 1, 0);
  exec::parallel_for(count, count > 5000, [&](std::size_t i) {
    Global n = 0;
    each_coupling(i, [&](Local, float) { ++n; });
    found.start[i + 1] = n;
  });
  for (std::size_t i = 0; i < count; ++i) found.start[i + 1] += found.start[i];
  found.node.resize(std::size_t(found.start.back()));
  found.size.resize(found.node.size());
  exec::parallel_for(count, count > 5000, [&](std::size_t i) {
    auto at = std::size_t(found.start[i]);
    each_coupling(i, [&](Local j, float size) { found.node[at] = j, found.size[at++] = size; });
  });
  return found;
}

}  // namespace

template <Scalar T>
Couplings strong_couplings(const op::Rows<T>& rows, const layout::Space& space, const Nodes& nodes, double theta) {
  if (nodes.count() == rows.count() && nodes.start.back() == rows.count() &&
      std::adjacent_find(nodes.start.begin(), nodes.start.end(), [](Local a, Local b) { return b != a + 1; }) ==
          nodes.start.end())
    return scalar_couplings(rows, space, theta);
  const Global first = space.begin(), last = space.end();
  const auto node = node_of_rows(nodes);
  const auto count = std::size_t(nodes.count());
  // Squares of the entries of S A S, S = diag(scale), which has nodes A_II of size about 1: those of A may leave the
  // range.
  std::vector<double> scale(count, 1), own(count, 0);  // own: ||A_II||, scaled
  exec::parallel_for(count, count > 5000, [&](std::size_t I) {
    const auto each_own = [&](auto&& f) {
      for (auto i = std::size_t(nodes.start[I]); i < std::size_t(nodes.start[I + 1]); ++i)
        for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k)
          if (const Global c = rows.column[k]; c >= first && c < last && node[std::size_t(c - first)] == Local(I))
            f(double(std::abs(rows.value[k])));
    };
    double most = 0, sum = 0;
    each_own([&](double a) { most = std::max(most, a); });
    const double s = scale[I] = inverse_root(most);
    each_own([&](double a) { sum += a * s * s * (a * s * s); });
    own[I] = std::sqrt(sum);
  });
  // The couplings of node I, found twice: to be counted, and to be stored. `square_of` and `met` are zero between
  // calls.
  struct Scratch {
    std::vector<double> square_of;
    std::vector<Local> met;
  };
  const auto of_node = [&](std::size_t I, Scratch& s, auto&& take) {
    s.met.clear();
    for (auto i = std::size_t(nodes.start[I]); i < std::size_t(nodes.start[I + 1]); ++i)
      for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k) {
        const Global c = rows.column[k];
        if (c < first || c >= last) continue;
        const Local J = node[std::size_t(c - first)];
        if (J == Local(I)) continue;
        const double size = double(std::abs(rows.value[k])) * scale[I] * scale[std::size_t(J)], a = size * size;
        if (a == 0) continue;
        if (s.square_of[std::size_t(J)] == 0) s.met.push_back(J);
        s.square_of[std::size_t(J)] += a;
      }
    std::sort(s.met.begin(), s.met.end());
    for (const Local J : s.met) {
      const double a = std::sqrt(s.square_of[std::size_t(J)]),
                   size = std::sqrt(own[I]) * std::sqrt(own[std::size_t(J)]);
      if (a > theta * size) take(J, float(size > 0 ? a / size : 1));
      s.square_of[std::size_t(J)] = 0;
    }
  };
  Couplings found;
  found.start.assign(count + 1, 0);
  const auto each_node = [&](auto&& f) {
    exec::parallel_claims(count, exec::by_shares, count > 5000, [&](exec::Claims& claims) {
      Scratch s{std::vector<double>(count, 0), {}};
      claims.each([&](std::size_t I) { f(I, s); });
    });
  };
  each_node([&](std::size_t I, Scratch& s) { of_node(I, s, [&](Local, float) { ++found.start[I + 1]; }); });
  for (std::size_t I = 0; I < count; ++I) found.start[I + 1] += found.start[I];
  found.node.resize(std::size_t(found.start.back()));
  found.size.resize(found.node.size());
  each_node([&](std::size_t I, Scratch& s) {
    auto at = std::size_t(found.start[I]);
    of_node(I, s, [&](Local J, float size) { found.node[at] = J, found.size[at++] = size; });
  });
  return found;
}

template <Scalar S>
template <Scalar T>
ByColumn<S>::ByColumn(const op::Rows<T>& rows, const layout::Space& space, std::vector<S> own)
    : first_(space.begin()), own_(std::move(own)) {
  if (space.comm().size() == 1) return;
  for (const Global c : rows.column)
    if (c < first_ || c >= space.end()) column_.push_back(c);
  std::sort(column_.begin(), column_.end());
  column_.erase(std::unique(column_.begin(), column_.end()), column_.end());
  op::Rows<S> diagonal;
  diagonal.value = own_;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    diagonal.column.push_back(first_ + Global(i));
    diagonal.start.push_back(Global(i) + 1);
  }
  others_ = op::rows_of_others(space, diagonal, column_).value;
}

template <Scalar T>
ByColumn<double> diagonal_roots(const op::Rows<T>& rows, const layout::Space& space) {
  std::vector<double> roots(std::size_t(rows.count()), 0);
  exec::parallel_for(roots.size(), roots.size() > 5000, [&](std::size_t i) {
    for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k)
      if (rows.column[k] == space.begin() + Global(i)) roots[i] = std::sqrt(double(std::abs(rows.value[k])));
  });
  return {rows, space, std::move(roots)};
}

template <Scalar T>
op::Rows<T> damped_identity(const op::Rows<T>& rows, const layout::Space& space, const Nodes& nodes,
                            const Couplings& strong, const ByColumn<double>& roots, const ByColumn<T>* v, double theta,
                            double omega, std::vector<T>& diagonal) {
  using R = real_t<T>;
  const Global first = space.begin(), last = space.end();
  const auto node = node_of_rows(nodes);
  const auto n = std::size_t(rows.count());
  diagonal.assign(n, T(0));
  const auto ratio = [&](std::size_t i, Global j) {
    const T of_row = v ? (*v)(first + Global(i)) : T(1);
    return of_row != T(0) && v ? (*v)(j)*inverse(of_row) : T(1);
  };
  const auto stays = [&](std::size_t i, std::size_t k) {
    const Global c = rows.column[k];
    if (c < first || c >= last) return double(std::abs(rows.value[k])) > theta * roots(first + Global(i)) * roots(c);
    const auto I = std::size_t(node[i]);
    const Local J = node[std::size_t(c - first)];
    return J == Local(I) ||
           std::binary_search(strong.node.data() + strong.start[I], strong.node.data() + strong.start[I + 1], J);
  };
  op::Rows<T> s;
  s.start.assign(n + 1, 0);
  exec::parallel_for(n, n > 5000, [&](std::size_t i) {
    T own{}, lumped{};
    Global others = 0;
    for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k) {
      if (rows.column[k] == first + Global(i)) own = rows.value[k];
      else if (stays(i, k)) ++others;
      else lumped += rows.value[k] * ratio(i, rows.column[k]);
    }
    // Lumping may nearly cancel the diagonal, which would make the step along this row large, or be far larger where
    // v_i is small.
    const T d = own + lumped;
    const R size = std::abs(d), least = std::abs(own) / 4,
            most = own != T(0) ? 16 * least : std::numeric_limits<R>::max();
    diagonal[i] = size >= least && size <= most ? d : own;
    s.start[i + 1] = diagonal[i] != T(0) ? others + 1 : 1;
  });
  for (std::size_t i = 0; i < n; ++i) s.start[i + 1] += s.start[i];
  s.column.resize(std::size_t(s.start.back()));
  s.value.resize(s.column.size());
  exec::parallel_for(n, n > 5000, [&](std::size_t i) {
    const Global own = first + Global(i);
    const T d = diagonal[i], factor = d != T(0) ? R(-omega) * inverse(d) : T(0);
    auto at = std::size_t(s.start[i]);
    const auto put = [&](Global c, T v) { s.column[at] = c, s.value[at++] = v; };
    bool before = true;  // the diagonal, which may have no entry in A
    for (auto k = std::size_t(rows.start[i]); d != T(0) && k < std::size_t(rows.start[i + 1]); ++k) {
      if (before && rows.column[k] >= own) put(own, T(1) + factor * d), before = false;
      if (rows.column[k] != own && stays(i, k)) put(rows.column[k], factor * rows.value[k]);
    }
    if (before) put(own, T(1) + factor * d);
  });
  return s;
}

std::vector<Local> aggregates_of(const Couplings& strong, Local& count) {
  constexpr Local free = -2, alone = -1;
  const auto n = strong.start.size() - 1;
  const auto begin = [&](std::size_t I) { return std::size_t(strong.start[I]); };
  std::vector<Local> of(n, free);
  count = 0;
  for (std::size_t I = 0; I < n; ++I) {
    if (begin(I) == begin(I + 1)) {
      of[I] = alone;
      continue;
    }
    bool all_free = of[I] == free;
    for (auto k = begin(I); all_free && k < begin(I + 1); ++k) all_free = of[std::size_t(strong.node[k])] == free;
    if (!all_free) continue;
    of[I] = count;
    for (auto k = begin(I); k < begin(I + 1); ++k) of[std::size_t(strong.node[k])] = count;
    ++count;
  }
  // Aggregates as they are after the first pass decide, so that none grows by a chain.
  std::vector<Local> joined = of;
  for (std::size_t I = 0; I < n; ++I) {
    if (of[I] != free) continue;
    float most = 0;
    for (auto k = begin(I); k < begin(I + 1); ++k)
      if (const Local a = of[std::size_t(strong.node[k])]; a >= 0 && strong.size[k] > most)
        most = strong.size[k], joined[I] = a;
  }
  for (std::size_t I = 0; I < n; ++I) {
    if (joined[I] != free) continue;
    joined[I] = count;
    for (auto k = begin(I); k < begin(I + 1); ++k)
      if (auto& a = joined[std::size_t(strong.node[k])]; a == free) a = count;
    ++count;
  }
  return joined;
}

#define TACIT_INSTANTIATE(T)                                                                                        \
  template Couplings strong_couplings<T>(const op::Rows<T>&, const layout::Space&, const Nodes&, double);           \
  template ByColumn<T>::ByColumn(const op::Rows<T>&, const layout::Space&, std::vector<T>);                         \
  template ByColumn<double> diagonal_roots<T>(const op::Rows<T>&, const layout::Space&);                            \
  template op::Rows<T> damped_identity<T>(const op::Rows<T>&, const layout::Space&, const Nodes&, const Couplings&, \
                                          const ByColumn<double>&, const ByColumn<T>*, double, double,              \
                                          std::vector<T>&);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::precond
