#include "source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace tacit::io::detail {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::input, path + ": " + what);
}
std::string reason() {
  return std::generic_category().message(errno);
}

constexpr std::size_t block = std::size_t(1) << 17;

class Plain final : public Stream {
 public:
  explicit Plain(const Source& source) : source_(source) {}
  std::size_t read(char* to, std::size_t n) override {
    const Global end = at_ + std::min(Global(n), source_.size() - at_);
    const std::string_view bytes = source_.read(at_, end, buffer_);
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    at_ = end;
    return bytes.size();
  }

 private:
  const Source& source_;
  std::vector<char> buffer_;
  Global at_ = 0;
};

// A gzip file consists of one or more members, each with its own checksum.
class Inflate final : public Stream {
 public:
  explicit Inflate(const Source& source) : source_(source), limit_(largest_expansion(source.size())) {
    if (inflateInit2(&state_, 16 + MAX_WBITS) != Z_OK)
      throw Error(ErrorKind::memory, source.path() + ": no memory to expand it");
  }
  ~Inflate() override { inflateEnd(&state_); }
  Inflate(const Inflate&) = delete;

  std::size_t read(char* to, std::size_t n) override {
    n = std::min(n, block);  // zlib's counters have 32 bits
    state_.next_out = reinterpret_cast<Bytef*>(to);
    state_.avail_out = uInt(n);
    while (state_.avail_out == n) {
      if (state_.avail_in == 0) {
        const Global end = at_ + std::min(Global(block), source_.size() - at_);
        const std::string_view bytes = source_.read(at_, end, buffer_);
        at_ = end;
        state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
        state_.avail_in = uInt(bytes.size());
        if (bytes.empty()) {
          if (!between_) fail(source_.path(), "expected the rest of a gzip file, found the end of the file");
          return 0;
        }
      }
      if (between_) {
        inflateReset(&state_);
        between_ = false;
      }
      const int outcome = inflate(&state_, Z_NO_FLUSH);
      if (outcome == Z_STREAM_END) between_ = true;
      else if (outcome == Z_MEM_ERROR) throw Error(ErrorKind::memory, source_.path() + ": no memory to expand it");
      else if (outcome != Z_OK && outcome != Z_BUF_ERROR)
        fail(source_.path(),
             message("expected a gzip file, found damaged data near byte ", at_ - Global(state_.avail_in), " (",
                     state_.msg ? state_.msg : "a preset dictionary", ")"));
    }
    const std::size_t given = n - state_.avail_out;
    total_ += Global(given);
    if (total_ > limit_)
      fail(source_.path(),
           message("expected at most ", limit_, " bytes from a gzip file of ", source_.size(), " bytes, found more"));
    return given;
  }

 private:
  const Source& source_;
  std::vector<char> buffer_;
  z_stream state_{};
  Global at_ = 0, total_ = 0;
  const Global limit_;
  bool between_ = false;  // members
};

}  // namespace

std::string quoted(std::string_view text) {
  constexpr char hex[] = "0123456789abcdef";
  std::string shown = "\"";
  std::size_t k = 0;
  for (; k < text.size() && shown.size() <= 40; ++k) {
    const auto c = static_cast<unsigned char>(text[k]);
    if (c == '"' || c == '\\') shown += '\\';
    if (c >= 0x20 && c < 0x7f) shown += char(c);
    else shown.append({'\\', 'x', hex[c >> 4], hex[c & 15]});
  }
  if (k < text.size()) shown += "...";
  return shown + '"';
}

void fail_at_line(const std::string& path, Global line, const std::string& expected, const std::string& found) {
  throw Error(ErrorKind::input, message(path, ':', line, ": expected ", expected, ", found ", found));
}

Source Source::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) fail(quoted(path), "cannot be opened: its name has a NUL byte");
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0) fail(path, "cannot be opened: " + reason());
  Source source;
  source.path_ = path;
  source.file_ = std::shared_ptr<const int>(new int(number), [](const int* file) {
    ::close(*file);
    delete file;
  });
  struct stat about {};
  if (::fstat(number, &about) != 0) fail(path, "cannot be opened: " + reason());
  if (S_ISDIR(about.st_mode)) fail(path, "expected a file, found a directory");
  if (!S_ISREG(about.st_mode)) fail(path, "expected a regular file, found a pipe, socket or device");
  source.size_ = about.st_size;
  return source;
}

std::string_view Source::read(Global begin, Global end, std::vector<char>& buffer) const {
  if (!file_) return data_.substr(std::size_t(begin), std::size_t(end - begin));
  const auto wanted = std::size_t(end - begin);
  if (buffer.size() < wanted) buffer.resize(wanted);
  for (std::size_t have = 0; have < wanted;) {
    const auto got = ::pread(*file_, buffer.data() + have, wanted - have, off_t(begin) + off_t(have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "cannot be read: " + reason());
    if (got == 0)
      fail(path_, message("expected ", size_, " bytes, found ", begin + Global(have),
                          ": the file was cut short while it was read"));
    have += std::size_t(got);
  }
  return {buffer.data(), wanted};
}

Global Source::line_of(Global offset) const {
  std::vector<char> buffer;
  Global line = first_line_;
  for (Global begin = 0; begin < offset;) {
    const Global end = std::min(offset, begin + Global(block));
    const std::string_view bytes = read(begin, end, buffer);
    line += std::count(bytes.begin(), bytes.end(), '\n');
    begin = end;
  }
  return line;
}

bool is_gzip(const Source& source) {
  std::vector<char> buffer;
  return source.size() >= 2 && source.read(0, 2, buffer) == "\x1f\x8b";
}

std::unique_ptr<Stream> open_stream(const Source& source) {
  if (is_gzip(source)) return std::make_unique<Inflate>(source);
  return std::make_unique<Plain>(source);
}

bool LineReader::next(std::string_view& line) {
  std::size_t searched = 0;
  const auto check_length = [&](std::size_t size) {
    if (Global(size) > longest_line)
      fail_at_line(path_, number_ + 1, message("lines of at most ", longest_line, " bytes"), "a longer one");
  };
  for (;;) {
    const std::string_view have = rest();
    const std::size_t end = have.find('\n', searched);
    if (end != std::string_view::npos) {
      check_length(end + 1);
      line = have.substr(0, end);
      begin_ += end + 1;
      offset_ += Global(end) + 1;
      break;
    }
    check_length(have.size());
    searched = have.size();
    std::copy(buffer_.begin() + std::ptrdiff_t(begin_), buffer_.begin() + std::ptrdiff_t(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
    if (buffer_.size() < end_ + 4096) buffer_.resize(std::max<std::size_t>(2 * buffer_.size(), 8192));
    const std::size_t got = stream_.read(buffer_.data() + end_, buffer_.size() - end_);
    end_ += got;
    if (got > 0) continue;
    if (end_ == 0) return false;
    line = rest();
    offset_ += Global(end_);
    begin_ = end_;
    break;
  }
  ++number_;
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return true;
}

}  // namespace tacit::io::detail
