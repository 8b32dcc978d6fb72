// Pack: values of several types, without constructors.
#pragma once

#include <tacit/base/types.hpp>

#include <cstddef>
#include <utility>

namespace tacit::exec {

/// A tuple that device code can use, and that compiles faster than std::tuple: get<I>(pack).
template <std::size_t I, class T>
struct Leaf {
  T value;
};
template <class Indices, class... T>
struct PackOf;
template <std::size_t... I, class... T>
struct PackOf<std::index_sequence<I...>, T...> : Leaf<I, T>... {};
template <class... T>
using Pack = PackOf<std::index_sequence_for<T...>, T...>;
template <std::size_t I, class T>
TACIT_HD T& get(Leaf<I, T>& leaf) {
  return leaf.value;
}
template <std::size_t I, class T>
TACIT_HD const T& get(const Leaf<I, T>& leaf) {
  return leaf.value;
}

}  // namespace tacit::exec
