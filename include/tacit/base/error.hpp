// Errors: wrong use and bad input throw; numerical outcomes never do (they are krylov::Reason values).
#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tacit {

enum class ErrorKind : int {
  usage,        ///< the caller's arguments do not fit: shapes, spaces, options
  input,        ///< a file or an array holds something that cannot be accepted
  environment,  ///< MPI, device, file system
  interrupted,  ///< the user asked to stop
  memory        ///< there is not enough memory
};

/// What Tacit throws. In a collective call every rank throws the same Error: same kind, same text.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }
  /// True once all ranks of a collective call throw this Error; set by comm::collective.
  bool agreed() const noexcept { return agreement_ != 0; }
  /// The number of that agreement, unique in this process; 0 for none.
  std::uint64_t agreement() const noexcept { return agreement_; }
  Error as_agreed(std::uint64_t agreement) const {
    Error e = *this;
    e.agreement_ = agreement;
    return e;
  }

 private:
  ErrorKind kind_;
  std::uint64_t agreement_ = 0;
};

namespace detail {

/// One part of a message: a reference to a text, or a number. Other types do not convert to it.
class Part {
 public:
  Part(std::string_view text) : kind_(Kind::text), text_(text) {}
  Part(const std::string& text) : kind_(Kind::text), text_(text) {}
  Part(const char* text) : kind_(Kind::text), text_(text) {}
  Part(char letter) : kind_(Kind::letter), letter_(letter) {}
  template <std::signed_integral I>
  Part(I number) : kind_(Kind::integer), integer_(number) {}
  template <std::unsigned_integral I>
  Part(I number) : kind_(Kind::natural), natural_(number) {}
  Part(float number) : kind_(Kind::single), real_{number, 0} {}
  Part(double number) : kind_(Kind::real), real_{number, 0} {}
  Part(const std::complex<float>& number) : kind_(Kind::single_complex), real_{number.real(), number.imag()} {}
  Part(const std::complex<double>& number) : kind_(Kind::complex), real_{number.real(), number.imag()} {}
  void append_to(std::string& text) const;

 private:
  enum class Kind : char { text, letter, integer, natural, single, real, single_complex, complex } kind_;
  union {
    std::string_view text_;
    char letter_;
    std::int64_t integer_;
    std::uint64_t natural_;
    double real_[2];
  };
};
std::string joined(std::initializer_list<Part> parts);
[[noreturn]] void throw_usage(std::initializer_list<Part> parts);

}  // namespace detail

/// Text from parts: message("row ", 3, " of ", 2). A floating-point number has the fewest digits that read back as the
/// same number of its type, written out from 0.0001 to below 1e16 (0.8, 100000, 1e-12); a complex one is (re,im), a
/// bool 1 or 0.
template <class... Parts>
std::string message(const Parts&... parts) {
  return detail::joined({detail::Part(parts)...});
}

/// Throws Error(usage) with the given text unless `condition` holds. The text is built only on failure.
template <class... Parts>
void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    detail::throw_usage({detail::Part(parts)...});
}

/// Value of `from` as To; Error(usage) naming the value when it does not fit.
template <std::integral To, std::integral From>
To checked_cast(From from, const char* what) {
  if (!std::in_range<To>(from)) [[unlikely]]
    detail::throw_usage({what, " is ", from, ", beyond the largest that fits, ", std::numeric_limits<To>::max()});
  return static_cast<To>(from);
}

}  // namespace tacit
