// What the opaque handles of the C interface are, and how exceptions become a status.
#pragma once

#include <tacit/c/tacit.h>
#include <tacit/base/error.hpp>
#include <tacit/comm/communicator.hpp>
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

struct tacit_comm {
  tacit::comm::Communicator of;
};

struct tacit_operator {
  explicit tacit_operator(tacit_scalar s) : scalar(s) {}
  tacit_operator(const tacit_operator&) = delete;
  virtual ~tacit_operator() = default;
  virtual const tacit::layout::Space& space() const = 0;
  const tacit_scalar scalar;
};

struct tacit_solver {
  tacit::krylov::Options options;
};

struct tacit_result {
  tacit::krylov::Report of;
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

/// Error(usage), naming the argument, where it is null.
template <class P>
P& needed(P* pointer, const char* what) {
  require(pointer != nullptr, what, " is null");
  return *pointer;
}

/// This rank's elements of an operator's vectors as a span; `what` names the argument.
template <Scalar T>
std::span<const T> elements(const layout::Space& space, const void* values, const char* what) {
  require(values || space.local_size() == 0, what, " is null, on a rank of ", space.local_size(), " elements");
  return {static_cast<const T*>(values), std::size_t(space.local_size())};
}

/// Calls set(name, value) for each "name=value" of a text; blanks and commas separate them. Error(usage) at a word
/// without a name or a value.
template <class Set>
void each_option(const char* text, Set&& set) {
  constexpr std::string_view between = " ,\t\n";
  std::string_view left = text ? text : "";
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
