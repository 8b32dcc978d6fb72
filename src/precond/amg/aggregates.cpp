#include "aggregates.hpp"

#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tacit::precond {

namespace {

/// The node of each row.
std::vector<Local> node_of_rows(const Nodes& nodes) {
  std::vector<Local> node(std::size_t(nodes.start.back()));
  for (Local I = 0; I < nodes.count(); ++I)
    for (Local i = nodes.start[std::size_t(I)]; i < nodes.start[std::size_t(I) + 1]; ++i) node[std::size_t(i)] = I;
  return node;
}

template <class T>
double square(T a) {
  const double size = double(std::abs(a));
  return size * size;
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
  std::vector<double> own(count, 0);  // ||A_II||
  exec::parallel_for(count, count > 5000, [&](std::size_t I) {
    double sum = 0;
    for (auto i = std::size_t(nodes.start[I]); i < std::size_t(nodes.start[I + 1]); ++i)
      for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k)
        if (const Global c = rows.column[k]; c >= first && c < last && node[std::size_t(c - first)] == Local(I))
          sum += square(rows.value[k]);
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
        const double a = square(rows.value[k]);
        if (J == Local(I) || a == 0) continue;
        if (s.square_of[std::size_t(J)] == 0) s.met.push_back(J);
        s.square_of[std::size_t(J)] += a;
      }
    std::sort(s.met.begin(), s.met.end());
    for (const Local J : s.met) {
      const double a = std::sqrt(s.square_of[std::size_t(J)]),
                   scale = std::sqrt(own[I]) * std::sqrt(own[std::size_t(J)]);
      if (a > theta * scale) take(J, float(scale > 0 ? a / scale : 1));
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

template <Scalar T>
op::Rows<T> damped_identity(const op::Rows<T>& rows, const layout::Space& space, const Nodes& nodes,
                            const Couplings& strong, double theta, double omega) {
  using R = real_t<T>;
  const Global first = space.begin(), last = space.end();
  const auto node = node_of_rows(nodes);
  const auto n = std::size_t(rows.count());
  op::Rows<T> s;
  s.start.assign(n + 1, 0);
  const auto row = [&](std::size_t i, auto&& stays, T& diagonal) {
    const auto I = std::size_t(node[i]);
    const auto* const begin = strong.node.data() + strong.start[I];
    const auto* const end = strong.node.data() + strong.start[I + 1];
    T own{}, lumped{};
    for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k)
      if (rows.column[k] == first + Global(i)) own = rows.value[k];
    for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k) {
      const Global c = rows.column[k];
      if (c == first + Global(i)) {
        stays(k);
      } else if (c < first || c >= last) {
        if (double(std::abs(rows.value[k])) > theta * double(std::abs(own))) stays(k);
        else lumped += rows.value[k];
      } else {
        const Local J = node[std::size_t(c - first)];
        if (J == Local(I) || std::binary_search(begin, end, J)) stays(k);
        else lumped += rows.value[k];
      }
    }
    diagonal = own + lumped;
    // Lumping may nearly cancel the diagonal, which would make the step along this row large.
    if (std::abs(diagonal) < R(0.25) * std::abs(own)) diagonal = own;
  };
  exec::parallel_for(n, n > 5000, [&](std::size_t i) {
    T d{};
    row(
        i, [&](std::size_t) { ++s.start[i + 1]; }, d);
  });
  for (std::size_t i = 0; i < n; ++i) s.start[i + 1] += s.start[i];
  s.column.resize(std::size_t(s.start.back()));
  s.value.resize(s.column.size());
  exec::parallel_for(n, n > 5000, [&](std::size_t i) {
    const auto begin = std::size_t(s.start[i]);
    auto at = begin;
    T d{};
    row(
        i, [&](std::size_t k) { s.column[at] = rows.column[k], s.value[at++] = rows.value[k]; }, d);
    const T factor = d != T(0) ? T(R(-omega)) / d : T(0);
    for (auto k = begin; k < at; ++k)
      s.value[k] = s.column[k] == first + Global(i) ? T(1) + factor * d : factor * s.value[k];
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
  template op::Rows<T> damped_identity<T>(const op::Rows<T>&, const layout::Space&, const Nodes&, const Couplings&, \
                                          double, double);
TACIT_INSTANTIATE(float)
TACIT_INSTANTIATE(double)
TACIT_INSTANTIATE(std::complex<float>)
TACIT_INSTANTIATE(std::complex<double>)

}  // namespace tacit::precond
