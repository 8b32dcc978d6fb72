// Communicator: a group of ranks with its reductions, halo exchanges and error agreement. Operations are non-blocking.
//
// start_sum() starts a reduction and wait() completes it; many may be in flight, and poll(), called from compute loops,
// advances all of them. Reductions use recursive doubling with a fixed order of additions, so every rank gets the same
// bits; the transport's own all-reduce can be chosen instead. A rank that throws inside comm::collective makes every
// rank throw the same Error.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/base/types.hpp>
#include <tacit/comm/agreement/failure.hpp>
#include <tacit/comm/collective/sums.hpp>
#include <tacit/comm/topology.hpp>
#include <tacit/comm/transport.hpp>
#include <tacit/comm/turn.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace tacit {
class VirtualClock;
}

namespace tacit::comm {

/// Operations of this rank since the communicator was made.
struct Counters {
  std::int64_t reductions = 0;        ///< all-reduces started (set-up and agreement not counted)
  std::int64_t reduction_values = 0;  ///< real numbers in them
  std::int64_t exchanges = 0;         ///< halo exchanges started
  std::int64_t messages = 0;          ///< messages sent by exchanges and as mail
  std::int64_t bytes = 0;             ///< bytes in them
  friend Counters operator-(Counters a, const Counters& b) {
    return {a.reductions - b.reductions, a.reduction_values - b.reduction_values, a.exchanges - b.exchanges,
            a.messages - b.messages, a.bytes - b.bytes};
  }
};

/// The mechanism that carries halo exchanges. All deliver the same bits.
enum class Path {
  automatic,   ///< messages at first; from the 65th exchange the fastest of messages, persistent, shared and gather
  messages,    ///< one send and one receive for each neighbour
  persistent,  ///< the same by persistent requests, set up once
  neighbour,   ///< one neighbourhood collective call (MPI only)
  put,         ///< one-sided write into the neighbour's window, then a flag (MPI RMA; between threads, memory)
  shared,  ///< within a node: packed, copied into the neighbour's shared memory, then a flag; between nodes, messages
  gather,  ///< within a node: a flag, then the neighbour reads this rank's vector in place; between nodes, messages
  gaspi    ///< one-sided write with a notification (needs a build with a GASPI library)
};
Path path_of(std::string_view name);
const char* to_string(Path path);
std::vector<std::string> path_names();

class Exchange;
namespace detail {
class Route;
}

class Communicator {
 public:
  /// One rank, no messages.
  static Communicator self();
  /// Over the given transport. Collective over its ranks.
  explicit Communicator(std::shared_ptr<Transport> transport);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const char* kind() const;
  /// Whether threads of this rank may wait for messages and for each other. False for simulated ranks, which share one
  /// thread: a loop over threads must not wait there, and no thread schedule can be faster than another.
  bool has_threads() const noexcept;
  /// The virtual clock of a simulated rank, advanced by the costs that kernels declare; null where time is real.
  const VirtualClock* clock() const noexcept;
  /// Whether both are one communicator, or both the only rank of one (and not simulated).
  friend bool operator==(const Communicator& a, const Communicator& b) {
    return a.state_ == b.state_ || (a.size_ == 1 && b.size_ == 1 && a.has_threads() && b.has_threads());
  }
  /// Makes threads take one turn at both, which objects of both need that are used together (turn.hpp). Only for two
  /// of one rank; does nothing otherwise. Waits for other threads' turns.
  void join(const Communicator& other) const;

  /// A communicator of the same ranks with its own messages and counters. Collective. PeerFailure if a rank has failed
  /// before.
  Communicator duplicate() const;

  /// The algorithm of reductions; the same choice on all ranks. Default: recursive doubling, which is also used
  /// permanently after a failure. SumAlgorithm::native applies to sums only: the maximum of an MPI library may drop a
  /// NaN.
  void use(SumAlgorithm algorithm) const;

  /// The path of exchanges opened from now on; the same choice on all ranks. Default: automatic. The next exchange
  /// throws Error(environment) on all ranks where the path is not available.
  void use(Path path) const;
  Path path() const;
  /// The groups of ranks that share a node, socket or NUMA domain: as set by use(), else detected at the first call
  /// (which is collective). Shared-memory paths are used within its nodes.
  const Topology& topology() const;
  /// Sets the topology; the same on all ranks. Error(usage) when its number of ranks differs.
  void use(const Topology& topology) const;

