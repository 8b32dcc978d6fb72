// Team: the threads that work on one block of a kernel together.
//
// A kernel is a named functor, written once:
//
//   struct Kernel {
//     static constexpr int threads = 128;             // members of a team
//     struct Shared { double tile[128]; };            // shared memory of the team, uninitialised
//     template <Team T> TACIT_HD void operator()(T team, Shared& shared) const;
//   };
// and runs three ways: launch_serial (one host thread executes a whole team; threads share the blocks), launch_threads
// (a real thread for every member, so that the race checker reports missing barriers, which a serial run does not show)
// and launch_cuda (cuda.hpp). Every member of a team calls barrier(), sum() and lanes().sum() together, in one order.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/caught.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/exec/sums.hpp>

#include <atomic>
#include <barrier>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

// On the device, loops over arrays in registers must be unrolled, else the arrays are placed in local memory.
#ifdef __CUDA_ARCH__
#define TACIT_UNROLL _Pragma("unroll")
#define TACIT_UNROLL_BY(n) TACIT_PRAGMA(unroll n)
#define TACIT_PRAGMA(text) _Pragma(#text)
#else
#define TACIT_UNROLL
#define TACIT_UNROLL_BY(n)
#endif

namespace tacit::exec {

/// threads: members of a team. rank(): this member, from 0. block(): the block of work, from 0.
/// barrier(): waits for all members, which then see what the others wrote before it.
/// sum(v): v summed over the team, returned to every member. lanes<W>(): the team divided into groups of W neighbours.
/// copy<B>(to, from): starts to copy B = 4, 8 or 16 bytes, aligned to B, to shared memory. close_copies(): makes the
/// copies that this member has started since the last call a group, which may be empty. await_copies<N>(): waits until
/// at most the N latest groups of this member are in flight; other members see the copies after a later barrier.
template <class T>
concept Team = requires(const T team, double v) {
  { T::threads } -> std::convertible_to<int>;
  { team.rank() } -> std::convertible_to<int>;
  { team.block() } -> std::convertible_to<Global>;
  team.barrier();
  team.template copy<4>(static_cast<void*>(nullptr), static_cast<const void*>(nullptr));
  team.close_copies();
  team.template await_copies<0>();
  { team.sum(v) } -> std::same_as<double>;
  { team.template lanes<1>().sum(v) } -> std::same_as<double>;
};

template <class V>
TACIT_HD void add_to(V& a, const V& b) {
  a += b;
}
template <int K, class T>
TACIT_HD void add_to(Sums<K, T>& a, const Sums<K, T>& b) {
  TACIT_UNROLL
  for (int k = 0; k < K; ++k) a[k] += b[k];
}

/// A team's groups of `width` neighbours. W is a power of two that divides the team; where the team has one thread,
/// that thread is a group of width 1: kernels step by width and groups, never by W.
template <int W, class T>
class Lanes {
 public:
  static constexpr int width = T::threads == 1 ? 1 : W;
  static constexpr int groups = T::threads / width;
  static_assert((W & (W - 1)) == 0 && T::threads % width == 0, "a group is a power of two that divides the team");
  TACIT_HD explicit Lanes(const T& team) : team_(team) {}
  TACIT_HD int lane() const { return team_.rank() % width; }
  TACIT_HD int group() const { return team_.rank() / width; }
  /// v summed over this member's group, pairwise with the halves first, returned to every lane. The whole team calls
  /// it.
  template <class V>
  TACIT_HD V sum(const V& v) const {
    if constexpr (width == 1) return v;
    else return team_.template sum_lanes<width>(v);
  }

 private:
  T team_;
};

/// A team of one thread.
class SerialTeam {
 public:
  static constexpr int threads = 1;
  explicit SerialTeam(Global block) : block_(block) {}
  int rank() const { return 0; }
  Global block() const { return block_; }
  void barrier() const {}
  template <int Bytes>
  void copy(void* to, const void* from) const {
    std::memcpy(to, from, Bytes);
  }
  void close_copies() const {}
  template <int Groups>
  void await_copies() const {}
  template <class V>
  V sum(const V& v) const {
    return v;
  }
  template <int W>
  Lanes<W, SerialTeam> lanes() const {
    return Lanes<W, SerialTeam>(*this);
  }

