#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/io/matrix_market.hpp>
#include "exec/jobs.hpp"

#include "source.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <system_error>
#include <vector>
namespace tacit::io {
namespace {

using detail::fail_at_line;
using detail::LineReader;
using detail::longest_line;
using detail::quoted;
using detail::Source;
using detail::Stream;

constexpr Global chunk = Global(1) << 18;  // bytes that one thread parses at a time

// ---------------------------------------------------------------- banner and size line

constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool same_word(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? char(c + ('a' - 'A')) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  for (std::size_t k = 0; k < line.size();) {
    const std::size_t begin = k;
    while (k < line.size() && !is_blank(line[k])) ++k;
    if (k > begin) found.push_back(line.substr(begin, k - begin));
    while (k < line.size() && is_blank(line[k])) ++k;
  }
  return found;
}

template <class Value>
struct Word {
  const char* text;
  Value value;
};
constexpr std::array<Word<Format>, 2> formats{{{"coordinate", Format::coordinate}, {"array", Format::array}}};
constexpr const char* unsigned_integer = "unsigned-integer";  // of SciPy and fast_matrix_market, not of the report
constexpr std::array<Word<Field>, 5> fields{{{"real", Field::real},
                                             {"integer", Field::integer},
                                             {"complex", Field::complex},
                                             {"pattern", Field::pattern},
                                             {unsigned_integer, Field::integer}}};
constexpr std::array<Word<Symmetry>, 4> symmetries{{{"general", Symmetry::general},
                                                    {"symmetric", Symmetry::symmetric},
                                                    {"skew-symmetric", Symmetry::skew_symmetric},
                                                    {"hermitian", Symmetry::hermitian}}};

template <class Value, std::size_t N>
Value choose(const std::array<Word<Value>, N>& choices, std::string_view word, const std::string& path, Global line) {
  std::string expected;
  for (std::size_t k = 0; k < N; ++k) {
    if (same_word(choices[k].text, word)) return choices[k].value;
    expected += k == 0 ? "" : k + 1 == N ? " or " : ", ";
    expected += quoted(choices[k].text);
  }
  fail_at_line(path, line, expected, quoted(word));
}

void parse_banner(std::string_view line, Header& header) {
  constexpr std::string_view tag = "%%MatrixMarket";
  const auto word = words(line);
  if (word.size() != 5 || !same_word(word[0], tag) || !same_word(word[1], "matrix"))
    fail_at_line(header.path, 1, "a banner \"%%MatrixMarket matrix FORMAT FIELD SYMMETRY\"", quoted(line));
  header.format = choose(formats, word[2], header.path, 1);
  header.field = choose(fields, word[3], header.path, 1);
  header.is_unsigned = same_word(word[3], unsigned_integer);
  header.symmetry = choose(symmetries, word[4], header.path, 1);
  if (header.format == Format::array && header.field == Field::pattern)
    fail_at_line(header.path, 1, "real, integer or complex values in an array", quoted(word[3]));
  if (header.symmetry == Symmetry::hermitian && header.field != Field::complex)
    fail_at_line(header.path, 1, "complex values in a hermitian matrix", quoted(word[3]));
  if (header.symmetry == Symmetry::skew_symmetric && header.field == Field::pattern)
    fail_at_line(header.path, 1, "values in a skew-symmetric matrix", quoted(word[3]));
}

// The least bytes of an entry with its line end.
Global shortest_entry(const Header& header) {
  const int values = header.field == Field::complex ? 2 : header.field == Field::pattern ? 0 : 1;
  return 2 * (values + (header.format == Format::coordinate ? 2 : 0));
}

// The number of entries of an array file; the largest number on overflow.
Global array_entries(Global rows, Global columns, Symmetry symmetry) {
  Global product = 0;
  if (__builtin_mul_overflow(rows, columns, &product) || product > std::numeric_limits<Global>::max() - rows)
    return std::numeric_limits<Global>::max();
  if (symmetry == Symmetry::general) return product;
  return symmetry == Symmetry::skew_symmetric ? (product - rows) / 2 : (product + rows) / 2;
}

// `room`: the most bytes of the text from its beginning.
Header parse_header(LineReader& lines, const std::string& path, Global room) {
  Header header;
  header.path = path;
  std::string_view line;
  if (!lines.next(line)) fail_at_line(path, 1, "a banner \"%%MatrixMarket ...\"", "the end of the file");
  parse_banner(line, header);
  std::vector<std::string_view> word;
  const std::string sizes =
      header.format == Format::array ? "the numbers of rows and columns" : "the numbers of rows, columns and entries";
  while (word.empty()) {
    if (!lines.next(line)) fail_at_line(path, lines.number() + 1, sizes, "the end of the file");
    word = words(line);
    if (word.empty() || word[0][0] != '%') continue;
    if (line.find('\0') != line.npos) fail_at_line(path, lines.number(), "a comment without NUL bytes", quoted(line));
    word.clear();
  }
  header.size_line = lines.number();
  const auto fail = [&](const std::string& expected, const std::string& found) {
    fail_at_line(path, header.size_line, expected, found);
  };
  if (word.size() != (header.format == Format::array ? 2 : 3)) fail(sizes, quoted(line));
  Global number[3] = {};
  for (std::size_t k = 0; k < word.size(); ++k) {
    const char* begin = word[k].data();
    const char* end = begin + word[k].size();
    if (*begin == '+') ++begin;
    if (begin == end || !std::all_of(begin, end, is_digit)) fail(sizes, quoted(word[k]));
    if (std::from_chars(begin, end, number[k]).ec != std::errc()) fail("a number below 2^63", quoted(word[k]));
  }
  header.rows = number[0];
  header.columns = number[1];
  if (header.symmetry != Symmetry::general && header.rows != header.columns)
    fail("as many rows as columns, the matrix being symmetric", quoted(line));
  header.entries =
      header.format == Format::array ? array_entries(header.rows, header.columns, header.symmetry) : number[2];
  const Global rest = std::max<Global>(0, room - lines.offset());
  const Global most = (rest + 1) / shortest_entry(header);  // the last line may have no line end
  if (header.entries > most)
    fail(message("at most ", most, " entries, for which there are ", rest, " bytes"), quoted(line));
  if (std::max(header.rows, header.columns) > largest_dimension(header.entries))
    fail(message("at most 2^20 + 64 entries = ", largest_dimension(header.entries), " rows and columns"), quoted(line));
  return header;
}

// ---------------------------------------------------------------- entries

// An error in a line of the text.
struct Fault {
  const char* line;
  std::string expected, found;
};

// The entries of some lines, indices from 0. The arrays are not initialised, since they are overwritten at once.
template <Scalar T>
struct Batch {
  std::unique_ptr<Global[]> row, column;
  std::unique_ptr<T[]> value;
  std::unique_ptr<Global[]> line;  // offset of an entry's line; for hermitian arrays only
  Global size = 0, capacity = 0;

