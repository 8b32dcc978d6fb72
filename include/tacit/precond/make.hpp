// make: a preconditioner from its name and options in text, for Python and the command line.
#pragma once

#include <tacit/op/csr.hpp>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tacit::precond {

/// Option names and their values in text: {"degree", "4"}.
using Options = std::map<std::string, std::string>;

/// The preconditioner of this name for A; null for "none".
///
/// | name | options |
/// |---|---|
/// | none | |
/// | jacobi | absolute (false) |
/// | block-jacobi | solver (ilu0: ilu0, ic0, spai, fsai), blocks (1; ilu0 and ic0) |
/// | ilu0, ic0 | blocks (1) |
/// | spai, fsai | local (false) |
/// | polynomial | kind (chebyshev: chebyshev, neumann), degree (4); chebyshev: lambda_min, lambda_max; neumann:
/// relaxation (1) |
///
/// block-jacobi with solver spai or fsai is the local form of these. "polynomial" refers to A. ilu0 and ic0 work in
/// host memory. Collective. Error(usage): a name or an option that does not exist (with the nearest that does), a value
/// that cannot be read, and what the constructors say.
template <Scalar T, Memory M>
std::unique_ptr<op::Operator<T, M>> make(std::string_view name, const op::Csr<T, M>& A, const Options& options = {});

/// The names that make() knows.
std::vector<std::string> names();

}  // namespace tacit::precond
