// DotsInFlight: inner products that a method starts long before it needs them.
#pragma once

#include <tacit/exec/basis.hpp>
#include <tacit/layout/space.hpp>

#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

namespace tacit::krylov {

/// n values of V, computed from inner products of vectors in M and then summed over a space; may be moved. take(G, V*)
/// gives this rank's part from the inner products, also on the thread that advances reductions.
template <Scalar T, Memory M, class V, class Take>
class DotsInFlight {
 public:
  /// Starts the inner products (see exec::PendingDots) and one reduction. Collective; does not wait for
  /// the device, unless the space merges reductions. In host memory that of the last ones is used again.
  void start(const layout::Space& space, const T* const* q, int j, const T* const* v, int s, std::size_t elements,
             std::size_t n, Take take) {
    take_ = std::move(take), n_ = n, travels_ = space.needs_messages();
    dots_.start(q, j, v, s, elements);
    if (!travels_) {
      space.template count_sum<V>(n);
      return;
    }
    if constexpr (std::same_as<M, Host>) {
      own_.resize(n);
      take_(dots_.wait(), own_.data());
      auto started = space.start_sum(own_.data(), n);
      std::swap(sum_, started);  // nvcc takes an assignment for an unused result
    } else {
      auto started = space.template start_sum<V>(
          std::move(dots_), n, [take = take_](exec::PendingDots<T, M>& there, V* to) { take(there.wait(), to); });
      std::swap(sum_, started);  // nvcc takes an assignment for an unused result
    }
  }
  /// The sums; called at most once after each start().
  void wait(std::vector<V>& values) {
    values.resize(n_);
    if (travels_) sum_.wait(values.data());
    else take_(dots_.wait(), values.data());
  }

 private:
  exec::PendingDots<T, M> dots_;
  std::vector<V> own_;
  Take take_{};
  std::size_t n_ = 0;
  bool travels_ = false;
  comm::PendingSum sum_;
};

}  // namespace tacit::krylov
