// Communicator: the ranks that work together. What is started here is pending until it is waited for.
//
// There is no blocking sum: start_sum() begins, wait() ends, any number may be in flight, and poll() pushes all of them
// on from inside compute loops. Sums use our own recursive doubling in a fixed order (the same bits on every rank, by
// construction), or the transport's own all-reduce on request.
// A rank that throws inside comm::collective makes every rank throw the same Error.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/base/types.hpp>
#include <tacit/comm/agreement/failure.hpp>
#include <tacit/comm/collective/sums.hpp>
#include <tacit/comm/topology.hpp>
#include <tacit/comm/transport.hpp>

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

/// What this rank has done since the communicator was made.
struct Counters {
  std::int64_t reductions = 0;        ///< all-reduces started (set-up and agreement not counted)
  std::int64_t reduction_values = 0;  ///< real numbers in them
  std::int64_t exchanges = 0;         ///< halo exchanges started
  std::int64_t messages = 0;          ///< messages sent by exchanges
  std::int64_t bytes = 0;             ///< bytes sent by exchanges
  friend Counters operator-(Counters a, const Counters& b) {
    return {a.reductions - b.reductions, a.reduction_values - b.reduction_values, a.exchanges - b.exchanges,
            a.messages - b.messages, a.bytes - b.bytes};
  }
};

/// How the messages of halo exchanges travel. All bring the same bits.
enum class Path {
  automatic,  ///< messages, until an exchange has been used often; then the fastest, measured, of messages, persistent,
              ///< shared
  messages,   ///< a send and a receive a neighbour
  persistent,  ///< the same, set up once
  neighbour,   ///< one neighbourhood collective (MPI only)
  put,         ///< written one-sidedly into the neighbour's window, then a flag (MPI's RMA; threads: memory)
  shared,      ///< on a node: packed, copied into the neighbour's shared memory, then a flag; off it, messages
  gather,      ///< on a node: a flag, then the neighbour reads this rank's vector where it stands; off it, messages
  gaspi        ///< written one-sidedly together with a notification (where Tacit was built with a GASPI library)
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
  /// Over a transport of your own; collective over its ranks.
  explicit Communicator(std::shared_ptr<Transport> transport);

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const char* kind() const;
  /// Whether threads of this rank may wait for messages and for each other. False where ranks take turns on one thread:
  /// a loop over threads must not wait then, and there is nothing to gain from a schedule by threads.
  bool has_threads() const noexcept;
  /// The clock that goes on by what kernels declare, and says what memory is worth; null where time is the machine's.
  const VirtualClock* clock() const noexcept;
  friend bool operator==(const Communicator& a, const Communicator& b) { return a.state_ == b.state_; }

  /// Same ranks, separate messages and counters. Collective; PeerFailure if a rank has failed before.
  Communicator duplicate() const;

  /// How sums travel; same choice on all ranks. Default: doubling, and after a failure for good. Native are only sums
  /// proper: a NaN need not win in a library's maximum.
  void use(SumAlgorithm algorithm) const;

  /// How exchanges travel from their next opening on; same choice on all ranks. Default: automatic.
  /// Error(environment), on all ranks, from the exchange that finds that the path does not exist here.
  void use(Path path) const;
  Path path() const;
  /// Who is near whom: detected at the first call (collective then), or what was given. Windows are used within its
  /// nodes.
  const Topology& topology() const;
  /// Same choice on all ranks. Error(usage) when it is of another number of ranks.
  void use(const Topology& topology) const;

  /// Starts the all-reduce of n values of T (float, double, their complex forms, or Global); `values` is copied.
  /// Collective in order: every rank starts the same sums in the same order. One reduction. Waits only where 512 later
  /// sums have been started and the one before them is still under way.
  template <detail::Summable T>
  PendingSum start_sum(const T* values, std::size_t n, Operation operation = Operation::sum) const {
    return start(values, n * (sizeof(T) / sizeof(real_or_self_t<T>)), detail::number_of<T>(), operation, true);
  }
  template <int K, class T>
  PendingSums<K, T> sum(const exec::Sums<K, T>& local) const {
    if (size_ == 1) return count_local_sum(K * sizeof(T) / sizeof(real_t<T>)), PendingSums<K, T>(local);
    return PendingSums<K, T>(start_sum(local.v, K));
  }

  /// Pushes every pending sum and message of this communicator on. Cheap when nothing is pending. Throws nothing: what
  /// goes wrong is thrown by the next wait. Does nothing on a thread that is not the rank's own (that which starts sums
  /// and messages): threads that help in a loop may call it.
  void poll() const {
    if (size_ > 1) progress();
  }