 private:
  Global block_;
};

/// N threads with a barrier. Sums are formed in the GPU's order: within warps of 32, then warp by warp.
template <int N>
class ThreadTeam {
 public:
  static constexpr int threads = N;
  static constexpr int warp = N < 32 ? N : 32;
  static constexpr std::size_t slot_bytes = 1024;
  static_assert(N % warp == 0);
  struct Common {
    std::barrier<> barrier{N};
    struct Slot {
      alignas(16) std::byte bytes[slot_bytes];
    };
    std::vector<Slot> slots{static_cast<std::size_t>(N)};
    // Copies in flight: executed only when they are waited for, so that a kernel that reads too early gets wrong
    // values.
    struct Copy {
      void* to;
      const void* from;
      int bytes;
    };
    struct Copies {
      std::vector<Copy> open;
      std::deque<std::vector<Copy>> groups;
    };
    std::vector<Copies> copies{static_cast<std::size_t>(N)};
  };

  ThreadTeam(Global block, int rank, Common& common) : block_(block), rank_(rank), common_(&common) {}
  int rank() const { return rank_; }
  Global block() const { return block_; }
  void barrier() const { common_->barrier.arrive_and_wait(); }
  template <int Bytes>
  void copy(void* to, const void* from) const {
    own_copies().open.push_back({to, from, Bytes});
  }
  void close_copies() const {
    auto& own = own_copies();
    own.groups.push_back(std::move(own.open));
    own.open.clear();
  }
  template <int Groups>
  void await_copies() const {
    auto& groups = own_copies().groups;
    for (; groups.size() > std::size_t(Groups); groups.pop_front())
      for (const auto& c : groups.front()) std::memcpy(c.to, c.from, std::size_t(c.bytes));
  }
  /// Drops copies that a block left in flight.
  void forget_copies() const { own_copies() = {}; }
  template <class V>
  V sum(const V& v) const {
    put(v);
    barrier();
    V total = tree<warp, V>(0);
    for (int first = warp; first < N; first += warp) add_to(total, tree<warp, V>(first));
    barrier();
    return total;
  }
  template <int W>
  Lanes<W, ThreadTeam> lanes() const {
    return Lanes<W, ThreadTeam>(*this);
  }
  template <int W, class V>
  V sum_lanes(const V& v) const {
    put(v);
    barrier();
    const V total = tree<W, V>(rank_ / W * W);
    barrier();
    return total;
  }

 private:
  template <class V>
  void put(const V& v) const {
    static_assert(sizeof(V) <= slot_bytes && std::is_trivially_copyable_v<V>);
    std::memcpy(common_->slots[rank_].bytes, &v, sizeof(V));
  }
  template <int W, class V>
  V tree(int first) const {
    V part[W];
    for (int i = 0; i < W; ++i) std::memcpy(&part[i], common_->slots[first + i].bytes, sizeof(V));
    for (int half = W / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) add_to(part[i], part[i + half]);
    return part[0];
  }
  typename Common::Copies& own_copies() const { return common_->copies[std::size_t(rank_)]; }
  Global block_;
  int rank_;
  Common* common_;
};

/// Calls f(i) for the i in [0, Items) that are this member's. With as many items as members, that is f(rank()).
template <int Items, class T, class F>
TACIT_HD void for_items(const T& team, F&& f) {
  if constexpr (T::threads == Items) {
    f(team.rank());
  } else {
    for (int i = team.rank(); i < Items; i += T::threads) f(i);
  }
}

/// Values that a member keeps across barriers for each of its items, numbered from 0 in the order of for_items:
/// registers on the GPU, a small array where one thread executes several members.
template <class V, int Items, class T>
struct PerItem {
  static constexpr int count = (Items + T::threads - 1) / T::threads;
  V v[count] = {};
  TACIT_HD V& operator[](int own) { return v[own]; }
  TACIT_HD const V& operator[](int own) const { return v[own]; }
};

/// W neighbouring values that are loaded and stored together, through pointers aligned to their total size. W = 0: one
/// value with the alignment of T, which for complex T is half of its size.
template <class T, int W>
struct alignas(W == 0 ? alignof(T) : W * sizeof(T)) Packet {
  static constexpr int count = W == 0 ? 1 : W;
  T v[count];
  // Calls of members, because sanitizers check the alignment of these and not that of copies.
  TACIT_HD static Packet load(const T* p) { return reinterpret_cast<const Packet*>(p)->get(); }
  TACIT_HD void store(T* p) const { reinterpret_cast<Packet*>(p)->set(*this); }