  void clear(Global room, const Header& header) {
    size = 0;
    if (room <= capacity) return;
    capacity = 0;
    const auto n = std::size_t(room);
    if (header.format == Format::coordinate) {
      row = std::make_unique_for_overwrite<Global[]>(n);
      column = std::make_unique_for_overwrite<Global[]>(n);
    } else if (header.symmetry == Symmetry::hermitian) {
      line = std::make_unique_for_overwrite<Global[]>(n);
    }
    value = std::make_unique_for_overwrite<T[]>(n);
    capacity = room;
  }
};

// Parses whole lines. Never reads at or after `end_`; there is no terminator.
template <Scalar T>
class LineParser {
 public:
  LineParser(const Header& header, std::string_view text)
      : header_(header), begin_(text.data()), end_(text.data() + text.size()) {}

  // batch.capacity must be large enough.
  void parse(Batch<T>& batch) {
    const bool coordinate = header_.format == Format::coordinate;
    for (at_ = begin_; at_ != end_;) {
      line_ = at_;
      skip_blanks();
      if (!at_line_end()) {
        if (*at_ == '%') {
          skip_comment();
          continue;
        }
        const auto k = std::size_t(batch.size);
        if (coordinate) {
          const Global row = index(header_.rows, "row");
          const Global column = index(header_.columns, "column");
          const T entry = value();
          check_symmetry(row, column, entry);
          batch.row[k] = row;
          batch.column[k] = column;
          batch.value[k] = entry;
        } else {
          batch.value[k] = value();
          if (batch.line) batch.line[k] = line_ - begin_;
        }
        if (!at_line_end()) fail("the end of the line", rest_of_line());
        ++batch.size;
      }
      if (at_ != end_ && *at_ == '\r') ++at_;
      if (at_ != end_) ++at_;
    }
  }

 private:
  using Real = real_t<T>;

  void skip_blanks() {
    while (at_ != end_ && is_blank(*at_)) ++at_;
  }
  bool at_line_end() const {
    if (at_ == end_ || *at_ == '\n') return true;
    return *at_ == '\r' && (at_ + 1 == end_ || at_[1] == '\n');
  }
  void skip_comment() {
    const auto size = std::size_t(end_ - at_);
    const auto* stop = static_cast<const char*>(std::memchr(at_, '\n', size));
    if (!stop) stop = end_;
    if (std::memchr(at_, '\0', std::size_t(stop - at_))) fail("a comment without NUL bytes", rest_of_line());
    at_ = stop == end_ ? end_ : stop + 1;
  }

