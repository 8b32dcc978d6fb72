// Vectors (gcc's vector_size) that fit a register of the processor that is compiled for. gcc 12 keeps longer ones in
// memory, and reads them back in other sizes than it has written, which waits for the stores: loops over rows of 64
// bytes take them in parts of this size.
#pragma once

#include "base/lanes.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

namespace tacit {

#if defined(__AVX512F__)
inline constexpr int register_bytes = 64;
#elif defined(__AVX__)
inline constexpr int register_bytes = 32;
#else
inline constexpr int register_bytes = 16;
#endif

/// `count` numbers as registers: part[i] has `lanes` of them, at most `most`. Loops over parts are to be unrolled.
/// Operators act lane by lane, also with a number or a vector in the place of every part.
template <class T, int count, int most = register_bytes / int(sizeof(T))>
struct Registers {
  static constexpr int lanes = std::min(count, most), parts = count / lanes;
  static_assert(count % lanes == 0);
  typedef T V __attribute__((vector_size(lanes * sizeof(T))));
  V part[parts] = {};

  [[gnu::always_inline]] static V load(const T* from, int i) {
    V v;
    std::memcpy(&v, from + i * lanes, sizeof v);
    return v;
  }
  [[gnu::always_inline]] static Registers load(const T* from) {
    return each([&](int i) __attribute__((always_inline)) { return load(from, i); });
  }
  [[gnu::always_inline]] void store(T* to) const {
#pragma GCC unroll 8
    for (int i = 0; i < parts; ++i) std::memcpy(to + i * lanes, &part[i], sizeof(V));
  }
  /// Part i is f(i).
  template <class F>
  [[gnu::always_inline]] static Registers each(F&& f) {
    return [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
      return Registers{{f(i)...}};
    }
    (std::make_integer_sequence<int, parts>{});
  }
  /// Lane l is f(l).
  template <class F>
  [[gnu::always_inline]] static Registers each_lane(F&& f) {
    return each([&](int i) __attribute__((always_inline)) {
      return [&]<int... l>(std::integer_sequence<int, l...>) __attribute__((always_inline)) {
        return V{T(f(i * lanes + l))...};
      }
      (std::make_integer_sequence<int, lanes>{});
    });
  }
  T operator[](int l) const {
    return part[l / lanes][l % lanes];
  }
  Registers& operator+=(const auto& b) {
    return *this = *this + b;
  }
  Registers& operator-=(const auto& b) {
    return *this = *this - b;
  }
};

template <class A>
inline constexpr bool is_registers = false;
template <class T, int count, int most>
inline constexpr bool is_registers<Registers<T, count, most>> = true;

/// Part i; a number or a vector is all of its parts.
template <class A>
[[gnu::always_inline]] inline const auto& part_of(const A& a, int i) {
  if constexpr (is_registers<A>) return a.part[i];
  else return a;
}
/// An S: f of the parts of its arguments, part by part.
template <class S, class F, class... A>
[[gnu::always_inline]] inline S by_parts(F&& f, const A&... a) {
  return S::each([&](int i) __attribute__((always_inline)) { return f(part_of(a, i)...); });
}

template <class A, class B>
concept OneOfRegisters = is_registers<A> || is_registers<B>;
#define TACIT_BY_PARTS(op)                                                                         \
  template <class A, class B>                                                                      \
  requires OneOfRegisters<A, B>                                                                    \
  [[gnu::always_inline]] inline auto operator op(const A& a, const B& b) {                         \
    return by_parts<std::conditional_t<is_registers<A>, A, B>>(                                    \
        [](const auto& x, const auto& y) __attribute__((always_inline)) { return x op y; }, a, b); \
  }
TACIT_BY_PARTS(+)
TACIT_BY_PARTS(-)
TACIT_BY_PARTS(*)
TACIT_BY_PARTS(<<)
TACIT_BY_PARTS(>>)
TACIT_BY_PARTS(|)
#undef TACIT_BY_PARTS
template <class A>
requires is_registers<A>
[[gnu::always_inline]] inline A operator-(const A& a) {
  return by_parts<A>([](const auto& x) { return -x; }, a);
}
template <class A>
requires is_registers<A>
[[gnu::always_inline]] inline A operator~(const A& a) {
  return by_parts<A>([](const auto& x) { return ~x; }, a);
}
template <class A, class V>
requires is_registers<V>
[[gnu::always_inline]] inline V mul_add(const A& a, const V& b, const V& c) {
  return by_parts<V>(
      [](const auto& x, const auto& y, const auto& z) __attribute__((always_inline)) { return mul_add(x, y, z); }, a, b,
      c);
}

/// The sum of all lanes, in a fixed order: the upper half is added to the lower until one lane is left.
template <class T, int count, int most>
[[gnu::always_inline]] inline T add_lanes(const Registers<T, count, most>& a) {
  using A = Registers<T, count, most>;
  if constexpr (count == 1) {
    return a.part[0][0];
  } else {
    using Half = Registers<T, count / 2, most>;
    if constexpr (A::parts > 1) {
      return add_lanes(Half::each([&](int i) { return a.part[i] + a.part[i + A::parts / 2]; }));
    } else if constexpr (count == 2) {
      return a.part[0][0] + a.part[0][1];
    } else {
      T all[count];
      a.store(all);
      return add_lanes(Half::load(all) + Half::load(all + count / 2));
    }
  }
}

}  // namespace tacit
