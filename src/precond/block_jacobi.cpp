#include <tacit/precond/block_jacobi.hpp>

#include "factorise.hpp"
#include "scalar.hpp"
#include "triangular.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/op/hermitian.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

namespace tacit::precond {
namespace {

/// Rows and columns [first, first + count) of a, local to that range.
template <Scalar T>
op::LocalRows<T> cut(const op::LocalRows<T>& a, Local first, Local count) {
  op::LocalRows<T> block;
  block.columns = count;
  for (Local i = first; i < first + count; ++i) {
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k)
      if (const Local c = a.column[k]; c >= first && c < first + count) {
        block.column.push_back(c - first);
        block.value.push_back(a.value[k]);
      }
    block.start.push_back(Global(block.column.size()));
  }
  return block;
}

template <Scalar T>
std::vector<T> diagonal_of(const op::LocalRows<T>& a) {
  std::vector<T> d(std::size_t(a.count()));
  for (Local i = 0; i < a.count(); ++i)
    for (Global k = a.start[i]; k < a.start[i + 1]; ++k)
      if (a.column[k] == i) d[std::size_t(i)] = a.value[k];
  return d;
}

template <Scalar T>
void require_positive_hermitian(const op::LocalRows<T>& a, Global first) {
  const auto mirrored = op::adjoint(a);
  const auto diagonal = diagonal_of(a);
  const auto size = [&](Local i) { return double(std::abs(diagonal[std::size_t(i)])); };
  for (Local i = 0; i < a.count(); ++i) {
    require(real(diagonal[std::size_t(i)]) > 0, "ic0 needs a diagonal that is positive (or negative) everywhere; row ",
            first + i, " (counted from 0) has another sign or a zero");
    Global k = a.start[i], m = mirrored.start[i];
    while (k < a.start[i + 1] || m < mirrored.start[i + 1]) {
      const Local c = k < a.start[i + 1] ? a.column[k] : a.columns,
                  d = m < mirrored.start[i + 1] ? mirrored.column[m] : a.columns;
      require(op::mirror_each_other(c <= d ? a.value[k] : T{}, d <= c ? mirrored.value[m] : T{}, size(i),
                                    size(std::min(c, d))),
              "ic0 needs a Hermitian matrix; row ", first + i, " (counted from 0) differs from its column");
      k += c <= d;
      m += d <= c;
    }
  }
}

}  // namespace

template <Scalar T>
struct BlockJacobi<T>::Block {
  Local first, count;
  Triangular<T> lower, upper;
  // The adjoints of the factors of ilu0, made at the first adjoint product.
  std::unique_ptr<Triangular<T>> lower_adjoint, upper_adjoint;
};

template <Scalar T>
struct BlockJacobi<T>::Blocks {
  std::vector<Block> list;
};

