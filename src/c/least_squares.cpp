// Least-squares problems of the C interface.
#include "handles.hpp"

#include <tacit/precond/column_scaling.hpp>

#include <algorithm>
#include <utility>

namespace tacit::c {
namespace {

/// What a call describes: the options, and whether columns of A get one length.
struct Request {
  explicit Request(const char* text) {
    std::vector<std::pair<std::string, std::string>> more;
    each_option(text, [&](std::string_view name, std::string_view value) {
      if (name == "method") options.method = value_of<krylov::LeastSquaresMethod>(std::string(value));
      else if (name == "precond") precond = value;
      else more.emplace_back(name, value);
    });
    require(precond == "none" || precond == "jacobi", "precond is \"", precond,
            "\"; least squares take none, or jacobi (columns of one length)");
    for (const auto& [name, value] : more)
      set_from_text(krylov::least_squares_options(), options, name, value, to_string(options.method));
    krylov::check(options);
  }
  std::string text() const {
    return message(to_string(options.method), text_of_options(krylov::least_squares_options(), options), ", precond ",
                   precond);
  }
  krylov::LeastSquaresOptions options;
  std::string precond = "none";
};

tacit_result::Least least_of(const krylov::LeastSquaresReport& r) {
  return {r.met, r.ending, r.gradient_norm, r.residual, r.gradient, r.solution, r.condition};
}

/// The worst of all: the first that has met neither goal, else the first that has no solution of A x = b.
tacit_result::Least least_of(const std::vector<tacit_result>& columns) {
  const auto with = [&](krylov::Met met) {
    return std::find_if(columns.begin(), columns.end(), [&](const auto& one) { return one.least->met == met; });
  };
  auto worst = with(krylov::Met::neither);
  if (worst == columns.end()) worst = with(krylov::Met::gradient);
  if (worst == columns.end()) worst = columns.begin();
  auto all = *worst->least;
  for (const auto& one : columns) {
    all.gradient_norm = std::max(all.gradient_norm, one.least->gradient_norm);
    all.residual = std::max(all.residual, one.least->residual);
    all.gradient = std::max(all.gradient, one.least->gradient);
    all.solution = std::max(all.solution, one.least->solution);
    all.condition = std::max(all.condition, one.least->condition);
  }
  return all;
}

void add(krylov::Report::Counts& to, const krylov::Report::Counts& n) {
  to.reductions += n.reductions, to.exchanges += n.exchanges, to.messages += n.messages, to.bytes += n.bytes;
  to.operator_applies += n.operator_applies, to.preconditioner_applies += n.preconditioner_applies;
}

/// One column after another. Collective.
template <Scalar T>
tacit_result solve(const OperatorOf<T>& A, const char* text, std::int32_t columns, const void* b, void* x) {
  const auto &range = A.space(), &domain = A.domain();
  krylov::ColumnReports reports;
  std::vector<tacit_result::Least> least;
  together(range.comm(), [&] {
    const Request request(text);
    require(columns >= 1, "least squares with ", columns, " right-hand sides");
    require_alike(range.comm(), message(columns, " right-hand sides, ", request.text()));
    const auto m = std::size_t(range.local_size()), n = std::size_t(domain.local_size());
    const T *right = elements<T>(range, b, "b").data(), *guess = elements<T>(domain, x, "x").data();
    std::shared_ptr<const op::Operator<T, Host>> P;
    if (request.precond == "jacobi") {
      require(A.is_matrix(), "precond jacobi needs a stored matrix; this operator is a ", A.of->name());
      P = precond::column_scaling(*A.matrix, request.options.damp);
    }
    std::vector<T> found(n * std::size_t(columns));
    layout::Vector<T> one(range), solution(domain);
    for (std::size_t c = 0; c < std::size_t(columns); ++c) {
      one.assign({right + c * m, m}), solution.assign({guess + c * n, n});
      auto report = krylov::least_squares<T, Host>(*A.of, P.get(), one, solution, request.options);
      const auto values = solution.to_host();
      std::copy(values.begin(), values.end(), found.begin() + std::ptrdiff_t(c * n));
      least.push_back(least_of(report));
      add(reports.counts, report.counts), reports.seconds += report.seconds;
      reports.columns.push_back(std::move(report));
    }
    std::copy(found.begin(), found.end(), static_cast<T*>(x));
  });
  if (columns == 1) {
    tacit_result result(std::move(reports.columns.front()));
    result.least = least.front();
    return result;
  }
  reports.alone = "least-squares problems are solved one column at a time";
  auto result = of_columns(std::move(reports));
  for (std::size_t c = 0; c < least.size(); ++c) result.columns[c].least = least[c];
  result.least = least_of(result.columns);
  return result;
}

bool is_least(const tacit_result* result) {
  return result && is_alive(result, tacit_result::type) && result->least;
}

}  // namespace

std::string least_members(const tacit_result& result) {
  if (!result.least) return "";
  const auto& l = *result.least;
  return message(", \"met\": \"", to_string(l.met), "\", \"ending\": \"", to_string(l.ending),
                 "\", \"gradient_norm\": ", json_of(l.gradient_norm), ", \"residual\": ", json_of(l.residual),
                 ", \"gradient\": ", json_of(l.gradient), ", \"solution\": ", json_of(l.solution),
                 ", \"condition\": ", json_of(l.condition));
}

}  // namespace tacit::c

using namespace tacit::c;

extern "C" {

tacit_status tacit_least_squares(const tacit_operator* A, const char* options, int32_t columns, const void* b, void* x,
                                 tacit_result** result) {
  return guarded([&] {
    auto made = with_scalar(needed(A, "A").scalar, [&]<class T>() {
      return solve<T>(static_cast<const OperatorOf<T>&>(*A), options, columns, b, x);
    });
    if (result) *result = new tacit_result(std::move(made));
  });
}
const char* tacit_result_met(const tacit_result* result) {
  return is_least(result) ? tacit::to_string(result->least->met) : "";
}
double tacit_result_gradient_norm(const tacit_result* result) {
  return is_least(result) ? result->least->gradient_norm : -1;
}

}  // extern "C"
