// Reading a section of a file in pieces, by all threads.
#pragma once

#include <tacit/base/types.hpp>
#include <tacit/exec/parallel.hpp>

#include <algorithm>
#include <exception>
#include <mutex>
#include <vector>

namespace tacit::io::detail {

/// Calls read(first, n, buffer) for pieces of at most `piece` of `count` elements, by all threads; each thread has a
/// buffer of its own. Rethrows the exception of the first piece that has one.
template <class Read>
void in_pieces(Global count, Global piece, Read&& read) {
  const auto pieces = std::size_t((count + piece - 1) / piece);
  std::mutex mutex;
  std::exception_ptr problem;
  std::size_t where = pieces;
  exec::parallel_claims(pieces, 1, pieces > 1, [&](exec::Claims& claims) {
    std::vector<char> buffer;
    claims.each([&](std::size_t i) {
      try {
        const Global first = Global(i) * piece;
        read(first, std::min(piece, count - first), buffer);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < where) where = i, problem = std::current_exception();
      }
    });
  });
  if (problem) std::rethrow_exception(problem);
}

}  // namespace tacit::io::detail
