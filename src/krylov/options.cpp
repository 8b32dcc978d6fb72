#include <tacit/base/error.hpp>
#include <tacit/krylov/options.hpp>
#include "krylov/monitor.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>

namespace tacit::krylov {

Method classical_of(Method method) {
  switch (method) {
#define TACIT_METHOD(enumerator, name, classical, ...) \
  case Method::enumerator:                             \
    return Method::classical;
#include <tacit/krylov/methods.def>
    default:
      return method;
  }
}

std::span<const Described> methods() {
  static constexpr Described all[] = {
      {"auto", "restart side orthogonalisation=auto,one-reduction,cgs,cgs2,mgs",
       "cg for a Hermitian matrix whose diagonal has one sign, changing to gmres should it break down; gmres for the "
       "rest; a pipelined or s-step variant where it is predicted to be clearly faster",
       ""},
#define TACIT_METHOD(enumerator, name, classical, traits, takes, text, source) {name, takes, text, source},
#include <tacit/krylov/methods.def>
  };
  return all;
}

std::span<const Option<Options>> options() {
  using O = Options;
  static const std::vector<Option<O>> all{
      option<O>("rtol", &O::rtol, not_negative(), "converged means ||b - A x|| <= max(rtol ||b||, atol), recomputed",
                "1e-8; with float32 and complex64 1e-4"),
      option<O>("atol", &O::atol, not_negative(), "see rtol"),
      option<O>("max_iterations", &O::max_iterations, at_least(0, "iterations"),
                "products with A at most (bicgstab: pairs of them)", "10 per unknown, from 1000 to 50000"),
#define TACIT_OPTION(member, type, range, text, absent) option<O>(#member, &O::member, range, text, absent),
#include <tacit/krylov/methods.def>
      option<O>("engine", &O::engine,
                "what pushes messages on during computation: the compute loops poll, a thread of its own, or kernels "
                "as tasks that wait for each other's blocks; the numbers are the same"),
      option<O>("norm", &O::norm, "of the residual, in what decides and in the report: 2, or max (largest magnitude)"),
      option<O>("schedule", within(&O::schedule, &op::Schedule::how),
                "how products with A are dealt to the threads of a rank; auto: the fastest, timed; the numbers are the "
                "same"),
      option<O>("remote_threads", within(&O::schedule, &op::Schedule::remote_threads), at_least(1, "thread"),
                "threads that wait for the halo")
          .needing("schedule=split"),
      option<O>("job_rows", within(&O::schedule, &op::Schedule::job_rows), at_least(0, "rows"),
                "rows of a job; 0: some 16 jobs a thread")
          .needing("schedule=jobs"),
      option<O>("divergence", &O::divergence, Range{.least = 1, .open_below = true, .needed = "a factor > 1"},
                "\"diverged\" when ||r|| exceeds this multiple of max(||b||, ||r_0||)"),
      option<O>("history", &O::history, "keep the residual of every iteration"),
      option<O>("fallbacks", &O::fallbacks,
                "where the method gets no further, scale by the diagonal, take another shadow residual (bicgstab) or "
                "longer cycles (gmres without restart), and tell so in the warnings; false: the method as it stands"),
      option<O>("explain", &O::explain,
                "look into the cause of a failure by products of its own: true, as far as it takes; false, not at all",
                "at most as long as the solve took, or 10 ms; not after few iterations"),
  };
  return all;
}

bool takes(Method method, std::string_view option) {
  bool anybody = false;
  for (const auto& one : methods()) {
    const bool taken = detail::taken(one.takes, option).has_value();
    if (taken && one.name == std::string_view(to_string(method))) return true;
    anybody = anybody || taken;
  }
  return !anybody;
}

void check(const Options& o) {
  // Defaults are in their ranges, and every method takes them: only other values need a look, and a solve has few.
  struct Usual {
    OptionValue value;
    bool of_some;  // some methods take the option, and others do not
  };
  const auto all = options();
  static const std::vector<Usual> usual = [all] {
    const Options defaults;
    check_values(all, defaults);
    std::vector<Usual> found;
    for (const auto& one : all) {
      const auto has = [&](const Described& method) { return detail::taken(method.takes, one.name).has_value(); };
      found.push_back({one.get(defaults), std::ranges::any_of(methods(), has)});
    }
    return found;
  }();
  std::vector<std::size_t> others;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].get(o) != usual[i].value) others.push_back(i);
  for (const auto i : others) check_values(all[i].needs.empty() ? all.subspan(i, 1) : all, o);
  for (const auto i : others)
    if (usual[i].of_some) check_taken(all.subspan(i, 1), o, methods(), to_string(o.method));
  if (o.block_qr)
    require(o.orthogonalisation == Orthogonalisation::bcgs || o.orthogonalisation == Orthogonalisation::bcgs2,
            "block_qr ", to_string(*o.block_qr), " goes with orthogonalisation bcgs or bcgs2; it is ",
            to_string(o.orthogonalisation.value_or(Orthogonalisation::automatic)));
  require(!o.lambda_max || *o.lambda_max > o.lambda_min.value_or(0), "lambda_max is ", o.lambda_max.value_or(0),
          "; a number above lambda_min is needed");
}

std::string Monitor::number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3e", value);
  return text;
}

}  // namespace tacit::krylov
