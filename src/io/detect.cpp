#include <tacit/base/error.hpp>
#include <tacit/io/detect.hpp>

#include "source.hpp"

#include <algorithm>
#include <cctype>

namespace tacit::io {
namespace {

bool is_banner(std::string_view bytes) {
  constexpr std::string_view tag = "%%matrixmarket";
  bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t"), bytes.size()));  // MUMPS writes blanks in front
  return bytes.size() > tag.size() && std::equal(tag.begin(), tag.end(), bytes.begin(), [](char a, char b) {
           return a == char(std::tolower(static_cast<unsigned char>(b)));
         });
}

FileKind kind_of(const detail::Source& source) {
  using namespace std::string_view_literals;
  std::vector<char> buffer;
  const std::string_view bytes = source.read(0, std::min<Global>(source.size(), 32), buffer);
  if (is_banner(bytes)) return FileKind::matrix_market;
  for (const auto number : {"\0\x12\x7b\x50"sv, "\0\x12\x7b\x4e"sv})  // 1211216 and 1211214
    if (bytes.starts_with(number) || (bytes.starts_with("\0\0\0\0"sv) && bytes.substr(4).starts_with(number)))
      return FileKind::petsc_binary;
  if (bytes.starts_with("PK\3\4"sv) || bytes.starts_with("PK\5\6"sv)) return FileKind::npz;
  if (bytes.starts_with("\x93NUMPY"sv)) return FileKind::npy;
  if (detail::is_gzip(source)) try {
      char expanded[32];
      std::size_t have = 0, got = 0;
      const auto stream = detail::open_stream(source);
      while (have < sizeof expanded && (got = stream->read(expanded + have, sizeof expanded - have)) > 0) have += got;
      if (is_banner({expanded, have})) return FileKind::matrix_market;
    } catch (const Error&) {
      return FileKind::unknown;  // damaged
    }
  return FileKind::unknown;
}

}  // namespace

FileKind detect(const std::string& path) {
  return kind_of(detail::Source::open(path));
}
FileKind detect_bytes(std::string_view bytes) {
  return kind_of(detail::Source(bytes, ""));
}

}  // namespace tacit::io
