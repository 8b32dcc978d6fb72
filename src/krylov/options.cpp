#include <tacit/base/error.hpp>
#include <tacit/base/names.hpp>
#include <tacit/krylov/monitor.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/krylov/report.hpp>

#include <cstdio>

namespace tacit::krylov {
namespace {
constexpr Names<Method, 6> methods{{{{Method::automatic, "auto"},
                                     {Method::cg, "cg"},
                                     {Method::bicgstab, "bicgstab"},
                                     {Method::gmres, "gmres"},
                                     {Method::richardson, "richardson"},
                                     {Method::chebyshev, "chebyshev"}}}};
constexpr Names<Side, 3> sides{{{{Side::right, "right"}, {Side::left, "left"}, {Side::flexible, "flexible"}}}};
constexpr Names<Orthogonalisation, 4> orthogonalisations{{{{Orthogonalisation::one_reduction, "one-reduction"},
                                                           {Orthogonalisation::cgs, "cgs"},
                                                           {Orthogonalisation::cgs2, "cgs2"},
                                                           {Orthogonalisation::mgs, "mgs"}}}};
constexpr Names<Reason, 7> reasons{{{{Reason::converged, "converged"},
                                     {Reason::max_iterations, "max_iterations"},
                                     {Reason::breakdown, "breakdown"},
                                     {Reason::stagnated, "stagnated"},
                                     {Reason::diverged, "diverged"},
                                     {Reason::non_finite, "non_finite"},
                                     {Reason::stopped, "stopped"}}}};
}  // namespace

Method method_of(std::string_view name) { return methods.value(name, "method"); }
Side side_of(std::string_view name) { return sides.value(name, "side"); }
Orthogonalisation orthogonalisation_of(std::string_view name) {
  return orthogonalisations.value(name, "orthogonalisation");
}
const char* to_string(Method method) { return methods.name(method); }
const char* to_string(Side side) { return sides.name(side); }
const char* to_string(Orthogonalisation o) { return orthogonalisations.name(o); }
const char* to_string(Reason reason) { return reasons.name(reason); }
std::vector<std::string> method_names() { return methods.all(); }

std::string Monitor::number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3e", value);
  return text;
}

}  // namespace tacit::krylov
