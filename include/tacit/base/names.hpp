// Names of enumeration values: one table for both directions; an unknown name is refused with the nearest known one.
#pragma once

#include <tacit/base/error.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tacit {

/// Edit distance (Levenshtein): insertions, deletions and replacements that turn a into b.
std::size_t edit_distance(std::string_view a, std::string_view b);

namespace detail {
[[noreturn]] void throw_unknown(const char* what, std::string_view name, std::span<const char* const> known);
}  // namespace detail

/// The names of the values of an enumeration. Each enumeration has one such table beside it:
///
///     template <>
///     inline constexpr auto names_of<Side> = named<Side>("side", {{Side::right, "right"}, {Side::left, "left"}});
/// It gives to_string(value), value_of<E>(name), names<E>() and the choices of described options.
template <class E, std::size_t N>
struct Names {
  const char* what;  ///< the enumeration's name in messages
  std::array<std::pair<E, const char*>, N> table;

  constexpr const char* name(E value) const {
    for (const auto& [v, n] : table)
      if (v == value) return n;
    return "?";
  }
  /// Error(usage) with the known names and the nearest one when `name` is none of them.
  E value(std::string_view name) const {
    for (const auto& [v, n] : table)
      if (name == n) return v;
    std::array<const char*, N> known;
    for (std::size_t i = 0; i < N; ++i) known[i] = table[i].second;
    detail::throw_unknown(what, name, known);
  }
  std::vector<std::string> all() const {
    std::vector<std::string> names;
    for (const auto& [v, n] : table) names.emplace_back(n);
    return names;
  }
};
template <class E, std::size_t N>
constexpr Names<E, N> named(const char* what, const std::pair<E, const char*> (&table)[N]) {
  return {what, std::to_array(table)};
}

template <class E>
inline constexpr auto names_of = nullptr;
template <class E>
concept Named = !std::same_as<decltype(names_of<E>), const std::nullptr_t>;

template <Named E>
constexpr const char* to_string(E value) {
  return names_of<E>.name(value);
}
/// Error(usage), with the nearest known name, where it is unknown.
template <Named E>
E value_of(std::string_view name) {
  return names_of<E>.value(name);
}
template <Named E>
std::vector<std::string> names() {
  return names_of<E>.all();
}

}  // namespace tacit
