#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/io/npz.hpp>
#include "exec/jobs.hpp"

#include "pieces.hpp"
#include "source.hpp"

#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>
#include <new>

namespace tacit::io {
namespace {

using detail::Source;

static_assert(std::endian::native == std::endian::little, "archives are read in the processor's byte order");
constexpr Global block = Global(1) << 16;  // elements read at a time

[[noreturn]] void refuse(const Source& source, const std::string& what) {
  throw Error(ErrorKind::input, source.path() + ": " + what);
}

std::uint32_t crc_of(std::uint32_t before, const char* bytes, Global n) {
  return std::uint32_t(crc32_z(before, reinterpret_cast<const Bytef*>(bytes), std::size_t(n)));
}

/// A checksum of consecutive bytes.
struct Sum {
  std::uint32_t crc = 0;
  Global bytes = 0;
  void append(const Sum& next) {
    if (next.bytes > 0) crc = std::uint32_t(crc32_combine(crc, next.crc, z_off_t(next.bytes)));
    bytes += next.bytes;
  }
};

// use(bytes, n, k): n elements, the first of which is element from + k. Elements [from, to) of an array as it is
// stored.
template <class Use>
Sum read_stored(const Source& source, const NpzArray& array, Global from, Global to, bool is_first, Use&& use) {
  std::vector<Sum> sums(std::size_t((to - from + block - 1) / block));
  detail::in_pieces(to - from, block, [&](Global k, Global n, std::vector<char>& buffer) {
    const Global at = array.at + array.header + (from + k) * array.width, size = n * array.width;
    const char* const bytes = source.read(at, at + size, buffer).data();
    sums[std::size_t(k / block)] = {crc_of(0, bytes, size), size};
    use(bytes, n, k);
  });
  Sum all;
  if (is_first) {
    std::vector<char> buffer;
    all = {crc_of(0, source.read(array.at, array.at + array.header, buffer).data(), array.header), array.header};
  }
  for (const Sum& s : sums) all.append(s);
  return all;
}

// The bytes of a deflated member, one after the other.
class Inflated {
 public:
  Inflated(const Source& source, const NpzArray& array) : source_(source), array_(array), at_(array.at) {
    if (inflateInit2(&state_, -MAX_WBITS) != Z_OK)
      throw Error(ErrorKind::memory, source.path() + ": no memory to expand it");
  }
  ~Inflated() { inflateEnd(&state_); }
  Inflated(const Inflated&) = delete;

  void read(char* to, Global n) {
    state_.next_out = reinterpret_cast<Bytef*>(to);
    state_.avail_out = uInt(n);
    while (state_.avail_out > 0) {
      if (state_.avail_in == 0) {
        const Global end = std::min(at_ + (Global(1) << 17), array_.at + array_.stored);
        const auto bytes = source_.read(at_, end, buffer_);
        at_ = end;
        state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
        state_.avail_in = uInt(bytes.size());
      }
      const int outcome = inflate(&state_, Z_NO_FLUSH);
      if (outcome == Z_MEM_ERROR) throw Error(ErrorKind::memory, source_.path() + ": no memory to expand it");
      const bool short_of_bytes = state_.avail_in == 0 && at_ == array_.at + array_.stored;
      if ((outcome != Z_OK && outcome != Z_STREAM_END) ||
          (state_.avail_out > 0 && (outcome == Z_STREAM_END || short_of_bytes)))
        refuse(source_, message("damaged archive: ", array_.name, " cannot be expanded",
                                state_.msg ? message(" (", state_.msg, ")") : " to its size"));
    }
    sum_.append({crc_of(0, to, n), n});
  }
  const Sum& sum() const { return sum_; }

