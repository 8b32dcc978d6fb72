// Tables of options (base/described.hpp) in PETSc's database: `-ksp_tacit_step 4`.
#pragma once

#include "objects.hpp"

#include <tacit/base/described.hpp>

#include <span>
#include <string>

namespace tacit::petsc {

/// Sets `options` from the database: option `name` of the table is `<before><name>`. `taken` says which are offered.
/// Error(usage): a value that does not fit. To be called in a function of PETSc's setfromoptions, whose argument is
/// `PetscOptionsObject`.
template <class Options, class Taken>
void set_from_database(OptionItems PetscOptionsObject, std::span<const Option<Options>> table,
                       const std::string& before, const char* where, Options& options, const Taken& taken) {
  using Kind = typename Option<Options>::Kind;
  for (const auto& o : table) {
    if (o.kind == Kind::wholes || !taken(o.name)) continue;
    const std::string key = before + o.name, now = text_of(o.get(options));
    const auto look = [&]() -> PetscErrorCode {
      PetscBool set = PETSC_FALSE;
      if (o.kind == Kind::flag) {
        PetscBool value = now == "true" ? PETSC_TRUE : PETSC_FALSE;
        PetscCall(PetscOptionsBool(key.c_str(), o.text.c_str(), where, value, &value, &set));
        if (set) o.set(options, OptionValue(value == PETSC_TRUE));
      } else {
        char value[256] = "";
        PetscCall(PetscOptionsString(key.c_str(), o.text.c_str(), where, now.c_str(), value, sizeof value, &set));
        if (set) set_from_text(table, options, o.name, value, where);
      }
      return PetscErrorCode(0);
    };
    ok(look());
  }
}

/// Prints the options that differ from their defaults, for -ksp_view. Collective.
template <class Options>
void view_options(PetscViewer viewer, std::span<const Option<Options>> table, const Options& options) {
  const Options defaults;
  for (const auto& o : table)
    if (o.get(options) != o.get(defaults))
      ok(PetscViewerASCIIPrintf(viewer, "  %s=%s\n", o.name.c_str(), text_of(o.get(options)).c_str()));
}

}  // namespace tacit::petsc
