#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/io/petsc_binary.hpp>

#include "output.hpp"
#include "pieces.hpp"
#include "source.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <optional>
#include <utility>

namespace tacit::io {
namespace {

using detail::Output;
using detail::Source;

constexpr std::int32_t matrix_class = 1211216, vector_class = 1211214;
constexpr Global block = Global(1) << 16;  // numbers read at a time

static_assert(std::endian::native == std::endian::little, "the byte order of PETSc files is swapped without asking");
inline std::uint32_t swapped(std::uint32_t word) {
  return __builtin_bswap32(word);
}
inline std::uint64_t swapped(std::uint64_t word) {
  return __builtin_bswap64(word);
}

template <class Number>
Number load(const char* from) {
  std::conditional_t<sizeof(Number) == 4, std::uint32_t, std::uint64_t> word;
  std::memcpy(&word, from, sizeof word);
  return std::bit_cast<Number>(swapped(word));
}
template <class Number>
void store(Output& output, Number number) {
  using Word = std::conditional_t<sizeof(Number) == 4, std::uint32_t, std::uint64_t>;
  const Word word = swapped(std::bit_cast<Word>(number));
  char bytes[sizeof word];
  std::memcpy(bytes, &word, sizeof word);
  output.write({bytes, sizeof bytes});
}

[[noreturn]] void fail_at_byte(const std::string& path, Global at, const std::string& expected,
                               const std::string& found) {
  throw Error(ErrorKind::input, message(path, ": at byte ", at, ": expected ", expected, ", found ", found));
}

// The offsets of the sections of the file.
struct Opening {
  Header header;
  int width = 4;                                // bytes of an integer
  Global lengths = 0, columns = 0, values = 0;  // offsets of the three sections; a Vec has values only
  std::vector<Global> vectors;                  // offsets of the vectors behind a Mat
};

Global integer_at(const Source& source, Global at, int width) {
  std::vector<char> buffer;
  if (source.size() - at < width)
    fail_at_byte(source.path(), at, message("an integer of ", width, " bytes"), "the end of the file");
  const char* bytes = source.read(at, at + width, buffer).data();
  return width == 4 ? Global(load<std::int32_t>(bytes)) : load<std::int64_t>(bytes);
}

// The bytes of an integer, from the class number at the beginning.
int integer_width(const Source& source, std::int32_t expected, const char* what) {
  Global found = 0;
  if (source.size() >= 4) {
    found = integer_at(source, 0, 4);
    if (found == expected) return 4;
    if (found == 0 && source.size() >= 8) {
      found = integer_at(source, 0, 8);
      if (found == expected) return 8;
    }
  }
  fail_at_byte(source.path(), 0, message("the class number ", expected, " of a PETSc ", what),
               source.size() < 4 ? "the end of the file" : message(found));
}

// The offsets of the vectors that fill the file from `at`, of values with so many bytes; nothing where these are not
// what is there.
std::optional<std::vector<Global>> vectors_from(const Source& source, Global at, int width, Global value_bytes) {
  std::vector<Global> found;
  while (at < source.size()) {
    const Global room = source.size() - at - 2 * width;
    if (room < 0 || integer_at(source, at, width) != vector_class) return std::nullopt;
    const Global length = integer_at(source, at + width, width);
    if (length < 0 || length > room / value_bytes) return std::nullopt;
    found.push_back(at);
    at += 2 * width + length * value_bytes;
  }
  return found;
}

// The field follows from the number of bytes of the values, behind which there may be vectors (right-hand sides).
Field field_of(const Source& source, Global values, Global entries, int width, std::vector<Global>* vectors) {
  const Global bytes = source.size() - values;
  for (const auto& [field, each] : {std::pair{Field::real, Global(8)}, {Field::complex, Global(16)}}) {
    if (entries > bytes / each) continue;
    auto behind = vectors_from(source, values + each * entries, width, each);
    if (!behind || !(vectors || behind->empty())) continue;
    // A real matrix whose vector was cut short may have the size of a complex one.
    const bool is_cut = vectors && field == Field::complex && entries > 0 &&
                        integer_at(source, values + 8 * entries, width) == vector_class;
    if (is_cut) break;
    if (vectors) *vectors = std::move(*behind);
    return field;
  }
  fail_at_byte(
      source.path(), values,
      message(entries, " values of 8 or 16 bytes each, and ", vectors ? "at most vectors" : "nothing", " behind them"),
      message(bytes, " bytes"));
}

Opening open_matrix(const Source& source) {
  Opening it;
  it.width = integer_width(source, matrix_class, "matrix");
  const Global w = it.width;
  Header& header = it.header;
  header.path = source.path();
  header.rows = integer_at(source, w, it.width);
  header.columns = integer_at(source, 2 * w, it.width);
  header.entries = integer_at(source, 3 * w, it.width);
  it.lengths = 4 * w;
  if (header.rows < 0 || header.rows > (source.size() - it.lengths) / w)
    fail_at_byte(source.path(), w, message("a number of rows, whose lengths fit into ", source.size(), " bytes"),
                 message(header.rows));
  it.columns = it.lengths + header.rows * w;
  if (header.entries == -1)
    fail_at_byte(source.path(), 3 * w, "a sparse matrix", "-1 entries, the mark of a dense one");
  if (header.entries < 0 || header.entries > (source.size() - it.columns) / (w + 8))
    fail_at_byte(source.path(), 3 * w, message("a number of entries that fit into ", source.size(), " bytes"),
                 message(header.entries));
  if (header.columns < 0 || header.columns > largest_dimension(header.entries))
    fail_at_byte(source.path(), 2 * w,
                 message("at most 2^20 + 64 entries = ", largest_dimension(header.entries), " columns"),
                 message(header.columns));
  it.values = it.columns + header.entries * w;
  header.field = field_of(source, it.values, header.entries, it.width, &it.vectors);
  header.vectors = Global(it.vectors.size());
  return it;
}

bool begins_with(const Source& source, std::int32_t number) {
  if (source.size() < 4) return false;
  const Global found = integer_at(source, 0, 4);
  return found == number || (found == 0 && source.size() >= 8 && integer_at(source, 0, 8) == number);
}

// The vector of a file: all of it, or what follows a matrix.
Opening open_vector(const Source& source) {
  Opening it;
  Header& header = it.header;
  header.path = source.path();
  header.format = Format::array;
  header.columns = 1;
  if (begins_with(source, matrix_class)) {
    const Opening matrix = open_matrix(source);
    if (matrix.vectors.size() != 1)
      fail_at_byte(source.path(), 0, "a vector, or a matrix with one vector behind it",
                   message("a matrix with ", matrix.vectors.size(), " vectors behind it"));
    it.width = matrix.width;
    header.field = matrix.header.field;
    header.rows = header.entries = integer_at(source, matrix.vectors[0] + it.width, it.width);
    it.values = matrix.vectors[0] + 2 * it.width;
    return it;
  }
  it.width = integer_width(source, vector_class, "vector");
  header.rows = header.entries = integer_at(source, it.width, it.width);
  it.values = 2 * it.width;
  if (header.rows < 0 || header.rows > (source.size() - it.values) / 8)
    fail_at_byte(source.path(), it.width, message("a length whose values fit into ", source.size(), " bytes"),
                 message(header.rows));
  header.field = field_of(source, it.values, header.entries, it.width, nullptr);
  return it;
}

// Calls use(k, bytes of number k, its offset) for `count` consecutive numbers of `width` bytes from `at`.
template <class Use>
void for_each_number(const Source& source, Global at, Global count, int width, Use&& use) {
  std::vector<char> buffer;
  for (Global k = 0; k < count;) {
    const Global n = std::min(block, count - k);
    const char* bytes = source.read(at + k * width, at + (k + n) * width, buffer).data();
    for (const Global stop = k + n; k < stop; ++k, bytes += width) use(k, bytes, at + k * width);
  }
}
template <class Use>
void for_each_integer(const Source& source, Global at, Global count, int width, Use&& use) {
  if (width == 4)
    for_each_number(source, at, count, 4,
                    [&](Global k, const char* from, Global byte) { use(k, Global(load<std::int32_t>(from)), byte); });
  else
    for_each_number(source, at, count, 8,
                    [&](Global k, const char* from, Global byte) { use(k, load<std::int64_t>(from), byte); });
}

template <class R>
R real_at(const Source& source, const char* from, Global byte) {
  const auto number = load<double>(from);
  const auto value = R(number);
  if (!std::isfinite(number)) fail_at_byte(source.path(), byte, "a finite number", message(number));
  if (!std::isfinite(value))
    fail_at_byte(source.path(), byte, message("a number in the range of ", scalar_name<R>()), message(number));
  return value;
}

// Numbers [first, first + count) of a section: convert(bytes, n, k) stores n of them from number k on, and returns
// false if some are wrong, which check(bytes, k, offset) then names. By all threads; of several errors the first is
// thrown.
template <class Convert, class Check>
void convert_section(const Source& source, Global at, Global first, Global count, int width, Convert&& convert,
                     Check&& check) {
  detail::in_pieces(count, block, [&](Global k, Global n, std::vector<char>& buffer) {
    const Global from = at + (first + k) * width;
    const char* const bytes = source.read(from, from + n * width, buffer).data();
    if (convert(bytes, n, k)) return;
    for (Global i = 0; i < n; ++i) check(bytes + i * width, from + i * width);
  });
}

// Columns of entries [first, first + count).
template <class Index>
void read_columns(const Source& source, const Opening& it, Global first, Global count, Index* to) {
  const auto columns = std::uint64_t(it.header.columns);
  const auto read = [&]<class Stored>(Stored) {
    const auto convert = [&](const char* bytes, Global n, Global k) {
      bool right = true;
      for (Global i = 0; i < n; ++i) {
        const auto column = load<Stored>(bytes + i * Global(sizeof(Stored)));
        right &= std::uint64_t(Global(column)) < columns;
        to[k + i] = Index(column);
      }
      return right;
    };
    convert_section(source, it.columns, first, count, it.width, convert, [&](const char* bytes, Global byte) {
      const auto column = Global(load<Stored>(bytes));
      if (column < 0 || column >= it.header.columns)
        fail_at_byte(source.path(), byte, message("a column from 0 to ", it.header.columns - 1), message(column));
    });
  };
  if (it.width == 4) read(std::int32_t{});
  else read(std::int64_t{});
}

// Real numbers [first, first + count) of the value section.
template <class R, class Store>
void read_reals(const Source& source, const Opening& it, Global first, Global count, Store&& store) {
  const auto convert = [&](const char* bytes, Global n, Global k) {
    bool right = true;
    for (Global i = 0; i < n; ++i) {
      const auto value = R(load<double>(bytes + 8 * i));
      right &= std::abs(value) <= std::numeric_limits<R>::max();
      store(k + i, value);
    }
    return right;
  };
  convert_section(source, it.values, first, count, 8, convert,
                  [&](const char* bytes, Global byte) { real_at<R>(source, bytes, byte); });
}

// Values first .. first + count - 1 of the value section.
template <Scalar T>
void read_values(const Source& source, const Opening& it, Global first, Global count, T* to) {
  using R = real_t<T>;
  if constexpr (!is_complex<T>) {
    if (it.header.field != Field::real)
      fail_at_byte(source.path(), it.values, message("real values, to be read as ", scalar_name<T>()),
                   "complex values");
    read_reals<R>(source, it, first, count, [to](Global k, R value) { to[k] = value; });
  } else if (it.header.field == Field::real) {
    read_reals<R>(source, it, first, count, [to](Global k, R value) { to[k] = T(value); });
  } else {
    R* const parts = reinterpret_cast<R*>(to);
    read_reals<R>(source, it, 2 * first, 2 * count, [parts](Global k, R value) { parts[k] = value; });
  }
}

// Checks all row lengths, and calls see(row, entries before it, its length) for each.
template <class See>
void each_row(const Source& source, const Opening& it, See&& see) {
  const Header& header = it.header;
  Global sum = 0;
  for_each_integer(source, it.lengths, header.rows, it.width, [&](Global row, Global length, Global byte) {
    if (length < 0 || length > header.columns || length > header.entries - sum)
      fail_at_byte(source.path(), byte,
                   message("a row of at most ", std::min(header.columns, header.entries - sum), " entries"),
                   message(length));
    see(row, sum, length);
    sum += length;
  });
  if (sum != header.entries)
    fail_at_byte(source.path(), it.lengths, message("row lengths that add up to ", header.entries), message(sum));
}

template <Scalar T, class Index>
CompressedRows<T, Index> rows_of(const Source& source, Global first, Global last) {
  const Opening it = open_matrix(source);
  const Header& header = it.header;
  require(0 <= first && first <= last && last <= header.rows, "rows ", first, " to ", last, " of the ", header.rows,
          " rows of ", source.path());
  require(header.columns <= std::numeric_limits<Index>::max(), source.path(), " has ", header.columns,
          " columns; 32-bit indices hold ", std::numeric_limits<Index>::max());
  const Span span("read_petsc_rows", "io", source.size() * (last - first) / std::max<Global>(1, header.rows));
  CompressedRows<T, Index> rows;
  rows.rows = header.rows, rows.columns = header.columns, rows.first = first;
  Global from = 0;
  return detail::with_memory_for(message(source.path(), " with ", header.entries, " entries"), [&] {
    rows.start.reserve(std::size_t(last - first) + 1);
    each_row(source, it, [&](Global row, Global before, Global length) {
      if (row == first) from = before;
      if (row >= first && row < last) rows.start.push_back(before + length - from);
    });
    const auto entries = std::size_t(rows.start.back());
    rows.column = Buffer<Index>(entries);
    read_columns(source, it, from, Global(entries), rows.column.data());
    rows.value = Buffer<T>(entries);
    read_values(source, it, from, Global(entries), rows.value.data());
    return std::move(rows);
  });
}

template <Scalar T>
Triplets<T> matrix_of(const Source& source, int part, int parts) {
  require(parts >= 1 && part >= 0 && part < parts, "part is ", part, " of ", parts,
          ", expected 0 <= part < parts to read ", source.path());
  const Span span("read_petsc_matrix", "io", source.size() / parts);
  const Opening it = open_matrix(source);
  const Header& header = it.header;
  const auto cut = [&](int p) { return header.entries / parts * p + header.entries % parts * p / parts; };
  const Global low = cut(part), high = cut(part + 1);
  Triplets<T> result{header.rows, header.columns, {}, {}, {}, 0};
  return detail::with_memory_for(message(source.path(), " with ", header.entries, " entries"), [&] {
    Global from = 0;
    each_row(source, it, [&](Global row, Global before, Global length) {
      if (length == 0 || before < low || before >= high) return;
      if (result.row.empty()) from = before, result.row.reserve(std::size_t(high - low));
      result.row.insert(result.row.end(), std::size_t(length), row);
    });
    const std::size_t entries = result.row.size();
    result.column.resize(entries), result.value.resize(entries);
    read_columns(source, it, from, Global(entries), result.column.data());
    read_values(source, it, from, Global(entries), result.value.data());
    result.entries_parsed = Global(entries);
    return std::move(result);
  });
}

template <Scalar T>
Dense<T> vector_of(const Source& source) {
  const Span span("read_petsc_vector", "io", source.size());
  const Opening it = open_vector(source);
  return detail::with_memory_for(message(source.path(), " with ", it.header.rows, " values"), [&] {
    Dense<T> result{it.header.rows, 1, std::vector<T>(std::size_t(it.header.rows))};
    read_values(source, it, 0, it.header.rows, result.value.data());
    return result;
  });
}

void store_integer(Output& output, Global number, int width) {
  if (width == 4) store(output, static_cast<std::int32_t>(number));
  else store(output, number);
}
template <Scalar T>
void store_value(Output& output, const T& value) {
  if constexpr (is_complex<T>) {
    store(output, double(value.real()));
    store(output, double(value.imag()));
  } else {
    store(output, double(value));
  }
}
int width_for(Global largest) {
  return largest > std::numeric_limits<std::int32_t>::max() ? 8 : 4;
}

}  // namespace

Header read_petsc_header(const std::string& path) {
  const Source source = Source::open(path);
  return begins_with(source, vector_class) ? open_vector(source).header : open_matrix(source).header;
}

template <Scalar T, class Index>
CompressedRows<T, Index> read_petsc_rows(const std::string& path, Global first, Global last) {
  return rows_of<T, Index>(Source::open(path), first, last);
}
template <Scalar T>
Triplets<T> read_petsc_matrix(const std::string& path, int part, int parts) {
  return matrix_of<T>(Source::open(path), part, parts);
}
template <Scalar T>
Triplets<T> parse_petsc_matrix(std::string_view bytes, const std::string& path, int part, int parts) {
  return matrix_of<T>(Source(bytes, path), part, parts);
}
template <Scalar T>
Dense<T> read_petsc_vector(const std::string& path) {
  return vector_of<T>(Source::open(path));
}
template <Scalar T>
Dense<T> parse_petsc_vector(std::string_view bytes, const std::string& path) {
  return vector_of<T>(Source(bytes, path));
}

template <Scalar T>
void write_petsc_matrix(const std::string& path, const Triplets<T>& matrix) {
  const std::size_t n = matrix.value.size();
  require(matrix.row.size() == n && matrix.column.size() == n, "triplets for ", path, " have ", matrix.row.size(),
          " rows, ", matrix.column.size(), " columns and ", n, " values");
  require(matrix.rows >= 0 && matrix.columns >= 0, "the matrix for ", path, " is ", matrix.rows, " x ", matrix.columns);
  for (std::size_t k = 0; k < n; ++k) {
    require(
        matrix.row[k] >= 0 && matrix.row[k] < matrix.rows && matrix.column[k] >= 0 && matrix.column[k] < matrix.columns,
        "triplet ", k, " for ", path, " is at (", matrix.row[k], ", ", matrix.column[k], "), outside of ", matrix.rows,
        " x ", matrix.columns);
    require(is_finite(matrix.value[k]), "triplet ", k, " for ", path, ", at (", matrix.row[k], ", ", matrix.column[k],
            "), is ", matrix.value[k]);
  }
  const Span span("write_petsc_matrix", "io", Global(n * (16 + sizeof(T))));

  // Row k holds order[begin[k] .. begin[k + 1]).
  std::vector<std::size_t> begin(std::size_t(matrix.rows) + 1), order(n);
  for (const Global row : matrix.row) ++begin[std::size_t(row)];
  std::exclusive_scan(begin.begin(), begin.end(), begin.begin(), std::size_t(0));
  for (std::size_t k = 0; k < n; ++k) order[begin[std::size_t(matrix.row[k])]++] = k;
  std::rotate(begin.begin(), begin.end() - 1, begin.end());  // each now holds its row's end: shift by one
  begin.front() = 0;
  for (std::size_t row = 0; row + 1 < begin.size(); ++row) {
    const auto from = order.begin() + std::ptrdiff_t(begin[row]), to = order.begin() + std::ptrdiff_t(begin[row + 1]);
    std::sort(from, to, [&](std::size_t a, std::size_t b) { return matrix.column[a] < matrix.column[b]; });
    const auto twice = std::adjacent_find(
        from, to, [&](std::size_t a, std::size_t b) { return matrix.column[a] == matrix.column[b]; });
    require(twice == to, "row ", row, " for ", path, " holds two entries in one column, which PETSc files cannot");
  }

  const int width = width_for(std::max({matrix.rows, matrix.columns, Global(n)}));
  Output output(path, false);
  for (const Global number : {Global(matrix_class), matrix.rows, matrix.columns, Global(n)})
    store_integer(output, number, width);
  for (std::size_t row = 0; row + 1 < begin.size(); ++row)
    store_integer(output, Global(begin[row + 1] - begin[row]), width);
  for (const std::size_t k : order) store_integer(output, matrix.column[k], width);
  for (const std::size_t k : order) store_value(output, matrix.value[k]);
  output.finish();
}

template <Scalar T>
void write_petsc_vector(const std::string& path, const Dense<T>& block) {
  require(block.columns == 1 && block.rows == Global(block.value.size()), "the vector for ", path, " is ", block.rows,
          " x ", block.columns, " with ", block.value.size(), " values, expected one column");
  for (std::size_t k = 0; k < block.value.size(); ++k)
    require(is_finite(block.value[k]), "element ", k, " for ", path, " is ", block.value[k]);
  const Span span("write_petsc_vector", "io", Global(block.value.size() * sizeof(T)));
  const int width = width_for(block.rows);
  Output output(path, false);
  store_integer(output, vector_class, width);
  store_integer(output, block.rows, width);
  for (const T& value : block.value) store_value(output, value);
  output.finish();
}

#define TACIT_INSTANTIATE(T)                                                                  \
  template CompressedRows<T, Global> read_petsc_rows<T>(const std::string&, Global, Global);  \
  template CompressedRows<T, Local> read_petsc_rows<T>(const std::string&, Global, Global);   \
  template Triplets<T> read_petsc_matrix<T>(const std::string&, int, int);                    \
  template Triplets<T> parse_petsc_matrix<T>(std::string_view, const std::string&, int, int); \
  template Dense<T> read_petsc_vector<T>(const std::string&);                                 \
  template Dense<T> parse_petsc_vector<T>(std::string_view, const std::string&);              \
  template void write_petsc_matrix<T>(const std::string&, const Triplets<T>&);                \
  template void write_petsc_vector<T>(const std::string&, const Dense<T>&);
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::io
