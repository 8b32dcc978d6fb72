#include "aggregates.hpp"

#include "../scalar.hpp"
#include "numbered.hpp"

#include <tacit/exec/parallel.hpp>
#include "base/lanes.hpp"

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

/// |a_ij| > theta sqrt(|a_ii a_jj|), of the roots of the diagonal.
bool is_strong(double size, double root_of_row, double root_of_column, double theta) {
  return size > theta * (root_of_row * root_of_column);
}

/// 2^-e with the e for which the square root of `size` is about 2^e; 1 for 0.
double inverse_root(double size) {
  return size > 0 ? std::ldexp(1.0, -std::ilogb(size) / 2) : 1;
}

/// aggregates_of() for n nodes. each(I, f) calls f(J, k) for the strong couplings k of node I with nodes of this rank,
/// until it is true, and returns whether it was; size(I, J, k) is that of a coupling; couples(I): whether it has any,
/// on whatever rank.
template <class Each, class Size, class Couples>
std::vector<Local> aggregates(std::size_t n, Local& count, Each&& each, Size&& size, Couples&& couples) {
  constexpr Local free = -2, alone = -1;
  std::vector<Local> of(n, free);
  count = 0;
  for (std::size_t I = 0; I < n; ++I) {
    const bool here = each(I, [](std::size_t, std::size_t) { return true; });
    if (!here && !couples(I)) {
      of[I] = alone;
      continue;
    }
    if (of[I] != free || each(I, [&](std::size_t J, std::size_t) { return of[J] != free; })) continue;
    of[I] = count;
    each(I, [&](std::size_t J, std::size_t) { return of[J] = count, false; });
    ++count;
  }
  // Aggregates as they are after the first pass decide, so that none grows by a chain.
  std::vector<Local> joined = of;
  for (std::size_t I = 0; I < n; ++I) {
    if (of[I] != free) continue;
    float most = 0;
    each(I, [&](std::size_t J, std::size_t k) {
      if (of[J] < 0) return false;
      if (const float s = size(I, J, k); s > most) most = s, joined[I] = of[J];
      return false;
    });
  }
  for (std::size_t I = 0; I < n; ++I) {
    if (joined[I] != free) continue;
    joined[I] = count;
    each(I, [&](std::size_t J, std::size_t) {
      if (joined[J] == free) joined[J] = count;
      return false;
    });
    ++count;
  }
  return joined;
}

/// Squares of the entries of S A S, S = diag(scale), which has nodes A_II of size about 1, are used: those of A may
/// leave the range. own: ||A_II||, scaled.
struct NodeSizes {
  std::vector<double> scale, own;
};
template <Scalar T>
NodeSizes node_sizes(const op::Rows<T>& rows, const layout::Space& space, const Nodes& nodes,
                     const std::vector<Local>& node) {
  const Global first = space.begin(), last = space.end();
  const auto count = std::size_t(nodes.count());
  NodeSizes sizes{std::vector<double>(count, 1), std::vector<double>(count, 0)};
  exec::parallel_for(count, count > 5000, [&](std::size_t I) {
    const auto each_own = [&](auto&& f) {
      for (auto i = std::size_t(nodes.start[I]); i < std::size_t(nodes.start[I + 1]); ++i)
        for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k)
          if (const Global c = rows.column[k]; c >= first && c < last && node[std::size_t(c - first)] == Local(I))
            f(double(std::abs(rows.value[k])));
    };
    double most = 0, sum = 0;
    each_own([&](double a) { most = std::max(most, a); });
    const double s = sizes.scale[I] = inverse_root(most);
    each_own([&](double a) { sum += a * s * s * (a * s * s); });
    sizes.own[I] = std::sqrt(sum);
  });
  return sizes;
}

}  // namespace