  /// Starts the all-reduce of n values of T (float, double, complex<float>, complex<double> or Global); copies
  /// `values`. Collective: every rank starts the same reductions in the same order. One reduction. Blocks only when a
  /// reduction started 512 earlier is still in flight.
  template <detail::Summable T>
  PendingSum start_sum(const T* values, std::size_t n, Operation operation = Operation::sum) const {
    return start(values, n * (sizeof(T) / sizeof(real_or_self_t<T>)), detail::number_of<T>(), operation, true);
  }
  /// The same of n values of T that this rank is still computing; other ranks may have theirs. The reduction takes
  /// its place among the others now; its messages start when this rank advances its reductions (in poll(), in waits, on
  /// a progress thread) and values->ready(), at the latest in wait(), which waits for the values. On one rank waits for
  /// them here.
  template <detail::Summable T>
  PendingSum start_sum(std::shared_ptr<PendingValues> values, std::size_t n,
                       Operation operation = Operation::sum) const {
    return start(std::move(values), n * (sizeof(T) / sizeof(real_or_self_t<T>)), detail::number_of<T>(), operation);
  }
  template <int K, class T>
  PendingSums<K, T> sum(const exec::Sums<K, T>& local) const {
    if (size_ == 1) return count_local_sum(K * sizeof(T) / sizeof(real_t<T>)), PendingSums<K, T>(local);
    return PendingSums<K, T>(start_sum(local.v, K));
  }

  /// Counts a reduction of so many real numbers that one rank does without starting it. Local.
  void count_local_sum(std::size_t values) const;

  /// Advances every pending reduction and message of this communicator. Cheap when nothing is pending. Does not throw:
  /// errors are thrown by the next wait. Any thread of a loop may call it; it acts only on the rank's own thread (the
  /// one that starts reductions and messages).
  void poll() const {
    if (size_ > 1) progress();
  }

  /// Starts a progress thread, which advances pending reductions and messages and sleeps when there are none. It ends
  /// when the returned pointer is released; null for one rank. It needs a core of its own. Local. Error(environment)
  /// where MPI was initialised with MPI_THREAD_SINGLE or FUNNELED. Tacit requests MPI_THREAD_SERIALIZED and serialises
  /// its own calls; a program that calls MPI itself meanwhile (in an operator, say) needs MPI_THREAD_MULTIPLE.
  [[nodiscard]] std::shared_ptr<void> start_engine() const;

  // Set-up: collective, blocking, not counted as reductions.
  Global all_sum(Global value) const { return reduce(value, Operation::sum); }
  Global all_max(Global value) const { return reduce(value, Operation::max); }
  Global all_min(Global value) const { return reduce(value, Operation::min); }
  double all_max(double value) const { return reduce(value, Operation::max); }
  double all_sum(double value) const { return reduce(value, Operation::sum); }
  /// Of each number, in no more messages than of one.
  void all_max(std::span<double> values) const;
  /// The sums of all but the last number, and the maximum of that one; in no more messages than of one.
  void all_sum_and_max(std::span<double> values) const;
  bool all(bool condition) const { return all_min(Global(condition)) == 1; }
  /// Rank r's bytes at position r, on every rank.
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> mine) const;
  template <class T>
  std::vector<T> all_gather(const T& value) const {
    std::vector<T> all;
    for (const auto& bytes : all_gather_bytes(std::as_bytes(std::span(&value, 1)))) append(all, bytes);
    return all;
  }
  /// The values of all ranks, concatenated in the order of ranks.
  template <class T>
  std::vector<T> all_gather(std::span<const T> values) const {
    std::vector<T> all;
    for (const auto& bytes : all_gather_bytes(std::as_bytes(values))) append(all, bytes);
    return all;
  }
  std::string broadcast(const std::string& text, int root) const;

  /// Sends bytes to some ranks, where receivers do not know their senders; returns what arrived, sorted by sender.
  /// Collective. Memory and messages grow with the number of partners (plus log P rounds that detect the end).
  struct Parcel {
    int rank;
    std::vector<std::byte> bytes;
  };
  std::vector<Parcel> sparse_exchange(const std::vector<Parcel>& parcels) const;

  Counters counters() const;

  /// Throws PeerFailure if the notice of another rank's failure has arrived.
  void check() const;
  /// Throws Error(interrupted) if the user has asked the process to stop. Cheap: it checks every 50 ms. Waits within a
  /// collective call do the same.
  void check_interrupt() const;

  /// Whether this rank is in a collective call on this communicator, whose end the ranks agree on. The same on all
  /// ranks.
  bool in_call() const;
  /// The agreement at the end of comm::collective: all ranks call it when nothing failed; throws PeerFailure if a rank
  /// failed.
  void agree() const;
  /// The same with four numbers of each rank: returns the least of each, in no more messages.
  std::array<Global, 4> agree(const std::array<Global, 4>& values) const;
  /// The same with numbers of each rank, which become those of all as in all_sum_and_max(), in no more messages.
  void agree(std::span<double> closing) const;
  /// The agreement before a transport call that cannot be cancelled: a rank that has entered it ignores failures on
  /// other communicators until it ends, so either all ranks go on to the call or none. Nothing that may fail may stand
  /// between this and the call.
  void meet() const;
  /// Sends notice of `error` to all ranks (or joins their agreement, after a PeerFailure), gives up what is pending,
  /// waits for all ranks, and throws the error of the lowest failing rank on every rank, out of the innermost
  /// collective call that all of them are in; calls nested in that one throw PeerFailure. A single rank rethrows the
  /// original.
  [[noreturn]] void fail(std::exception_ptr error) const;

