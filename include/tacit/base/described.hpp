// Described options: every option of a struct of options is one entry of a table, with its name, its member, the values
// it may have, and a sentence on it. Checks, the comparison between ranks, the Python module, the command line and the
// reference pages are made from these tables:
//
//     option("step", &Options::step, at_least(1, "iteration"), "s: iterations for one reduction", "by method, 4 to 10")
//
// Each method or preconditioner lists the options that it takes, with the allowed choices where these are not all:
// "restart side=right,left step". Options in no list are taken by all.
#pragma once

#include <tacit/base/error.hpp>
#include <tacit/base/names.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace tacit {

/// The value of an option: absent, a flag, an integer, a real number, the name of a choice, or several integers.
using OptionValue = std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// The values that a number may have: from `least` to `most`, without the ends that are open. NaN is in no range.
struct Range {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  bool open_below = false, open_above = false;
  std::string needed = "a number";  ///< for messages and documents: "at least 1 iteration"
  std::optional<double> except{};   ///< excluded value
  int step = 0;                     ///< only multiples of this, where it is not 0

  bool has(double value) const {
    return (open_below ? value > least : value >= least) && (open_above ? value < most : value <= most) &&
           value != except && (step == 0 || std::fmod(value, step) == 0);
  }
};
inline Range at_least(double least, const char* unit) {
  return {.least = least, .needed = message("at least ", least, " ", unit)};
}
inline Range positive() {
  return {.least = 0,
          .most = std::numeric_limits<double>::infinity(),
          .open_below = true,
          .open_above = true,
          .needed = "a number > 0"};
}
inline Range not_negative() {
  return {.least = 0, .most = std::numeric_limits<double>::infinity(), .open_above = true, .needed = "a number >= 0"};
}
inline Range any_but_zero() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return {-infinity, infinity, true, true, "a finite number other than 0", 0.0};
}
/// From `least` to `most`, both included.
inline Range between(double least, double most, const char* unit) {
  return {.least = least, .most = most, .needed = message("from ", least, " to ", most, " ", unit)};
}

template <class Options>
struct Option {
  enum class Kind { flag, whole, real, choice, wholes };
  std::string name;
  Kind kind;
  std::vector<std::string> choices;  ///< of a choice
  Range range;                       ///< of a number
  std::string text;                  ///< what it is, in a sentence without a full stop
  std::string absent;                ///< the default in words where it is not a value; else ""
  std::function<OptionValue(const Options&)> get;
  /// The kind fits: a choice is a known name, or Error(usage) with the nearest one.
  std::function<void(Options&, const OptionValue&)> set;
  std::string needs{};  ///< "order=greedy,metis": has no use, and is refused, where that option is none of these
  std::string inner{};  ///< "solve": a choice that has options of its own, those of this table

  Option needing(const char* what) && {
    needs = what;
    return std::move(*this);
  }
  Option with_options_of(const char* table) && {
    inner = table;
    return std::move(*this);
  }
};

namespace detail {
template <class V>
struct Unwrapped {
  using type = V;
};
template <class V>
struct Unwrapped<std::optional<V>> {
  using type = V;
};

template <class V>
OptionValue option_value(const V& value) {
  if constexpr (Named<V>) return std::string(to_string(value));
  else if constexpr (std::integral<V> && !std::same_as<V, bool>) return std::int64_t(value);
  else if constexpr (std::floating_point<V>) return double(value);
  else if constexpr (std::same_as<V, std::vector<int>>) return std::vector<std::int64_t>(value.begin(), value.end());
  else return value;
}
template <class V>
V value_in(const OptionValue& value) {
  if constexpr (Named<V>) return value_of<V>(std::get<std::string>(value));
  else if constexpr (std::floating_point<V>)
    return V(std::holds_alternative<std::int64_t>(value) ? double(std::get<std::int64_t>(value))
                                                         : std::get<double>(value));
  else if constexpr (std::integral<V> && !std::same_as<V, bool>)
    return checked_cast<V>(std::get<std::int64_t>(value), "an option");
  else if constexpr (std::same_as<V, std::vector<int>>) {
    V all;
    for (const auto one : std::get<std::vector<std::int64_t>>(value))
      all.push_back(checked_cast<int>(one, "an option"));
    return all;
  } else return std::get<V>(value);
}
}  // namespace detail

