#include "unlike.hpp"

#include <tacit/base/error.hpp>

namespace tacit::layout {

std::string unlike(const Space& one, const Space& other) {
  if (one.size() != other.size()) return message(one.size(), " and ", other.size(), " elements");
  const auto each = message(one.size(), " elements each, ");
  if (one.is_replicated() != other.is_replicated())
    return each + (one.is_replicated() ? "which every rank has, and which are spread over ranks"
                                       : "which are spread over ranks, and which every rank has");
  const auto &a = one.partition(), &b = other.partition();
  if (a.parts() != b.parts()) return message(each, "on ", a.parts(), " and on ", b.parts(), " ranks");
  for (int r = 0; r < a.parts(); ++r)
    if (a.end(r) != b.end(r))
      return message(each, "of which rank ", r, " has ", a.end(r) - a.begin(r), " and ", b.end(r) - b.begin(r));
  return each + (one.comm() == other.comm() ? "on other devices" : "on other communicators");
}

}  // namespace tacit::layout
