// A file that replaces its path only when it is complete.
#pragma once

#include <tacit/base/error.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace tacit::io::detail {

/// Writes to a new file in the same folder; finish() renames it to `path`. If it is destroyed before, it removes the
/// new file and leaves `path` unchanged. Where `path` is a symbolic link, its target is replaced. A device or a pipe is
/// written directly. Errors are Error(environment).
class Output {
 public:
  Output(const std::string& path, bool compress);
  ~Output();
  Output(const Output&) = delete;

  void write(std::string_view bytes) {
    text_.append(bytes);
    if (text_.size() >= block) flush();
  }
  void finish();

 private:
  static constexpr std::size_t block = std::size_t(1) << 18;
  struct Deflate;
  void flush();
  void put(const char* bytes, std::size_t n);
  [[noreturn]] void fail(const char* what) const;

  std::string path_;   // as given, for error messages
  std::string final_;  // after following links
  std::string fresh_;  // the new file; empty for a device or a pipe
  std::string text_;
  std::unique_ptr<Deflate> deflate_;
  int file_ = -1;
};

inline bool wants_gzip(std::string_view path) {
  return path.ends_with(".gz");
}

}  // namespace tacit::io::detail
