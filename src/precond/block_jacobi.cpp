#include <tacit/precond/block_jacobi.hpp>

#include "factorise.hpp"
#include "precond/matching.hpp"
#include "scalar.hpp"
#include "triangular.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/exec/tasks.hpp>
#include <tacit/layout/ordering.hpp>
#include <tacit/layout/partitioners.hpp>
#include "exec/idle.hpp"
#include "op/hermitian.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <span>
#include <utility>

namespace tacit::precond {
namespace {

/// Error(usage) that names a row where the rank's own block is not Hermitian.
template <Scalar T>
void require_hermitian(const op::Csr<T, Host>& A, const char* kind) {
  if (A.own_block_is_hermitian()) return;
  const auto a = A.own_block(), mirrored = op::adjoint(a);
  const auto diagonal = A.diagonal();
  const auto size = [&](Local i) { return double(std::abs(diagonal[std::size_t(i)])); };
  for (Local i = 0; i < a.count(); ++i) {
    Global k = a.start[i], m = mirrored.start[i];
    while (k < a.start[i + 1] || m < mirrored.start[i + 1]) {
      const Local c = k < a.start[i + 1] ? a.column[k] : a.columns,
                  d = m < mirrored.start[i + 1] ? mirrored.column[m] : a.columns;
      require(op::mirror_each_other(c <= d ? a.value[k] : T{}, d <= c ? mirrored.value[m] : T{}, size(i),
                                    size(std::min(c, d))),
              kind, " needs a Hermitian matrix; row ", A.range().begin() + i,
              " (counted from 0) differs from its column");
      k += c <= d;
      m += d <= c;
    }
  }
}

/// C(i, j) = 2^row_exponent[row[i]] a(row[i], column[j]) 2^column_exponent[column[j]]: the matrix that is factorised.
/// Empty vectors: as it is, and by 1.
struct Reordering {
  std::vector<Local> row, column;
  std::vector<int> row_exponent, column_exponent;
  bool is_identity() const { return row.empty(); }
};

template <Scalar T>
op::LocalRows<T> reordered(const op::LocalRows<T>& a, const Reordering& by) {
  const Local n = a.count();
  std::vector<Local> place(std::size_t(n), 0);
  for (Local j = 0; j < n; ++j) place[std::size_t(by.column[std::size_t(j)])] = j;
  op::LocalRows<T> c;
  c.columns = n;
  c.start.reserve(a.start.size()), c.column.reserve(a.column.size()), c.value.reserve(a.value.size());
  std::vector<std::pair<Local, T>> row;
  for (const Local i : by.row) {
    row.clear();
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k) {
      const Local j = a.column[k];
      const int e = by.row_exponent.empty() ? 0 : by.row_exponent[i] + by.column_exponent[j];
      row.emplace_back(place[j], e ? times_power(a.value[k], e) : a.value[k]);
    }
    std::sort(row.begin(), row.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    for (const auto& [j, v] : row) c.column.push_back(j), c.value.push_back(v);
    c.start.push_back(Global(c.column.size()));
  }
  return c;
}

std::vector<Local> ordered(const layout::LocalGraph& graph, BlockOrder how) {
  if (how == BlockOrder::rcm) return layout::reverse_cuthill_mckee(graph);
  if (how == BlockOrder::dissection) return layout::nested_dissection(graph);
  return layout::minimum_degree(graph);
}

/// Replaces the block by its reordered and scaled form; `unmatched`: rows without an entry for the diagonal.
template <Scalar T>
Reordering reorder(op::LocalRows<T>& a, const Incomplete& how, Local& unmatched) {
  Reordering by;
  if (!how.matching && how.ordering == BlockOrder::none) return by;
  by.row.resize(std::size_t(a.count()));
  std::iota(by.row.begin(), by.row.end(), Local(0));
  by.column = by.row;
  if (how.matching) {
    Matching m = maximum_product_matching(a);
    unmatched = m.unmatched;
    by.column = std::move(m.column);
    by.row_exponent = std::move(m.row_exponent);
    by.column_exponent = std::move(m.column_exponent);
    a = reordered(a, by);
  }
  if (how.ordering == BlockOrder::none) return by;
  const auto graph = layout::symmetrised({a.start, a.column});
  const auto order = ordered(graph, how.ordering);
  const Reordering symmetric{order, order, {}, {}};
  a = reordered(a, symmetric);
  const std::vector<Local> columns = by.column;
  for (std::size_t i = 0; i < order.size(); ++i) by.row[i] = order[i], by.column[i] = columns[std::size_t(order[i])];
  return by;
}

}  // namespace

Incomplete::Incomplete(Factorisation how) : kind(how), matching(how == Factorisation::ilut) {
  // At the default drop and fill the cheapest of the three on most matrices, ordering included.
  if (how == Factorisation::ilut)
    ordering = layout::amd_built()     ? BlockOrder::minimum_degree
               : layout::metis_built() ? BlockOrder::dissection
                                       : BlockOrder::rcm;
}

template <Scalar T>
struct BlockJacobi<T>::Block {
  Local first, count;
  Triangular<T> lower, upper;
  // The adjoints of the factors L and U, made at the first adjoint product.
  std::unique_ptr<Triangular<T>> lower_adjoint, upper_adjoint;
  Reordering by;
  std::shared_ptr<const LevelOrder> order;  // null: rows in the order of elimination
  static constexpr std::size_t chunk = 8192;
  mutable std::vector<T> work;  // the part of the vector in the order of elimination

