// Workspace: the vectors of a method, made once and kept over restarts.
#pragma once

#include <tacit/layout/vector.hpp>
#include <tacit/op/operator.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

namespace tacit::krylov {

template <Scalar T, Memory M>
class Workspace {
 public:
  explicit Workspace(layout::Space space) : space_(std::move(space)) {}
  /// The i-th vector, made when first asked for; zero then. Those never asked for take no memory.
  layout::Vector<T, M>& operator[](std::size_t i) {
    if (vectors_.size() <= i) vectors_.resize(i + 1);
    if (!vectors_[i]) vectors_[i].emplace(space_);
    return *vectors_[i];
  }

 private:
  layout::Space space_;
  std::deque<std::optional<layout::Vector<T, M>>> vectors_;  // references stay valid while it grows
};

#define TACIT_DECLARE(T) extern template class Workspace<T, Host>;
TACIT_EACH_SCALAR(Host, TACIT_DECLARE)
#undef TACIT_DECLARE

/// The search space that the columns of a solve with many right-hand sides share (block methods).
template <Scalar T>
class BlockSearch;

/// What a method is given: solve A d = r from d = 0, P being an approximate inverse of A (null: none).
/// r may be overwritten; d must hold the best d known when the method returns.
template <Scalar T, Memory M>
struct Run {
  const op::Operator<T, M>& A;
  const op::Operator<T, M>* P;
  layout::Vector<T, M>& r;
  layout::Vector<T, M>& d;
  Workspace<T, M>& w;
  int exponent = 0;                                      ///< A is the user's A times 2^-exponent
  bool negated = false;                                  ///< and times -1
  BlockSearch<T>* together = nullptr;                    ///< of all columns; null where a column is solved alone
  std::function<void(layout::Vector<T, M>&)> project{};  ///< takes out the given null space of A; empty: none is given
};

/// v := pseudo-random elements in [-1, 1), made from `seed` and the global index. Local.
template <Scalar T, Memory M>
void scatter(layout::Vector<T, M>& v, std::uint64_t seed) {
  // The mixing steps of SplitMix64 (Steele, Lea, Flood 2014, doi 10.1145/2660193.2660195).
  const auto number = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return real_t<T>(double((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1);
  };
  std::vector<T> host(v.size());
  for (std::size_t i = 0; i < host.size(); ++i) {
    const auto z = (2 * std::uint64_t(v.space().begin() + Global(i)) + 1) * 0x9e3779b97f4a7c15u + seed;
    if constexpr (is_complex<T>) host[i] = {number(z), number(z + 0x9e3779b97f4a7c15u)};
    else host[i] = number(z);
  }
  v.assign(host);
}

/// d + alpha p, this rank's part in host memory: what a callback sees as the run's solution.
template <Scalar T, Memory M>
void solution(const layout::Vector<T, M>& d, T alpha, const layout::Vector<T, M>& p, void* x) {
  layout::Vector<T, M> sum = d;
  if (alpha != T(0)) layout::axpy(alpha, p, sum);
  const auto host = sum.to_host();
  std::copy(host.begin(), host.end(), static_cast<T*>(x));
}

}  // namespace tacit::krylov
