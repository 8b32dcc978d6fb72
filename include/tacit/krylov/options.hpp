// Options of a solve. Their names and values, and which method takes which, are described once, in krylov/methods.def
// and in options(); checks, bindings, the command line and reference pages are made from these (base/described.hpp).
#pragma once

#include <tacit/base/described.hpp>
#include <tacit/op/recurrence.hpp>
#include <tacit/op/schedule.hpp>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tacit::krylov {

enum class Method {
  automatic,
#define TACIT_METHOD(enumerator, ...) enumerator,
#include <tacit/krylov/methods.def>
};
enum class Side { right, left, flexible };
/// How vectors are made orthogonal to those before them.
enum class Orthogonalisation {
  automatic,  ///< gmres: one_reduction; ca_gmres: bcgs_pip, twice where a block needs it
  // One vector at a time (gmres); all-reduces per vector, passes over the basis per vector.
  one_reduction,  ///< classical Gram-Schmidt, norm by Pythagoras; 1, 2 (on cancellation up to two more rounds)
  cgs,            ///< classical Gram-Schmidt, norm by itself; 2, 2
  cgs2,           ///< twice; 3, 4
  mgs,            ///< modified Gram-Schmidt; j + 1 for vector j, 2
  // `step` vectors at a time (ca_gmres); all-reduces per block, passes over the basis per block.
  bcgs,       ///< block classical Gram-Schmidt, then `block_qr` of the block: 1 + that of block_qr, 2
  bcgs2,      ///< the same twice
  bcgs_pip,   ///< the block's Gram matrix by Pythagoras: 1, 2
  bcgs_pip2,  ///< the same twice: 2, 3
  two_stage   ///< bcgs_pip for each block, and a second bcgs_pip for several blocks at once
};
/// How the vectors of a block are made orthonormal among themselves (with bcgs and bcgs2); all-reduces.
enum class BlockQr {
  cholqr,           ///< Cholesky factor of the Gram matrix; 1; needs cond(V) < 1e8
  cholqr2,          ///< twice; 2
  shifted_cholqr3,  ///< a shifted Gram matrix first; 3; cond(V) up to 1e16
  mixed_cholqr,     ///< the Gram matrix in twice the precision; 1; cond(V) up to 1e16
  tsqr              ///< Householder QR up a tree of ranks; 1 of its kind; any V
};
/// The polynomials of s-step and pipelined bases.
enum class Basis {
  automatic,  ///< newton, in ca_cg and ca_bicgstab chebyshev, once Ritz values are known
  newton,
  chebyshev,
  monomial
};
/// How the basis vectors are stored; arithmetic is that of the scalar type.
enum class Storage { full, float32, bfloat16 };
/// How pending reductions and messages progress while a rank computes.
enum class Engine {
  polling,  ///< compute loops poll
  thread,   ///< a progress thread, which needs a core of its own
  tasks     ///< kernels as tasks that wait for each other's blocks (exec/tasks.hpp); host memory
};
/// The norm of the residual that `rtol` and `atol` refer to.
enum class Norm { two, max };
using op::Powers;
using tacit::to_string;
/// Vectors in a cycle of gmres and its relatives where the user has not said how many.
inline constexpr int default_restart = 30;
/// The `rtol` of a solve that is given none: half of the digits of its scalar.
template <Scalar T>
constexpr double default_rtol() {
  return std::same_as<real_t<T>, double> ? 1e-8 : 1e-4;
}
/// The state that a callback sees after each iteration.
struct State {
  int iteration;
  double residual_norm;  ///< the recurrence's ||r_k|| / ||b||
  /// This rank's part of x_k in host memory, as `count` scalars of the solve's type; collective.
  std::function<void(void* x)> solution;
  int column = 0;  ///< of the right-hand sides of solve_columns(), counted from 0
};

struct Options {
  Method method = Method::automatic;
  std::optional<double> rtol;  ///< relative to ||b||. [default_rtol()]
  double atol = 0;
  /// Products with A in cg, gmres, richardson, chebyshev; pairs of them in bicgstab. Default: 10 n, at least 1000, at
  /// most 50000.
  std::optional<int> max_iterations;
  // Of some methods, and refused by the others (methods.def says which, and what they are). Absent: the method's
  // default. A restart that is absent is default_restart, and with `fallbacks` up to four times as many where such
  // cycles are too slow; what is given stays as it is.
#define TACIT_OPTION(member, type, ...) std::optional<type> member;
#include <tacit/krylov/methods.def>
  Engine engine = Engine::polling;
  Norm norm = Norm::two;
  /// How products with A are divided among the threads of a rank. [automatic]
  op::Schedule schedule;
  double divergence = 1e10;  ///< `diverged` when ||r|| exceeds this multiple of max(||b||, ||r_0||)
  /// What may be tried where the method makes no more progress: the inverse diagonal as P when there is none and the
  /// diagonal varies (not for richardson and direct), another shadow residual in bicgstab, weaker forms of a variant,
  /// longer cycles in gmres where `restart` is absent. Each is a warning of the report. False: the given method only.
  bool fallbacks = true;
  bool history = true;
  /// Called on every rank after each iteration. Returns true to stop: one rank that does stops all (a reduction per
  /// iteration). May throw; all ranks then throw the same Error.
  std::function<bool(const State&)> callback;
  /// False: the callback only observes. Its answer is ignored, and no reduction is spent on it.
  bool callback_stops = true;
  /// Whether the cause of a failure is looked into by products of its own, which are not among the report's counts and
  /// seconds (Report::explain_seconds has their time). Absent: they cost at most as much as the solve did, or 10 ms
  /// where that is more, by counted work (bytes, reductions), and by the clock where the solve took 30 times its count;
  /// none after a solve that the limit of iterations has cut off early. True: whatever it takes, some products, up to
  /// 200 for the sign of the eigenvalues, and for null vectors about as many sweeps over vectors as the solve took, or
  /// 1e9 elements where that was less (500 unknowns: up to n steps). False: none.
  std::optional<bool> explain;
  /// Called on all ranks when the solve has ended and its time is taken, before its failure is looked into; not called
  /// where that is not done.
  std::function<void()> before_explaining;
  /// Compare the arrays of A and b with their checksums before convergence is confirmed, and before a failure is
  /// reported (Reason::damaged). False: for solves whose result is not relied upon, such as inner ones.
  bool check_memory = true;
};