template <Scalar T>
Couplings strong_couplings(const op::Rows<T>& rows, const layout::Space& space, const Nodes& nodes,
                           const ByColumn<double>& roots, double theta) {
  const Global first = space.begin(), last = space.end();
  const auto node = node_of_rows(nodes);
  const auto count = std::size_t(nodes.count());
  const auto sizes = node_sizes(rows, space, nodes, node);
  const auto &scale = sizes.scale, &own = sizes.own;
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
  found.outside.resize(count);
  exec::parallel_for(count, count > 5000, [&](std::size_t I) {
    for (Local i = nodes.start[I]; i < nodes.start[I + 1]; ++i)
      for (auto k = std::size_t(rows.start[std::size_t(i)]); k < std::size_t(rows.start[std::size_t(i) + 1]); ++k)
        if (const Global c = rows.column[k]; c < first || c >= last)
          found.outside[I] |= is_strong(double(std::abs(rows.value[k])), roots(first + i), roots(c), theta);
  });
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
std::vector<std::uint8_t> strong_entries(const op::Rows<T>& rows, const layout::Space& space,
                                         const ByColumn<double>& roots, double theta) {
  std::vector<std::uint8_t> strong(rows.column.size());
  const auto count = std::size_t(rows.count());
  exec::parallel_for(count, count > 5000, [&](std::size_t i) {
    const Global own = space.begin() + Global(i);
    const double root = roots(own);
    for (auto k = std::size_t(rows.start[i]); k < std::size_t(rows.start[i + 1]); ++k) {
      const double a = double(std::abs(rows.value[k]));
      strong[k] = rows.column[k] != own && a > 0 && is_strong(a, root, roots(rows.column[k]), theta);
    }
  });
  return strong;
}

template <Scalar T>
std::vector<Local> aggregates_of(const op::Rows<T>& rows, const layout::Space& space, const ByColumn<double>& roots,
                                 const std::vector<std::uint8_t>& strong, Local& count) {
  const Global first = space.begin(), last = space.end();
  const auto each = [&](std::size_t I, auto&& f) {
    for (auto k = std::size_t(rows.start[I]); k < std::size_t(rows.start[I + 1]); ++k)
      if (const Global c = rows.column[k]; strong[k] && c >= first && c < last && f(std::size_t(c - first), k))
        return true;
    return false;
  };
  const auto size = [&](std::size_t I, std::size_t J, std::size_t k) {
    const double scale = roots(first + Global(I)) * roots(first + Global(J));
    return float(scale > 0 ? double(std::abs(rows.value[k])) / scale : 1);
  };
  return aggregates(std::size_t(rows.count()), count, each, size, [&](std::size_t I) {
    return std::any_of(strong.begin() + rows.start[I], strong.begin() + rows.start[I + 1],
                       [](std::uint8_t s) { return s != 0; });
  });
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
  diagonal.value.assign(own_.begin(), own_.end());
  for (std::size_t i = 0; i < own_.size(); ++i) {
    diagonal.column.push_back(first_ + Global(i));
    diagonal.start.push_back(Global(i) + 1);
  }
  const auto others = op::rows_of_others(space, diagonal, column_).value;
  others_.assign(others.begin(), others.end());
}

template <Scalar T>
ByColumn<double> diagonal_roots(const op::Rows<T>& rows, const layout::Space& space, double& bound) {
  return {rows, space, roots_of_rows(rows, space.begin(), bound)};
}

bool is_unit(const Nodes& nodes, Local rows) {
  return nodes.count() == rows && nodes.start.back() == rows &&
         std::adjacent_find(nodes.start.begin(), nodes.start.end(), [](Local a, Local b) { return b != a + 1; }) ==
             nodes.start.end();
}

template <Scalar T>
TACIT_COMPILED_ONCE DampedRow<T> damped_row(T own, T lumped, double omega) {
  using R = real_t<T>;
  // Lumping may nearly cancel the diagonal, which would make the step along this row large, or be far larger where
  // v_i is small.
  const T sum = own + lumped;
  const R size = std::abs(sum), least = std::abs(own) / 4,
          largest = own != T(0) ? 16 * least : std::numeric_limits<R>::max();
  const T d = size >= least && size <= largest ? sum : own, factor = d != T(0) ? R(-omega) * inverse(d) : T(0);
  return {d, factor, T(1) + factor * d};
}

template <Scalar T>
TACIT_COMPILED_ONCE void scale(T* v, std::size_t n, T factor) {
  for (std::size_t k = 0; k < n; ++k) v[k] *= factor;
}

template <Scalar T>
DampedIdentity<T>::DampedIdentity(const op::Rows<T>& rows, const layout::Space& space, const Nodes& nodes,
                                  const Couplings& strong, const ByColumn<double>& roots, const ByColumn<T>* v,
                                  double theta, double omega)
    : rows_(rows),
      first_(space.begin()),
      last_(space.end()),
      strong_(&strong),
      roots_(&roots),
      v_(v),
      theta_(theta),
      omega_(omega),
      unit_(is_unit(nodes, rows.count())) {
  if (!unit_) node_ = node_of_rows(nodes);
}
template <Scalar T>
DampedIdentity<T>::DampedIdentity(const op::Rows<T>& rows, const layout::Space& space,
                                  const std::vector<std::uint8_t>& filter, const ByColumn<T>* v, double omega,
                                  bool again)
    : rows_(rows), first_(space.begin()), last_(space.end()), filter_(&filter), v_(v), omega_(omega), again_(again) {}

template <Scalar T>
void DampedIdentity<T>::append(Local from, Local to, op::Rows<T>& s, T* diagonal, std::uint8_t* filter) const {
  const auto most = std::size_t(rows_.start[std::size_t(to)] - rows_.start[std::size_t(from)] + to - from);
  std::size_t end_of_rows = s.column.size();  // entries are written without looking for room each time
  s.column.resize(end_of_rows + most), s.value.resize(end_of_rows + most);
  s.start.reserve(s.start.size() + std::size_t(to - from));
  Global* const columns = s.column.data();
  T* const values = s.value.data();
  for (Local row = from; row < to; ++row) {
    const auto i = std::size_t(row);
    const Global own_column = first_ + row;
    const Local I = unit_ ? row : node_[i];
    std::size_t coupled = 0, end = 0;  // entries of strong_, ascending like those of A
    if (strong_)
      coupled = std::size_t(strong_->start[std::size_t(I)]), end = std::size_t(strong_->start[std::size_t(I) + 1]);
    const auto stays = [&](std::size_t k, Global c) {
      if (filter_) return filter_->empty() || (*filter_)[k] == in_filtered;
      if (c < first_ || c >= last_)
        return is_strong(double(std::abs(rows_.value[k])), (*roots_)(own_column), (*roots_)(c), theta_);
      const Local J = unit_ ? Local(c - first_) : node_[std::size_t(c - first_)];
      while (coupled < end && strong_->node[coupled] < J) ++coupled;
      return J == I || (coupled < end && strong_->node[coupled] == J);
    };
    const T of_row = v_ ? (*v_)(own_column) : T(1);
    const T inverse_of_row = of_row != T(0) ? inverse(of_row) : T(0);
    // The entries that stay, with a place for the diagonal, which may have no entry in A.
    const std::size_t begin = end_of_rows;
    std::size_t at = begin;
    bool before = true;
    T own{}, lumped{};
    const auto put = [&](Global c, T v) { columns[end_of_rows] = c, values[end_of_rows++] = v; };
    for (auto k = std::size_t(rows_.start[i]); k < std::size_t(rows_.start[i + 1]); ++k) {
      const Global c = rows_.column[k];
      const T a = rows_.value[k];
      if (before && c >= own_column) at = end_of_rows, put(own_column, T(0)), before = false;
      const bool in = c == own_column || stays(k, c);
      if (filter) filter[k] = in ? in_filtered : lumped_to_diagonal;
      if (c == own_column) own = a;
      else if (in) put(c, a);
      else lumped += a * (v_ && of_row != T(0) ? (*v_)(c)*inverse_of_row : T(1));
    }
    if (before) at = end_of_rows, put(own_column, T(0));
    const bool none = again_ && !filter_->empty() && rows_.start[i] < rows_.start[i + 1] &&
                      (*filter_)[std::size_t(rows_.start[i])] == in_row_of_identity;
    const auto damped = damped_row(own, lumped, omega_);
    const T d = none ? T(0) : damped.d;
    if (diagonal) diagonal[i] = d;
    if (none || (d == T(0) && !again_)) {
      end_of_rows = begin;
      put(own_column, T(1));
      for (auto k = std::size_t(rows_.start[i]); filter && k < std::size_t(rows_.start[i + 1]); ++k)
        filter[k] = in_row_of_identity;
    } else {
      scale(values + begin, end_of_rows - begin, damped.factor);
      values[at] = damped.on_diagonal;
    }
    s.start.push_back(Global(end_of_rows));
  }
  s.column.resize(end_of_rows), s.value.resize(end_of_rows);
}

template <Scalar T>
op::Rows<T> DampedIdentity<T>::rows(std::vector<T>& diagonal, std::uint8_t* filter) const {
  diagonal.assign(std::size_t(rows_.count()), T(0));
  op::Rows<T> s;
  append(0, rows_.count(), s, diagonal.data(), filter);
  return s;
}

std::vector<Local> aggregates_of(const Couplings& strong, Local& count) {
  const auto each = [&](std::size_t I, auto&& f) {
    for (auto k = std::size_t(strong.start[I]); k < std::size_t(strong.start[I + 1]); ++k)
      if (f(std::size_t(strong.node[k]), k)) return true;
    return false;
  };
  const auto size = [&](std::size_t, std::size_t, std::size_t k) { return strong.size[k]; };
  return aggregates(strong.start.size() - 1, count, each, size, [&](std::size_t I) { return strong.outside[I] != 0; });
}

#define TACIT_INSTANTIATE(T)                                                                                      \
  template Couplings strong_couplings<T>(const op::Rows<T>&, const layout::Space&, const Nodes&,                  \
                                         const ByColumn<double>&, double);                                        \
  template std::vector<std::uint8_t> strong_entries<T>(const op::Rows<T>&, const layout::Space&,                  \
                                                       const ByColumn<double>&, double);                          \
  template std::vector<Local> aggregates_of<T>(const op::Rows<T>&, const layout::Space&, const ByColumn<double>&, \
                                               const std::vector<std::uint8_t>&, Local&);                         \
  template ByColumn<T>::ByColumn(const op::Rows<T>&, const layout::Space&, std::vector<T>);                       \
  template ByColumn<double> diagonal_roots<T>(const op::Rows<T>&, const layout::Space&, double&);                 \
  template DampedRow<T> damped_row<T>(T, T, double);                                                              \
  template void scale<T>(T*, std::size_t, T);                                                                     \
  template class DampedIdentity<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
