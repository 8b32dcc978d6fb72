#include "output.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

namespace tacit::io::detail {

struct Output::Deflate {
  z_stream state{};
  std::vector<char> buffer = std::vector<char>(block);
  ~Deflate() { deflateEnd(&state); }
};

Output::Output(const std::string& path, bool compress) : path_(path), part_(path + ".part") {
  if (compress) {
    deflate_ = std::make_unique<Deflate>();
    if (deflateInit2(&deflate_->state, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK)
      throw Error(ErrorKind::environment, path + ": no memory to compress it");
  }
  text_.reserve(block + 256);
  file_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) fail("cannot be created");
}

Output::~Output() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(part_.c_str());
}

void Output::fail(const char* what) const {
  throw Error(ErrorKind::environment, part_ + ": " + what + ": " + std::generic_category().message(errno));
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
  // Without fsync a crash soon after could leave an empty file under the final name.
  if (::fsync(file_) != 0 && errno != EINVAL && errno != EROFS) fail("cannot be written");
  const int file = file_;
  file_ = -1;
  if (::close(file) != 0 || std::rename(part_.c_str(), path_.c_str()) != 0) {
    const int saved = errno;
    ::unlink(part_.c_str());
    errno = saved;
    fail("cannot be completed");
  }
}

}  // namespace tacit::io::detail
