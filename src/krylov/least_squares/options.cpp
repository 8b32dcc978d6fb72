#include <tacit/krylov/least_squares.hpp>

#include <vector>

namespace tacit::krylov {

std::span<const Described> least_squares_methods() {
  static constexpr Described all[] = {
      {"lsmr", "condition_limit",
       "the least ||A^H r|| over the Krylov space: ||r|| and ||A^H r|| fall in every iteration",
       "Fong, Saunders (2011), doi 10.1137/10079687X"},
      {"lsqr", "condition_limit", "the least ||r|| over the Krylov space; ||A^H r|| varies",
       "Paige, Saunders (1982), doi 10.1145/355984.355989"},
      {"cg", "", "cg on the normal equations A^H A x = A^H b, whose condition is that of A squared",
       "Hestenes, Stiefel (1952), doi 10.6028/jres.049.044"},
      {"pipelined-cg", "", "the same by pipelined-cg: one reduction, hidden behind the products",
       "Ghysels, Vanroose (2014), doi 10.1016/j.parco.2013.06.001, Algorithm 4"},
      {"ca-cg", "step", "the same by ca-cg: one reduction for `step` iterations",
       "Carson, Knight, Demmel (2013), doi 10.1137/120881191"}};
  return all;
}

std::span<const Option<LeastSquaresOptions>> least_squares_options() {
  using O = LeastSquaresOptions;
  static const std::vector<Option<O>> all{
      option<O>("atol", &O::atol, not_negative(),
                "converged means, recomputed with r = b - A x, that ||r|| <= btol ||b|| + atol ||A|| ||x||, or that "
                "||A^H r|| <= atol ||A|| ||r||",
                "1e-8; with float32 and complex64 1e-4"),
      option<O>("btol", &O::btol, not_negative(), "see atol", "as atol"),
      option<O>("damp", &O::damp, not_negative(), "what is minimised is ||b - A x||^2 + damp^2 ||x||^2"),
      option<O>("condition_limit", &O::condition_limit, at_least(1, "(a condition)"),
                "ends the solve where the estimated condition of A exceeds it", "1 / epsilon of the scalar"),
      option<O>("max_iterations", &O::max_iterations, at_least(0, "iterations"),
                "pairs of products with A and A^H at most", "10 per row or column, from 1000 to 50000"),
      option<O>("step", &O::step, between(1, 1000, "iterations"), "s: iterations for one reduction", "8"),
      option<O>("history", &O::history, "keep the residual and the gradient of every iteration"),
  };
  return all;
}

void check(const LeastSquaresOptions& o) {
  check_values(least_squares_options(), o);
  check_taken(least_squares_options(), o, least_squares_methods(), to_string(o.method));
  const bool watches = o.method == LeastSquaresMethod::lsmr || o.method == LeastSquaresMethod::lsqr;
  require(watches || !o.callback, "a callback is called by lsmr and lsqr; ", to_string(o.method), " has none");
}

}  // namespace tacit::krylov
