// Names of enumeration values: one table for both directions; an unknown name is refused with the nearest known one.
#pragma once

#include <tacit/base/error.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tacit {

/// Edit distance (Levenshtein): insertions, deletions and replacements that turn a into b.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t up = row[j];
      row[j] = std::min({up + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = up;
    }
  }
  return row[b.size()];
}

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
    std::string known;
    const char* nearest = table[0].second;
    for (const auto& [v, n] : table) {
      known += (known.empty() ? "" : ", ") + std::string(n);
      if (edit_distance(name, n) < edit_distance(name, nearest)) nearest = n;
    }
    throw Error(ErrorKind::usage,
                message("unknown ", what, " \"", name, "\"; did you mean \"", nearest, "\"? (", known, ")"));
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
