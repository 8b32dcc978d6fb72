// TuningFile: results of timing products on this machine, stored for later runs.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace tacit::op {

/// Lines of a key, a tab, and three numbers. A file that cannot be read or written is no error and counts as empty.
class TuningFile {
 public:
  using Values = std::array<int, 3>;
  /// "": tiled.tsv in $XDG_CACHE_HOME/tacit or ~/.cache/tacit; "-": none.
  explicit TuningFile(const std::string& path);
  /// The first values under this key that are valid.
  std::optional<Values> find(const std::string& key, const std::function<bool(const Values&)>& makes_sense) const;
  void keep(const std::string& key, const Values& values) const;
  /// The beginning of every key: the processor's name and the number of threads.
  static std::string machine();

 private:
  std::filesystem::path path_;
};

}  // namespace tacit::op
