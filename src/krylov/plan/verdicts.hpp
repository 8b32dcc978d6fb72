// How a solve that has not converged ends: the reason, and what the user is advised to do.
#pragma once

#include "facts.hpp"

#include <tacit/krylov/outer.hpp>

#include <string>

namespace tacit::krylov {

/// The limit has been reached.
Verdict too_few_iterations(const Facts& f);
/// The callback has stopped the solve.
Verdict stopped(const Facts& f);
/// For a matrix that is not Hermitian and a method that needs that; the diagnosis adds the reason.
Verdict not_hermitian(const Facts& f);
/// After a breakdown, a residual that grew, or numbers that are not finite.
Verdict failed(const Facts& f);
/// Where the factors of a direct solve are in doubt.
Verdict doubtful_factors(const Facts& f);
/// Runs, or cycles, that bring nothing more.
Verdict stagnated(const Facts& f);
Verdict cycles_stagnated(const Facts& f);
/// What is advised where the residual is at a level of rounding errors, relative to ||b||.
std::string rounding_advice(double level, bool is_double);

}  // namespace tacit::krylov
