// Arrays in the parts of a saved HMatrix.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/op/hmatrix/hmatrix.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tacit::op::detail {

/// The bytes of an array that stays where it is.
template <class Array>
void save(std::vector<SavedPart>& parts, std::string name, const Array& array) {
  using S = std::remove_cvref_t<decltype(*array.data())>;
  static_assert(std::is_trivially_copyable_v<S>);
  parts.push_back({std::move(name), std::as_bytes(std::span<const S>(array.data(), array.size())), nullptr});
}
/// The bytes of a copy.
template <class S>
void save_copy(std::vector<SavedPart>& parts, std::string name, std::vector<S> array) {
  const auto kept = std::make_shared<const std::vector<S>>(std::move(array));
  save(parts, std::move(name), *kept);
  parts.back().owner = kept;
}

inline const SavedPart& part_of(const std::vector<SavedPart>& parts, const std::string& name) {
  for (const SavedPart& part : parts)
    if (part.name == name) return part;
  throw Error(ErrorKind::input, "a saved hmatrix without its part '" + name + "'");
}
/// The numbers of a part where they lie, aligned for S.
template <class S>
std::span<const S> seen(const std::vector<SavedPart>& parts, const std::string& name) {
  const auto bytes = part_of(parts, name).bytes;
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(S) == 0;
  if (bytes.size() % sizeof(S) != 0 || !aligned)
    throw Error(ErrorKind::input, message("the part '", name, "' of a saved hmatrix has ", bytes.size(),
                                          " bytes, and its items ", sizeof(S)));
  return {reinterpret_cast<const S*>(bytes.data()), bytes.size() / sizeof(S)};
}
/// A copy of a part.
template <class S>
std::vector<S> loaded(const std::vector<SavedPart>& parts, const std::string& name) {
  const auto bytes = part_of(parts, name).bytes;
  if (bytes.size() % sizeof(S) != 0)
    throw Error(ErrorKind::input, message("the part '", name, "' of a saved hmatrix has ", bytes.size(),
                                          " bytes, and its items ", sizeof(S)));
  std::vector<S> array(bytes.size() / sizeof(S));
  if (!bytes.empty()) std::memcpy(static_cast<void*>(array.data()), bytes.data(), bytes.size());
  return array;
}

}  // namespace tacit::op::detail
