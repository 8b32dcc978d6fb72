// Temporary files, and bitwise comparison of values that were read.
#pragma once

#include <tacit/io/matrix_file.hpp>

#include <stdlib.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tacit::io::test {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tacit_io_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
    return path(name);
  }
  /// The names of all files in it, also hidden ones.
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) found.insert(entry.path().filename());
    return found;
  }

 private:
  std::string path_;
};

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string gzip(std::string_view text) {
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&state, text.size()), '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = uInt(text.size());
  state.next_out = reinterpret_cast<Bytef*>(packed.data());
  state.avail_out = uInt(packed.size());
  deflate(&state, Z_FINISH);
  packed.erase(state.total_out);
  deflateEnd(&state);
  return packed;
}

/// Bitwise equality: -0 differs from 0.
template <class V>
bool same(const std::vector<V>& a, const std::vector<V>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(V)) == 0);
}
template <class T>
bool same(const Triplets<T>& a, const Triplets<T>& b) {
  return a.rows == b.rows && a.columns == b.columns && same(a.row, b.row) && same(a.column, b.column) &&
         same(a.value, b.value);
}
template <class T>
bool same(const Dense<T>& a, const Dense<T>& b) {
  return a.rows == b.rows && a.columns == b.columns && same(a.value, b.value);
}

/// Appends `next` to `all`.
template <class T>
void append(Triplets<T>& all, const Triplets<T>& next) {
  all.rows = next.rows;
  all.columns = next.columns;
  all.row.insert(all.row.end(), next.row.begin(), next.row.end());
  all.column.insert(all.column.end(), next.column.begin(), next.column.end());
  all.value.insert(all.value.end(), next.value.begin(), next.value.end());
  all.entries_parsed += next.entries_parsed;
}

}  // namespace tacit::io::test
