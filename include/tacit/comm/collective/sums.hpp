// Pending reductions: started by a communicator, completed by wait().
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/comm/transport.hpp>
#include <tacit/exec/sums.hpp>

#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace tacit::comm {

enum class SumAlgorithm {
  doubling,  ///< recursive doubling over messages: fixed order of additions, log2(P) rounds advanced by poll()
  native     ///< the transport's own all-reduce (MPI_Iallreduce)
};

namespace detail {
struct State;
struct SumSlot;

template <class T>
concept Summable = std::same_as < real_or_self_t<T>,
float > || std::same_as<real_or_self_t<T>, double> || std::same_as<T, Global>;

template <Summable T>
constexpr Number number_of() {
  if constexpr (std::same_as<real_or_self_t<T>, float>) return Number::float32;
  else if constexpr (std::same_as<real_or_self_t<T>, double>) return Number::float64;
  else return Number::int64;
}

}  // namespace detail

/// A started all-reduce. Movable; its destructor waits (or gives up, after a failure of the communicator or while an
/// exception unwinds). After an agreed failure, test() and wait() of an older sum throw Error(usage) on all ranks.
class [[nodiscard]] PendingSum {
 public:
  PendingSum() = default;
  /// A completed sum of n values: of one rank, or over a replicated space.
  template <class T>
  PendingSum(const T* values, std::size_t n) : ready_(n * sizeof(T)) {
    if (n > 0) std::memcpy(ready_.data(), values, ready_.size());
  }
  PendingSum(PendingSum&& other) noexcept
      : state_(std::move(other.state_)), slot_(std::exchange(other.slot_, nullptr)), ready_(std::move(other.ready_)) {}
  PendingSum& operator=(PendingSum&& other) noexcept;
  ~PendingSum();
  bool test();
  /// Waits and copies the result to `values`, which holds as many bytes as the reduction.
  void wait(void* values);

 private:
  friend class Communicator;
  std::shared_ptr<detail::State> state_;
  detail::SumSlot* slot_ = nullptr;
  std::vector<std::byte> ready_;
};

/// A started all-reduce of K scalars; wait() gives their sums over all ranks, and may be called once.
template <int K, class T>
class [[nodiscard]] PendingSums {
 public:
  explicit PendingSums(const exec::Sums<K, T>& ready) : value_(ready) {}
  explicit PendingSums(PendingSum&& pending) : pending_(std::move(pending)), started_(true) {}
  bool test() { return !started_ || pending_.test(); }
  exec::Sums<K, T> wait() {
    if (started_) pending_.wait(&value_), started_ = false;
    return value_;
  }

 private:
  PendingSum pending_;
  exec::Sums<K, T> value_;
  bool started_ = false;
};

}  // namespace tacit::comm