/// A member of a member: within(&Request::matrix, &Matrix::tolerance).
template <class... Members>
constexpr auto within(Members... path) {
  return [=](auto& options) -> auto& {
    return (options.*....*path);
  };
}

/// `member`: a pointer to a member, or a function from the options to a reference to it.
template <class Options, class Member>
Option<Options> option(const char* name, Member member, Range range, const char* text, const char* absent = "") {
  using Value = std::remove_cvref_t<std::invoke_result_t<Member, Options&>>;
  using Plain = typename detail::Unwrapped<Value>::type;
  using Kind = typename Option<Options>::Kind;
  Option<Options> o{name, Kind::choice, {}, std::move(range), text, absent, {}, {}};
  if constexpr (Named<Plain>) o.choices = names<Plain>();
  else if constexpr (std::same_as<Plain, bool>) o.kind = Kind::flag;
  else if constexpr (std::same_as<Plain, std::vector<int>>) o.kind = Kind::wholes;
  else if constexpr (!std::same_as<Plain, std::string>) o.kind = std::integral<Plain> ? Kind::whole : Kind::real;
  o.get = [member](const Options& options) -> OptionValue {
    const Value& value = std::invoke(member, const_cast<Options&>(options));
    if constexpr (std::same_as<Value, Plain>) return detail::option_value(value);
    else return value ? detail::option_value(*value) : OptionValue();
  };
  o.set = [member](Options& options, const OptionValue& value) {
    if (!std::holds_alternative<std::monostate>(value)) std::invoke(member, options) = detail::value_in<Plain>(value);
    else if constexpr (!std::same_as<Value, Plain>) std::invoke(member, options) = Value();
  };
  return o;
}
/// Without a range: a flag or a choice.
template <class Options, class Member>
Option<Options> option(const char* name, Member member, const char* text, const char* absent = "") {
  return option<Options>(name, member, Range{}, text, absent);
}

/// A choice among names without an enumeration.
template <class Options, class Member>
Option<Options> option(const char* name, Member member, std::vector<std::string> choices, const char* text,
                       const char* absent = "") {
  auto o = option<Options>(name, member, Range{}, text, absent);
  o.choices = std::move(choices);
  o.set = [name, known = o.choices, set = o.set](Options& options, const OptionValue& value) {
    if (std::holds_alternative<std::monostate>(value)) return set(options, value);
    const auto& given = std::get<std::string>(value);
    if (std::find(known.begin(), known.end(), given) == known.end()) {
      std::string all;
      for (const auto& one : known) all += (all.empty() ? "" : ", ") + one;
      throw Error(ErrorKind::usage, message("unknown ", name, " \"", given, "\" (", all, ")"));
    }
    set(options, value);
  };
  return o;
}

/// A value as text: 4, 1e-08, "newton"; "none" where it is absent.
inline std::string text_of(const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&value)) return message(*real);
  if (const auto* name = std::get_if<std::string>(&value)) return *name;
  std::string all;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
    for (const auto one : *list) all += message(all.empty() ? "" : ",", one);
  return all.empty() ? "none" : all;
}

/// The option of a name. Error(usage), with the nearest known name, where there is none.
template <class Options>
const Option<Options>& find_option(std::span<const Option<Options>> all, std::string_view name, const char* where) {
  const Option<Options>* nearest = &all.front();
  for (const auto& o : all) {
    if (o.name == name) return o;
    if (edit_distance(name, o.name) < edit_distance(name, nearest->name)) nearest = &o;
  }
  throw Error(ErrorKind::usage, message(where, " has no option \"", name, "\"; did you mean \"", nearest->name, "\"?"));
}

