#include <tacit/base/error.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/exec/parallel.hpp>
#include <tacit/io/triples.hpp>

#include "output.hpp"
#include "source.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <system_error>

namespace tacit::io {
namespace {

using detail::quoted;
using detail::Source;

constexpr std::size_t block = std::size_t(1) << 25;    // bytes of text that are in memory at a time
constexpr std::size_t stretch = std::size_t(1) << 19;  // bytes that a thread parses at a time
constexpr Global largest_index = std::numeric_limits<Local>::max();

constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// An error in a line, counted from 0 in its text.
struct Fault {
  Global line;
  std::string expected, found;
};

// The entries of whole lines.
struct Parsed {
  TriplePiece kept;
  Global lines = 0, entries = 0, rows = 0, columns = 0;
  std::optional<Fault> fault;
};

// Parses whole lines. Never reads at or after `end_`.
class Parser {
 public:
  Parser(std::string_view text, DealtRows rows, Parsed& to)
      : at_(text.data()), end_(at_ + text.size()), rows_(rows), to_(to) {}

  void run() {
    const std::size_t expected = std::size_t(end_ - at_) / 16 / std::size_t(rows_.parts) + 8;
    to_.kept.row.reserve(expected), to_.kept.column.reserve(expected), to_.kept.value.reserve(expected);
    try {
      while (at_ != end_) {
        skip_blanks();
        if (!at_line_end()) entry();
        next_line();
        ++to_.lines;
      }
    } catch (Fault& fault) {
      to_.fault = std::move(fault);
    }
  }

 private:
  void entry() {
    const Global row = index("row"), column = index("column");
    const float number = value();
    skip_blanks();
    if (!at_line_end()) fail("the end of the line after three numbers", at_);
    ++to_.entries;
    to_.rows = std::max(to_.rows, row + 1);
    if (rows_.parts > 1 && !rows_.has(row)) return;
    to_.columns = std::max(to_.columns, column + 1);
    to_.kept.row.push_back(Local(row)), to_.kept.column.push_back(Local(column)), to_.kept.value.push_back(number);
  }

  // An index from 1, returned from 0.
  Global index(const char* what) {
    const char* const begin = at_;
    Global n = 0;
    for (; at_ != end_ && is_digit(*at_) && n <= largest_index; ++at_) n = 10 * n + (*at_ - '0');
    if (at_ == begin || n < 1 || n > largest_index || at_ == end_ || !is_blank(*at_)) [[unlikely]]
      n = odd_index(begin, what);
    skip_blanks();
    return n - 1;
  }
  // A whole number that is written as a real one, as NumPy's savetxt does.
  Global odd_index(const char* begin, const char* what) {
    double n = 0;
    const auto [stop, outcome] = std::from_chars(begin, end_, n);
    if (outcome != std::errc() || !(n >= 1 && n <= double(largest_index)) || n != std::floor(n) || !ends(stop))
      fail(message("a ", what, " from 1 to ", largest_index), begin);
    at_ = stop;
    return Global(n);
  }

  float value() {
    // Many files have one value only.
    const auto left = std::size_t(end_ - at_);
    if (size_ > 0 && left > size_ && std::memcmp(at_, last_, size_) == 0 && ends(at_ + size_)) {
      at_ += size_;
      return value_;
    }
    const char* const begin = at_;
    const char* const first = begin != end_ && *begin == '+' ? begin + 1 : begin;
    auto [stop, outcome] = std::from_chars(first, end_, value_);
    if (outcome == std::errc::result_out_of_range) {  // below the range of float is 0
      double wide = 0;
      std::from_chars(first, end_, wide);
      if (std::abs(wide) < 1) value_ = float(wide), outcome = std::errc();
    }
    if (outcome != std::errc() || !std::isfinite(value_) || !ends(stop)) fail("a finite value", begin);
    at_ = stop;
    last_ = begin, size_ = std::size_t(stop - begin);
    return value_;
  }

  void skip_blanks() {
    while (at_ != end_ && is_blank(*at_)) ++at_;
  }
  // Whether a line ends at `p`, which may be with a comment.
  bool ends_line(const char* p) const {
    return p == end_ || *p == '\n' || *p == '#' || *p == '%' || (*p == '\r' && (p + 1 == end_ || p[1] == '\n'));
  }
  bool at_line_end() const { return ends_line(at_); }
  bool ends(const char* p) const { return ends_line(p) || is_blank(*p); }
  void next_line() {
    if (at_ != end_ && *at_ == '\n') [[likely]] {
      ++at_;
      return;
    }
    const auto* stop = static_cast<const char*>(std::memchr(at_, '\n', std::size_t(end_ - at_)));
    at_ = stop ? stop + 1 : end_;
  }
  [[noreturn]] void fail(std::string expected, const char* at) const {
    const char* stop = at;
    while (stop != end_ && *stop != '\n' && *stop != '\r') ++stop;
    throw Fault{to_.lines, std::move(expected),
                stop == at ? std::string("the end of the line") : quoted({at, std::size_t(stop - at)})};
  }

