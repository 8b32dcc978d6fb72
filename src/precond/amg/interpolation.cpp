#include "interpolation.hpp"

#include "../scalar.hpp"
#include "row_making.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace tacit::precond {
namespace {

using layout::Space;

/// Whether a has the sign of d, in its real part. The product itself may leave the range.
template <Scalar T>
bool is_alike(T a, T d) {
  if constexpr (is_complex<T>) return d != T(0) && std::real(a * conj(times_power(d, -std::ilogb(size_of(d))))) > 0;
  else return (a > 0 && d > 0) || (a < 0 && d < 0);
}

/// a / b, where |b|^2 may leave the range.
template <Scalar T>
T quotient(T a, T b) {
  if constexpr (is_complex<T>) return a * inverse(b);
  else return a / b;
}

template <Scalar T>
T diagonal_of(const op::Rows<T>& rows, const Space& space, std::size_t i) {
  for (auto k = begin_of(rows.start, i); k < begin_of(rows.start, i + 1); ++k)
    if (rows.column[k] == space.begin() + Global(i)) return rows.value[k];
  return T(0);
}

/// f(j, a_ij, whether i depends on j) for the other points j, of its kind, that row i has entries for.
template <Scalar T, class F>
void each_coupling(const Splitting<T>& s, std::size_t i, F&& f) {
  auto strong = begin_of(s.strong.start, i);
  const auto last = begin_of(s.strong.start, i + 1);
  for (auto k = begin_of(s.rows.start, i); k < begin_of(s.rows.start, i + 1); ++k) {
    const auto j = std::size_t(s.strong.halo(s.rows.column[k]));
    if (j == i) continue;
    const bool depends = strong < last && std::size_t(s.strong.node[strong]) == j;
    if (depends) ++strong;
    if (s.kind[j] == s.kind[i]) f(j, s.rows.value[k], depends);
  }
}

/// w_i = -alpha / d sum_k a_ik w_k of the points k that i depends on and for which is_given(k); from `add`, called with
/// k and the factor. alpha keeps the sum of the couplings. False, and nothing called, where there is no such k.
template <Scalar T, class Given, class Add>
bool pass_on(const Splitting<T>& s, std::size_t i, Given&& is_given, Add&& add) {
  T d = diagonal_of(s.rows, s.strong.halo.space(), i);
  const T sign = d;
  T all{}, given{};
  each_coupling(s, i, [&](std::size_t j, T a, bool depends) {
    if (is_alike(a, sign)) d += a;
    else all += a;
    if (depends && is_given(j)) given += a;
  });
  if (given == T(0) || d == T(0)) return false;
  const T factor = quotient(quotient(-all, given), d);
  each_coupling(s, i, [&](std::size_t j, T a, bool depends) {
    if (depends && is_given(j)) add(j, factor * a);
  });
  return true;
}

/// f(l, b_kl, whether k depends on l), see extended_interpolation().
template <Scalar T, class F>
void each_opposite(const Splitting<T>& s, std::size_t k, F&& f) {
  const T d = diagonal_of(s.rows, s.strong.halo.space(), k);
  each_coupling(s, k, [&](std::size_t l, T a, bool depends) {
    if (!is_alike(a, d) && a != T(0)) f(l, a, depends);
  });
}

/// Points as one rank tells them to another: a coarse one by its column and whether the row's point depends on it, or a
/// fine one.
struct Code {
  static Global coarse(Global column, bool depends) { return 4 * column + (depends ? 3 : 1); }
  static Global fine(Global index) { return 4 * index; }
  static bool is_coarse(Global code) { return code % 2 == 1; }
  static bool depends(Global code) { return code % 4 == 3; }
  static Global index(Global code) { return code / 4; }
};

/// The b_kl of fine points k on which own fine points depend, with points as this rank numbers them: 2 c + 1 for a
/// coarse point on which k depends, 2 c for another coarse one, -1 - i for an own fine point.
template <Scalar T>
class Opposite {
 public:
  /// Collective: one exchange of rows.
  explicit Opposite(const Splitting<T>& s);
  const CoarseColumns& columns() const { return columns_; }
  /// The number of a coarse point of the halo.
  Local column(std::size_t j) const { return column_[j]; }
  struct Row {
    const Local* code;
    const T* value;
    std::size_t count;
  };
  Row operator()(std::size_t k) const {
    const auto& from = k < n_ ? own_ : others_;
    const std::size_t row = k < n_ ? k : row_of_ghost_[k - n_];
    const auto first = std::size_t(from.start[row]);
    return {from.code.data() + first, from.value.data() + first, std::size_t(from.start[row + 1]) - first};
  }