 private:
  const Source& source_;
  const NpzArray& array_;
  std::vector<char> buffer_;
  z_stream state_{};
  Global at_;
  Sum sum_;
};

// As read_stored, of a compressed array, which is expanded as a whole.
template <class Use>
Sum read_deflated(const Source& source, const NpzArray& array, Global from, Global to, Use&& use) {
  Inflated bytes(source, array);
  std::vector<char> buffer(std::size_t(std::max(block * array.width, array.header)));
  bytes.read(buffer.data(), array.header);
  for (Global k = 0; k < array.count; k += block) {
    const Global n = std::min(block, array.count - k);
    bytes.read(buffer.data(), n * array.width);
    const Global low = std::clamp(from, k, k + n), high = std::clamp(to, k, k + n);
    if (low < high) use(buffer.data() + (low - k) * array.width, high - low, low - from);
  }
  return bytes.sum();
}

template <class Use>
Sum read_array(const Source& source, const NpzArray& array, Global from, Global to, bool is_first, Use&& use) {
  return array.deflated ? read_deflated(source, array, from, to, use)
                        : read_stored(source, array, from, to, is_first, use);
}

// Calls f(number) with a value of the array's element type.
template <class F>
void with_type(const NpzArray& array, F&& f) {
  if (array.kind == 'i') return array.width == 4 ? f(std::int32_t{}) : f(std::int64_t{});
  if (array.kind == 'f') return array.width == 4 ? f(float{}) : f(double{});
  array.width == 8 ? f(std::complex<float>{}) : f(std::complex<double>{});
}

template <class Number>
Number load(const char* bytes, Global i) {
  Number number;
  std::memcpy(static_cast<void*>(&number), bytes + i * Global(sizeof number), sizeof number);
  return number;
}

// Integers [from, to) of an array, all of which are to be from 0 to `high`.
template <class Index>
Sum read_indices(const Source& source, const NpzArray& array, Global from, Global to, bool is_first, Global high,
                 Index* out) {
  Sum sum;
  const auto read = [&]<class Stored>(Stored) {
    sum = read_array(source, array, from, to, is_first, [&](const char* bytes, Global n, Global k) {
      bool right = true;
      for (Global i = 0; i < n; ++i) {
        const auto index = load<Stored>(bytes, i);
        right &= index >= 0 && Global(index) <= high;
        out[k + i] = Index(index);
      }
      for (Global i = 0; i < n && !right; ++i)
        if (const auto index = Global(load<Stored>(bytes, i)); index < 0 || index > high)
          refuse(source, message(array.name, "[", from + k + i, "] is ", index, "; it runs from 0 to ", high));
    });
  };
  if (array.width == 4) read(std::int32_t{});
  else read(std::int64_t{});
  return sum;
}

template <Scalar T>
Sum read_values(const Source& source, const NpzArray& array, Global from, Global to, bool is_first, T* out) {
  Sum sum;
  with_type(array, [&]<class Stored>(Stored) {
    if constexpr (is_complex<T> || std::is_floating_point_v<Stored>)
      sum = read_array(source, array, from, to, is_first, [&](const char* bytes, Global n, Global k) {
        for (Global i = 0; i < n; ++i) {
          const auto value = load<Stored>(bytes, i);
          if constexpr (std::is_arithmetic_v<Stored>) out[k + i] = T(real_t<T>(value));
          else if constexpr (is_complex<T>) out[k + i] = T(real_t<T>(value.real()), real_t<T>(value.imag()));
        }
      });
  });
  return sum;
}

}  // namespace

template <Scalar T, class Index>
CompressedRows<T, Index> read_npz_rows(const std::string& path, const NpzRows& matrix, Global first, Global last,
                                       bool is_first, bool is_last, NpzSums& sums) {
  const Global entries = matrix.value.count;
  require(0 <= first && first <= last && last <= matrix.rows, "rows ", first, " to ", last, " of the ", matrix.rows,
          " rows of ", path);
  require(matrix.columns <= std::numeric_limits<Index>::max(), path, " has ", matrix.columns,
          " columns; 32-bit indices hold ", std::numeric_limits<Index>::max());
  require(is_complex<T> || matrix.value.kind != 'c', path, " has complex values, which cannot be read as ",
          scalar_name<T>());
  const Source source = Source::open(path);
  const Span span("read_npz_rows", "io", source.size() * (last - first) / std::max<Global>(1, matrix.rows));
  return detail::with_memory_for(message(path, " with ", entries, " entries"), [&] {
    CompressedRows<T, Index> rows;
    rows.rows = matrix.rows, rows.columns = matrix.columns, rows.first = first;
    auto& start = rows.start;
    start.resize(std::size_t(last - first) + 1);
    // The start of the row behind the last one belongs to the next rank's checksum.
    const bool apart = !is_last && !matrix.start.deflated;
    const Sum sum = read_indices(source, matrix.start, first, apart ? last : last + 1, is_first, entries, start.data());
    if (apart) read_indices(source, matrix.start, last, last + 1, false, entries, &start.back());
    if ((is_first && start.front() != 0) || (is_last && start.back() > entries))
      refuse(source, message("indptr runs from ", start.front(), " to ", start.back(), " with ", entries, " values"));
    if (const auto fall = std::is_sorted_until(start.begin(), start.end()); fall != start.end())
      refuse(source, message("indptr falls behind position ", first + (fall - start.begin()) - 1));
    const Global from = start.front(), to = start.back();
    for (Global& s : start) s -= from;
    rows.column = Buffer<Index>(std::size_t(to - from));
    rows.value = Buffer<T>(std::size_t(to - from));
    Sum of[3] = {sum, {}, {}};
    // SciPy may keep room for more entries behind the last row, which counts in the checksum only.
    const auto pass_over = [&](const NpzArray& array) {
      return is_last && !array.deflated ? read_stored(source, array, to, entries, false, [](auto&&...) {}) : Sum{};
    };
    const std::function<void()> read[2] = {
        [&] {
          of[1] = read_indices(source, matrix.column, from, to, is_first, matrix.columns - 1, rows.column.data());
          of[1].append(pass_over(matrix.column));
        },
        [&] {
          of[2] = read_values(source, matrix.value, from, to, is_first, rows.value.data());
          of[2].append(pass_over(matrix.value));
        }};
    if (matrix.column.deflated && matrix.value.deflated)
      detail::in_pieces(2, 1, [&](Global k, Global, std::vector<char>&) { read[k](); });
    else read[0](), read[1]();
    for (int k = 0; k < 3; ++k) sums.crc[k] = of[k].crc, sums.bytes[k] = of[k].bytes;
    return rows;
  });
}

void check_npz(const std::string& path, const NpzRows& matrix, std::span<const NpzSums> parts) {
  const NpzArray* const arrays[] = {&matrix.start, &matrix.column, &matrix.value};
  for (int k = 0; k < 3; ++k) {
    const auto check = [&](std::uint32_t crc) {
      if (crc != arrays[k]->crc)
        throw Error(ErrorKind::input,
                    message(path, ": damaged archive: Bad CRC-32 for file '", arrays[k]->name, ".npy'"));
    };
    Sum whole;
    for (const NpzSums& part : parts) {
      if (arrays[k]->deflated) check(part.crc[k]);  // each part has expanded all of it
      else whole.append({part.crc[k], part.bytes[k]});
    }
    if (!arrays[k]->deflated) check(whole.crc);
  }
}

#define TACIT_INSTANTIATE(T)                                                                                          \
  template CompressedRows<T, Local> read_npz_rows<T, Local>(const std::string&, const NpzRows&, Global, Global, bool, \
                                                            bool, NpzSums&);                                          \
  template CompressedRows<T, Global> read_npz_rows<T, Global>(const std::string&, const NpzRows&, Global, Global,     \
                                                              bool, bool, NpzSums&);
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::io
