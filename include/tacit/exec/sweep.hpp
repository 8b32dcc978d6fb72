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
#include <tacit/exec/pack.hpp>
#include <tacit/exec/sums.hpp>
#include <tacit/exec/tasks.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

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
  Pack<typename R::scalar...> a{{std::get<r>(in.v).data()[i]}...};
  Pack<typename U::scalar...> b{{std::get<u>(io.v).data()[i]}...};
  Pack<typename W::scalar...> c{};
  if constexpr (std::is_void_v<decltype(f(get<r>(a)..., get<u>(b)..., get<w>(c)...))>) {
    f(get<r>(a)..., get<u>(b)..., get<w>(c)...);
    ((std::get<u>(io.v).data()[i] = get<u>(b)), ...);
    ((std::get<w>(out.v).data()[i] = get<w>(c)), ...);
  } else {
    const auto sum = f(get<r>(a)..., get<u>(b)..., get<w>(c)...);
    ((std::get<u>(io.v).data()[i] = get<u>(b)), ...);
    ((std::get<w>(out.v).data()[i] = get<w>(c)), ...);
    return sum;
  }
}

[[noreturn]] void throw_sizes(std::size_t n, std::span<const std::size_t> sizes);

/// The common number of elements of the vectors of a sweep.
template <class... R, class... U, class... W>
std::size_t common_size(const Reads<R...>& in, const Updates<U...>& io, const Writes<W...>& out) {
  return std::apply(
      [&](const auto&... r) {
        return std::apply(
            [&](const auto&... u) {
              return std::apply(
                  [&](const auto&... w) {
                    const std::size_t sizes[] = {r.size()..., u.size()..., w.size()...};
                    if (((r.size() != sizes[0]) || ... || false) || ((u.size() != sizes[0]) || ... || false) ||
                        ((w.size() != sizes[0]) || ... || false))
                      throw_sizes(sizes[0], sizes);
                    return sizes[0];
                  },
                  out.v);
            },
            io.v);
      },
      in.v);
}

/// The memory traffic of a sweep over n elements.
template <class... R, class... U, class... W>
std::int64_t sweep_bytes(std::size_t n, const Reads<R...>&, const Updates<U...>&, const Writes<W...>&) {
  constexpr std::size_t each = (0 + ... + sizeof(typename R::scalar)) + (0 + ... + (2 * sizeof(typename U::scalar))) +
                               (0 + ... + sizeof(typename W::scalar));
  return std::int64_t(n * each);
}

/// A formula and the arrays to which a sweep applies it.
template <class F, class R, class U, class W>
struct Pass;
template <class F, class... R, class... U, class... W>
struct Pass<F, Reads<R...>, Updates<U...>, Writes<W...>> {
  static_assert(std::is_trivially_copy_constructible_v<F> && std::is_trivially_destructible_v<F>,
                "a formula is copied by its bytes");
  using Result =
      decltype(std::declval<const F&>()(std::declval<typename R::scalar&>()..., std::declval<typename U::scalar&>()...,
                                        std::declval<typename W::scalar&>()...));
  static constexpr std::size_t arrays = sizeof...(R) + sizeof...(U) + sizeof...(W);
  F f;
  Reads<R...> in;
  Updates<U...> io;
  Writes<W...> out;

  auto operator()(std::size_t i) const {
    return at(i, f, in, io, out, std::index_sequence_for<R...>{}, std::index_sequence_for<U...>{},
              std::index_sequence_for<W...>{});
  }

  /// What it reads and writes.
  static void touch(const void* of, Touched* to) {
    const Pass& pass = *static_cast<const Pass*>(of);
    std::apply([&](const auto&... v) { ((*to++ = Touched::read(v.data())), ...); }, pass.in.v);
    std::apply([&](const auto&... v) { ((*to++ = Touched::write(v.data())), ...); }, pass.io.v);
    std::apply([&](const auto&... v) { ((*to++ = Touched::write(v.data())), ...); }, pass.out.v);
  }
  /// The elements [begin, end) of a sweep without sums. Like sums() it is called by its address only, so that there is
  /// one copy for all engines: a compiler may round two copies of a loop differently (gcc 12 fuses complex products and
  /// sums where it vectorises them, also under -ffp-contract=off).
  [[gnu::flatten]] static void elements(const void* of, std::size_t begin, std::size_t end) {
    const Pass& pass = *static_cast<const Pass*>(of);
#pragma GCC ivdep  // not "omp simd": an exception cannot leave such a loop
    for (std::size_t i = begin; i < end; ++i) pass(i);
  }
  /// The sums over the elements [begin, end), a chunk or less.
  [[gnu::flatten]] static void sums(const void* of, std::size_t begin, std::size_t end, void* to) {
    using T = typename Result::scalar;
    constexpr int K = Result::count;
    constexpr std::make_integer_sequence<int, K> each;
    const Pass& pass = *static_cast<const Pass*>(of);
    T acc[K][lanes] = {};
    const std::size_t full = begin + (end - begin) / lanes * lanes;
    for (std::size_t i = begin; i < full; i += lanes) {
#ifndef __CUDACC__  // nvcc's reader does not know it, and warns
#pragma GCC unroll 1
#endif
#pragma GCC ivdep
      for (std::size_t l = 0; l < lanes; ++l) add(acc, l, pass(i + l), each);
    }
    for (std::size_t i = full; i < end; ++i) add(acc, i - full, pass(i), each);
    for (int k = 0; k < K; ++k) {
      T sum{};
      for (int l = 0; l < lanes; ++l) sum += acc[k][l];
      static_cast<T*>(to)[k] = sum;
    }
  }

 private:
  // Not a loop over k: a compiler that vectorises it waits for each sum to reach memory.
  template <class T, class S, int... k>
  static void add(T (&acc)[sizeof...(k)][lanes], std::size_t lane, const S& sums, std::integer_sequence<int, k...>) {
    ((acc[k][lane] += sums[k]), ...);
  }
};

/// What the engines know of a Pass, so that they are compiled once for all of them (src/exec/sweep.cpp).
struct AnyPass {
  const void* pass;
  std::size_t bytes, arrays;
  void (*touch)(const void* pass, Touched* to);
};
/// Calls elements(pass, begin, end) for the chunks of n elements.
void sweep_elements(std::size_t n, const AnyPass& any, void (*elements)(const void*, std::size_t, std::size_t));
/// Adds to total[k], k < count, the sums of the chunks of n elements, in order.
template <class T>
void sweep_sums(std::size_t n, const AnyPass& any, void (*sums)(const void*, std::size_t, std::size_t, void*),
                int count, T* total);

template <class F, class R, class U, class W>
auto host_sweep(std::size_t n, const R& in, const U& io, const W& out, const F& f) {
  using Made = Pass<F, R, U, W>;
  using Result = typename Made::Result;
  const Made pass{f, in, io, out};
  const AnyPass any{&pass, sizeof pass, Made::arrays, &Made::touch};
  if constexpr (std::is_void_v<Result>) {
    sweep_elements(n, any, &Made::elements);
  } else {
    Result total;
    sweep_sums(n, any, &Made::sums, Result::count, total.v);
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
  const std::size_t n = detail::common_size(in, io, out);
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
