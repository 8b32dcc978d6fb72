// What timing products on this machine has found, kept in a file for the next time.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace tacit::op {

/// Lines of a key, a tab, and three numbers. A file that cannot be read or written is no error: it knows nothing.
class TuningFile {
 public:
  using Values = std::array<int, 3>;
  /// "": tiled.tsv in $XDG_CACHE_HOME/tacit or ~/.cache/tacit; "-": none.
  explicit TuningFile(const std::string& path);
  /// The first values under this key that make sense.
  std::optional<Values> find(const std::string& key, const std::function<bool(const Values&)>& makes_sense) const;
  void keep(const std::string& key, const Values& values) const;
  /// What every key begins with: the processor's name and the number of threads.
  static std::string machine();

 private:
  std::filesystem::path path_;
};

}  // namespace tacit::op
