// Options of a solve. Unknown names are refused, with the nearest known one.
#pragma once

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
  cg,
  bicgstab,
  gmres,
  richardson,
  chebyshev,
  pipelined_cg,        ///< one sum in flight behind each product; depth > 1: p(l)-CG
  pipelined_bicgstab,  ///< two sums, each behind a product
  pipelined_gmres,     ///< one sum a vector, in flight for `depth` products
  ca_cg,               ///< one sum for `step` iterations
  ca_bicgstab,         ///< one sum for `step` iterations
  ca_gmres,            ///< `step` vectors made and orthogonalised at once
  pipelined_ca_gmres   ///< one sum a `block` of vectors, in flight for depth - 1 blocks
};
enum class Side { right, left, flexible };
/// How vectors are made orthogonal to those before them.
enum class Orthogonalisation {
  automatic,  ///< gmres: one_reduction; ca_gmres: bcgs_pip, twice where a block needs it
  // One vector at a time (gmres); all-reduces per vector, passes over the basis per vector.
  one_reduction,  ///< classical Gram-Schmidt, norm by Pythagoras; 1, 2 (a second round, 1 and 2 more, on cancellation)
  cgs,            ///< classical Gram-Schmidt, norm by itself; 2, 2
  cgs2,           ///< twice; 3, 4
  mgs,            ///< modified Gram-Schmidt; j + 1 for vector j, 2
  // `step` vectors at a time (ca_gmres); all-reduces per block, passes over the basis per block.
  bcgs,       ///< block classical Gram-Schmidt, then `block_qr` of the block: 1 + that of block_qr, 2
  bcgs2,      ///< the same twice
  bcgs_pip,   ///< the block's Gram matrix by Pythagoras: 1, 2
  bcgs_pip2,  ///< the same twice: 2, 4
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
/// What pushes pending sums and messages on while a rank computes.
enum class Engine {
  polling,  ///< compute loops poll
  thread,   ///< a thread that does nothing else (give it a core)
  tasks     ///< kernels as tasks that wait for each other's blocks (exec/tasks.hpp); host memory
};
/// Of the residual: what `rtol` and `atol` are held against.
enum class Norm { two, max };
using op::Powers;
/// Vectors in a cycle of gmres and its relatives where the user has not said how many.
inline constexpr int default_restart = 30;
Method method_of(std::string_view name);
Side side_of(std::string_view name);
Orthogonalisation orthogonalisation_of(std::string_view name);
BlockQr block_qr_of(std::string_view name);
Basis basis_of(std::string_view name);
Storage storage_of(std::string_view name);
Engine engine_of(std::string_view name);
Norm norm_of(std::string_view name);
Powers powers_of(std::string_view name);
const char* to_string(Method method);
const char* to_string(Side side);
const char* to_string(Orthogonalisation orthogonalisation);
const char* to_string(BlockQr block_qr);
const char* to_string(Basis basis);
const char* to_string(Storage storage);
const char* to_string(Engine engine);
const char* to_string(Norm norm);
const char* to_string(Powers powers);
std::vector<std::string> method_names();
std::vector<std::string> side_names();
std::vector<std::string> orthogonalisation_names();
std::vector<std::string> block_qr_names();
std::vector<std::string> basis_names();
std::vector<std::string> storage_names();
std::vector<std::string> engine_names();
std::vector<std::string> norm_names();
std::vector<std::string> powers_names();

/// The state that a callback sees after each iteration.
struct State {
  int iteration;
  double residual_norm;  ///< the recurrence's ||r_k|| / ||b||
  /// This rank's part of x_k in host memory, as `count` scalars of the solve's type; collective.
  std::function<void(void* x)> solution;
};

struct Options {
  Method method = Method::automatic;
  double rtol = 1e-8;  ///< relative to ||b||
  double atol = 0;
  /// Products with A in cg, gmres, richardson, chebyshev; pairs of them in bicgstab. Default: 10 n, at least 1000, at
  /// most 50000.
  std::optional<int> max_iterations;
  /// Vectors in a cycle of gmres and its relatives. Absent: default_restart, and with `fallbacks` up to four times as
  /// many where such cycles are too slow; report.warnings tells of each change. What is given stays as it is.
  std::optional<int> restart;
  Side side = Side::right;  ///< of the preconditioner in gmres and its relatives
  Orthogonalisation orthogonalisation = Orthogonalisation::automatic;
  // Of the s-step and pipelined methods; refused where the method does not use them. Absent: the method's default.
  std::optional<int> step;     ///< s: iterations for one sum [ca-gmres 10, ca-cg 8, ca-bicgstab 4]
  std::optional<int> depth;    ///< l: sums in flight [pipelined-gmres 2, pipelined-cg 1, pipelined-ca-gmres 2]
  std::optional<int> block;    ///< t: vectors for one sum in pipelined-ca-gmres [5]
  std::optional<double> tau;   ///< entries of a pipelined change of basis below tau h_{i,i-1} are left out [0]
  std::optional<Basis> basis;  ///< [automatic]
  /// How ca-gmres, ca-cg and ca-bicgstab make their vectors; the kernel where the operator has one and the
  /// preconditioner is a diagonal or none. [products]
  std::optional<Powers> powers;
  std::optional<BlockQr> block_qr;  ///< [cholqr]
  std::optional<Storage> storage;   ///< of the basis in ca-gmres [full]
  std::optional<int> replacement;   ///< residual replacement every so many iterations; 0 never [by an error estimate]
  Engine engine = Engine::polling;
  Norm norm = Norm::two;
  /// richardson with a diagonal P of equal entries (or none): steps in one pass through memory, where the operator has
  /// a kernel for it (a stencil). The same iterates and norms; convergence is seen at most sweeps - 1 steps late.
  /// [what the operator does; 1 with a callback]
  std::optional<int> sweeps;
  /// How products with A are dealt to the threads of a rank. [automatic]
  op::Schedule schedule;
  double relaxation = 1;  ///< omega of richardson: x += omega M (b - A x)
  /// Bounds of the spectrum of M A for chebyshev; estimated by a few steps of Lanczos when absent.
  std::optional<double> lambda_min, lambda_max;
  double divergence = 1e10;  ///< `diverged` when ||r|| exceeds this multiple of max(||b||, ||r_0||)
  /// What may be done where the method gets no further: scale by the diagonal when P is none and the diagonal varies
  /// (not for richardson), another shadow residual in bicgstab, longer cycles in gmres where `restart` is absent. Each
  /// is told in report.warnings. False: the method as it stands, and its honest failure.
  bool fallbacks = true;
  bool history = true;
  /// Returns true to stop: one rank that does stops all (a reduction an iteration). Called on every rank after each
  /// iteration; may throw (all ranks then throw the same Error).
  std::function<bool(const State&)> callback;
  /// False: the callback only looks. Its answer is not asked for, and no reduction is spent on it.
  bool callback_stops = true;
};

/// The method that an s-step or pipelined one is a variant of; others are their own.
Method classical_of(Method method);
/// Error(usage) when an option is set that the method does not use: the option, its value, and the methods that use it.
void check_uses(const Options& options);

}  // namespace tacit::krylov
