// Damaged files: seed files of every format, ways to damage them, and the properties that every outcome must have.
#pragma once

#include "io/files.hpp"

#include <tacit/base/error.hpp>
#include <tacit/io/detect.hpp>
#include <tacit/io/matrix_market.hpp>
#include <tacit/io/petsc_binary.hpp>

#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <sstream>

namespace tacit::io::test {

enum class Kind { text, gzip, binary };
struct Seed {
  Kind kind;
  std::string bytes;  // for gzip: the text before compression
};

inline std::string big_endian(std::int64_t number, int width) {
  std::string bytes;
  for (int k = width - 1; k >= 0; --k) bytes += char(std::uint64_t(number) >> (8 * k));
  return bytes;
}
inline std::string big_endian(double number) {
  std::int64_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return big_endian(bits, 8);
}

/// A 3 x 4 Mat with the entries (0, 0), (0, 2), (2, 3), or a Vec of length 3; `width` bytes per integer.
inline std::string petsc_seed(bool matrix, int width, bool complex) {
  std::string bytes;
  for (const std::int64_t number :
       matrix ? std::vector<std::int64_t>{1211216, 3, 4, 3, 2, 0, 1, 0, 2, 3} : std::vector<std::int64_t>{1211214, 3})
    bytes += big_endian(number, width);
  for (const double number : {1.5, -2.25, 1e-3}) {
    bytes += big_endian(number);
    if (complex) bytes += big_endian(-number);
  }
  return bytes;
}

inline std::vector<Seed> make_seeds() {
  const std::string banner = "%%MatrixMarket matrix ";
  std::vector<std::string> texts{
      banner + "coordinate real general\n% made by hand\n\n3 4 5\n1 1 1.5\n2 3 -2.25e-3\n3 4 1D2\n1 1 +.5\n3 1 007.\n",
      banner + "coordinate real symmetric\n3 3 4\n1 1 2\n2 1 -1\n2 2 2\n3 2 -1.25\n",
      banner + "coordinate integer general\r\n2 2 3\r\n1 1 4\r\n2 1 -7\r\n2 2 +10\r\n",
      banner + "coordinate complex general\n2 3 3\n1 1 1 2\n1 3 -1.5 0\n2 2 0 3e1\n",
      banner + "coordinate complex hermitian\n2 2 3\n1 1 1 0\n2 1 -1.5 2\n2 2 4 0\n",
      banner + "coordinate real skew-symmetric\n3 3 2\n2 1 5\n3 2 -.125",
      banner + "coordinate pattern symmetric\n4 4 4\n1 1\n2 1\n4 3\n% between\n4 4\n",
      banner + "array real general\n2 3\n1\n2\n3.5\n-4\n5e-1\n6\n",
      banner + "array complex general\n2 1\n1 -1\n0 2.5\n",
      banner + "array complex hermitian\n2 2\n1 0\n0 2.5\n3 0\n",
      banner + "array real symmetric\n2 2\n1\n2\n3\n",
      banner + "array real skew-symmetric\n3 3\n1\n2\n3\n",
      banner + "array integer general\n3 1\n1\n-2\n3\n",
  };
  std::vector<Seed> seeds;
  for (const auto& text : texts) seeds.push_back({Kind::text, text});
  for (const int k : {0, 3, 7}) seeds.push_back({Kind::gzip, texts[std::size_t(k)]});
  for (const int width : {4, 8})
    for (const bool complex : {false, true})
      for (const bool matrix : {false, true}) seeds.push_back({Kind::binary, petsc_seed(matrix, width, complex)});
  return seeds;
}
inline const std::vector<Seed>& seeds() {
  static const std::vector<Seed> all = make_seeds();
  return all;
}

/// Mutation number `index` of the series `seed`: a seed file damaged in one to four places.
inline std::string mutation(std::uint64_t seed, std::uint64_t index) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + index);
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : std::size_t(random() % n); };
  const Seed& start = seeds()[below(seeds().size())];
  std::string bytes = start.bytes;
  const bool inside = start.kind == Kind::gzip && below(2) == 0;  // the text is damaged, then compressed
  if (start.kind == Kind::gzip && !inside) bytes = gzip(bytes);
  static const std::string words[] = {"0",
                                      "-1",
                                      "+",
                                      "-",
                                      ".",
                                      "1e999",
                                      "1e-999",
                                      "nan",
                                      "inf",
                                      "-Infinity",
                                      "1d3",
                                      "1D+3",
                                      "1e",
                                      "0x10",
                                      "1,5",
                                      "%",
                                      "%%",
                                      "\n",
                                      "\r",
                                      "\r\n",
                                      "\n\n",
                                      " ",
                                      "\t",
                                      std::string(1, '\0'),
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "2147483648",
                                      "99999999999999999999999",
                                      "4294967296",
                                      "9007199254740993",
                                      "symmetric",
                                      "general",
                                      "complex",
                                      "pattern",
                                      "integer",
                                      "array",
                                      "hermitian",
                                      "skew-symmetric",
                                      "unsigned-integer",
                                      "1 1 1\n",
                                      "2 1 3\n",
                                      "\xef\xbb\xbf",
                                      "\x1f\x8b",
                                      "1",
                                      "2",
                                      "3",
                                      "4",
                                      "e5",
                                      "0.1",
                                      "-0",
                                      "1e308",
                                      "5e-324"};
  for (std::size_t damages = 1 + below(4); damages > 0; --damages) {
    const std::size_t at = below(bytes.size() + 1), length = below(std::min<std::size_t>(bytes.size() - at, 8) + 1);
    const std::string& word = words[below(std::size(words))];
    switch (below(15)) {
      case 0:
        if (at < bytes.size()) bytes[at] = char(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = char(below(256));
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(at, word);
        break;
      case 4:
        bytes.replace(at, length, word);
        break;
      case 5:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 6:
        bytes.resize(at);
        break;
      case 7:
        bytes.insert(below(bytes.size() + 1), bytes.substr(at, below(40)));
        break;
      case 8: {
        const std::string& other = seeds()[below(seeds().size())].bytes;
        bytes = bytes.substr(0, at) + other.substr(below(other.size()));
        break;
      }
      default: {  // changes a digit: most such files can be read
        const std::size_t digit = bytes.find_first_of("0123456789", at);
        if (digit != bytes.npos) bytes[digit] = char('0' + below(10));
      }
    }
  }
  return inside ? gzip(bytes) : bytes;
}