  /// The last call of a rank, before its program or its thread's function ends: returns when all ranks have made it.
  /// Ranks that wait in another call meanwhile, which this one takes no part in, throw Error(environment) there.
  /// run_threads() and mpi_depart() call it.
  void depart() const;

  Transport& transport() const;

 private:
  friend class Exchange;
  friend class detail::Route;
  friend class Turn;
  explicit Communicator(std::shared_ptr<detail::State> state);
  template <class F>
  friend auto collective(const Communicator& comm, F&& f, std::span<double> closing) -> decltype(f());
  template <class F>
  friend std::array<Global, 4> collective_least(const Communicator& comm, F&& f);
  detail::Agreement& agreement() const;
  detail::Turns* take_turn() const;
  void leave() const;
  void all_least(std::span<std::int64_t> values) const;
  PendingSum start(const void* values, std::size_t n, Number number, Operation operation, bool counted) const;
  PendingSum start(std::shared_ptr<PendingValues> values, std::size_t n, Number number, Operation operation) const;
  PendingSum hold(detail::SumSlot& slot) const;
  void progress() const;
  Global reduce(Global value, Operation operation) const;
  double reduce(double value, Operation operation) const;
  template <class T>
  static void append(std::vector<T>& all, const std::vector<std::byte>& bytes) {
    const std::size_t n = all.size();
    all.resize(n + bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(all.data() + n, bytes.data(), bytes.size());
  }

  std::shared_ptr<detail::State> state_;
  int rank_ = 0, size_ = 1;
};

/// Runs f on every rank; if it throws on one, all ranks throw the same Error (after the latency of a message). Every
/// collective entry point of Tacit is wrapped in this. Calls may be nested, also with other communicators: an Error
/// that was agreed on another communicator counts as this rank's own error here. Costs one small all-reduce at the end.
/// Takes the thread's turn; its errors (turn.hpp) are thrown before f is called. `closing`: numbers that f leaves
/// there; they travel in that all-reduce and become those of all ranks, as in all_sum_and_max(). As many on all ranks.
template <class F>
auto collective(const Communicator& comm, F&& f, std::span<double> closing) -> decltype(f()) {
  const Turn turn(comm);
  const detail::Call call(comm.agreement());
  try {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      comm.agree(closing);
      comm.leave();
    } else {
      auto result = f();
      comm.agree(closing);
      comm.leave();
      return result;
    }
  } catch (...) {
    comm.fail(std::current_exception());
  }
}

template <class F>
auto collective(const Communicator& comm, F&& f) -> decltype(f()) {
  return collective(comm, std::forward<F>(f), std::span<double>());
}

/// The least over all ranks of each of the four numbers that f() returns; errors as of collective(), and no more
/// messages than it has: the numbers travel in the agreement at its end. With a checksum c of what all ranks must give
/// alike, -c and two further numbers, ranks learn whether they agree (the least of c is minus the least of -c).
template <class F>
std::array<Global, 4> collective_least(const Communicator& comm, F&& f) {
  const detail::Call call(comm.agreement());
  try {
    const auto least = comm.agree(f());
    comm.leave();
    return least;
  } catch (...) {
    comm.fail(std::current_exception());
  }
}

/// Runs f(communicator) on n ranks, each a thread; rethrows the exception of the lowest failing rank.
void run_threads(int n, const std::function<void(const Communicator&)>& f);

/// True if this build has MPI, or has loaded one.
bool mpi_built() noexcept;
/// In a build without MPI: takes the MPI whose library the process has loaded with global names (dlopen, RTLD_GLOBAL),
/// by this module (CMake's TACIT_MPI_MODULES) for its binary interface. Before the first call of one of the functions
/// below. Error(environment) where the module cannot be loaded or is of another Tacit.
void mpi_load(const std::string& module);
/// True if MPI is initialised in this process. The child of a fork() has its parent's MPI, which it cannot use: false.
bool mpi_initialized();
/// True if this process was started by mpiexec (or MPI is initialised already); false in the child of a fork().
bool mpi_launched();
/// All processes that mpiexec started; initialises MPI (and finalises it at exit) if the program has not. Collective.
/// Error(environment) in a build without MPI.
Communicator mpi_world();
/// Called before the process ends, while MPI works: makes Communicator::depart() of the first communicator that was
/// made over all processes, so that ranks that still wait for this one end, too. Does nothing where there is none, and
/// the second time. A program whose MPI Tacit has initialised calls it at exit by itself.
void mpi_depart() noexcept;
/// The communicator with this Fortran handle (mpi4py: comm.py2f()). Collective over it.
/// `library` is the caller's MPI library version (MPI_Get_library_version), "" to skip the check that it is the MPI
/// that Tacit uses.
Communicator mpi_from_fortran(int handle, const std::string& library = "");
/// "Open MPI 4.1.4", or "" without MPI.
std::string mpi_library();

}  // namespace tacit::comm
