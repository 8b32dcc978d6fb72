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
      return nb::cast<int>(value);
    case Kind::real:
      return nb::cast<double>(value);
    case Kind::choice:
      return nb::cast<std::string>(value);
  }
  return {};
}

/// A class of these options; attributes are named as in the table.
template <class Options>
nb::class_<Options> bind_options(nb::module_& m, const char* name, std::span<const Option<Options>> all) {
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
  return made;
}

/// The table as a list of dicts: name, kind, choices, needed, text, absent, default; and `takes`: who takes which.
template <class Options>
nb::dict described(std::span<const Option<Options>> all, std::span<const Described> everybody) {
  static constexpr const char* kinds[] = {"flag", "whole", "real", "choice"};
  nb::dict table;
  nb::list options, takers;
  const Options defaults;
  for (const auto& o : all) {
    nb::dict d;
    d["name"] = o.name, d["kind"] = kinds[int(o.kind)], d["choices"] = o.choices, d["needed"] = o.range.needed;
    d["least"] = o.range.least, d["most"] = o.range.most, d["open_below"] = o.range.open_below;
    d["text"] = o.text, d["absent"] = o.absent, d["default"] = to_python(o.get(defaults));
    options.append(d);
  }
  for (const auto& one : everybody) {
    nb::dict d;
    d["name"] = one.name, d["takes"] = one.takes, d["text"] = one.text, d["source"] = one.source;
    takers.append(d);
  }
  table["options"] = options, table["takers"] = takers;
  return table;
}

}  // namespace tacit::python
