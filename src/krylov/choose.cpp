#include <tacit/krylov/choose.hpp>

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace tacit::krylov {

namespace {

double exposed(const Prices& p, double hidden_behind) {
  return std::max(0.0, p.sum - hidden_behind);
}
double apply(const Prices& p) {
  return p.product + p.precondition;
}
/// Vectors in the basis before a new one, on average.
double before(const Prices& p) {
  return (p.restart + 1) / 2.0;
}

/// A predicted time, or the measured one where there is one.
double measured_or(double measured, double predicted) {
  return measured > 0 ? measured : predicted;
}

/// The methods that auto may take, each classical one before its variants.
constexpr struct {
  Method method;
  double (*seconds)(const Prices&);
} priced[] = {
    {Method::cg,
     [](const Prices& p) {
       return measured_or(p.cg, apply(p) + (p.precondition > 0 ? 12 : 10) * p.vector) + 2 * p.sum;
     }},
    {Method::ca_cg,
     [](const Prices& p) { return measured_or(p.ca_cg, std::numeric_limits<double>::infinity()) + p.sum / 8; }},
    {Method::pipelined_cg,
     [](const Prices& p) { return apply(p) + (p.precondition > 0 ? 18 : 13) * p.vector + exposed(p, apply(p)); }},
    {Method::gmres, [](const Prices& p) { return apply(p) + (2 * before(p) + 4) * p.vector + p.sum; }},
    {Method::ca_gmres,
     [](const Prices& p) { return apply(p) + (4 * before(p) / 10 + 7) * p.vector + 4 * p.sum / p.restart; }},
    {Method::pipelined_gmres,
     [](const Prices& p) { return apply(p) + (3 * before(p) + 8) * p.vector + exposed(p, 2 * apply(p)); }},
    {Method::pipelined_ca_gmres,
     [](const Prices& p) {
       return apply(p) + (before(p) + 2 * before(p) / 5 + 8) * p.vector + exposed(p, 5 * apply(p)) / 5;
     }},
};

}  // namespace

double seconds_an_iteration(Method method, const Prices& prices) {
  for (const auto& one : priced)
    if (one.method == method) return one.seconds(prices);
  throw Error(ErrorKind::usage, message("no price is known for ", to_string(method)));
}

std::vector<Method> priced_like(Method classical) {
  std::vector<Method> found;
  for (const auto& one : priced)
    if (classical_of(one.method) == classical) found.push_back(one.method);
  return found;
}

Method cheapest(std::span<const Method> candidates, const Prices& prices, double margin, std::string& why) {
  const double classical = seconds_an_iteration(candidates.front(), prices);
  Method best = candidates.front();
  double least = classical;
  for (const Method method : candidates.subspan(1))
    if (const double seconds = seconds_an_iteration(method, prices); seconds < least) best = method, least = seconds;
  if (least > margin * classical) best = candidates.front(), least = classical;
  char text[200];
  std::snprintf(text, sizeof text, "%s: %.3g ms an iteration predicted, %s %.3g ms", to_string(best), 1e3 * least,
                to_string(candidates.front()), 1e3 * classical);
  why = best == candidates.front() ? "" : text;
  return best;
}

}  // namespace tacit::krylov
