// Numbers as the sentences of a report have them.
#pragma once

#include <cstdio>
#include <string>

namespace tacit::krylov {

inline std::string about(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

}  // namespace tacit::krylov