/// Sets the option of a name from a text: "4", "1e-8", "true", "newton". Error(usage) where there is no such option,
/// and where the text is not one of its values.
template <class Options>
void set_from_text(std::span<const Option<Options>> all, Options& options, std::string_view name, std::string_view text,
                   const char* where) {
  using Kind = typename Option<Options>::Kind;
  const auto& o = find_option(all, name, where);
  const auto number = [&](auto value) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    require(code == std::errc() && end == text.data() + text.size(), name, " is \"", text, "\"; it takes ",
            o.range.needed);
    return OptionValue(value);
  };
  require(o.kind != Kind::wholes, name, " is a list, which has no text here");
  require(o.kind != Kind::flag || text == "true" || text == "false", name, " is \"", text,
          "\"; it takes true or false");
  o.set(options, o.kind == Kind::flag    ? OptionValue(text == "true")
                 : o.kind == Kind::whole ? number(std::int64_t(0))
                 : o.kind == Kind::real  ? number(0.0)
                                         : OptionValue(std::string(text)));
}

/// A method or preconditioner with its options; `takes` lists them as above.
struct Described {
  const char* name;
  const char* takes;
  const char* text;    ///< what it is, in a sentence without a full stop
  const char* source;  ///< paper and algorithm, with its DOI; "" where there is none
};

namespace detail {
/// The allowed choices ("*" for all), or nothing where the option is not taken.
inline std::optional<std::string_view> taken(std::string_view takes, std::string_view name) {
  while (!takes.empty()) {
    const auto end = std::min(takes.find(' '), takes.size());
    const auto word = takes.substr(0, end);
    takes.remove_prefix(std::min(end + 1, takes.size()));
    if (word == name) return "*";
    if (word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=')
      return word.substr(name.size() + 1);
  }
  return {};
}
inline bool open_to(std::string_view choices, std::string_view choice) {
  if (choices == "*") return true;
  while (!choices.empty()) {
    const auto end = std::min(choices.find(','), choices.size());
    if (choices.substr(0, end) == choice) return true;
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return false;
}
/// A list of choices as text: "right, left".
inline std::string listed(std::string_view choices) {
  std::string all;
  for (const char c : choices) all += c == ',' ? ", " : std::string(1, c);
  return all;
}
}  // namespace detail

/// Error(usage) at the first number that is not in its range, and at an option without use: one that differs from its
/// default and needs another one to be what it is not.
template <class Options>
void check_values(std::span<const Option<Options>> all, const Options& options) {
  using Kind = typename Option<Options>::Kind;
  const Options defaults;
  for (const auto& o : all) {
    const OptionValue value = o.get(options);
    if (!o.needs.empty() && value != o.get(defaults)) {
      const auto end = o.needs.find('=');
      const std::string other = o.needs.substr(0, end), choices = o.needs.substr(end + 1);
      const OptionValue is = find_option(all, other, "").get(options);
      const std::string given = std::holds_alternative<std::monostate>(is) ? "not given" : text_of(is);
      require(detail::open_to(choices, given), o.name, " ", text_of(value), " goes with ", other, " ",
              detail::listed(choices), "; ", other, " is ", given);
    }
    const auto look = [&](double number) {
      require(o.range.has(number), o.name, " is ", text_of(value), "; it takes ", o.range.needed);
    };
    if (const auto* several = std::get_if<std::vector<std::int64_t>>(&value))
      for (const auto one : *several) look(double(one));
    else if (!std::holds_alternative<std::monostate>(value) && (o.kind == Kind::whole || o.kind == Kind::real))
      look(detail::value_in<double>(value));
  }
}

/// Error(usage) at the first option that differs from its default and that `who` does not take: the option, its value,
/// and who takes it, or which values `who` takes.
template <class Options>
void check_taken(std::span<const Option<Options>> all, const Options& options, std::span<const Described> everybody,
                 std::string_view who) {
  const Options defaults;
  for (const auto& o : all) {
    const OptionValue value = o.get(options);
    if (value == o.get(defaults)) continue;
    std::string takers;
    std::optional<std::string_view> own;
    for (const auto& one : everybody) {
      const auto choices = detail::taken(one.takes, o.name);
      if (!choices) continue;
      if (one.name == who) own = choices;
      if (detail::open_to(*choices, text_of(value))) takers += (takers.empty() ? "" : ", ") + std::string(one.name);
    }
    require(!own || detail::open_to(*own, text_of(value)), o.name, " is ", text_of(value), "; ", who, " takes ",
            detail::listed(own.value_or("")));
    require(own || takers.empty(), o.name, " ", text_of(value), " is an option of ", takers, "; ", who, " has none");
  }
}

}  // namespace tacit