  [[noreturn]] void fail(std::string expected, std::string found) const {
    throw Fault{line_, std::move(expected), std::move(found)};
  }
  std::string rest_of_line() const {
    const char* stop = std::find(at_, end_, '\n');
    return quoted({at_, std::size_t(stop - at_)});
  }
  // Fails on the word at `begin`, up to the next blank.
  [[noreturn]] void fail_on_word(std::string expected, const char* begin) {
    at_ = begin;
    if (at_line_end()) fail(std::move(expected), "the end of the line");
    const char* stop = begin;
    for (; at_ != end_ && !is_blank(*at_) && !at_line_end(); ++at_) stop = at_ + 1;
    fail(std::move(expected), quoted({begin, std::size_t(stop - begin)}));
  }
  // Whether a number ends here: at the end of the line, or at blanks, which are skipped.
  bool end_of_word() {
    if (at_ != end_ && is_blank(*at_)) {
      skip_blanks();
      return true;
    }
    return at_line_end();
  }

  // An index from 1 to `count`, returned from 0.
  Global index(Global count, const char* what) {
    const char* const begin = at_;
    if (at_ != end_ && *at_ == '+') ++at_;
    const char* const first = at_;
    constexpr Global safe = (std::numeric_limits<Global>::max() - 9) / 10;
    Global number = 0;
    bool fits = true;
    for (; at_ != end_ && is_digit(*at_); ++at_) {
      fits = fits && number <= safe;
      if (fits) number = 10 * number + (*at_ - '0');
    }
    if (at_ == first || !fits || number < 1 || number > count || !end_of_word()) [[unlikely]]
      fail_on_word(message("a ", what, " from 1 to ", count), begin);
    return number - 1;
  }

  T value() {
    if (header_.field == Field::pattern) return T(1);
    const Real real = number();
    if constexpr (is_complex<T>) return header_.field == Field::complex ? T(real, number()) : T(real);
    else return real;
  }

  Real number() {
    const char* const begin = at_;
    const char* first = at_;
    if (first != end_ && *first == '+') ++first;
    const bool negative = first == begin && first != end_ && *first == '-';
    const char* const digits = first + negative;
    const bool integer = header_.field == Field::integer;
    const bool numeric = digits != end_ && (is_digit(*digits) || (*digits == '.' && !integer));
    if (!numeric) [[unlikely]]
      fail_on_word(integer ? "an integer" : "a finite number", begin);

    Real value{};
    if (integer) {
      for (at_ = digits; at_ != end_ && is_digit(*at_);) ++at_;
      const char* const last = at_;
      if (!end_of_word()) fail_on_word("an integer", begin);
      if (negative && header_.is_unsigned) fail_on_word("an unsigned integer", begin);
      if (last - digits > 15) check_exact(begin, digits, last);
      at_ = digits;
    }
    const auto [stop, outcome] = std::from_chars(first, end_, value, std::chars_format::general);
    at_ = stop;
    if (outcome == std::errc::invalid_argument) [[unlikely]]
      fail_on_word("a finite number", begin);
    if (at_ != end_ && (*at_ == 'd' || *at_ == 'D')) [[unlikely]]
      value = fortran_number(begin, first);
    else if (outcome == std::errc::result_out_of_range || value == 0 || !std::isfinite(value)) [[unlikely]]
      value = at_limit(begin, first, stop);
    if (!end_of_word()) [[unlikely]]
      fail_on_word("a finite number", begin);
    return value;
  }

  // Integers are not rounded: fails unless a double has this value.
  void check_exact(const char* begin, const char* digits, const char* last) {
    while (digits != last && *digits == '0') ++digits;
    if (last - digits <= 15) return;
    double value = 0;
    char exact[512];
    const auto outcome = std::from_chars(digits, last, value).ec;
    if (outcome == std::errc() && std::isfinite(value)) {
      const auto stop = std::to_chars(exact, exact + sizeof exact, value, std::chars_format::fixed, 0).ptr;
      if (std::equal(digits, last, exact, stop)) return;
      fail_on_word("an integer that a double holds exactly, as all up to 2^53 (the field real rounds)", begin);
    }
    fail_out_of_range(begin);
  }

  [[noreturn]] void fail_out_of_range(const char* begin) {
    fail_on_word(message("a number in the range of ", scalar_name<Real>()), begin);
  }

  // The number in [first, stop), which is zero or out of the range of Real. Only digits that are all zero are zero; but
  // a float may be one where a double would not be: that precision was asked for.
  Real at_limit(const char* begin, const char* first, const char* stop) {
    const bool zero = std::none_of(first, std::find_if(first, stop, [](char c) { return c == 'e' || c == 'E'; }),
                                   [](char c) { return c >= '1' && c <= '9'; });
    if (zero) return *first == '-' ? -Real(0) : Real(0);
    double value = 0;
    const auto outcome = std::from_chars(first, stop, value, std::chars_format::general).ec;
    if (outcome != std::errc() || value == 0 || !std::isfinite(Real(value))) fail_out_of_range(begin);
    return Real(value);
  }

