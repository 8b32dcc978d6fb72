#include <tacit/base/error.hpp>
#include <tacit/base/names.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <vector>

namespace tacit::detail {
namespace {

template <std::integral Number>
void append(std::string& text, Number number) {
  char digits[24];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}
// Fixed notation where Python uses it, from 0.0001 to below 1e16.
template <std::floating_point Number>
void append(std::string& text, Number number) {
  char digits[32];  // the longest are -2.2250738585072014e-308 and -0.00012345678901234567
  const Number size = std::abs(number);
  const bool plain = size == 0 || (size >= Number(1e-4) && size < Number(1e16));
  const auto how = plain ? std::chars_format::fixed : std::chars_format::scientific;
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number, how).ptr);
}

template <class Real>
void append(std::string& text, Real re, Real im) {
  append(text += '(', re);
  append(text += ',', im);
  text += ')';
}

}  // namespace

void Part::append_to(std::string& text) const {
  switch (kind_) {
    case Kind::text:
      text += text_;
      break;
    case Kind::letter:
      text += letter_;
      break;
    case Kind::integer:
      append(text, integer_);
      break;
    case Kind::natural:
      append(text, natural_);
      break;
    case Kind::single:
      append(text, float(real_[0]));
      break;
    case Kind::real:
      append(text, real_[0]);
      break;
    case Kind::single_complex:
      append(text, float(real_[0]), float(real_[1]));
      break;
    case Kind::complex:
      append(text, real_[0], real_[1]);
      break;
  }
}

std::string joined(std::initializer_list<Part> parts) {
  std::string text;
  for (const Part& part : parts) part.append_to(text);
  return text;
}

void throw_usage(std::initializer_list<Part> parts) {
  throw Error(ErrorKind::usage, joined(parts));
}

}  // namespace tacit::detail

namespace tacit {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t up = row[j];
      row[j] = std::min({up + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = up;
    }
  }
  return row[b.size()];
}

void detail::throw_unknown(const char* what, std::string_view name, std::span<const char* const> known) {
  std::string all;
  const char* nearest = known[0];
  for (const char* const n : known) {
    all += (all.empty() ? "" : ", ") + std::string(n);
    if (edit_distance(name, n) < edit_distance(name, nearest)) nearest = n;
  }
  throw Error(ErrorKind::usage,
              message("unknown ", what, " \"", name, "\"; did you mean \"", nearest, "\"? (", all, ")"));
}

}  // namespace tacit
