// What the opaque handles of the C interface are, and how exceptions become a status.
#pragma once

#include <tacit/c/tacit.h>
#include "json.hpp"

#include <tacit/base/described.hpp>
#include <tacit/base/error.hpp>
#include <tacit/comm/communicator.hpp>
#include <tacit/krylov/columns.hpp>
#include <tacit/krylov/least_squares.hpp>
#include <tacit/krylov/null_space.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/krylov/report.hpp>
#include <tacit/op/csr.hpp>
#include <tacit/op/operator.hpp>
#include <tacit/precond/automatic.hpp>

#include <complex>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tacit::c {

/// The handles that exist, so that one that was freed, or is of another type, is an error and not a crash.
bool is_alive(const void* handle, const char* type) noexcept;
void enter(const void* handle, const char* type);
void leave(const void* handle, const char* type) noexcept;

/// Base of handles; H::type is its name in messages.
template <class H>
class Handle {
 protected:
  Handle() { enter(static_cast<const H*>(this), H::type); }
  Handle(const Handle&) : Handle() {}
  Handle& operator=(const Handle&) { return *this; }
  ~Handle() { leave(static_cast<const H*>(this), H::type); }
};

}  // namespace tacit::c

struct tacit_comm : tacit::c::Handle<tacit_comm> {
  static constexpr const char* type = "tacit_comm";
  explicit tacit_comm(tacit::comm::Communicator it) : of(std::move(it)) {}
  tacit::comm::Communicator of;
};

struct tacit_operator : tacit::c::Handle<tacit_operator> {
  static constexpr const char* type = "tacit_operator";
  explicit tacit_operator(tacit_scalar s) : scalar(s) {}
  tacit_operator(const tacit_operator&) = delete;
  virtual ~tacit_operator() = default;
  virtual const tacit::layout::Space& space() const = 0;   ///< of b and y = A x
  virtual const tacit::layout::Space& domain() const = 0;  ///< of x
  const tacit_scalar scalar;
};

struct tacit_solver : tacit::c::Handle<tacit_solver> {
  static constexpr const char* type = "tacit_solver";
  tacit::krylov::Options options;
};

struct tacit_result : tacit::c::Handle<tacit_result> {
  static constexpr const char* type = "tacit_result";
  explicit tacit_result(tacit::krylov::Report it) : of(std::move(it)) {}
  tacit::krylov::Report of;
  bool is_column = false;             ///< which the result of all columns has, and frees
  std::vector<tacit_result> columns;  ///< of several right-hand sides; `of` is then about all of them
  int together = 1;                   ///< and as in ColumnReports
  std::string alone;
  /// Of a least-squares problem, beside the report.
  struct Least {
    tacit::krylov::Met met = tacit::krylov::Met::neither;
    tacit::krylov::Ending ending = tacit::krylov::Ending::other;
    double gradient_norm = 0, residual = 0, gradient = 0, solution = 0, condition = 0;
  };
  std::optional<Least> least;
  std::string json;  ///< made when it is asked for
};

namespace tacit::c {

template <Scalar T>
inline constexpr tacit_scalar scalar_of = std::same_as<T, float>                 ? TACIT_FLOAT
                                          : std::same_as<T, double>              ? TACIT_DOUBLE
                                          : std::same_as<T, std::complex<float>> ? TACIT_COMPLEX_FLOAT
                                                                                 : TACIT_COMPLEX_DOUBLE;

template <Scalar T>
struct OperatorOf final : tacit_operator {
  explicit OperatorOf(std::shared_ptr<const op::Operator<T, Host>> it)
      : tacit_operator(scalar_of<T>), of(std::move(it)) {}
  const layout::Space& space() const override { return of->range(); }
  const layout::Space& domain() const override { return of->domain(); }