  // A number with an exponent d or D, at which from_chars stops.
  Real fortran_number(const char* begin, const char* first) {
    std::string text(first, at_);
    text += 'e';
    for (++at_; at_ != end_ && (is_digit(*at_) || *at_ == '+' || *at_ == '-'); ++at_) text += *at_;
    Real value{};
    const char* const end = text.data() + text.size();
    const auto [stop, outcome] = std::from_chars(text.data(), end, value, std::chars_format::general);
    if (stop != end) fail_on_word("a finite number", begin);
    if (outcome == std::errc::result_out_of_range || value == 0 || !std::isfinite(value))
      value = at_limit(begin, text.data(), stop);
    return value;
  }

  void check_symmetry(Global row, Global column, const T& entry) const {
    if (header_.symmetry == Symmetry::general || row > column) [[likely]]
      return;
    const std::string position = message("\"", row + 1, " ", column + 1, "\"");
    if (row < column) fail("an entry of the lower triangle of a symmetric matrix", position);
    if (header_.symmetry == Symmetry::skew_symmetric && entry != T{})
      fail("an entry below the diagonal of a skew-symmetric matrix, or a zero on it", position);
    if constexpr (is_complex<T>)
      if (header_.symmetry == Symmetry::hermitian && entry.imag() != 0)
        fail("a real value on the diagonal of a hermitian matrix", position);
  }

  const Header& header_;
  const char* const begin_;
  const char* const end_;
  const char* at_ = nullptr;
  const char* line_ = nullptr;
};

// The whole lines that start in [begin, end) as one text; `first` becomes the offset of the first. The entries of the
// source start at `section`, with a new line.
std::string_view lines_from(const Source& source, Global section, Global begin, Global end, std::vector<char>& buffer,
                            Global& first) {
  if (begin >= end) return {};
  const Global from = begin > section ? begin - 1 : begin;  // does a line start at `begin`?
  const auto last = std::size_t(end - 1 - from);
  std::string_view text;
  std::size_t stop = text.npos;
  for (Global beyond = 4096; stop == text.npos; beyond *= 4) {
    const Global to = std::min(source.size(), end + std::min(beyond, longest_line));
    text = source.read(from, to, buffer);
    stop = text.find('\n', last);
    if (stop == text.npos && (to == source.size() || beyond >= longest_line)) stop = text.size();
  }
  stop = std::min(stop + 1, text.size());
  std::size_t start = 0;
  if (from < begin) {
    start = text.find('\n') + 1;
    if (start == 0 || start > last) return {};
  }
  const std::size_t line = last == 0 ? 0 : text.rfind('\n', last - 1) + 1;  // start of the last line
  if (Global(stop - line) > longest_line)
    fail_at_line(source.path(), source.line_of(end - 1), message("lines of at most ", longest_line, " bytes"),
                 "a longer one");
  first = from + Global(start);
  return text.substr(start, stop - start);
}

[[noreturn]] void fail_in(const Source& source, Global line, const std::string& expected, const std::string& found) {
  fail_at_line(source.path(), source.line_of(line), expected, found);
}

// Parses the lines that start in [begin, end) and calls take(batch, offset of its first line) in their order. Of
// several errors the first is thrown. Any free thread parses a chunk, and the thread that completes the sequence takes
// all consecutive finished chunks, so that threads do not wait, except one that would get a whole round ahead of the
// oldest chunk.
template <Scalar T, class Take>
void parse_lines(const Source& source, const Header& header, Global section, Global begin, Global end, Take&& take) {
  struct Slot {
    Batch<T> batch;
    Global first = 0;
    std::exception_ptr problem;
    bool ready = false;
  };
  const Global chunks = (end - begin + chunk - 1) / chunk;
  std::vector<Slot> slots(std::size_t(std::min<Global>(chunks, 2 * exec::threads())));
  const auto slot = [&](Global c) -> Slot& { return slots[std::size_t(c) % slots.size()]; };
  std::mutex mutex;
  std::condition_variable moved;
  Global started = 0, taken = 0;
  std::exception_ptr problem;

  const auto parse = [&](Global c, Slot& to, std::vector<char>& buffer) {
    const Global low = begin + c * chunk, high = std::min(end, low + chunk);
    const std::string_view text = lines_from(source, section, low, high, buffer, to.first);
    to.batch.clear((high - low) / shortest_entry(header) + 1, header);
    try {
      LineParser<T>(header, text).parse(to.batch);
    } catch (const Fault& fault) {
      fail_in(source, to.first + (fault.line - text.data()), fault.expected, fault.found);
    }
  };
  const auto take_next = [&] {
    Slot& next = slot(taken);
    try {
      if (next.problem) std::rethrow_exception(next.problem);
      take(next.batch, next.first);
    } catch (...) {
      problem = std::current_exception();
    }
    next.ready = false;
    ++taken;
  };

  const auto work = [&] {
    std::vector<char> buffer;
    std::unique_lock lock(mutex);
    for (;;) {
      moved.wait(lock, [&] { return problem || started == chunks || started < taken + Global(slots.size()); });
      if (problem || started == chunks) break;
      const Global mine = started++;
      lock.unlock();
      try {
        parse(mine, slot(mine), buffer);
      } catch (...) {
        slot(mine).problem = std::current_exception();
      }
      lock.lock();
      slot(mine).ready = true;
      while (!problem && taken < started && slot(taken).ready) take_next();
      moved.notify_all();
    }
  };
  if (chunks > 1) exec::run_team([&](int) { work(); });
  else work();
  if (problem) std::rethrow_exception(problem);
}

// Parses the lines that start in [begin, end) into pieces, in their order. Threads take stretches of the text. Of
// several errors the first is thrown.
template <Scalar T>
std::vector<EntryPiece<T>> parse_pieces(const Source& source, const Header& header, Global section, Global begin,
                                        Global end) {
  constexpr Global most_at_once = 64 * chunk;
  const Global wanted = (end - begin) / (4 * exec::threads()) / chunk * chunk;
  const Global stretch = std::clamp<Global>(wanted, chunk, most_at_once), count = (end - begin + stretch - 1) / stretch;
  std::vector<EntryPiece<T>> pieces(static_cast<std::size_t>(count));
  std::mutex mutex;
  std::exception_ptr problem;
  std::atomic<std::size_t> wrong = pieces.size();  // the first stretch with an error

  const auto parse = [&](std::size_t i, Batch<T>& batch, std::vector<char>& buffer) {
    const Global low = begin + Global(i) * stretch, high = std::min(end, low + stretch);
    EntryPiece<T>& to = pieces[i];
    const auto room = std::size_t((high - low) / shortest_entry(header) + (high - low) / chunk + 2);
    // Less than half of the room is used, but large pages cost a tenth of the time of small ones.
    const bool large = stretch == most_at_once;
    to = {0, Buffer<Local>(room, large), Buffer<Local>(room, large), Buffer<T>(room, large)};
    for (Global at = low; at < high; at += chunk) {
      Global first = 0;
      const std::string_view text = lines_from(source, section, at, std::min(high, at + chunk), buffer, first);
      batch.clear(chunk / shortest_entry(header) + 1, header);
      try {
        LineParser<T>(header, text).parse(batch);
      } catch (const Fault& fault) {
        fail_in(source, first + (fault.line - text.data()), fault.expected, fault.found);
      }
      for (Global k = 0; k < batch.size; ++k) {
        to.row[std::size_t(to.count + k)] = Local(batch.row[std::size_t(k)]);
        to.column[std::size_t(to.count + k)] = Local(batch.column[std::size_t(k)]);
      }
      std::copy_n(batch.value.get(), batch.size, to.value.data() + to.count);
      to.count += batch.size;
    }
  };
  exec::parallel_claims(pieces.size(), 1, pieces.size() > 1, [&](exec::Claims& claims) {
    Batch<T> batch;
    std::vector<char> buffer;
    claims.each([&](std::size_t i) {
      if (i > wrong) return;
      try {
        parse(i, batch, buffer);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < wrong) wrong = i, problem = std::current_exception();
      }
    });
  });
  if (problem) std::rethrow_exception(problem);
  return pieces;
}

// A file opened after its size line.
class Entries {
 public:
  explicit Entries(const Source& source)
      : source_(source),
        compressed_(detail::is_gzip(source)),
        stream_(detail::open_stream(source)),
        lines_(*stream_, source.path()),
        header_(parse_header(lines_, source.path(),
                             compressed_ ? detail::largest_expansion(source.size()) : source.size())) {}

