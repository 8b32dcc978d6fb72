// sweep: one pass over vectors that reads, updates and writes what it declares, and may return sums.
//
//   auto [rr] = sweep(reads(v), updates(x, r), writes(), Step<T>{alpha});
//
// A formula is a named functor, a template on exactly one scalar type (the device version is made by exchanging that
// type). It takes one value of each read vector, then references to the elements of updated and written ones, in the
// order declared, and returns Sums<K, T> or nothing. It is a pure function and can be tested with numbers. The three
// lists are the whole memory traffic of the pass: bytes = n (reads + 2 updates + writes) sizeof(T).
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/base/types.hpp>
#include <tacit/exec/memory.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/exec/sums.hpp>
#include <tacit/exec/tasks.hpp>

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tacit::exec {

template <class... V>
struct Reads {
  std::tuple<V...> v;
};
template <class... V>
struct Updates {
  std::tuple<V...> v;
};
template <class... V>
struct Writes {
  std::tuple<V...> v;
};

/// Anything with data(), size(), scalar and memory becomes a view of its elements.
template <class V>
auto view_of(const V& v) {
  return View<const typename V::scalar, typename V::memory>(v.data(), v.size());
}
template <class T, Memory M>
auto view_of(const View<T, M>& v) {  // elements can be written through a const view
  return v;
}
template <class V>
auto view_of(V& v) {
  return View<std::remove_pointer_t<decltype(v.data())>, typename V::memory>(v.data(), v.size());
}
/// Vectors of a group of devices make their views themselves.
template <class V>
requires(is_group<typename V::memory>) auto view_of(const V& v) {
  return v.own();
}
template <class V>
requires(is_group<typename V::memory>) auto view_of(V& v) {
  return v.own();
}
template <class T, Memory M>
struct Parts;  // group.hpp
/// v as an updated vector of a sweep with sums, of which each device of a group updates its part only: cheaper where no
/// product reads v soon. On other memories the vector itself.
template <class V>
auto parts(V& v) {
  if constexpr (is_group<typename V::memory>) return Parts(v.own());
  else return view_of(v);
}
template <class... V>
auto reads(const V&... v) {
  return Reads<decltype(view_of(v))...>{{view_of(v)...}};
}
template <class... V>
auto updates(V&&... v) {
  return Updates<decltype(view_of(v))...>{{view_of(v)...}};
}
template <class... V>
auto writes(V&&... v) {
  return Writes<decltype(view_of(v))...>{{view_of(v)...}};
}

namespace detail {

// The order of summation depends on n only: lanes inside a chunk, then chunks from first to last. So any number of
// threads gives the same bits.
inline constexpr std::size_t chunk_elements = 2048;
inline constexpr int lanes = 8;
// Shorter vectors are swept by one thread: waking a team costs a few microseconds.
inline constexpr std::size_t parallel_from = 8 * chunk_elements;

template <class F, class... R, class... U, class... W, std::size_t... r, std::size_t... u, std::size_t... w>
inline auto at(std::size_t i, const F& f, const Reads<R...>& in, const Updates<U...>& io, const Writes<W...>& out,
               std::index_sequence<r...>, std::index_sequence<u...>, std::index_sequence<w...>) {
  // Everything is loaded before anything is stored, so that possible aliasing does not prevent vectorisation.
  std::tuple<typename R::scalar...> a{std::get<r>(in.v).data()[i]...};
  std::tuple<typename U::scalar...> b{std::get<u>(io.v).data()[i]...};
  std::tuple<typename W::scalar...> c{};
  const auto store = [&] {
    ((std::get<u>(io.v).data()[i] = std::get<u>(b)), ...);
    ((std::get<w>(out.v).data()[i] = std::get<w>(c)), ...);
  };
  if constexpr (std::is_void_v<decltype(f(std::get<r>(a)..., std::get<u>(b)..., std::get<w>(c)...))>) {
    f(std::get<r>(a)..., std::get<u>(b)..., std::get<w>(c)...);
    store();
  } else {
    const auto sum = f(std::get<r>(a)..., std::get<u>(b)..., std::get<w>(c)...);
    store();
    return sum;
  }
}

template <class Tuple>
void same_size(std::size_t& n, bool& first, const Tuple& views) {
  std::apply(
      [&](const auto&... v) {
        (
            [&] {
              if (first) n = v.size(), first = false;
              else require(v.size() == n, "sweep over vectors of ", n, " and of ", v.size(), " elements");
            }(),
            ...);
      },
      views);
}

/// The memory traffic of a sweep over n elements.
template <class... R, class... U, class... W>
std::int64_t sweep_bytes(std::size_t n, const Reads<R...>&, const Updates<U...>&, const Writes<W...>&) {
  constexpr std::size_t each = (0 + ... + sizeof(typename R::scalar)) + (0 + ... + (2 * sizeof(typename U::scalar))) +
                               (0 + ... + sizeof(typename W::scalar));
  return std::int64_t(n * each);
}

/// What a sweep reads and writes.
template <class... R, class... U, class... W>
auto touched(const Reads<R...>& in, const Updates<U...>& io, const Writes<W...>& out) {
  return std::apply(
      [&](const auto&... r) {
        return std::apply(
            [&](const auto&... u) {
              return std::apply(
                  [&](const auto&... w) {
                    return std::array<Touched, sizeof...(R) + sizeof...(U) + sizeof...(W)>{
                        Touched::read(r.data())..., Touched::write(u.data())..., Touched::write(w.data())...};
                  },
                  out.v);
            },
            io.v);
      },
      in.v);
}

/// The elements [begin, end) of a sweep without sums: compiled once for all engines, because a compiler may round two
/// copies of a loop differently (gcc 12 fuses complex products and sums where it vectorises them, also under
/// -ffp-contract=off).
template <class F, class... R, class... U, class... W>
[[gnu::noinline]] void elements(std::size_t begin, std::size_t end, const F& f, const Reads<R...>& in,
                                const Updates<U...>& io, const Writes<W...>& out) {
#pragma GCC ivdep  // not "omp simd": an exception cannot leave such a loop
  for (std::size_t i = begin; i < end; ++i)
    at(i, f, in, io, out, std::index_sequence_for<R...>{}, std::index_sequence_for<U...>{},
       std::index_sequence_for<W...>{});
}

template <class F, class... R, class... U, class... W>
auto host_sweep(std::size_t n, const Reads<R...>& in, const Updates<U...>& io, const Writes<W...>& out, const F& f) {
  const auto element = [&](std::size_t i) {
    return at(i, f, in, io, out, std::index_sequence_for<R...>{}, std::index_sequence_for<U...>{},
              std::index_sequence_for<W...>{});
  };
  using Result = decltype(element(0));
  if constexpr (std::is_void_v<Result>) {
    const auto chunks_within = [](const auto& f, const auto& in, const auto& io, const auto& out, std::size_t begin,
                                  std::size_t end) {
      for (std::size_t b = begin; b < end; b += chunk_elements)
        elements(b, b + chunk_elements < end ? b + chunk_elements : end, f, in, io, out);
    };
    if (auto* const tasks = Tasks::current()) {
      tasks->start("sweep", n, touched(in, io, out),
                   [=](std::size_t begin, std::size_t end) { chunks_within(f, in, io, out, begin, end); });
      return;
    }
    const std::size_t chunks = (n + chunk_elements - 1) / chunk_elements;
    parallel_for(chunks, n > parallel_from, [&](std::size_t c) {
      const std::size_t begin = c * chunk_elements, end = begin + chunk_elements < n ? begin + chunk_elements : n;
      elements(begin, end, f, in, io, out);
    });
  } else {
    using T = typename Result::scalar;
    constexpr int K = Result::count;
    const std::size_t chunks = (n + chunk_elements - 1) / chunk_elements;
    // Kept between sweeps of this thread, so that a loop of sweeps does not allocate.
    static thread_local std::vector<T> partial_store;
    if (partial_store.size() < chunks * K) partial_store.resize(chunks * K);
    T* const partial = partial_store.data();
    const auto chunk = [&](std::size_t c) __attribute__((noinline)) {  // compiled once for all engines, as elements()
      T acc[K][lanes] = {};
      const std::size_t begin = c * chunk_elements, end = begin + chunk_elements < n ? begin + chunk_elements : n;
      const std::size_t full = begin + (end - begin) / lanes * lanes;
      for (std::size_t i = begin; i < full; i += lanes) {
#pragma GCC ivdep
        for (int l = 0; l < lanes; ++l) {
          const Result s = element(i + l);
          for (int k = 0; k < K; ++k) acc[k][l] += s[k];
        }
      }
      for (std::size_t i = full; i < end; ++i) {
        const Result s = element(i);
        for (int k = 0; k < K; ++k) acc[k][i - full] += s[k];
      }
      for (int k = 0; k < K; ++k) {
        T sum{};
        for (int l = 0; l < lanes; ++l) sum += acc[k][l];
        partial[c * K + k] = sum;
      }
    };
    if (auto* const tasks = Tasks::current()) {
      tasks->finish("sweep", n, touched(in, io, out), [&](std::size_t begin, std::size_t end) {
        for (std::size_t c = begin / chunk_elements; c * chunk_elements < end; ++c) chunk(c);
      });
    } else {
      parallel_for(chunks, n > parallel_from, chunk);
    }
    Result total;
    for (std::size_t c = 0; c < chunks; ++c)
      for (int k = 0; k < K; ++k) total[k] += partial[c * K + k];
    return total;
  }
}

template <class... V>
struct memory_of {
  using type = Host;
};
template <class First, class... Rest>
struct memory_of<First, Rest...> {
  using type = typename First::memory;
  static_assert((std::same_as<type, typename Rest::memory> && ...), "a sweep's vectors live in one memory space");
};

}  // namespace detail

#ifdef __CUDACC__
template <class F, class... R, class... U, class... W>
auto start_device_sweep(std::size_t n, const Reads<R...>&, const Updates<U...>&, const Writes<W...>&, const F&);
#endif
template <class F, class... R, class... U, class... W>
auto group_sweep(std::size_t n, const Reads<R...>&, const Updates<U...>&, const Writes<W...>&, const F&);  // group.hpp

/// Applies f to every element; returns the sums over this rank's elements if f returns Sums, else nothing.
/// Local. One pass over memory. Sums have the same bits for any number of threads. On devices they are pending, to be
/// waited for (SumsIn; group.hpp). Error(usage) when the vectors differ in size. An exception of f is rethrown
/// when all threads have returned; updated and written vectors are unspecified then. Under the task engine a sweep
/// without sums rethrows it from a later kernel.
template <class F, class... R, class... U, class... W>
auto sweep(const Reads<R...>& in, const Updates<U...>& io, const Writes<W...>& out, const F& f) {
  std::size_t n = 0;
  bool first = true;
  detail::same_size(n, first, in.v);
  detail::same_size(n, first, io.v);
  detail::same_size(n, first, out.v);
  using M = typename detail::memory_of<R..., U..., W...>::type;
  if constexpr (is_group<M>) {
    return group_sweep(n, in, io, out, f);
  } else {
    const Span span("sweep", "exec", detail::sweep_bytes(n, in, io, out));
    if constexpr (std::same_as<M, Host>) {
      return detail::host_sweep(n, in, io, out, f);
    } else {
#ifdef __CUDACC__
      return start_device_sweep(n, in, io, out, f);
#else
      static_assert(std::same_as<M, Host>, "sweeps over device vectors are compiled by nvcc");
#endif
    }
  }
}

}  // namespace tacit::exec

#ifdef __CUDACC__
#include <tacit/exec/sweep.cuh>
#endif
