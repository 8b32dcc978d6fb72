#include "output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <system_error>
#include <vector>

namespace tacit::io::detail {

struct Output::Deflate {
  z_stream state{};
  std::vector<char> buffer = std::vector<char>(block);
  ~Deflate() { deflateEnd(&state); }
};

namespace {

// The real path of a file written to `path`: follows symbolic links, also dangling ones.
std::string behind_links(const std::string& path) {
  std::filesystem::path at = path;
  for (int links = 0; links < 40; ++links) {  // the limit of Linux
    std::error_code none;
    const auto target = std::filesystem::read_symlink(at, none);
    if (none) break;
    at = at.parent_path() / target;
  }
  return at;
}

// Opens a new file in the folder of `path`, never an existing file or a link, with default permissions. Negative, with
// errno set, on failure.
int open_beside(const std::string& path, std::string& name) {
  std::random_device random;
  for (int attempt = 0; attempt < 100; ++attempt) {
    char text[32];
    std::snprintf(text, sizeof text, ".tacit-%08x%08x", random(), random());
    name = std::filesystem::path(path).replace_filename(text);
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

}  // namespace

Output::Output(const std::string& path, bool compress) : path_(path) {
  if (compress) {
    deflate_ = std::make_unique<Deflate>();
    if (deflateInit2(&deflate_->state, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK)
      throw Error(ErrorKind::memory, path + ": no memory to compress it");
  }
  text_.reserve(block + 256);
  struct stat found;
  const bool there = ::stat(path.c_str(), &found) == 0;
  if (there && !S_ISREG(found.st_mode)) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else if (there || errno == ENOENT) {  // and it is not a link that cannot be followed
    final_ = behind_links(path);
    file_ = open_beside(final_, fresh_);
  }
  if (file_ < 0) fail("cannot be created");
}

Output::~Output() {
  if (file_ < 0) return;
  ::close(file_);
  if (!fresh_.empty()) ::unlink(fresh_.c_str());
}

void Output::fail(const char* what) const {
  throw Error(ErrorKind::environment, path_ + ": " + what + ": " + std::generic_category().message(errno));
}

void Output::put(const char* bytes, std::size_t n) {
  while (n > 0) {
    const auto done = ::write(file_, bytes, n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot be written");
    bytes += done;
    n -= std::size_t(done);
  }
}

void Output::flush() {
  if (!deflate_) {
    put(text_.data(), text_.size());
  } else {
    z_stream& state = deflate_->state;
    state.next_in = reinterpret_cast<Bytef*>(text_.data());
    state.avail_in = uInt(text_.size());
    while (state.avail_in > 0) {
      state.next_out = reinterpret_cast<Bytef*>(deflate_->buffer.data());
      state.avail_out = uInt(block);
      deflate(&state, Z_NO_FLUSH);
      put(deflate_->buffer.data(), block - state.avail_out);
    }
  }
  text_.clear();
}

void Output::finish() {
  flush();
  if (deflate_) {
    z_stream& state = deflate_->state;
    for (int outcome = Z_OK; outcome != Z_STREAM_END;) {
      state.next_out = reinterpret_cast<Bytef*>(deflate_->buffer.data());
      state.avail_out = uInt(block);
      outcome = deflate(&state, Z_FINISH);
      put(deflate_->buffer.data(), block - state.avail_out);
    }
  }
  // Without fsync a crash soon after could leave an empty file under the final name. Pipes have none.
  if (::fsync(file_) != 0 && errno != EINVAL && errno != EROFS) fail("cannot be written");
  const int file = file_;
  file_ = -1;
  if (::close(file) != 0 || (!fresh_.empty() && std::rename(fresh_.c_str(), final_.c_str()) != 0)) {
    const int saved = errno;
    if (!fresh_.empty()) ::unlink(fresh_.c_str());
    errno = saved;
    fail("cannot be completed");
  }
}

}  // namespace tacit::io::detail