  const Header& header() const { return header_; }
  bool compressed() const { return compressed_; }
  // Bytes of the text, or of the compressed file.
  Global bytes() const { return compressed_ ? source_.size() : source_.size() - lines_.offset(); }

  // take(batch, source, offset of its first line) for the lines of `part`; for all lines of a compressed file.
  template <Scalar T, class Take>
  void parse(int part, int parts, Take&& take) {
    each_text(part, parts, [&](const Source& text, Global section, Global begin, Global end) {
      parse_lines<T>(text, header_, section, begin, end,
                     [&](const Batch<T>& batch, Global first) { take(batch, text, first); });
    });
  }

  // Calls use(text, offset of its entries, begin, end) for ranges of bytes of whole lines: that of `part`, or all of a
  // compressed file.
  template <class Use>
  void each_text(int part, int parts, Use&& use) {
    if (compressed_) return each_expanded(use);
    const Global section = lines_.offset(), size = source_.size() - section;
    const auto cut = [&](int p) { return section + size / parts * p + size % parts * p / parts; };
    use(source_, section, cut(part), cut(part + 1));
  }

 private:
  template <class Use>
  void each_expanded(Use&& use) {
    Global line = lines_.number() + 1;
    std::vector<char> text(lines_.rest().begin(), lines_.rest().end());
    std::size_t have = text.size();
    auto wanted = std::size_t(chunk * exec::threads());
    for (bool ended = false; !ended;) {
      if (text.size() < wanted) text.resize(wanted);
      while (have < wanted && !ended) {
        const std::size_t got = stream_->read(text.data() + have, wanted - have);
        have += got;
        ended = got == 0;
      }
      const std::string_view all(text.data(), have);
      const std::size_t size = ended ? have : all.rfind('\n') + 1;
      if (size == 0 && Global(have) > longest_line)
        fail_at_line(source_.path(), line, message("lines of at most ", longest_line, " bytes"), "a longer one");
      if (size == 0) wanted = 2 * have;
      const Source piece(all.substr(0, size), source_.path(), line);
      use(piece, Global(0), Global(0), piece.size());
      line += std::count(all.begin(), all.begin() + std::ptrdiff_t(size), '\n');
      std::copy(all.begin() + std::ptrdiff_t(size), all.end(), text.begin());
      have -= size;
    }
  }

