// Reading the bytes of plain or compressed files, with errors that name the position.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/base/free_memory.hpp>
#include <tacit/base/types.hpp>

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tacit::io::detail {

inline constexpr Global longest_line = Global(1) << 24;

/// Bytes that a compressed file of `size` bytes may expand to.
constexpr Global largest_expansion(Global size) {
  return 1000 * size + (Global(1) << 20);
}

/// `text` in quotes for one line of a message: at most 40 characters of it, unprintable bytes as \xNN.
std::string quoted(std::string_view text);

/// "PATH:LINE: expected ..., found ...".
[[noreturn]] void fail_at_line(const std::string& path, Global line, const std::string& expected,
                               const std::string& found);

/// read(); where memory does not suffice for it, Error(memory) whose text begins with `what`, which names the file.
template <class Read>
auto with_memory_for(const std::string& what, Read&& read) {
  std::string found;
  try {
    return read();
  } catch (const std::bad_alloc&) {
    found = out_of_memory();
  } catch (const std::length_error&) {
    found = "out of memory";
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::memory) throw;
    found = e.what();
  }
  throw Error(ErrorKind::memory, what + ": " + found);
}

/// Random access to the bytes of a regular file or of memory. Reading is thread-safe.
/// Files are read by pread, not mapped: a mapped file that shrinks meanwhile kills the process.
class Source {
 public:
  /// Error(input) unless `path` is a regular file that can be opened.
  static Source open(const std::string& path);
  /// `bytes` must outlive the source; its first line counts as `first_line`.
  Source(std::string_view bytes, std::string path, Global first_line = 1)
      : path_(std::move(path)), data_(bytes), size_(Global(bytes.size())), first_line_(first_line) {}

  const std::string& path() const { return path_; }
  Global size() const { return size_; }
  /// Bytes [begin, end), in `buffer` unless they are in memory anyway. Error(input) if the file has shrunk.
  std::string_view read(Global begin, Global end, std::vector<char>& buffer) const;
  /// Number of the line that holds byte `offset`; reads everything before it.
  Global line_of(Global offset) const;

 private:
  Source() = default;
  std::string path_;
  std::string_view data_;
  std::shared_ptr<const int> file_;  // null for memory
  Global size_ = 0;
  Global first_line_ = 1;
};

bool is_gzip(const Source& source);

/// Reads a source from front to back.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Up to `n` > 0 bytes; 0 only at the end.
  virtual std::size_t read(char* to, std::size_t n) = 0;
};
/// The bytes of the source, expanded if it is a gzip file. `source` must outlive the stream.
std::unique_ptr<Stream> open_stream(const Source& source);

/// Reads a stream line by line.
class LineReader {
 public:
  LineReader(Stream& stream, std::string path) : stream_(stream), path_(std::move(path)) {}
  /// The next line without its line end, valid until the next call; false at the end of the stream.
  bool next(std::string_view& line);
  Global number() const { return number_; }  ///< of the line last read, from 1
  Global offset() const { return offset_; }  ///< of the first byte after it
  /// Bytes taken from the stream but not yet read as lines.
  std::string_view rest() const { return std::string_view(buffer_.data() + begin_, end_ - begin_); }

 private:
  Stream& stream_;
  std::string path_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  Global number_ = 0, offset_ = 0;
};

}  // namespace tacit::io::detail
