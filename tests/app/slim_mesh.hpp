#pragma once

#include <tacit/app/bem/mesh.hpp>

namespace tacit::test {

/// Two triangles of this height.
inline app::bem::Mesh slim(double height) {
  return {{{0, 0, 0}, {1, 0, 0}, {0.375, height, 0}, {0.4, -height, 0.1}}, {{0, 1, 2}, {1, 0, 3}}};
}

}  // namespace tacit::test