  const Source& source_;
  const bool compressed_;
  std::unique_ptr<Stream> stream_;
  LineReader lines_;
  Header header_;
};

template <Scalar T>
void check_field(const Header& header) {
  if (header.field == Field::complex && !is_complex<T>)
    fail_at_line(header.path, 1, message("real, integer or pattern entries, to be read as ", scalar_name<T>()),
                 "\"complex\"");
}

// What a message says about a matrix that memory does not suffice for.
std::string sizes_of(const Header& header) {
  return message(header.path, ": a matrix of ", header.rows, " x ", header.columns, " with ", header.entries,
                 " stored entries");
}

// Appends the entries [first, last) of the file, with their mirror images.
template <Scalar T>
class Collector {
 public:
  Collector(const Header& header, bool expand, Global first, Global last, Global expected)
      : header_(header), expand_(expand && header.symmetry != Symmetry::general), first_(first), last_(last) {
    result_.rows = header.rows;
    result_.columns = header.columns;
    make_room(expected);
  }

  void take(const Batch<T>& batch) {
    const Global from = std::clamp<Global>(first_ - seen_, 0, batch.size);
    const Global to = std::clamp<Global>(last_ - seen_, from, batch.size);
    seen_ += batch.size;
    result_.entries_parsed += to - from;
    if (seen_ > header_.entries || to == from) return;  // too many entries are reported at the end
    make_room(to - from);
    if (!expand_) {
      result_.row.insert(result_.row.end(), &batch.row[from], &batch.row[from] + (to - from));
      result_.column.insert(result_.column.end(), &batch.column[from], &batch.column[from] + (to - from));
      result_.value.insert(result_.value.end(), &batch.value[from], &batch.value[from] + (to - from));
      return;
    }
    for (Global k = from; k < to; ++k) {
      const Global row = batch.row[k], column = batch.column[k];
      put(row, column, batch.value[k]);
      if (row != column) put(column, row, mirrored(header_.symmetry, batch.value[k]));
    }
  }

  Global seen() const { return seen_; }
  Triplets<T> result() { return std::move(result_); }

 private:
  void put(Global row, Global column, const T& value) {
    result_.row.push_back(row);
    result_.column.push_back(column);
    result_.value.push_back(value);
  }
  void make_room(Global entries) {
    const auto needed = result_.value.size() + std::size_t(expand_ ? 2 * entries : entries);
    if (needed <= result_.value.capacity()) return;
    const auto most = std::size_t(expand_ ? 2 * header_.entries : header_.entries);
    const auto room = std::max(needed, std::min(most, 2 * result_.value.capacity()));
    result_.row.reserve(room);
    result_.column.reserve(room);
    result_.value.reserve(room);
  }