 private:
  TACIT_HD Packet get() const { return *this; }
  TACIT_HD void set(const Packet& other) { *this = other; }
};
/// The number of T in the widest load of the GPU, 16 bytes.
template <class T>
inline constexpr int packet_width = 16 / sizeof(T);
/// Whether packets of W values can be loaded from p.
template <int W, class T>
bool is_aligned(const T* p) {
  return reinterpret_cast<std::uintptr_t>(p) % alignof(Packet<T, W>) == 0;
}

/// Atomic a += v (for complex: one for each part). The last bits of such sums depend on timing.
template <class T>
TACIT_HD void atomic_add(T* a, const T& v) {
  if constexpr (is_complex<T>) {
    auto* parts = reinterpret_cast<real_t<T>*>(a);
    atomic_add(parts, v.real());
    atomic_add(parts + 1, v.imag());
  } else {
#ifdef __CUDA_ARCH__
    atomicAdd(a, v);
#else
    std::atomic_ref<T>(*a).fetch_add(v, std::memory_order_relaxed);
#endif
  }
}

/// Runs the kernel on every block in [0, blocks), each by one host thread; threads share the blocks. An exception of
/// the kernel is rethrown when all threads have returned.
template <class Kernel>
void launch_serial(Global blocks, const Kernel& kernel) {
  parallel_claims(std::size_t(blocks), by_shares, true, [&](Claims& claims) {
    const auto shared = std::make_unique_for_overwrite<typename Kernel::Shared>();
    claims.each([&](std::size_t block) { kernel(SerialTeam(Global(block)), *shared); });
  });
}

namespace detail {
/// Calls member(team, rank) for every member of `teams` teams, each on a thread of its own, and left(team) after a
/// member that has thrown. The exception is rethrown when all have returned.
void run_members(Global teams, int members, const std::function<void(Global, int)>& member,
                 const std::function<void(Global)>& left);
}  // namespace detail

/// Runs the kernel with a real thread for every member of a team, and two teams at a time without any order between
/// them, as on the GPU. For tests under a race checker: slow. Shared memory is filled with 0xff (NaN) before each
/// block. A member that throws leaves its team, which goes on without it; the error is rethrown when all have returned.
template <class Kernel>
void launch_threads(Global blocks, const Kernel& kernel) {
  constexpr int N = Kernel::threads;
  constexpr Global teams = 2;
  using Shared = typename Kernel::Shared;
  static_assert(std::is_trivially_copyable_v<Shared>);
  struct Side {
    typename ThreadTeam<N>::Common common;
    std::unique_ptr<Shared> shared = std::make_unique_for_overwrite<Shared>();
  };
  std::unique_ptr<Side> sides[teams];
  const Global count = blocks < teams ? blocks : teams;
  for (Global first = 0; first < count; ++first) sides[first] = std::make_unique<Side>();
  const auto member = [&](Global first, int rank) {
    Side& side = *sides[first];
    for (Global block = first; block < blocks; block += teams) {
      if (rank == 0) std::memset(static_cast<void*>(side.shared.get()), 0xff, sizeof(Shared));
      const ThreadTeam<N> team(block, rank, side.common);
      team.barrier();
      kernel(team, *side.shared);
      team.forget_copies();
      team.barrier();
    }
  };
  detail::run_members(count, N, member, [&](Global first) { sides[first]->common.barrier.arrive_and_drop(); });
}

}  // namespace tacit::exec