  std::shared_ptr<const op::Operator<T, Host>> of;
  std::shared_ptr<op::Csr<T, Host>> matrix;  ///< `of`, where it is one; of a preconditioner what it refers to
  std::shared_ptr<const krylov::NullSpace<T>> null_space;
  std::map<krylov::Method, std::unique_ptr<precond::Automatic<T>>> automatic;  ///< of tacit_solve_automatic()
  bool is_matrix() const { return matrix && of == matrix; }
};

/// Calls f<T>() for the T of this scalar. Error(usage) where the build, or C's enumeration, has none.
template <class F>
decltype(auto) with_scalar(tacit_scalar scalar, F&& f) {
#define TACIT_CASE(T) \
  if (scalar == scalar_of<T>) return f.template operator()<T>();
  TACIT_EACH_SCALAR(Host, TACIT_CASE)
#undef TACIT_CASE
  throw Error(ErrorKind::usage, message("this build has no solves of scalar ", int(scalar),
                                        " (0 float, 1 double, 2 complex float, 3 complex double)"));
}

/// Keeps the text for tacit_last_error(). Never throws: where memory is short, the text is a constant.
tacit_status failed(tacit_status status, const char* text) noexcept;
/// The status of the exception that is being handled.
tacit_status status_of_exception() noexcept;

/// f(), with exceptions as a status.
template <class F>
tacit_status guarded(F&& f) noexcept {
  try {
    f();
    return TACIT_OK;
  } catch (...) {
    return status_of_exception();
  }
}

/// Error(usage), naming the argument, where it is null, or a handle that does not exist.
template <class P>
P& needed(P* pointer, const char* what) {
  require(pointer != nullptr, what, " is null");
  if constexpr (requires { P::type; })
    require(is_alive(pointer, P::type), what, " is no ", P::type, ", or one that was freed");
  return *pointer;
}
/// Frees a handle, or null. Error(usage) where it does not exist.
template <class H>
void release(H* handle, const char* what) {
  if (handle) delete &needed(handle, what);
}

/// Error(usage) for a matrix that is not square, or whose x and b are spread in other ways.
void require_square(const tacit_operator& A, const char* what);
/// What is said of several columns together: the worst of each.
tacit_result of_columns(krylov::ColumnReports reports);
/// Further members of its JSON, where it is of a least-squares problem; else "".
std::string least_members(const tacit_result& result);

/// Error(environment) where MPI has ended: any call of it would end the program. Local.
void require_mpi(const comm::Communicator& comm);
/// comm::collective(), where MPI works.
template <class F>
decltype(auto) together(const comm::Communicator& comm, F&& f) {
  require_mpi(comm);
  return comm::collective(comm, std::forward<F>(f));
}
/// Error(usage) where the ranks call with different arguments, described by these texts: they would wait for each other
/// for ever. Collective; two reductions of a number.
void require_alike(const comm::Communicator& comm, const std::string& arguments);
/// Options that differ from their defaults, as text.
template <class Options>
std::string text_of_options(std::span<const Option<Options>> table, const Options& options) {
  std::string all;
  const Options defaults;
  for (const auto& o : table)
    if (o.get(options) != o.get(defaults)) all += message(" ", o.name, "=", text_of(o.get(options)));
  return all;
}

/// The preconditioner of this name for a matrix; null for "none". `options`: "name=value ..". Collective.
std::unique_ptr<tacit_operator> make_precond(const tacit_operator& A, const char* name, const char* options);

/// This rank's elements of an operator's vectors as a span; `what` names the argument.
template <Scalar T>
std::span<const T> elements(const layout::Space& space, const void* values, const char* what) {
  require(values || space.local_size() == 0, what, " is null, on a rank of ", space.local_size(), " elements");
  return {static_cast<const T*>(values), std::size_t(space.local_size())};
}

/// Calls set(name, value) for each "name=value" of a text; blanks and commas separate them. The text may be JSON too.
/// Error(usage) at a word without a name or a value.
template <class Set>
void each_option(const char* text, Set&& set) {
  constexpr std::string_view between = " ,\t\n";
  std::string_view left = text ? text : "";
  if (Members::are_in(left))
    return Members(left).each(set, [](std::string_view name, const std::string& object) {
      throw Error(ErrorKind::usage, message("option ", name, " is ", object, "; here options are texts and numbers"));
    });
  while (true) {
    left.remove_prefix(std::min(left.find_first_not_of(between), left.size()));
    if (left.empty()) return;
    const auto word = left.substr(0, left.find_first_of(between));
    const auto sign = word.find('=');
    require(sign != word.npos && sign > 0 && sign + 1 < word.size(), "\"", word,
            "\" is not an option; write \"name=value name=value\"");
    set(word.substr(0, sign), word.substr(sign + 1));
    left.remove_prefix(word.size());
  }
}

}  // namespace tacit::c
