// TuningFile: choices made by timing products on this machine, stored for later runs.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace tacit::op {

/// Lines of a key, a tab, and three integers. A file that cannot be read counts as empty; failing to write is no error.
class TuningFile {
 public:
  using Values = std::array<int, 3>;
  /// "": tiled.tsv in $XDG_CACHE_HOME/tacit or ~/.cache/tacit; "-": no file.
  explicit TuningFile(const std::string& path);
  /// The first values under this key for which `makes_sense` is true.
  std::optional<Values> find(const std::string& key, const std::function<bool(const Values&)>& makes_sense) const;
  void keep(const std::string& key, const Values& values) const;
  /// The beginning of every key: the processor's name and the number of threads.
  static std::string machine();

 private:
  std::filesystem::path path_;
};

}  // namespace tacit::op
