// The methods that are compiled for groups of devices.
#pragma once

#include <tacit/krylov/traits.hpp>

#include <algorithm>
#include <array>

namespace tacit::krylov {

namespace detail {
inline constexpr auto is_on_groups = [](const Traits& t) { return t.on_groups; };
constexpr auto methods_on_groups() {
  std::array<Method, std::size_t(std::ranges::count_if(traits, is_on_groups))> found{};
  std::size_t count = 0;
  for (std::size_t m = 0; m < std::size(traits); ++m)
    if (is_on_groups(traits[m])) found[count++] = Method(m);
  return found;
}
}  // namespace detail

/// Those that solve<T, Group<M>> takes; the first is the one for general use.
inline constexpr auto group_methods = detail::methods_on_groups();

}  // namespace tacit::krylov