 private:
  struct Part {
    std::vector<Global> start{0};
    std::vector<Local> code;
    std::vector<T> value;
  };
  op::Rows<T> fetch(const Splitting<T>& s);
  std::size_t n_;
  std::vector<std::size_t> row_of_ghost_;
  CoarseColumns columns_;
  std::vector<Local> column_;
  Part own_, others_;
};

template <Scalar T>
op::Rows<T> Opposite<T>::fetch(const Splitting<T>& s) {
  const Graph& g = s.strong;
  if (g.halo.space().comm().size() == 1) return {};
  const auto to_others = rows_of<T>(
      n_, [] { return 0; },
      [&](std::size_t k, int, Piece<T>& to) {
        bool asked = false;
        each_dependant(g, k, [&](std::size_t i) { asked |= i >= n_; });
        if (!asked || s.part[k] != precond::Part::fine) return;
        each_opposite(s, k, [&](std::size_t l, T b, bool depends) {
          to.column.push_back(s.part[l] == precond::Part::coarse ? Code::coarse(s.coarse.number[l], depends)
                                                                 : Code::fine(g.halo.global(Local(l))));
          to.value.push_back(b);
        });
      });
  std::vector<char> is_needed(std::size_t(g.halo.count()), 0);
  for (std::size_t i = 0; i < n_; ++i)
    if (s.part[i] == precond::Part::fine) each_strong(g, i, [&](std::size_t j) { is_needed[j] = 1; });
  std::vector<Global> needed;
  row_of_ghost_.assign(is_needed.size() - n_, 0);
  for (std::size_t j = n_; j < is_needed.size(); ++j)
    if (is_needed[j] && s.part[j] == precond::Part::fine)
      row_of_ghost_[j - n_] = needed.size(), needed.push_back(g.halo.global(Local(j)));
  return op::rows_of_others(g.halo.space(), to_others, needed);
}

template <Scalar T>
Opposite<T>::Opposite(const Splitting<T>& s) : n_(s.strong.size()), columns_(s.coarse.space, {}) {
  const Graph& g = s.strong;
  const auto fetched = fetch(s);
  auto others = ghosts_of(s.coarse, g);
  for (const Global c : fetched.column)
    if (Code::is_coarse(c) && !columns_.is_own(Code::index(c))) others.push_back(Code::index(c));
  columns_ = CoarseColumns(s.coarse.space, std::move(others));
  column_.resize(s.coarse.number.size());
  exec::parallel_for(column_.size(), n_ > 5000,
                     [&](std::size_t j) { column_[j] = s.coarse.number[j] >= 0 ? columns_(s.coarse.number[j]) : -1; });
  for (std::size_t i = 0; i + 1 < fetched.start.size(); ++i) {
    for (auto k = begin_of(fetched.start, i); k < begin_of(fetched.start, i + 1); ++k) {
      const Global c = fetched.column[k], index = Code::index(c);
      if (!Code::is_coarse(c) && !g.halo.is_own(index)) continue;
      others_.code.push_back(Code::is_coarse(c) ? 2 * columns_(index) + (Code::depends(c) ? 1 : 0)
                                                : -1 - g.halo(index));
      others_.value.push_back(fetched.value[k]);
    }
    others_.start.push_back(Global(others_.code.size()));
  }
  // Twice: counted, then stored.
  const auto each = [&](std::size_t k, auto&& f) {
    if (s.part[k] != precond::Part::fine) return;
    bool asked = false;
    each_dependant(g, k, [&](std::size_t i) { asked |= i < n_ && s.part[i] == precond::Part::fine; });
    if (!asked) return;
    each_opposite(s, k, [&](std::size_t l, T b, bool depends) {
      if (s.part[l] == precond::Part::coarse) f(2 * column_[l] + (depends ? 1 : 0), b);
      else if (l < n_) f(-1 - Local(l), b);
    });
  };
  own_.start.assign(n_ + 1, 0);
  exec::parallel_for(n_, n_ > 5000, [&](std::size_t k) {
    Global count = 0;
    each(k, [&](Local, T) { ++count; });
    own_.start[k + 1] = count;
  });
  for (std::size_t k = 0; k < n_; ++k) own_.start[k + 1] += own_.start[k];
  own_.code.resize(std::size_t(own_.start.back()));
  own_.value.resize(own_.code.size());
  exec::parallel_for(n_, n_ > 5000, [&](std::size_t k) {
    auto at = begin_of(own_.start, k);
    each(k, [&](Local code, T b) { own_.code[at] = code, own_.value[at++] = b; });
  });
}

/// The weights of a fine point by extended interpolation; none where it reaches no coarse point.
template <Scalar T>
void extended_weights(const Splitting<T>& s, const Opposite<T>& b, std::size_t i, Weights<T>& w) {
  using R = real_t<T>;
  w.clear();
  each_strong(s.strong, i, [&](std::size_t j) {
    if (s.part[j] == Part::coarse) {
      w.insert(b.column(j));
      return;
    }
    const auto row = b(j);
    for (std::size_t m = 0; m < row.count; ++m)
      if (row.code[m] >= 0 && row.code[m] % 2 == 1) w.insert(row.code[m] / 2);
  });
  if (w.all().empty()) return;
  const T own = diagonal_of(s.rows, s.strong.halo.space(), i);
  const Local self = -1 - Local(i);
  T d = own;
  each_coupling(s, i, [&](std::size_t j, T a, bool depends) {
    if (s.part[j] == Part::coarse) {
      const auto at = w.find(b.column(j));
      (at != w.absent ? w.all()[at] : d) += a;
    } else if (depends) {
      const auto row = b(j);
      T sum{}, back{};
      w.scratch.clear();
      for (std::size_t m = 0; m < row.count; ++m) {
        const Local code = row.code[m];
        if (code == self) back = row.value[m], sum += back;
        if (code < 0) continue;
        if (const auto at = w.find(code / 2); at != w.absent)
          w.scratch.push_back({at, row.value[m]}), sum += row.value[m];
      }
      const T factor = sum != T(0) ? quotient(a, sum) : T(0);
      d += sum != T(0) ? factor * back : a;
      for (const auto& [at, value] : w.scratch) w.all()[at] += factor * value;
    } else {
      d += a;
    }
  });
  R size = 0;
  for (const T v : w.all()) size += std::abs(v);
  if (!is_alike(d, own) || size > 10 * std::abs(d)) d = own;
  for (T& v : w.all()) v = d != T(0) ? quotient(-v, d) : T(0);
}

}  // namespace