  const Header& header_;
  const bool expand_;
  const Global first_, last_;
  Global seen_ = 0;
  Triplets<T> result_;
};

template <Scalar T>
Triplets<T> read_triplets(Entries& entries, int part, int parts, bool expand) {
  const Header& header = entries.header();
  check_field<T>(header);
  return detail::with_memory_for(sizes_of(header), [&] {
    const auto cut = [&](int p) { return header.entries / parts * p + header.entries % parts * p / parts; };
    const bool whole = parts == 1, compressed = entries.compressed();
    const Global all = std::numeric_limits<Global>::max();
    const Global first = compressed && part > 0 ? cut(part) : 0;
    const Global last = compressed && part + 1 < parts ? cut(part + 1) : all;
    // The lines of a part may be a little shorter than the average; text may shrink to an eighth when compressed.
    Global expected = whole ? header.entries : header.entries / parts + header.entries / parts / 16 + 64;
    expected = std::min(
        {expected, header.entries,
         (compressed ? 8 : 1) * (entries.bytes() / (compressed ? 1 : parts) + 2) / shortest_entry(header) + 1});
    Collector<T> collector(header, expand, first, last, expected);
    entries.template parse<T>(part, parts,
                              [&](const Batch<T>& batch, const Source&, Global) { collector.take(batch); });
    if (whole || compressed || collector.seen() > header.entries) check_entry_count(header, collector.seen());
    return collector.result();
  });
}

template <Scalar T>
Triplets<T> triplets_of(const Source& source, int part, int parts, bool expand) {
  require(parts >= 1 && part >= 0 && part < parts, "part is ", part, " of ", parts,
          ", expected 0 <= part < parts to read ", source.path());
  const Span span("read_matrix_market", "io", source.size() / parts);
  Entries entries(source);
  if (entries.header().format != Format::coordinate)
    fail_at_line(source.path(), 1, "\"coordinate\" (read_matrix_market_array reads arrays)", "\"array\"");
  return read_triplets<T>(entries, part, parts, expand);
}

template <Scalar T>
EntryPieces<T> pieces_of(const Source& source, int part, int parts) {
  require(parts >= 1 && part >= 0 && part < parts, "part is ", part, " of ", parts,
          ", expected 0 <= part < parts to read ", source.path());
  const Span span("read_matrix_market", "io", source.size() / parts);
  Entries entries(source);
  const Header& header = entries.header();
  if (header.format != Format::coordinate)
    fail_at_line(source.path(), 1, "\"coordinate\" (read_matrix_market_array reads arrays)", "\"array\"");
  check_field<T>(header);
  require(std::max(header.rows, header.columns) <= std::numeric_limits<Local>::max(), source.path(), " is ",
          header.rows, " x ", header.columns, "; 32-bit indices hold ", std::numeric_limits<Local>::max());
  return detail::with_memory_for(sizes_of(header), [&] {
    EntryPieces<T> all{header.rows, header.columns, header.symmetry, 0, {}};
    const auto cut = [&](int p) { return header.entries / parts * p + header.entries % parts * p / parts; };
    const bool compressed = entries.compressed();
    const Global first = compressed && part > 0 ? cut(part) : 0;
    const Global last = compressed && part + 1 < parts ? cut(part + 1) : std::numeric_limits<Global>::max();
    Global seen = 0;
    entries.each_text(part, parts, [&](const Source& text, Global section, Global begin, Global end) {
      for (EntryPiece<T>& piece : parse_pieces<T>(text, header, section, begin, end)) {
        const Global from = std::clamp<Global>(first - seen, 0, piece.count);
        const Global to = std::clamp<Global>(last - seen, from, piece.count);
        seen += piece.count;
        if (seen > header.entries || from == to) continue;  // too many entries are reported at the end
        if (from > 0) {
          std::copy(&piece.row[std::size_t(from)], piece.row.data() + to, piece.row.data());
          std::copy(&piece.column[std::size_t(from)], piece.column.data() + to, piece.column.data());
          std::copy(&piece.value[std::size_t(from)], piece.value.data() + to, piece.value.data());
        }
        piece.count = to - from;
        all.entries_parsed += piece.count;
        all.piece.push_back(std::move(piece));
      }
    });
    if (parts == 1 || compressed || seen > header.entries) check_entry_count(header, seen);
    return all;
  });
}

// Stores the elements of an array, which come by columns. SciPy before 1.0 wrote skew-symmetric arrays with their
// diagonal, which the number of elements tells: those are kept in their order to the end.
template <Scalar T>
class Filler {
 public:
  explicit Filler(const Header& header) : header_(header) {
    result_.rows = header.rows;
    result_.columns = header.columns;
    if (header.symmetry == Symmetry::general) result_.value.reserve(std::size_t(header.entries));
    else if (header.symmetry == Symmetry::skew_symmetric) in_order_.reserve(std::size_t(header.entries));
    else result_.value.resize(std::size_t(header.rows) * std::size_t(header.columns));
  }

  void take(const Batch<T>& batch, const Source& source, Global first) {
    const bool skew = header_.symmetry == Symmetry::skew_symmetric;
    const Global most = skew ? with_diagonal() : header_.entries;
    const Global n = std::clamp<Global>(most - seen_, 0, batch.size);
    seen_ += batch.size;
    if (skew || header_.symmetry == Symmetry::general) {
      auto& to = skew ? in_order_ : result_.value;
      to.insert(to.end(), batch.value.get(), batch.value.get() + n);
      return;
    }
    for (Global k = 0; k < n; ++k) {
      const T value = batch.value[k];
      if constexpr (is_complex<T>)
        if (row_ == column_ && batch.line && value.imag() != 0)
          fail_in(source, first + batch.line[k], "a real value on the diagonal of a hermitian matrix",
                  message("\"", value.real(), " ", value.imag(), "\""));
      put(value);
      if (++row_ == header_.rows) row_ = ++column_;
    }
  }

  Global seen() const { return seen_; }
  /// Whether these are the elements of a skew-symmetric array with its diagonal.
  bool has_diagonal() const { return header_.symmetry == Symmetry::skew_symmetric && seen_ == with_diagonal(); }

  Dense<T> result() {
    if (header_.symmetry == Symmetry::skew_symmetric) fill_skew();
    return std::move(result_);
  }

