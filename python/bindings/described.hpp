// Described options (base/described.hpp) for Python: a class with an attribute for each, and the table itself.
#pragma once

#include "bindings.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <tacit/base/described.hpp>

namespace tacit::python {

inline nb::object to_python(const OptionValue& value) {
  return std::visit(
      [](const auto& v) -> nb::object {
        if constexpr (std::same_as<std::decay_t<decltype(v)>, std::monostate>) return nb::none();
        else return nb::cast(v);
      },
      value);
}
/// TypeError where the kind does not fit.
template <class Options>
OptionValue from_python(const Option<Options>& option, nb::handle value) {
  using Kind = typename Option<Options>::Kind;
  if (value.is_none()) return {};
  switch (option.kind) {
    case Kind::flag:
      return nb::cast<bool>(value);
    case Kind::whole:
      return nb::cast<std::int64_t>(value);
    case Kind::real:
      return nb::cast<double>(value);
    case Kind::choice:
      return nb::cast<std::string>(value);
    case Kind::wholes:
      return nb::cast<std::vector<std::int64_t>>(value);
  }
  return {};
}

/// choices_<what>(): the names of an enumeration.
template <Named E>
void bind_choices(nb::module_& m, const char* what) {
  m.def((std::string("choices_") + what).c_str(), &names<E>);
}

/// The table as a list of dicts; and `takers`: who takes which.
template <class Options>
nb::dict described(std::span<const Option<Options>> all, std::span<const Described> everybody) {
  static constexpr const char* kinds[] = {"flag", "whole", "real", "choice", "wholes"};
  nb::list options, takers;
  const Options defaults;
  for (const auto& o : all)
    options.append(dict_of("name", o.name, "kind", kinds[int(o.kind)], "choices", o.choices, "needed", o.range.needed,
                           "least", o.range.least, "most", o.range.most, "open_below", o.range.open_below, "step",
                           o.range.step, "text", o.text, "absent", o.absent, "default", to_python(o.get(defaults)),
                           "needs", o.needs, "inner", o.inner));
  for (const auto& one : everybody)
    takers.append(dict_of("name", one.name, "takes", one.takes, "text", one.text, "source", one.source));
  return dict_of("options", options, "takers", takers);
}

/// A class of these options, its attributes named as in the table; and describe_<what>(), the table.
template <class Options>
nb::class_<Options> bind_options(nb::module_& m, const char* name, const char* what,
                                 std::span<const Option<Options>> all, std::span<const Described> everybody = {}) {
  nb::class_<Options> made(m, name);
  made.def(nb::init<>());
  for (const auto& o : all)
    made.def_prop_rw(
        o.name.c_str(), [&o](const Options& self) { return to_python(o.get(self)); },
        [&o](Options& self, nb::object value) {
          try {
            o.set(self, from_python(o, value));
          } catch (const nb::cast_error&) {
            throw nb::type_error(message(o.name, " is of another type").c_str());
          }
        },
        nb::for_setter(nb::arg("value").none()));
  m.def((std::string("describe_") + what).c_str(), [=] { return described(all, everybody); });
  return made;
}

}  // namespace tacit::python
