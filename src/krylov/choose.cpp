#include <tacit/krylov/choose.hpp>

#include <tacit/base/error.hpp>

#include <algorithm>
#include <cstdio>

namespace tacit::krylov {

double seconds_an_iteration(Method method, const Prices& p) {
  const double apply = p.product + p.precondition,
               before = (p.restart + 1) / 2.0;  // vectors in the basis before a new one, on average
  const auto exposed = [&](double hidden_behind) { return std::max(0.0, p.sum - hidden_behind); };
  switch (method) {
    case Method::cg:
      return apply + (p.precondition > 0 ? 12 : 10) * p.vector + 2 * p.sum;
    case Method::pipelined_cg:
      return apply + (p.precondition > 0 ? 18 : 13) * p.vector + exposed(apply);
    case Method::gmres:
      return apply + (2 * before + 4) * p.vector + p.sum;
    case Method::pipelined_gmres:
      return apply + (3 * before + 8) * p.vector + exposed(2 * apply);
    case Method::ca_gmres:
      return apply + (4 * before / 10 + 7) * p.vector + 4 * p.sum / p.restart;
    case Method::pipelined_ca_gmres:
      return apply + (before + 2 * before / 5 + 8) * p.vector + exposed(5 * apply) / 5;
    default:
      throw Error(ErrorKind::usage, message("no price is known for ", to_string(method)));
  }
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