 private:
  Global with_diagonal() const { return header_.entries + header_.rows; }

  void put(const T& value) {
    result_.value[std::size_t(row_ + column_ * header_.rows)] = value;
    if (row_ != column_) result_.value[std::size_t(column_ + row_ * header_.rows)] = mirrored(header_.symmetry, value);
  }

  void fill_skew() {
    const Global n = header_.rows;
    result_.value.resize(std::size_t(n) * std::size_t(n));
    const bool whole = has_diagonal();
    auto next = in_order_.cbegin();
    for (column_ = 0; column_ < n; ++column_)
      for (row_ = whole ? column_ : column_ + 1; row_ < n; ++row_, ++next) {
        if (row_ == column_ && *next != T{})
          fail_at_line(header_.path, header_.size_line,
                       message(header_.entries, " elements below the diagonal of a skew-symmetric matrix, or ",
                               with_diagonal(), " with zeros on it"),
                       message("another number in row ", row_ + 1, " of it"));
        put(*next);
      }
  }

  const Header& header_;
  Global row_ = 0, column_ = 0, seen_ = 0;
  std::vector<T> in_order_;  // of a skew-symmetric array
  Dense<T> result_;
};

template <Scalar T>
Dense<T> scattered(Entries& entries) {
  const Header& header = entries.header();
  const Global most = (Global(1) << 24) + 4 * header.entries;
  if (array_entries(header.rows, header.columns, Symmetry::general) > most)
    fail_at_line(header.path, header.size_line,
                 message("at most 2^24 + 4 entries = ", most, " elements of a dense block"),
                 message("\"", header.rows, " x ", header.columns, "\""));
  const Triplets<T> triplets = read_triplets<T>(entries, 0, 1, true);
  return detail::with_memory_for(sizes_of(header), [&] {
    Dense<T> block{header.rows, header.columns, std::vector<T>(std::size_t(header.rows * header.columns))};
    for (std::size_t k = 0; k < triplets.value.size(); ++k) {
      T& element = block.value[std::size_t(triplets.row[k] + triplets.column[k] * header.rows)];
      element += triplets.value[k];
      if (!is_finite(element))
        throw Error(ErrorKind::input,
                    message(header.path, ": the entries at row ", triplets.row[k] + 1, ", column ",
                            triplets.column[k] + 1, " add up to beyond the range of ", scalar_name<T>()));
    }
    return block;
  });
}

template <Scalar T>
Dense<T> dense_of(const Source& source) {
  const Span span("read_matrix_market_array", "io", source.size());
  Entries entries(source);
  const Header& header = entries.header();
  check_field<T>(header);
  if (header.format == Format::coordinate) return scattered<T>(entries);
  return detail::with_memory_for(sizes_of(header), [&] {
    Filler<T> filler(header);
    entries.template parse<T>(
        0, 1, [&](const Batch<T>& batch, const Source& from, Global first) { filler.take(batch, from, first); });
    if (!filler.has_diagonal()) check_entry_count(header, filler.seen());
    return filler.result();
  });
}

}  // namespace

void check_entry_count(const Header& header, Global total) {
  if (total == header.entries) return;
  fail_at_line(header.path, header.size_line, message(header.entries, " entries, as stated here"),
               message(total, " in the file"));
}

Header read_matrix_market_header(const std::string& path) {
  return Entries(Source::open(path)).header();
}

template <Scalar T>
Triplets<T> read_matrix_market(const std::string& path, int part, int parts, bool expand_symmetry) {
  return triplets_of<T>(Source::open(path), part, parts, expand_symmetry);
}
template <Scalar T>
EntryPieces<T> read_matrix_market_pieces(const std::string& path, int part, int parts) {
  return pieces_of<T>(Source::open(path), part, parts);
}
template <Scalar T>
Triplets<T> parse_matrix_market(std::string_view bytes, const std::string& path, int part, int parts,
                                bool expand_symmetry) {
  return triplets_of<T>(Source(bytes, path), part, parts, expand_symmetry);
}
template <Scalar T>
Dense<T> read_matrix_market_array(const std::string& path) {
  return dense_of<T>(Source::open(path));
}
template <Scalar T>
Dense<T> parse_matrix_market_array(std::string_view bytes, const std::string& path) {
  return dense_of<T>(Source(bytes, path));
}

#define TACIT_INSTANTIATE(T)                                                                         \
  template Triplets<T> read_matrix_market<T>(const std::string&, int, int, bool);                    \
  template EntryPieces<T> read_matrix_market_pieces<T>(const std::string&, int, int);                \
  template Triplets<T> parse_matrix_market<T>(std::string_view, const std::string&, int, int, bool); \
  template Dense<T> read_matrix_market_array<T>(const std::string&);                                 \
  template Dense<T> parse_matrix_market_array<T>(std::string_view, const std::string&);
TACIT_EACH_OF_FOUR(TACIT_INSTANTIATE)

}  // namespace tacit::io