template <Scalar T>
op::Rows<T> direct_interpolation(const Splitting<T>& s, int most) {
  const CoarseColumns columns(s.coarse.space, ghosts_of(s.coarse, s.strong));
  return rows_of<T>(
      s.strong.size(), [&] { return Weights<T>(columns.count()); },
      [&](std::size_t i, Weights<T>& w, Piece<T>& to) {
        w.clear();
        const auto put = [&](std::size_t j, T weight) { w.all()[w.insert(columns(s.coarse.number[j]))] += weight; };
        if (s.part[i] == Part::coarse) put(i, T(1));
        else
          pass_on(
              s, i, [&](std::size_t j) { return s.part[j] == Part::coarse; }, put);
        w.append(
            most, [&](Local c) { return columns.global(c); }, to);
      });
}

template <Scalar T>
op::Rows<T> multipass_interpolation(const Splitting<T>& s, int most) {
  const Graph& g = s.strong;
  const std::size_t n = g.size();
  const auto& comm = g.halo.space().comm();
  auto P = direct_interpolation(s, most);
  constexpr Global never = std::numeric_limits<Global>::max();
  std::vector<Global> pass(n, never);  // in which a point gets its weights
  for (std::size_t i = 0; i < n; ++i)
    if (P.start[i] < P.start[i + 1]) pass[i] = 1;
  g.halo.update(pass);
  for (Global now = 2;; ++now) {
    std::vector<Local> of_pass;
    for (std::size_t i = 0; i < n; ++i) {
      bool reached = false;
      if (pass[i] == never) each_strong(g, i, [&](std::size_t j) { reached |= pass[j] < now; });
      if (reached) of_pass.push_back(Local(i));
    }
    if (comm.all_sum(Global(of_pass.size())) == 0) return P;
    const auto fetched = op::rows_of_others(g.halo.space(), P, g.halo.others());
    std::vector<Global> others;
    for (const op::Rows<T>* rows : {&std::as_const(P), &fetched})
      for (const Global c : rows->column)
        if (c < s.coarse.space.begin() || c >= s.coarse.space.end()) others.push_back(c);
    const CoarseColumns columns(s.coarse.space, std::move(others));
    std::vector<char> is_now(n, 0);
    for (const Local i : of_pass) is_now[std::size_t(i)] = 1;
    P = rows_of<T>(
        n, [&] { return Weights<T>(columns.count()); },
        [&](std::size_t i, Weights<T>& w, Piece<T>& to) {
          if (!is_now[i]) {
            to.column.insert(to.column.end(), P.column.begin() + P.start[i], P.column.begin() + P.start[i + 1]);
            to.value.insert(to.value.end(), P.value.begin() + P.start[i], P.value.begin() + P.start[i + 1]);
            return;
          }
          w.clear();
          pass_on(
              s, i, [&](std::size_t j) { return pass[j] < now; },
              [&](std::size_t j, T factor) {
                const auto& from = j < n ? P : fetched;
                const std::size_t row = j < n ? j : j - n;
                for (auto k = begin_of(from.start, row); k < begin_of(from.start, row + 1); ++k)
                  w.all()[w.insert(columns(from.column[k]))] += factor * from.value[k];
              });
          w.append(
              most, [&](Local c) { return columns.global(c); }, to);
        });
    for (const Local i : of_pass) pass[std::size_t(i)] = now;
    g.halo.update(pass);
  }
}

template <Scalar T>
op::Rows<T> extended_interpolation(const Splitting<T>& s, int most) {
  const Opposite<T> b(s);
  return rows_of<T>(
      s.strong.size(), [&] { return Weights<T>(b.columns().count()); },
      [&](std::size_t i, Weights<T>& w, Piece<T>& to) {
        if (s.part[i] == Part::coarse) {
          to.column.push_back(s.coarse.number[i]), to.value.push_back(T(1));
          return;
        }
        extended_weights(s, b, i, w);
        w.append(
            most, [&](Local c) { return b.columns().global(c); }, to);
      });
}

#define TACIT_INSTANTIATE(T)                                                        \
  template op::Rows<T> direct_interpolation<T>(const Splitting<T>& s, int most);    \
  template op::Rows<T> multipass_interpolation<T>(const Splitting<T>& s, int most); \
  template op::Rows<T> extended_interpolation<T>(const Splitting<T>& s, int most);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
