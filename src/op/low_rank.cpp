#include <tacit/op/low_rank.hpp>

#include <tacit/base/lapack.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/checksum.hpp>
#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tacit::op {
namespace {

/// f(piece, first row, rows) for n rows. The bounds of pieces depend on n only, so that sums have the same bits for any
/// number of threads.
template <class F>
std::size_t by_pieces(std::size_t n, std::size_t work, const F& f) {
  const std::size_t pieces = std::clamp<std::size_t>(n / 1024, 1, 64);
  exec::settle();
  const lapack::OneThread one;  // the threads are those of this loop
  exec::parallel_for(
      pieces, work > 16384,
      [&](std::size_t p) {
        const std::size_t begin = n * p / pieces;
        f(p, begin, n * (p + 1) / pieces - begin);
      },
      1);
  return pieces;
}

/// This rank's part of B^H x, a row for each column of B.
template <Scalar T>
void own_products(const Vector<T>& B, const Vector<T>& x, std::vector<T>& sums) {
  const int k = B.columns(), m = x.columns();
  const std::size_t n = std::size_t(x.space().local_size()), count = std::size_t(k) * std::size_t(m);
  std::vector<T> parts(64 * count);
  // Products by columns write x^T conj(B), which is B^H x by rows.
  const std::size_t pieces = by_pieces(n, n * count, [&](std::size_t p, std::size_t first, std::size_t rows) {
    if (rows > 0)
      lapack::gemm('N', 'C', m, k, int(rows), T(1), x.data() + first * std::size_t(m), m,
                   B.data() + first * std::size_t(k), k, T(0), parts.data() + p * count, m);
  });
  sums.assign(count, T(0));
  for (std::size_t p = 0; p < pieces; ++p)
    for (std::size_t i = 0; i < count; ++i) sums[i] += parts[p * count + i];
}

/// y = B c for this rank's rows.
template <Scalar T>
void combine(const Vector<T>& B, const std::vector<T>& c, Vector<T>& y) {
  const int k = B.columns(), m = y.columns();
  const std::size_t n = std::size_t(y.space().local_size());
  by_pieces(n, n * c.size(), [&](std::size_t, std::size_t first, std::size_t rows) {
    if (rows > 0)
      lapack::gemm('N', 'N', m, int(rows), k, T(1), c.data(), m, B.data() + first * std::size_t(k), k, T(0),
                   y.data() + first * std::size_t(m), m);
  });
}

/// The largest magnitudes (of real and imaginary parts) of this rank's rows in each column.
template <Scalar T>
std::vector<double> largest_by_column(const Vector<T>& B) {
  std::vector<double> most(std::size_t(B.columns()), 0.0);
  for (std::size_t i = 0; i < B.size(); ++i) {
    double& one = most[i % most.size()];
    one = std::max(one, double(std::abs(B.data()[i])));
  }
  return most;
}

/// The first row of this rank with an element that is not finite; the size of the space where there is none.
template <Scalar T>
Global first_fault(const Vector<T>& B) {
  for (std::size_t i = 0; i < B.size(); ++i)
    if (!is_finite(B.data()[i])) return B.space().begin() + Global(i) / B.columns();
  return B.space().size();
}

}  // namespace

template <Scalar T>
LowRank<T>::LowRank(Vector<T> U, Vector<T> V)
    : Operator<T, Host>(U.space(), V.space()), U_(std::move(U)), V_(std::move(V)) {
  const auto& comm = this->range().comm();
  comm::collective(comm, [&] {
    require(U_.columns() == V_.columns(), "a low-rank operator U V^H with ", U_.columns(), " columns in U and ",
            V_.columns(), " in V");
    require(comm == this->domain().comm(), "a low-rank operator U V^H with U and V on different communicators");
    comm.join(this->domain().comm());
    exec::settle();
    const auto look = [&](const char* factor, const Vector<T>& B) {
      const Global row = comm.all_min(first_fault(B));
      if (fault_.empty() && row < B.space().size())
        fault_ = message("the factor ", factor, " has a value that is not finite in row ", row, " (counted from 0)");
    };
    look("U", U_), look("V", V_);
    std::vector<double> most = largest_by_column(U_);
    const auto of_V = largest_by_column(V_);
    most.insert(most.end(), of_V.begin(), of_V.end());
    comm.start_sum(most.data(), most.size(), comm::Operation::max).wait(most.data());
    for (std::size_t c = 0; c < of_V.size(); ++c) largest_ += most[c] * most[c + of_V.size()];
  });
  made_ = checksum();
}

template <Scalar T>
std::uint64_t LowRank<T>::checksum() const {
  return exec::Checksum().add(U_).add(V_).value();
}

template <Scalar T>
std::vector<T> LowRank<T>::diagonal() const {
  if (!has_diagonal()) return Operator<T, Host>::diagonal();
  std::vector<T> d(std::size_t(this->range().local_size()), T(0));
  const auto k = std::size_t(rank());
  for (std::size_t i = 0; i < d.size() * k; ++i) d[i / k] += U_.data()[i] * conj(V_.data()[i]);
  return d;
}

template <Scalar T>
std::shared_ptr<const Operator<in_double_t<T>, Host>> LowRank<T>::in_double() const {
  if constexpr (std::same_as<real_t<T>, float>)
    return std::make_shared<const LowRank<in_double_t<T>>>(layout::in_double(U_), layout::in_double(V_));
  else return nullptr;
}

template <Scalar T>
Cost LowRank<T>::cost() const {
  const double rows = double(U_.space().local_size()) + double(V_.space().local_size());
  return {.flops = (is_complex<T> ? 8 : 2) * rank() * rows, .bytes = (rank() + 1) * rows * sizeof(T)};
}

template <Scalar T>
int LowRank<T>::begin(const Vector<T>& x, Vector<T>&, bool adjoint) const {
  const int token = flights_[0].sums ? 1 : 0;
  Flight& flight = flights_[token];
  require(!flight.sums, "two products of the low-rank operator are already under way; wait for one of them first");
  own_products(adjoint ? U_ : V_, x, flight.coefficients);
  flight.sums.emplace(x.space().start_sum(flight.coefficients.data(), flight.coefficients.size()));
  return token;
}

template <Scalar T>
void LowRank<T>::finish(const Vector<T>&, Vector<T>& y, bool adjoint, int token) const {
  const Span span("low-rank product", "op");
  Flight& flight = flights_[token];
  flight.sums->wait(flight.coefficients.data());
  flight.sums.reset();
  combine(adjoint ? V_ : U_, flight.coefficients, y);
}

template <Scalar T>
void LowRank<T>::abandon(int token) const noexcept {
  flights_[token].sums.reset();
}

#define TACIT_INSTANTIATE(T) template class LowRank<T>;
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)
#undef TACIT_INSTANTIATE

}  // namespace tacit::op