  /// Starts a thread that does nothing but push pending sums and messages on (and sleeps when there are none), for as
  /// long as what is returned lives; null for one rank. It needs a core of its own. Local.
  /// Error(environment) where MPI was initialised for one thread only. With MPI_THREAD_SERIALIZED, which Tacit asks
  /// for, all calls of Tacit take turns; a program that calls MPI by itself meanwhile (in an operator) needs
  /// MPI_THREAD_MULTIPLE.
  [[nodiscard]] std::shared_ptr<void> start_engine() const;

  // Set-up: collective, blocking, not counted as reductions.
  Global all_sum(Global value) const { return reduce(value, Operation::sum); }
  Global all_max(Global value) const { return reduce(value, Operation::max); }
  Global all_min(Global value) const { return reduce(value, Operation::min); }
  double all_max(double value) const { return reduce(value, Operation::max); }
  double all_sum(double value) const { return reduce(value, Operation::sum); }
  bool all(bool condition) const { return all_min(Global(condition)) == 1; }
  /// Rank r's bytes at position r, on every rank.
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> mine) const;
  template <class T>
  std::vector<T> all_gather(const T& value) const {
    std::vector<T> all;
    for (const auto& bytes : all_gather_bytes(std::as_bytes(std::span(&value, 1)))) append(all, bytes);
    return all;
  }
  /// Everybody's values one after the other, in the order of ranks.
  template <class T>
  std::vector<T> all_gather(std::span<const T> values) const {
    std::vector<T> all;
    for (const auto& bytes : all_gather_bytes(std::as_bytes(values))) append(all, bytes);
    return all;
  }
  std::string broadcast(const std::string& text, int root) const;

  /// Sends bytes to some ranks without anyone knowing who sends to it; returns what arrived, sorted by sender.
  /// Memory and messages grow with the number of partners only (plus log P rounds to agree on the end).
  struct Parcel {
    int rank;
    std::vector<std::byte> bytes;
  };
  std::vector<Parcel> sparse_exchange(const std::vector<Parcel>& parcels) const;

  Counters counters() const;

  /// Throws PeerFailure if a notice of another rank's failure has come.
  void check() const;
  /// Asks the process whether the user wants to stop; throws Error(interrupted) if so. Cheap: looks every 50 ms. Waits
  /// within a collective call do the same.
  void check_interrupt() const;

  /// All ranks come here in the normal case; throws PeerFailure instead if one failed. Ends comm::collective.
  void agree() const;
  /// The same, and whoever has come does not turn back, whatever happens on other communicators: before calls of the
  /// transport that cannot be left. Nothing that may fail stands between the two.
  void meet() const;
  /// Tells all ranks of `error` (or joins them, after a PeerFailure), gives up what is pending, waits until all are
  /// here, and throws on every rank the error of the lowest failing one, out of the innermost call that all of them are
  /// in; a PeerFailure where this call lies within that one. A single rank rethrows the original.
  [[noreturn]] void fail(std::exception_ptr error) const;

  Transport& transport() const;

 private:
  friend class Exchange;
  friend class detail::Route;
  explicit Communicator(std::shared_ptr<detail::State> state);
  template <class F>
  friend auto collective(const Communicator& comm, F&& f) -> decltype(f());
  detail::Agreement& agreement() const;
  void leave() const;
  void all_least(std::span<std::int64_t> values) const;
  PendingSum start(const void* values, std::size_t n, Number number, Operation operation, bool counted) const;
  void count_local_sum(std::size_t values) const;
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

/// Runs f on every rank; if it throws on any, all ranks throw the same Error (within the time of a message).
/// Every collective entry point of Tacit is wrapped in this; nesting is fine, also with other communicators: a failure
/// on one of them that was agreed upon is this rank's own error here. Costs one small all-reduce at the end.
template <class F>
auto collective(const Communicator& comm, F&& f) -> decltype(f()) {
  const detail::Call call(comm.agreement());
  try {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      comm.agree();
      comm.leave();
    } else {
      auto result = f();
      comm.agree();
      comm.leave();
      return result;
    }
  } catch (...) {
    comm.fail(std::current_exception());
  }
}

/// Runs f(communicator) on n threads, one a rank; rethrows what the lowest failing rank threw.
void run_threads(int n, const std::function<void(const Communicator&)>& f);

/// True if this build has MPI.
bool mpi_built() noexcept;
/// True if this process was started by mpiexec (or MPI is initialised already).
bool mpi_launched();
/// All processes that mpiexec started; initialises MPI (and ends it at exit) if nobody has. Collective.
/// Error(environment) in a build without MPI.
Communicator mpi_world();
/// Over the communicator with this Fortran handle (mpi4py: comm.py2f()); collective over it.
/// `library` is the caller's MPI library version (MPI_Get_library_version), "" to skip the check that both are one MPI.
Communicator mpi_from_fortran(int handle, const std::string& library = "");
/// "Open MPI 4.1.4", or "" without MPI.
std::string mpi_library();

}  // namespace tacit::comm
