// Which method a solve begins with: what Method::automatic takes, and what a preconditioner asks for. Part of
// solve_impl.hpp.
#pragma once

namespace tacit::krylov {
namespace {

/// For a preconditioner that is not a linear map. Methods that update x and r by the same vectors stay exact with it.
/// GMRES returns P (V y) after applying P to the columns of V, which is the same for a linear map only; variants
/// obtain P times some vectors by recurrences. MINRES stays exact, but its three-term recurrence is that of a linear
/// map: it may stagnate.
template <Scalar T, Memory M>
void Solve<T, M>::expect_varying() {
  if (!op::varies(given_P_)) return;
  if (options_.method == Method::automatic && !options_.side) options_.method = Method::fgmres;
  const bool gmres = options_.method == Method::gmres || options_.method == Method::automatic;
  if (gmres && !options_.side) options_.side = Side::flexible;
  if (options_.method == Method::minres) {
    report_.warnings.push_back(message(given_P_->name(), " changes from call to call, and the recurrence of minres ",
                                       "takes it for a linear map: it may stagnate; cg (for positive definite "
                                       "matrices) and fgmres do not"));
    return;
  }
  if (gmres ? options_.side == Side::flexible : classical_of(options_.method) == options_.method) return;
  std::string who = to_string(options_.method);
  if (takes(options_.method, "side")) who += message(" with side ", to_string(options_.side.value_or(Side::right)));
  report_.warnings.push_back(
      message(given_P_->name(), " changes from call to call, and ", who,
              " takes it for a linear map: the residual that it predicts is not that of x, "
              "and it may stagnate; fgmres (the same as gmres with side flexible) and bicgstab stay "
              "exact"));
}

template <Scalar T, Memory M>
void Solve<T, M>::choose_method() {
  expect_varying();
  method_ = options_.method;
  const bool automatic = method_ == Method::automatic;
  const bool may_be_cg =
      automatic
          ? hermitian_ && (!P_ || options_.side.value_or(Side::right) == Side::right)  // only gmres has other sides
          : needs_definite() || (method_ == Method::minres && P_);
  const int sign = may_be_cg ? sign_of_diagonal() : 0;
  if (automatic) {
    method_ = sign != 0 ? Method::cg : Method::gmres;
    may_change_ = true;
  }
  negated_ = sign < 0;
  report_.method = to_string(method_);
}

/// With Method::automatic: is an s-step or pipelined variant predicted to be clearly faster here? Costs two products
/// and two applies of P. Collective.
template <Scalar T, Memory M>
void Solve<T, M>::consider_variants() {
  // Short vectors stay in the caches, where the classical methods are at their best.
  constexpr Global least_size = 200000;
  if constexpr (std::same_as<M, Host>) {
    if (!may_change_ || !options_.variants || space_.size() < least_size * Global(sizeof(double)) / Global(sizeof(T)) ||
        options_.side == Side::flexible ||
        options_.orthogonalisation.value_or(Orthogonalisation::automatic) != Orthogonalisation::automatic)
      return;
    const auto& comm = space_.comm();
    const auto machine = model::measure(comm);
    Vector<T, M> y(space_), z(space_);
    const auto slowest = [&](const op::Operator<T, M>& a, const Vector<T, M>& from, Vector<T, M>& to) {
      a.apply(from, to);
      const double begin = wall_time();
      a.apply(from, to);
      return comm.all_max(wall_time() - begin);
    };
    Prices prices;
    prices.product = slowest(*A_, b_, y);
    if (P_) prices.precondition = slowest(*P_, y, z);
    prices.vector = comm.all_max(double(y.size() * sizeof(T))) / machine.bandwidth;
    prices.sum = space_.is_replicated() ? 0 : machine.sum_latency;
    prices.restart = options_.restart.value_or(default_restart);
    static constexpr Method positive[] = {Method::cg, Method::pipelined_cg};
    static constexpr Method general[] = {Method::gmres, Method::ca_gmres, Method::pipelined_gmres,
                                         Method::pipelined_ca_gmres};
    std::string why;
    method_ = method_ == Method::cg ? cheapest(positive, prices, 0.8, why) : cheapest(general, prices, 0.8, why);
    report_.method = to_string(method_);
    if (!why.empty()) report_.warnings.push_back("auto took " + why);
  }
}

}  // namespace
}  // namespace tacit::krylov