  const char* at_;
  const char* const end_;
  const DealtRows rows_;
  Parsed& to_;
  const char* last_ = nullptr;  // the text of value_, of size_ bytes
  std::size_t size_ = 0;
  float value_ = 0;
};

// Parses a text of whole lines, and adds its entries. `line`: of its first line, from 1; becomes that behind it.
void parse_text(std::string_view text, DealtRows rows, const std::string& path, Global& line, Triples& to) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t stop = text.size() > stretch ? text.find('\n', stretch) : text.npos;
    parts.push_back(text.substr(0, stop == text.npos ? stop : stop + 1));
    text.remove_prefix(parts.back().size());
  }
  std::vector<Parsed> parsed(parts.size());
  exec::parallel_for(
      parts.size(), parts.size() > 1, [&](std::size_t i) { Parser(parts[i], rows, parsed[i]).run(); }, 1);
  for (Parsed& one : parsed) {
    if (one.fault) detail::fail_at_line(path, line + one.fault->line, one.fault->expected, one.fault->found);
    line += one.lines;
    to.entries += one.entries;
    to.rows = std::max(to.rows, one.rows), to.columns = std::max(to.columns, one.columns);
    if (!one.kept.row.empty()) to.pieces.push_back(std::move(one.kept));
  }
}

Triples triples_of(const Source& source, DealtRows rows) {
  require(rows.parts >= 1 && rows.part >= 0 && rows.part < rows.parts, "part ", rows.part, " of ", rows.parts, " of ",
          source.path());
  const Span span("read_triples", "io", source.size());
  return detail::with_memory_for(source.path(), [&] {
    Triples all;
    const auto stream = detail::open_stream(source);
    const Global wanted = detail::is_gzip(source) ? Global(block) : source.size() + 1;
    std::vector<char> text(std::size_t(std::clamp<Global>(wanted, 4096, Global(block))));
    std::size_t have = 0;
    Global line = 1;
    for (bool ended = false; !ended;) {
      if (have == text.size()) {
        if (Global(have) > detail::longest_line && have >= block)
          detail::fail_at_line(source.path(), line, message("lines of at most ", detail::longest_line, " bytes"),
                               "a longer one");
        text.resize(2 * have);
      }
      while (have < text.size() && !ended) {
        const std::size_t got = stream->read(text.data() + have, text.size() - have);
        have += got;
        ended = got == 0;
      }
      const std::string_view here(text.data(), have);
      const std::size_t size = ended ? have : here.rfind('\n') + 1;
      parse_text(here.substr(0, size), rows, source.path(), line, all);
      std::copy(text.begin() + std::ptrdiff_t(size), text.begin() + std::ptrdiff_t(have), text.begin());
      have -= size;
    }
    return all;
  });
}

// The value in scientific notation with six digits where these are exact.
std::string_view text_of(float value, std::span<char> room) {
  float back = 0;
  char* const end = room.data() + room.size();
  auto stop = std::to_chars(room.data(), end, value, std::chars_format::scientific, 6).ptr;
  std::from_chars(room.data(), stop, back);
  if (back != value) stop = std::to_chars(room.data(), end, value).ptr;
  return {room.data(), std::size_t(stop - room.data())};
}

}  // namespace

Triples read_triples(const std::string& path, DealtRows rows) {
  return triples_of(Source::open(path), rows);
}

Triples parse_triples(std::string_view bytes, const std::string& path, DealtRows rows) {
  return triples_of(Source(bytes, path), rows);
}

void write_triples(const std::string& path, std::span<const Local> row, std::span<const Local> column,
                   std::span<const float> value) {
  require(row.size() == value.size() && column.size() == value.size(), "triples for ", path, " have ", row.size(),
          " rows, ", column.size(), " columns and ", value.size(), " values");
  detail::Output output(path, detail::wants_gzip(path));
  char line[96], number[48];
  std::string_view text;
  for (std::size_t k = 0; k < value.size(); ++k) {
    if (k == 0 || value[k] != value[k - 1]) text = text_of(value[k], number);
    char* at = std::to_chars(line, line + 16, Global(row[k]) + 1).ptr;
    *at++ = '\t';
    at = std::to_chars(at, at + 16, Global(column[k]) + 1).ptr;
    *at++ = '\t';
    at = std::copy(text.begin(), text.end(), at);
    *at++ = '\n';
    output.write({line, std::size_t(at - line)});
  }
  output.finish();
}

}  // namespace tacit::io
