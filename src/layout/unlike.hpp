// For messages: how two spaces differ.
#pragma once

#include <tacit/layout/space.hpp>

#include <string>

namespace tacit::layout {

/// How vectors of two spaces that are not equal differ, with numbers of each: "9 and 8 elements", "9 elements each, of
/// which rank 1 has 3 and 4". Local.
std::string unlike(const Space& one, const Space& other);

}  // namespace tacit::layout
