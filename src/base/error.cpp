#include <tacit/base/error.hpp>

#include <charconv>

namespace tacit::detail {
namespace {

template <class Number>
void append(std::string& text, Number number) {
  char digits[32];  // the longest are -2.2250738585072014e-308 and -9223372036854775808
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
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