/// The method that an s-step or pipelined one is a variant of; others are their own.
Method classical_of(Method method);
/// The methods with what they are and the options that they take; the first is "auto".
std::span<const Described> methods();
/// Whether the method takes this option: it is in the method's list, or in no list.
bool takes(Method method, std::string_view option);
/// The options of a solve.
std::span<const Option<Options>> options();
/// Error(usage) at a number out of its range, and at an option that the method does not take: the option, its value,
/// and the methods that take it.
void check(const Options& options);

}  // namespace tacit::krylov

namespace tacit {

template <>
inline constexpr auto names_of<krylov::Method> = named<krylov::Method>("method",
                                                                       {
                                                                           {krylov::Method::automatic, "auto"},
#define TACIT_METHOD(enumerator, name, ...) {krylov::Method::enumerator, name},
#include <tacit/krylov/methods.def>
                                                                       });
template <>
inline constexpr auto names_of<krylov::Side> = named<krylov::Side>("side", {{krylov::Side::right, "right"},
                                                                            {krylov::Side::left, "left"},
                                                                            {krylov::Side::flexible, "flexible"}});
template <>
inline constexpr auto names_of<krylov::Orthogonalisation> =
    named<krylov::Orthogonalisation>("orthogonalisation", {{krylov::Orthogonalisation::automatic, "auto"},
                                                           {krylov::Orthogonalisation::one_reduction, "one-reduction"},
                                                           {krylov::Orthogonalisation::cgs, "cgs"},
                                                           {krylov::Orthogonalisation::cgs2, "cgs2"},
                                                           {krylov::Orthogonalisation::mgs, "mgs"},
                                                           {krylov::Orthogonalisation::bcgs, "bcgs"},
                                                           {krylov::Orthogonalisation::bcgs2, "bcgs2"},
                                                           {krylov::Orthogonalisation::bcgs_pip, "bcgs-pip"},
                                                           {krylov::Orthogonalisation::bcgs_pip2, "bcgs-pip2"},
                                                           {krylov::Orthogonalisation::two_stage, "two-stage"}});
template <>
inline constexpr auto names_of<krylov::BlockQr> =
    named<krylov::BlockQr>("block_qr", {{krylov::BlockQr::cholqr, "cholqr"},
                                        {krylov::BlockQr::cholqr2, "cholqr2"},
                                        {krylov::BlockQr::shifted_cholqr3, "shifted-cholqr3"},
                                        {krylov::BlockQr::mixed_cholqr, "mixed-cholqr"},
                                        {krylov::BlockQr::tsqr, "tsqr"}});
template <>
inline constexpr auto names_of<krylov::Basis> = named<krylov::Basis>("basis", {{krylov::Basis::automatic, "auto"},
                                                                               {krylov::Basis::newton, "newton"},
                                                                               {krylov::Basis::chebyshev, "chebyshev"},
                                                                               {krylov::Basis::monomial, "monomial"}});
template <>
inline constexpr auto names_of<krylov::Storage> = named<krylov::Storage>("storage",
                                                                         {{krylov::Storage::full, "full"},
                                                                          {krylov::Storage::float32, "float32"},
                                                                          {krylov::Storage::bfloat16, "bfloat16"}});
template <>
inline constexpr auto names_of<krylov::Engine> = named<krylov::Engine>("engine", {{krylov::Engine::polling, "polling"},
                                                                                  {krylov::Engine::thread, "thread"},
                                                                                  {krylov::Engine::tasks, "tasks"}});
template <>
inline constexpr auto names_of<krylov::Norm> = named<krylov::Norm>("norm", {{krylov::Norm::two, "2"},
                                                                            {krylov::Norm::max, "max"}});
template <>
inline constexpr auto names_of<op::Powers> = named<op::Powers>("powers", {{op::Powers::products, "products"},
                                                                          {op::Powers::kernel, "kernel"}});

}  // namespace tacit