template <Scalar T>
BlockJacobi<T>::BlockJacobi(const op::Csr<T, Host>& A, Factorisation factorisation, int blocks)
    : op::Operator<T, Host>(A.domain(), A.range()), factorisation_(factorisation), blocks_(std::make_unique<Blocks>()) {
  const auto& comm = A.range().comm();
  comm::collective(comm, [&] {
    const Span span("factorise blocks", "precond");
    const bool ic = factorisation == Factorisation::ic0;
    const char* const kind = ic ? "ic0" : "ilu0";
    require(A.range() == A.domain(), kind, " needs a square matrix with rows and columns spread alike; this one is ",
            A.range().size(), " by ", A.domain().size());
    require(blocks >= 1, kind, " with ", blocks, " blocks on a rank; at least 1 is needed");
    require(A.fault().empty(), kind, ": ", A.fault());
    op::LocalRows<T> own = A.own_block();
    const Local n = own.count();
    if (ic) {
      const auto diagonal = diagonal_of(own);
      negative_ = A.range().size() > 0 &&
                  comm.all(std::all_of(diagonal.begin(), diagonal.end(), [](T d) { return real(d) < 0; }));
      if (negative_)
        for (T& v : own.value) v = -v;
      require_positive_hermitian(own, A.range().begin());
    }
    const Local parts = std::clamp<Local>(blocks, 1, std::max<Local>(n, 1));
    for (Local b = 0; b < parts; ++b) {
      const Local first = n / parts * b + std::min(b, n % parts);
      blocks_->list.push_back({first, n / parts + (b < n % parts), {}, {}, nullptr, nullptr});
    }
    std::vector<Factors<T>> factors(blocks_->list.size());
    const auto factorise = [&](std::size_t b) {
      auto& block = blocks_->list[b];
      auto& f = factors[b];
      f = ic ? ic0(cut(own, block.first, block.count)) : ilu0(cut(own, block.first, block.count));
      // Where L holds no diagonal of its own, D^-1 acts once, with U.
      const bool unit = !ic || f.diagonal_only;
      block.lower = Triangular<T>(std::move(f.lower), unit ? std::vector<T>() : f.inverse, true, parts == 1);
      block.upper = Triangular<T>(std::move(f.upper), std::move(f.inverse), false, parts == 1);
    };
    exec::parallel_for(std::size_t(parts), true, factorise, 1);
    Global perturbed = 0, diagonals = 0;
    double shift = 0;
    for (const auto& f : factors) {
      perturbed += f.perturbed;
      diagonals += f.diagonal_only;
      shift = std::max(shift, f.shift);
    }
    perturbed_ = comm.all_sum(perturbed);
    diagonals = comm.all_sum(diagonals);
    doubtful_ = perturbed_ > 0 || diagonals > 0;
    shift_ = comm.all_max(shift);
    const auto add = [&](const std::string& text) { note_ += (note_.empty() ? "" : "; ") + text; };
    char number[32];
    std::snprintf(number, sizeof number, "%.3g", shift_);
    if (perturbed_)
      add(message(perturbed_, perturbed_ == 1 ? " pivot of " : " pivots of ", A.range().size(),
                  perturbed_ == 1 ? " was" : " were", " zero or too small and replaced"));
    if (shift_ > 0) add(message("the diagonal was raised by up to ", number, " of itself to keep the pivots positive"));
    if (diagonals)
      add(message(diagonals, diagonals == 1 ? " block" : " blocks", " could not be factorised and ",
                  diagonals == 1 ? "is" : "are", " inverted by the diagonal alone"));
    name_ = message("block-jacobi (", kind, negative_ ? " of -A" : "",
                    blocks > 1 ? message(", ", blocks, " blocks a rank") : std::string(),
                    shift_ > 0 ? message(", shift ", number) : std::string(), ")");
  });
}

template <Scalar T>
BlockJacobi<T>::~BlockJacobi() = default;

template <Scalar T>
void BlockJacobi<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool adjoint, int) const {
  const Span span("triangular solves", "precond", Trace::on() ? std::int64_t(cost().bytes) : 0);
  const int k = x.columns();
  const bool other = adjoint && factorisation_ == Factorisation::ilu0;
  auto& list = blocks_->list;
  if (other && !list.front().lower_adjoint)
    for (auto& b : list) {
      std::vector<T> inverse = b.upper.inverse();
      for (T& d : inverse) d = conj(d);
      b.lower_adjoint =
          std::make_unique<Triangular<T>>(op::adjoint(b.lower.strict()), std::vector<T>(), false, list.size() == 1);
      b.upper_adjoint = std::make_unique<Triangular<T>>(op::adjoint(b.upper.strict()), inverse, true, list.size() == 1);
    }
  const auto solve = [&](const Block& b) {
    T* const part = y.data() + std::size_t(b.first) * k;
    std::copy_n(x.data() + std::size_t(b.first) * k, std::size_t(b.count) * k, part);
    (other ? *b.upper_adjoint : b.lower).solve(part, k);
    (other ? *b.lower_adjoint : b.upper).solve(part, k);
    if (negative_)
      for (T& v : std::span(part, std::size_t(b.count) * k)) v = -v;
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
    entries += double(b.lower.strict().column.size() + b.upper.strict().column.size()) + b.count;
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
  const bool ic = factorisation_ == Factorisation::ic0;
  const auto &lower = b.lower.strict(), &upper = b.upper.strict();
  op::LocalRows<T> all;
  all.columns = b.count;
  for (Local i = 0; i < b.count; ++i) {
    for (Global k = lower.start[i]; k < lower.start[i + 1]; ++k)
      all.column.push_back(lower.column[k]), all.value.push_back(lower.value[k]);
    all.column.push_back(i);
    all.value.push_back(inverse(b.upper.inverse()[i]));
    for (Global k = upper.start[i]; !ic && k < upper.start[i + 1]; ++k)
      all.column.push_back(upper.column[k]), all.value.push_back(upper.value[k]);
    all.start.push_back(Global(all.column.size()));
  }
  return all;
}

template class BlockJacobi<float>;
template class BlockJacobi<double>;
template class BlockJacobi<std::complex<float>>;
template class BlockJacobi<std::complex<double>>;

}  // namespace tacit::precond