/// The contents of a text file according to an independent second reader, which is slow and simple.
struct Reference {
  Format format = Format::coordinate;
  Triplets<std::complex<double>> triplets;  // with the entries that a symmetry implies
  Dense<std::complex<double>> dense;
};

inline std::optional<Reference> reference(const std::string& bytes) {
  std::vector<std::string> lines;
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
    std::string line = bytes.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
    at = end + 1;
    ends.push_back(std::min(at, bytes.size()));
  }
  const auto split = [](const std::string& line) {
    std::vector<std::string> found;
    std::string word;
    for (const char c : line + " ")
      if (c != ' ' && c != '\t') word += c;
      else if (!word.empty()) found.push_back(std::exchange(word, ""));
    return found;
  };
  // The value of a word of digits; empty where it contains anything else.
  const auto count_of = [](std::string word) -> std::optional<Global> {
    if (!word.empty() && word[0] == '+') word.erase(0, 1);
    if (word.empty() || word.find_first_not_of("0123456789") != word.npos) return {};
    word.erase(0, word.find_first_not_of('0'));
    if (word.size() > 19 || (word.size() == 19 && word > "9223372036854775807")) return {};
    return word.empty() ? 0 : std::stoll(word);
  };
  const auto number_of = [](std::string word, bool integer) -> std::optional<double> {
    const std::string digits = "0123456789";
    std::size_t at = 0, before = 0, behind = 0;
    const auto run = [&] {
      const std::size_t begin = at;
      while (at < word.size() && digits.find(word[at]) != digits.npos) ++at;
      return at - begin;
    };
    if (at < word.size() && (word[at] == '+' || word[at] == '-')) ++at;
    before = run();
    if (!integer && at < word.size() && word[at] == '.') ++at, behind = run();
    if (before + behind == 0) return {};
    if (!integer && at < word.size() && std::string("eEdD").find(word[at]) != std::string::npos) {
      word[at++] = 'e';
      if (at < word.size() && (word[at] == '+' || word[at] == '-')) ++at;
      if (run() == 0) return {};
    }
    if (at != word.size()) return {};
    const double value = std::strtod(word.c_str(), nullptr);
    const std::string mantissa = word.substr(0, word.find('e'));
    if (value == 0 && mantissa.find_first_of("123456789") != std::string::npos) return {};
    if (integer && std::isfinite(value)) {  // which a double has to hold exactly
      const auto from = std::min(word.find_first_not_of("+-0"), word.size());
      char text[400];
      std::snprintf(text, sizeof text, "%.0f", std::abs(value));
      if (from < word.size() && word.substr(from) != text) return {};
    }
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
  };
  const auto lower = [](std::string word) {
    for (char& c : word)
      if (c >= 'A' && c <= 'Z') c = char(c + 32);
    return word;
  };

  if (lines.empty()) return {};
  auto banner = split(lower(lines[0]));
  if (banner.size() != 5 || banner[0] != "%%matrixmarket" || banner[1] != "matrix") return {};
  const std::string &format = banner[2], &field = banner[3], &symmetry = banner[4];
  const bool array = format == "array", pattern = field == "pattern", complex = field == "complex";
  const bool skew = symmetry == "skew-symmetric", hermitian = symmetry == "hermitian", general = symmetry == "general";
  if (!array && format != "coordinate") return {};
  const bool is_unsigned = field == "unsigned-integer", integer = field == "integer" || is_unsigned;
  if (!complex && !pattern && field != "real" && !integer) return {};
  if (!skew && !hermitian && !general && symmetry != "symmetric") return {};
  if ((array && pattern) || (hermitian && !complex) || (skew && pattern)) return {};

  Reference it;
  it.format = array ? Format::array : Format::coordinate;
  Global rows = -1, columns = 0, entries = 0, found = 0, i = 0, j = 0;
  std::vector<std::complex<double>> in_order;  // of a skew-symmetric array
  for (std::size_t k = 1; k < lines.size(); ++k) {
    const auto word = split(lines[k]);
    if (word.empty()) continue;
    if (word[0][0] == '%') {
      if (lines[k].find('\0') != std::string::npos) return {};
      continue;
    }
    if (rows < 0) {
      if (word.size() != (array ? 2u : 3u)) return {};
      for (const auto& w : word)
        if (!count_of(w)) return {};
      rows = *count_of(word[0]);
      columns = *count_of(word[1]);
      if (!general && rows != columns) return {};
      const long double all = (long double)rows * (long double)columns;
      if (array && all > 1e9L) return {};
      entries = array ? (general ? rows * columns
                         : skew  ? (rows * columns - rows) / 2
                                 : (rows * columns + rows) / 2)
                      : *count_of(word[2]);
      const auto rest = Global(bytes.size() - ends[k]);
      const int shortest = 2 * ((complex ? 2 : pattern ? 0 : 1) + (array ? 0 : 2));
      if (entries > (rest + 1) / shortest || std::max(rows, columns) > (1 << 20) + 64 * entries) return {};
      if (array) it.dense = {rows, columns, std::vector<std::complex<double>>(std::size_t(rows * columns))};
      it.triplets.rows = rows;
      it.triplets.columns = columns;
      continue;
    }
    const std::size_t indices = array ? 0 : 2, values = complex ? 2 : pattern ? 0 : 1;
    if (word.size() != indices + values) return {};
    double part[2] = {1, 0};
    for (std::size_t v = 0; v < values; ++v) {
      const auto number = number_of(word[indices + v], integer);
      if (!number || (is_unsigned && word[indices + v][0] == '-')) return {};
      part[v] = *number;
    }
    if (!array) {
      const auto row = count_of(word[0]), column = count_of(word[1]);
      if (!row || !column || *row < 1 || *row > rows || *column < 1 || *column > columns) return {};
      i = *row - 1;
      j = *column - 1;
      if (!general && (i < j || (i == j && skew && (part[0] != 0 || part[1] != 0)))) return {};
    }
    if (++found > entries + (array && skew ? rows : 0)) return {};
    if (hermitian && i == j && part[1] != 0) return {};
    const std::complex<double> value{part[0], part[1]};
    const std::complex<double> mirror = skew ? -value : hermitian ? std::conj(value) : value;
    if (array && skew) {
      in_order.push_back(value);
    } else if (array) {
      it.dense.value[std::size_t(i + j * rows)] = value;
      if (!general && i != j) it.dense.value[std::size_t(j + i * rows)] = mirror;
      if (++i == rows) {
        ++j;
        i = general ? 0 : j;
      }
    } else {
      const auto put = [&](Global r, Global c, std::complex<double> v) {
        it.triplets.row.push_back(r);
        it.triplets.column.push_back(c);
        it.triplets.value.push_back(v);
      };
      put(i, j, value);
      if (!general && i != j) put(j, i, mirror);
    }
  }
  if (rows < 0) return {};
  if (!array || !skew) return found == entries ? std::optional(it) : std::nullopt;
  // The elements below the diagonal, or these with a diagonal of zeros.
  const bool whole = found == entries + rows;
  if (!whole && found != entries) return {};
  std::size_t at = 0;
  for (j = 0; j < columns; ++j)
    for (i = whole ? j : j + 1; i < rows; ++i, ++at) {
      if (i == j && in_order[at] != std::complex<double>()) return {};
      it.dense.value[std::size_t(i + j * rows)] = in_order[at];
      if (i != j) it.dense.value[std::size_t(j + i * rows)] = -in_order[at];
    }
  return it;
}

