// Errors: wrong use and bad input throw; numerical outcomes never do (they are krylov::Reason values).
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace tacit {

enum class ErrorKind : int {
  usage,        ///< the caller's arguments do not fit: shapes, spaces, options
  input,        ///< a file or an array holds something that cannot be accepted
  environment,  ///< memory, MPI, device, file system
  interrupted   ///< the user asked to stop
};

/// What Tacit throws. In a collective call every rank throws the same Error: same kind, same text.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }
  /// True once all ranks of a collective call throw this Error; set by comm::collective.
  bool agreed() const noexcept { return agreement_ != 0; }
  /// Which agreement it was: a number not used again in this process, 0 for none.
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

/// Text from parts: message("row ", 3, " of ", 2).
template <class... Parts>
std::string message(Parts&&... parts) {
  std::ostringstream text;
  text.precision(17);
  (text << ... << std::forward<Parts>(parts));
  return std::move(text).str();
}

/// Throws Error(usage) with the given text unless `condition` holds. The text is built only on failure.
template <class... Parts>
void require(bool condition, Parts&&... parts) {
  if (!condition) [[unlikely]] throw Error(ErrorKind::usage, message(std::forward<Parts>(parts)...));
}

/// Value of `from` as To; Error(usage) naming the value when it does not fit.
template <std::integral To, std::integral From>
To checked_cast(From from, const char* what) {
  if (!std::in_range<To>(from)) [[unlikely]]
    throw Error(ErrorKind::usage, message(what, " is ", from, ", beyond the largest that fits, ",
                                          std::numeric_limits<To>::max()));
  return static_cast<To>(from);
}

}  // namespace tacit
