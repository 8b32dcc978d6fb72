// JSON of the C interface: options in, results out.
#pragma once

#include <tacit/krylov/report.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace tacit::c {

/// Reads an object of names and values, as options are: "{"step": 4, "basis": "newton"}". A value is a string, a
/// number, true or false, all given as text, or again an object. Members that are null are left out, since null is the
/// default.
///
/// A library of JSON would be needed by every build, for what is one function here.
class Members {
 public:
  explicit Members(std::string_view text) : text_(text) {}
  using Value = std::function<void(std::string_view name, const std::string& value)>;
  /// Calls value(name, text), or object(name, its JSON) where the value is an object. Error(usage), with the place, at
  /// what is not such JSON.
  void each(const Value& value, const Value& object);

  /// Whether a text of options is JSON, and not "name=value".
  static bool are_in(std::string_view text) {
    const auto first = text.find_first_not_of(" \t\r\n");
    return first != text.npos && text[first] == '{';
  }

 private:
  char next();                ///< the next character that is no blank, left where it is; 0 at the end
  void expect(char c);        ///< takes it
  std::string string();       ///< "..."
  std::string word();         ///< a number, true, false or null
  std::string_view object();  ///< {...}, as it stands
  [[noreturn]] void fail(const std::string& needed) const;

  std::string_view text_;
  std::size_t at_ = 0;
};

/// A report as JSON text, with the names that `tacit solve --json` has. NaN and infinity become null. `more`: further
/// members, ", "name": value".
std::string to_json(const krylov::Report& report, const std::string& more = "");
/// The same of several columns: the JSON of each, how many were solved together, and where that is 1, why.
std::string columns_to_json(const krylov::Report& all, std::span<const std::string> columns, int together,
                            const std::string& alone, const std::string& more);
/// A number, or null where it is not finite.
std::string json_of(double number);

}  // namespace tacit::c