/// The readers under test. A test replaces them with broken ones, to show that the check detects them.
template <class T>
struct Readers {
  std::function<Triplets<T>(std::string_view, int, int)> triplets = [](std::string_view bytes, int part, int parts) {
    return parse_matrix_market<T>(bytes, "f", part, parts);
  };
  std::function<Dense<T>(std::string_view)> dense = [](std::string_view bytes) {
    return parse_matrix_market_array<T>(bytes, "f");
  };
};

/// Runs the readers on `bytes`; true if one of them accepted it. Throws std::logic_error where a property does not
/// hold: errors are Error(input) and name the file; accepted contents equal those of the second reader, those read in
/// parts, and those written and read again.
template <class T>
class Checker {
 public:
  explicit Checker(const Folder& folder, Readers<T> readers = {}) : folder_(folder), readers_(std::move(readers)) {}

  bool accepts(const std::string& bytes) const {
    detect_bytes(bytes);
    const auto triplets = attempt([&] { return readers_.triplets(bytes, 0, 1); });
    const auto dense = attempt([&] { return readers_.dense(bytes); });
    const auto matrix = attempt([&] { return parse_petsc_matrix<T>(bytes, "f"); });
    const auto vector = attempt([&] { return parse_petsc_vector<T>(bytes, "f"); });
    if (bytes.substr(0, 2) != "\x1f\x8b") compare(bytes, triplets, dense);
    if (triplets) {
      for (const int parts : {2, 3}) {
        Triplets<T> all;
        for (int part = 0; part < parts; ++part) append(all, readers_.triplets(bytes, part, parts));
        expect(same(all, *triplets) && all.entries_parsed == triplets->entries_parsed, "the parts are not the whole");
      }
      const std::string path = folder_.path("again.mtx");
      write_matrix_market(path, *triplets);
      expect(same(read_matrix_market<T>(path), *triplets), "written and read again it differs");
    }
    if (dense) {
      const std::string path = folder_.path("again.mtx");
      write_matrix_market_array(path, *dense);
      expect(same(read_matrix_market_array<T>(path), *dense), "written and read again it differs");
    }
    if (matrix) {
      Triplets<T> all;
      for (int part = 0; part < 3; ++part) append(all, parse_petsc_matrix<T>(bytes, "f", part, 3));
      expect(same(all, *matrix), "the parts are not the whole");
      const std::string path = folder_.path("again.petsc");
      try {
        write_petsc_matrix(path, *matrix);
        const auto sorted = read_petsc_matrix<T>(path);
        write_petsc_matrix(path, sorted);
        expect(same(read_petsc_matrix<T>(path), sorted) && sorted.value.size() == matrix->value.size(),
               "written and read again it differs");
      } catch (const Error& error) {
        expect(error.kind() == ErrorKind::usage, error.what());  // duplicates cannot be written
      }
    }
    if (vector) {
      const std::string path = folder_.path("again.petsc");
      write_petsc_vector(path, *vector);
      expect(same(read_petsc_vector<T>(path), *vector), "written and read again it differs");
    }
    return triplets || dense || matrix || vector;
  }

 private:
  static void expect(bool holds, const std::string& what) {
    if (!holds) throw std::logic_error(what);
  }
  template <class Read>
  static auto attempt(Read&& read) -> std::optional<decltype(read())> {
    try {
      return read();
    } catch (const Error& error) {
      const std::string text = error.what();
      expect(error.kind() == ErrorKind::input && text.starts_with("f:") && text.size() < 400, "odd error: " + text);
      return {};
    }
  }
  static void compare(const std::string& bytes, const std::optional<Triplets<T>>& triplets,
                      const std::optional<Dense<T>>& dense) {
    if constexpr (std::same_as<T, std::complex<double>>) {
      const auto expected = reference(bytes);
      const bool coordinate = expected && expected->format == Format::coordinate;
      expect(triplets.has_value() == coordinate, triplets ? "should have been refused" : "should have been accepted");
      if (coordinate) expect(same(expected->triplets, *triplets), "other entries than expected");
      if (expected && !coordinate) {
        expect(dense.has_value(), "should have been accepted");
        expect(same(expected->dense, *dense), "other elements than expected");
      }
      if (!expected) expect(!dense, "should have been refused");
    }
  }

  const Folder& folder_;
  Readers<T> readers_;
};

}  // namespace tacit::io::test
