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

/// This rank's values of a reduction that starts when they are there, such as sums that a device computes. The rank's
/// own and its progress thread (Communicator::start_engine) call these, one at a time, only the first wait(). They must
/// not use the communicator, and may throw: all ranks get the error, as that of a message.
class PendingValues {
 public:
  virtual ~PendingValues() = default;
  /// Whether the values are there. Does not wait.
  virtual bool ready() = 0;
  virtual void wait() = 0;
  /// Copies them. Called once, after ready() was true or wait() has returned.
  virtual void write(void* to) = 0;
};
/// Those that write(started, T*) gives of something with ready() and wait().
template <class T, class Started, class Write>
class StartedValues final : public PendingValues {
 public:
  StartedValues(Started started, Write write) : started_(std::move(started)), write_(std::move(write)) {}
  bool ready() override { return started_.ready(); }
  void wait() override { started_.wait(); }
  void write(void* to) override { write_(started_, static_cast<T*>(to)); }

 private:
  Started started_;
  Write write_;
};

class PendingSum;

/// Makes one all-reduce of the reductions that several computations of a rank start (krylov/columns.hpp). All ranks
/// start and wait for the same ones in the same order. A reduction is known by its ticket.
class MergedSums {
 public:
  /// Copies n values of T. Local.
  template <detail::Summable T>
  PendingSum start(const T* values, std::size_t n, Operation operation);
  virtual bool test(int ticket) = 0;
  /// Waits and copies the result to `values`; the ticket is then void. Collective.
  virtual void wait(int ticket, void* values) = 0;
  /// The result is not needed. Local.
  virtual void drop(int ticket) noexcept = 0;

 protected:
  ~MergedSums() = default;
  /// n numbers; returns the ticket.
  virtual int take(const void* values, std::size_t n, Number number, Operation operation) = 0;
};

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
  /// A part of a merged reduction.
  PendingSum(MergedSums& merged, int ticket) : merged_(&merged), ticket_(ticket) {}
  PendingSum(PendingSum&& other) noexcept
      : state_(std::move(other.state_)),
        slot_(std::exchange(other.slot_, nullptr)),
        ready_(std::move(other.ready_)),
        merged_(std::exchange(other.merged_, nullptr)),
        ticket_(other.ticket_) {}
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
  MergedSums* merged_ = nullptr;
  int ticket_ = 0;
};

template <detail::Summable T>
PendingSum MergedSums::start(const T* values, std::size_t n, Operation operation) {
  return {*this, take(values, n * (sizeof(T) / sizeof(real_or_self_t<T>)), detail::number_of<T>(), operation)};
}

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
