// make: a preconditioner from its name and options, for Python and the command line.
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/precond/amg.hpp>
#include <tacit/precond/block_jacobi.hpp>
#include <tacit/precond/bottom.hpp>
#include <tacit/precond/polynomial.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace tacit::precond {

enum class Kind {
#define TACIT_PRECOND(enumerator, ...) enumerator,
#include <tacit/precond/preconds.def>
};

/// Options of all kinds (preconds.def); what a kind does not take is refused. Absent: its default.
struct Options {
#define TACIT_PRECOND_OPTION(member, type, ...) std::optional<type> member = {};
#include <tacit/precond/preconds.def>
  BottomOptions bottom = {};  ///< of amg: bottom_options()
};

/// The kinds and their options.
std::span<const Described> kinds();
std::span<const Option<Options>> options();
/// Whether cg may use it with a Hermitian definite matrix.
bool is_symmetric(std::string_view name, const Options& options = {});

/// The preconditioner of this name for A, with the options of docs/reference/preconditioners.md; null for "none".
/// "polynomial" refers to A, and so does "amg" on a device. Collective. Error(usage): a name that does not exist (with
/// the nearest that does), an option that the kind does not take or whose value does not fit, and what the constructors
/// say.
template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make(std::string_view name, const op::Csr<T, M>& A, const Options& options = {});

/// The options of amg among these.
template <Scalar T>
AmgOptions<T> amg_options(const Options& options);

// make_jacobi<T, M>(A, options) and so on, for each kind.
#define TACIT_PRECOND(enumerator, ...) \
  template <Scalar T, Memory M>        \
  std::unique_ptr<op::Operator<T, M>> make_##enumerator(const op::Csr<T, M>& A, const Options& options);
#include <tacit/precond/preconds.def>

}  // namespace tacit::precond

namespace tacit {
template <>
inline constexpr auto names_of<precond::Kind> = named<precond::Kind>("preconditioner", {
#define TACIT_PRECOND(enumerator, name, ...) {precond::Kind::enumerator, name},
#include <tacit/precond/preconds.def>
                                                                                       });
}  // namespace tacit