  /// f(p, i, e) for element p of `work`, which is element i of x, scaled by 2^e.
  template <class F>
  static void each_element(std::span<const Local> at, const std::vector<int>& exponent, int k, const F& f) {
    const Local* const place = at.data();
    const int* const power = exponent.empty() ? nullptr : exponent.data();
    exec::parallel_for((at.size() + chunk - 1) / chunk, at.size() > chunk, [=, n = at.size()](std::size_t part) {
      const std::size_t end = std::min((part + 1) * chunk, n);
      for (std::size_t p = part * chunk; p < end; ++p) {
        const Local i = place[p];
        const int e = power ? power[i] : 0;
        for (int c = 0; c < k; ++c) f(p * std::size_t(k) + c, std::size_t(i) * k + c, e);
      }
    });
  }

  /// y := (L U)^-1 x of this block, or that of the adjoint.
  void solve(const T* x, T* y, int k, bool adjoint, bool hermitian) const {
    const bool other = adjoint && !hermitian;
    const auto& first_factor = other ? *upper_adjoint : lower;
    const auto& second_factor = other ? *lower_adjoint : upper;
    if (by.is_identity()) {
      first_factor.solve(x, y, k);
      return second_factor.solve(y, y, k);
    }
    const auto &from = adjoint ? by.column : by.row, &to = adjoint ? by.row : by.column;
    const auto &scale = adjoint ? by.column_exponent : by.row_exponent,
               &back = adjoint ? by.row_exponent : by.column_exponent;
    work.resize(from.size() * std::size_t(k));
    T* const w = work.data();
    each_element(from, scale, k, [=](std::size_t p, std::size_t i, int e) { w[p] = e ? times_power(x[i], e) : x[i]; });
    first_factor.solve(w, w, k);
    second_factor.solve(w, w, k);
    each_element(to, back, k, [=](std::size_t p, std::size_t i, int e) { y[i] = e ? times_power(w[p], e) : w[p]; });
  }
};

template <Scalar T>
struct BlockJacobi<T>::Blocks {
  std::vector<Block> list;
};

namespace {

const char* name_of(Factorisation kind) {
  switch (kind) {
    case Factorisation::ic0:
      return "ic0";
    case Factorisation::iluk:
      return "iluk";
    case Factorisation::ick:
      return "ick";
    case Factorisation::ilut:
      return "ilut";
    default:
      return "ilu0";
  }
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

void check(const Incomplete& how, const char* kind, bool hermitian) {
  require(how.levels >= 0, kind, " with ", how.levels, " levels of fill; at least 0 are needed");
  require(how.drop >= 0 && std::isfinite(how.drop), kind, " with drop ", how.drop, "; a number from 0 on is needed");
  require(how.fill > 0, kind, " with fill ", how.fill, "; a positive number is needed");
  require(how.pivoting >= 0 && how.pivoting <= 1, kind, " with pivoting ", how.pivoting,
          "; a number from 0 to 1 is needed");
  require(!how.matching || !hermitian, kind, " keeps the symmetry of the matrix, which a matching does not");
}

/// The factors of the reordered block a; ilut adds its order of columns to `by`.
template <Scalar T>
Factors<T> factorised(op::LocalRows<T> a, const Incomplete& how, Reordering& by, const Poll& poll) {
  const auto release = [&](op::SplitRows<T> parts) {
    a = {};
    return parts;
  };
  switch (how.kind) {
    case Factorisation::ic0:
      return ic0(release(split(a, false)), poll);
    case Factorisation::ick:
      return ic0(release(with_levels(a, how.levels, false, poll)), poll);
    case Factorisation::iluk:
      return ilu0(release(with_levels(a, how.levels, true, poll)), poll);
    case Factorisation::ilut: {
      std::vector<Local> order;
      auto f = ilut(a, Threshold{how.drop, how.fill, how.pivoting}, order, poll);
      if (by.is_identity()) {
        if (std::is_sorted(order.begin(), order.end())) return f;
        by.row.resize(order.size());
        std::iota(by.row.begin(), by.row.end(), Local(0));
        by.column = by.row;
      }
      const std::vector<Local> columns = by.column;
      for (std::size_t i = 0; i < order.size(); ++i) by.column[i] = columns[std::size_t(order[i])];
      return f;
    }
    default:
      return ilu0(release(split(a, true)), poll);
  }
}

template <Scalar T>
void negate(std::vector<T>& values) {
  for (T& v : values) v = -v;
}

/// The factors of rows and columns [first, first + count) of the rank's own block, or of minus these.
template <Scalar T>
Factors<T> factorised(const op::Csr<T, Host>& A, Local first, Local count, const Incomplete& how, bool negative,
                      Reordering& by, Local& unmatched, const Poll& poll) {
  const bool ic = how.kind == Factorisation::ic0;
  if ((ic || how.kind == Factorisation::ilu0) && !how.matching && how.ordering == BlockOrder::none) {
    // Read as the parts in which it is factorised in place, without a copy on the way.
    auto parts = A.split_own_block(first, count, !ic);
    if (negative) negate(parts.lower.value), negate(parts.diagonal);
    return ic ? ic0(std::move(parts), poll) : ilu0(std::move(parts), poll);
  }
  auto a = A.own_block(first, count);
  if (negative) negate(a.value);
  by = reorder(a, how, unmatched);
  return factorised(std::move(a), how, by, poll);
}

}  // namespace

template <Scalar T>
BlockJacobi<T>::BlockJacobi(const op::Csr<T, Host>& A, const Incomplete& how, int blocks)
    : op::Operator<T, Host>(A.domain(), A.range()),
      hermitian_(how.kind == Factorisation::ic0 || how.kind == Factorisation::ick),
      blocks_(std::make_unique<Blocks>()) {
  const auto& comm = A.range().comm();
  comm::collective(comm, [&] {
    const Span span("factorise blocks", "precond");
    const char* const kind = name_of(how.kind);
    require(A.range() == A.domain(), kind, " needs a square matrix with rows and columns spread alike; this one is ",
            A.range().size(), " by ", A.domain().size());
    require(blocks >= 1, kind, " with ", blocks, " blocks on a rank; at least 1 is needed");
    check(how, kind, hermitian_);
    require(A.fault().empty(), kind, ": ", A.fault());
    const Local n = A.range().local_size();
    if (hermitian_) {
      {
        const auto diagonal = A.diagonal();
        negative_ = A.range().size() > 0 &&
                    comm.all(std::all_of(diagonal.begin(), diagonal.end(), [](T d) { return real(d) < 0; }));
      }
      require_hermitian(A, kind);
    }
    const Local parts = std::clamp<Local>(blocks, 1, std::max<Local>(n, 1));
    for (Local b = 0; b < parts; ++b) {
      const Local first = n / parts * b + std::min(b, n % parts);
      blocks_->list.push_back({first, n / parts + (b < n % parts), {}, {}, nullptr, nullptr, {}, nullptr, {}});
    }
    exec::release_idle_memory();
    Found found = factorise(A, how);
    found = {comm.all_sum(found.entries), comm.all_sum(found.perturbed), comm.all_sum(found.diagonals),
             comm.all_sum(found.unmatched), comm.all_max(found.shift)};
    fill_ = double(found.entries) / double(std::max<Global>(comm.all_sum(A.own_block_entries()), 1));
    describe(found, how, blocks);
  });
}

template <Scalar T>
typename BlockJacobi<T>::Found BlockJacobi<T>::factorise(const op::Csr<T, Host>& A, const Incomplete& how) {
  auto& list = blocks_->list;
  std::vector<Found> found(list.size());
  const auto& comm = A.range().comm();
  const Poll poll = [&] {
    if (exec::may_poll()) comm.check(), comm.check_interrupt();
  };
  exec::parallel_for(
      list.size(), true,
      [&](std::size_t b) {
        auto& block = list[b];
        Local unmatched = 0;
        Factors<T> f = factorised(A, block.first, block.count, how, negative_, block.by, unmatched, poll);
        const std::size_t upper = hermitian_ ? f.lower.column.size() : f.upper.column.size();
        found[b] = {Global(f.lower.column.size() + upper + f.inverse.size()), f.perturbed, f.diagonal_only, unmatched,
                    f.shift};
        const bool threads = list.size() == 1;
        block.order = level_order(f.lower, hermitian_ ? nullptr : &f.upper);
        const auto inverse = placed(f.inverse, block.order.get());
        std::vector<T>().swap(f.inverse);
        // Where L holds no diagonal of its own, D^-1 acts once, with U.
        const bool unit = !hermitian_ || f.diagonal_only;
        if (hermitian_) block.upper = Triangular<T>::adjoint_of(f.lower, inverse, block.order, threads);
        block.lower = Triangular<T>(std::move(f.lower), unit ? nullptr : inverse, true, block.order, threads);
        if (!hermitian_) block.upper = Triangular<T>(std::move(f.upper), inverse, false, block.order, threads);
      },
      1);
  Found all;
  for (const Found& f : found) {
    all.entries += f.entries;
    all.perturbed += f.perturbed;
    all.diagonals += f.diagonals;
    all.unmatched += f.unmatched;
    all.shift = std::max(all.shift, f.shift);
  }
  return all;
}

template <Scalar T>
void BlockJacobi<T>::describe(const Found& found, const Incomplete& how, int blocks) {
  perturbed_ = found.perturbed;
  shift_ = found.shift;
  doubtful_ = perturbed_ > 0 || found.diagonals > 0 || shift_ >= 0.5;
  const auto add = [&](const std::string& text) { note_ += (note_.empty() ? "" : "; ") + text; };
  if (found.unmatched)
    add(message(found.unmatched, " of ", this->range().size(), found.unmatched == 1 ? " rows has" : " rows have",
                " no entry left for the diagonal: the blocks are "
                "structurally singular"));
  if (perturbed_)
    add(message(perturbed_, perturbed_ == 1 ? " pivot of " : " pivots of ", this->range().size(),
                perturbed_ == 1 ? " was" : " were", " zero or too small and replaced"));
  if (shift_ > 0)
    add(message("the diagonal was raised by up to ", short_number(shift_), " of itself to keep the pivots positive"));
  if (found.diagonals)
    add(message(found.diagonals, found.diagonals == 1 ? " block" : " blocks", " could not be factorised and ",
                found.diagonals == 1 ? "is" : "are", " inverted by the diagonal alone"));
  name_ = message("block-jacobi (", name_of(how.kind), negative_ ? " of -A" : "");
  if (how.kind == Factorisation::iluk || how.kind == Factorisation::ick) name_ += message(", levels ", how.levels);
  if (how.kind == Factorisation::ilut) name_ += message(", drop ", short_number(how.drop));
  if (how.kind != Factorisation::ilu0 && how.kind != Factorisation::ic0)
    name_ += message(", ", short_number(fill_), " entries for one of A");
  if (how.ordering == BlockOrder::dissection) name_ += ", nested dissection";
  if (how.ordering == BlockOrder::minimum_degree) name_ += ", minimum degree";
  if (blocks > 1) name_ += message(", ", blocks, " blocks a rank");
  if (shift_ > 0) name_ += message(", shift ", short_number(shift_));
  name_ += ")";
}

template <Scalar T>
BlockJacobi<T>::~BlockJacobi() = default;

template <Scalar T>
void BlockJacobi<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int) const {
  const Span span("triangular solves", "precond", Trace::on() ? std::int64_t(cost().bytes) : 0);
  const int k = x.columns();
  auto& list = blocks_->list;
  if (adjoint && !hermitian_ && !list.front().lower_adjoint)
    for (auto& b : list) {
      std::vector<T> inverse = b.upper.inverse();
      for (T& d : inverse) d = conj(d);
      const auto make = [&](const Triangular<T>& of, InverseDiagonal<T> d, bool lower) {
        return std::make_unique<Triangular<T>>(op::adjoint(of.strict()), std::move(d), lower, b.order,
                                               list.size() == 1);
      };
      b.lower_adjoint = make(b.lower, nullptr, false);
      b.upper_adjoint = make(b.upper, placed(inverse, b.order.get()), true);
    }
  const auto solve = [&](const Block& b) {
    const std::size_t from = std::size_t(b.first) * k;
    b.solve(x.data() + from, y.data() + from, k, adjoint, hermitian_);
    if (negative_)
      for (T& v : std::span(y.data() + from, std::size_t(b.count) * k)) v = -v;
  };
  if (list.size() == 1) solve(list.front());
  else exec::each(list.size(), true, [&](std::size_t b) { solve(list[b]); });
  if (Trace::on()) Trace::work("triangular solves", cost().bytes, k * cost().flops);
}

template <Scalar T>
op::Cost BlockJacobi<T>::cost() const {
  op::Cost c;
  double entries = 0;
  for (const auto& b : blocks_->list) {
    c.bytes += b.lower.bytes() + b.upper.bytes();
    entries += double(b.lower.entries() + b.upper.entries()) + b.count;
  }
  c.bytes += 4.0 * this->domain().local_size() * sizeof(T);
  c.flops = (is_complex<T> ? 8 : 2) * entries;
  return c;
}

template <Scalar T>
int BlockJacobi<T>::blocks() const {
  return int(blocks_->list.size());
}

template <Scalar T>
op::LocalRows<T> BlockJacobi<T>::factors(int block) const {
  require(block >= 0 && block < blocks(), "block ", block, " of ", blocks());
  const Block& b = blocks_->list[block];
  const auto lower = b.lower.strict(), upper = b.upper.strict();
  const auto pivots = b.upper.inverse();
  op::LocalRows<T> all;
  all.columns = b.count;
  for (Local i = 0; i < b.count; ++i) {
    for (Global k = lower.start[i]; k < lower.start[i + 1]; ++k)
      all.column.push_back(lower.column[k]), all.value.push_back(lower.value[k]);
    all.column.push_back(i);
    all.value.push_back(inverse(pivots[std::size_t(i)]));
    for (Global k = upper.start[i]; !hermitian_ && k < upper.start[i + 1]; ++k)
      all.column.push_back(upper.column[k]), all.value.push_back(upper.value[k]);
    all.start.push_back(Global(all.column.size()));
  }
  return all;
}

template <Scalar T>
TriangularFactors<T> BlockJacobi<T>::triangular_factors() const {
  const Local n = this->domain().local_size();
  TriangularFactors<T> all;
  all.negative = negative_;
  all.lower.columns = all.upper.columns = n;
  const auto add_rows = [](op::LocalRows<T>& to, const op::LocalRows<T>& block, Local first) {
    const Global before = to.start.back();
    for (Local i = 0; i < block.count(); ++i) to.start.push_back(before + block.start[std::size_t(i) + 1]);
    for (const Local c : block.column) to.column.push_back(first + c);
    to.value.insert(to.value.end(), block.value.begin(), block.value.end());
  };
  const auto add_numbers = [](std::vector<Local>& to, const std::vector<Local>& block, Local first, Local count) {
    for (Local i = 0; i < count; ++i) to.push_back(first + (block.empty() ? i : block[i]));
  };
  const auto add_exponents = [n](std::vector<int>& to, const std::vector<int>& block, Local first) {
    if (block.empty()) return;
    to.resize(std::size_t(n), 0);
    std::copy(block.begin(), block.end(), to.begin() + first);
  };
  for (const Block& b : blocks_->list) {
    add_rows(all.lower, b.lower.strict(), b.first), add_rows(all.upper, b.upper.strict(), b.first);
    add_numbers(all.row, b.by.row, b.first, b.count), add_numbers(all.column, b.by.column, b.first, b.count);
    add_exponents(all.row_exponent, b.by.row_exponent, b.first);
    add_exponents(all.column_exponent, b.by.column_exponent, b.first);
    const auto upper = b.upper.inverse();
    all.upper_inverse.insert(all.upper_inverse.end(), upper.begin(), upper.end());
    if (!hermitian_) continue;
    auto lower = b.lower.inverse();
    lower.resize(std::size_t(b.count), T(1));  // of a block that is inverted by its diagonal alone
    all.lower_inverse.insert(all.lower_inverse.end(), lower.begin(), lower.end());
  }
  return all;
}

#define TACIT_INSTANTIATE(T) template class BlockJacobi<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
