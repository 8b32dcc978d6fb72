// What a look into a failure may cost. Work is counted, in seconds of a machine that is always the same: a run then
// repeats whatever else runs beside it, and ranks decide alike. Part of solve_impl.hpp.
#pragma once

namespace tacit::krylov {
namespace {

/// Allows what the solve has cost, or 10 ms where that is more; the solves of one call share these. Some reductions.
/// Collective.
template <Scalar T, Memory M>
void Solve<T, M>::allow() {
  // A core with its vectors in cache, and a network: small numbers would deny small systems their explanation.
  constexpr double bandwidth = 1e10, flop_rate = 4e9, call = 1e-6, message_time = 2e-6, least = 0.01;
  constexpr double slow = 1e-3;  // of an apply: what load on the machine seldom makes of a fast one
  const auto& comm = space_.comm();
  Allowance a;
  a.vector = comm.all_max(double(space_.local_size()) * sizeof(T)) / bandwidth;
  a.sum = call;
  if (!space_.is_replicated()) a.sum += message_time * std::bit_width(unsigned(comm.size() - 1));
  const auto price = [&](const op::Operator<T, M>* B) {
    if (!B) return 0.0;
    const op::Cost c = B->cost();
    const double told = c.bytes / bandwidth + c.flops / flop_rate + call + (c.messages > 0 ? message_time : 0);
    return comm.all_max(c.bytes > 0 ? told : 20 * call + 12 * a.vector);  // a user's function does not tell
  };
  a.product = price(A_);
  a.precondition = price(P_);
  const auto& counts = report_.counts;
  const double products = double(counts.operator_applies + options_.spent.operator_applies),
               preconditions = double(counts.preconditioner_applies),
               iterations = double(report_.iterations + options_.spent.iterations);
  double solve = products * a.product + preconditions * a.precondition + double(counts.reductions) * a.sum +
                 iterations * (is_gmres(method_) ? 2.0 * restart_ : 10.0) * a.vector;
  // Where the solve took far longer than what was counted, an operator may cost more than it tells, or the machine was
  // busy: an apply of each by the clock tells these apart. The time of one of several columns is that of all.
  if (options_.solves_of_call == 1 && options_.spent.iterations == 0 && report_.seconds > slow &&
      report_.seconds > 30 * solve) {
    const double from = wall_time();
    Vector<T, M> y(space_);
    const auto timed = [&](const op::Operator<T, M>* B, double& told) {
      if (!B) return;
      const double begin = wall_time();
      B->apply(b_, y);
      const double seconds = comm.all_max(wall_time() - begin);
      if (seconds > slow && seconds > 30 * told) told = seconds, solve = report_.seconds;
    };
    timed(A_, a.product), timed(P_, a.precondition);
    solve -= comm.all_max(wall_time() - from);
  }
  a.left = std::max(solve, least / std::max(1, options_.solves_of_call));
  allowance_ = a;
}

/// Whether so much work is allowed still; if so it counts as done. Local; the same on all ranks.
template <Scalar T, Memory M>
bool Solve<T, M>::affords(double products, double preconditions, double vectors, double sums) {
  Allowance& a = allowance_;
  const double cost = products * a.product + preconditions * a.precondition + vectors * a.vector + sums * a.sum;
  if (!(cost <= a.left)) {
    a.fell_short = true;
    return false;
  }
  a.left -= cost;
  return true;
}

}  // namespace
}  // namespace tacit::krylov
