#include <tacit/base/error.hpp>
#include <tacit/base/names.hpp>
#include <tacit/krylov/monitor.hpp>
#include <tacit/krylov/options.hpp>
#include <tacit/krylov/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>

namespace tacit::krylov {
namespace {
constexpr Names<Method, 13> methods{{{{Method::automatic, "auto"},
                                      {Method::cg, "cg"},
                                      {Method::bicgstab, "bicgstab"},
                                      {Method::gmres, "gmres"},
                                      {Method::richardson, "richardson"},
                                      {Method::chebyshev, "chebyshev"},
                                      {Method::pipelined_cg, "pipelined-cg"},
                                      {Method::pipelined_bicgstab, "pipelined-bicgstab"},
                                      {Method::pipelined_gmres, "pipelined-gmres"},
                                      {Method::ca_cg, "ca-cg"},
                                      {Method::ca_bicgstab, "ca-bicgstab"},
                                      {Method::ca_gmres, "ca-gmres"},
                                      {Method::pipelined_ca_gmres, "pipelined-ca-gmres"}}}};
constexpr Names<Side, 3> sides{{{{Side::right, "right"}, {Side::left, "left"}, {Side::flexible, "flexible"}}}};
constexpr Names<Orthogonalisation, 10> orthogonalisations{{{{Orthogonalisation::automatic, "auto"},
                                                            {Orthogonalisation::one_reduction, "one-reduction"},
                                                            {Orthogonalisation::cgs, "cgs"},
                                                            {Orthogonalisation::cgs2, "cgs2"},
                                                            {Orthogonalisation::mgs, "mgs"},
                                                            {Orthogonalisation::bcgs, "bcgs"},
                                                            {Orthogonalisation::bcgs2, "bcgs2"},
                                                            {Orthogonalisation::bcgs_pip, "bcgs-pip"},
                                                            {Orthogonalisation::bcgs_pip2, "bcgs-pip2"},
                                                            {Orthogonalisation::two_stage, "two-stage"}}}};
constexpr Names<BlockQr, 5> block_qrs{{{{BlockQr::cholqr, "cholqr"},
                                        {BlockQr::cholqr2, "cholqr2"},
                                        {BlockQr::shifted_cholqr3, "shifted-cholqr3"},
                                        {BlockQr::mixed_cholqr, "mixed-cholqr"},
                                        {BlockQr::tsqr, "tsqr"}}}};
constexpr Names<Basis, 4> bases{{{{Basis::automatic, "auto"},
                                  {Basis::newton, "newton"},
                                  {Basis::chebyshev, "chebyshev"},
                                  {Basis::monomial, "monomial"}}}};
constexpr Names<Storage, 3> storages{
    {{{Storage::full, "full"}, {Storage::float32, "float32"}, {Storage::bfloat16, "bfloat16"}}}};
constexpr Names<Engine, 3> engines{
    {{{Engine::polling, "polling"}, {Engine::thread, "thread"}, {Engine::tasks, "tasks"}}}};
constexpr Names<Norm, 2> norms{{{{Norm::two, "2"}, {Norm::max, "max"}}}};
constexpr Names<Powers, 2> all_powers{{{{Powers::products, "products"}, {Powers::kernel, "kernel"}}}};
constexpr Names<Reason, 7> reasons{{{{Reason::converged, "converged"},
                                     {Reason::max_iterations, "max_iterations"},
                                     {Reason::breakdown, "breakdown"},
                                     {Reason::stagnated, "stagnated"},
                                     {Reason::diverged, "diverged"},
                                     {Reason::non_finite, "non_finite"},
                                     {Reason::stopped, "stopped"}}}};
}  // namespace

Method method_of(std::string_view name) {
  return methods.value(name, "method");
}
const char* to_string(Method method) {
  return methods.name(method);
}
std::vector<std::string> method_names() {
  return methods.all();
}
Side side_of(std::string_view name) {
  return sides.value(name, "side");
}
const char* to_string(Side side) {
  return sides.name(side);
}
std::vector<std::string> side_names() {
  return sides.all();
}
Orthogonalisation orthogonalisation_of(std::string_view name) {
  return orthogonalisations.value(name, "orthogonalisation");
}
const char* to_string(Orthogonalisation orthogonalisation) {
  return orthogonalisations.name(orthogonalisation);
}
std::vector<std::string> orthogonalisation_names() {
  return orthogonalisations.all();
}
BlockQr block_qr_of(std::string_view name) {
  return block_qrs.value(name, "block_qr");
}
const char* to_string(BlockQr block_qr) {
  return block_qrs.name(block_qr);
}
std::vector<std::string> block_qr_names() {
  return block_qrs.all();
}
Basis basis_of(std::string_view name) {
  return bases.value(name, "basis");
}
const char* to_string(Basis basis) {
  return bases.name(basis);
}
std::vector<std::string> basis_names() {
  return bases.all();
}
Storage storage_of(std::string_view name) {
  return storages.value(name, "storage");
}
const char* to_string(Storage storage) {
  return storages.name(storage);
}
std::vector<std::string> storage_names() {
  return storages.all();
}
Engine engine_of(std::string_view name) {
  return engines.value(name, "engine");
}
const char* to_string(Engine engine) {
  return engines.name(engine);
}
std::vector<std::string> engine_names() {
  return engines.all();
}
Norm norm_of(std::string_view name) {
  return norms.value(name, "norm");
}
const char* to_string(Norm norm) {
  return norms.name(norm);
}
std::vector<std::string> norm_names() {
  return norms.all();
}
Powers powers_of(std::string_view name) {
  return all_powers.value(name, "powers");
}
const char* to_string(Powers powers) {
  return all_powers.name(powers);
}
std::vector<std::string> powers_names() {
  return all_powers.all();
}
const char* to_string(Reason reason) {
  return reasons.name(reason);
}

Method classical_of(Method method) {
  switch (method) {
    case Method::pipelined_cg:
    case Method::ca_cg:
      return Method::cg;
    case Method::pipelined_bicgstab:
    case Method::ca_bicgstab:
      return Method::bicgstab;
    case Method::pipelined_gmres:
    case Method::ca_gmres:
    case Method::pipelined_ca_gmres:
      return Method::gmres;
    default:
      return method;
  }
}

void check_uses(const Options& o) {
  using enum Method;
  const auto only = [&](bool given, const std::string& what, std::initializer_list<Method> users) {
    if (!given || std::find(users.begin(), users.end(), o.method) != users.end()) return;
    std::string names;
    for (const Method m : users) names += (names.empty() ? "" : ", ") + std::string(to_string(m));
    throw Error(ErrorKind::usage, message(what, " is an option of ", names, "; ", to_string(o.method), " has none"));
  };
  only(o.side == Side::left, "side left", {automatic, gmres, pipelined_gmres, ca_gmres, pipelined_ca_gmres});
  only(o.side == Side::flexible, "side flexible", {automatic, gmres});
  only(o.step.has_value(), message("step ", o.step.value_or(0)), {ca_cg, ca_bicgstab, ca_gmres});
  only(o.depth.has_value(), message("depth ", o.depth.value_or(0)),
       {pipelined_cg, pipelined_gmres, pipelined_ca_gmres});
  only(o.block.has_value(), message("block ", o.block.value_or(0)), {pipelined_ca_gmres});
  only(o.tau.has_value(), message("tau ", o.tau.value_or(0)), {pipelined_gmres, pipelined_ca_gmres});
  only(o.basis.has_value(), message("basis ", to_string(o.basis.value_or(Basis::automatic))),
       {pipelined_cg, pipelined_gmres, ca_cg, ca_bicgstab, ca_gmres, pipelined_ca_gmres});
  only(o.powers.has_value(), message("powers ", to_string(o.powers.value_or(Powers::products))),
       {ca_cg, ca_bicgstab, ca_gmres});
  only(o.storage.has_value(), message("storage ", to_string(o.storage.value_or(Storage::full))), {ca_gmres});
  only(o.replacement.has_value(), message("replacement ", o.replacement.value_or(0)),
       {pipelined_cg, pipelined_bicgstab, ca_cg, ca_bicgstab});
  only(o.lambda_min.has_value(), message("lambda_min ", o.lambda_min.value_or(0)), {chebyshev});
  only(o.lambda_max.has_value(), message("lambda_max ", o.lambda_max.value_or(0)), {chebyshev});
  only(o.sweeps.has_value(), message("sweeps ", o.sweeps.value_or(0)), {richardson});
  switch (o.orthogonalisation) {
    case Orthogonalisation::automatic:
      break;
    case Orthogonalisation::one_reduction:
    case Orthogonalisation::cgs:
    case Orthogonalisation::cgs2:
    case Orthogonalisation::mgs:
      only(true, message("orthogonalisation ", to_string(o.orthogonalisation)), {automatic, gmres});
      break;
    default:
      only(true, message("orthogonalisation ", to_string(o.orthogonalisation)), {ca_gmres});
  }
  if (o.block_qr) {
    only(true, message("block_qr ", to_string(*o.block_qr)), {ca_gmres});
    require(o.orthogonalisation == Orthogonalisation::bcgs || o.orthogonalisation == Orthogonalisation::bcgs2,
            "block_qr ", to_string(*o.block_qr), " goes with orthogonalisation bcgs or bcgs2; it is ",
            to_string(o.orthogonalisation));
  }
}

std::string Monitor::number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3e", value);
  return text;
}

void check(const Options& o) {
  require(o.rtol >= 0 && std::isfinite(o.rtol), "rtol is ", o.rtol, "; a number >= 0 is needed");
  require(o.atol >= 0 && std::isfinite(o.atol), "atol is ", o.atol, "; a number >= 0 is needed");
  require(!o.max_iterations || *o.max_iterations >= 0, "max_iterations is ", o.max_iterations.value_or(0),
          "; a number >= 0 is needed");
  require(!o.restart || *o.restart >= 1, "restart is ", o.restart.value_or(0), "; at least 1 vector is needed");
  require(std::isfinite(o.relaxation) && o.relaxation != 0, "relaxation is ", o.relaxation,
          "; a finite number other than 0 is needed");
  require(o.divergence > 1, "divergence is ", o.divergence, "; a factor > 1 is needed");
  require(!o.sweeps || *o.sweeps >= 1, "sweeps is ", o.sweeps.value_or(0), "; at least 1 step is needed");
  require(o.schedule.remote_threads >= 1 && o.schedule.job_rows >= 0, "a schedule with ", o.schedule.remote_threads,
          " threads for the halo and jobs of ", o.schedule.job_rows, " rows");
  require(!o.step || *o.step >= 1, "step is ", o.step.value_or(0), "; at least 1 iteration is needed");
  require(!o.depth || *o.depth >= 1, "depth is ", o.depth.value_or(0), "; at least 1 is needed");
  require(!o.block || *o.block >= 1, "block is ", o.block.value_or(0), "; at least 1 vector is needed");
  require(!o.tau || (*o.tau >= 0 && *o.tau < 1), "tau is ", o.tau.value_or(0), "; a number in [0, 1) is needed");
  require(!o.replacement || *o.replacement >= 0, "replacement is ", o.replacement.value_or(0),
          "; a number of iterations, or 0 for never, is needed");
  // Small dense matrices of this size are kept and factorised on every rank.
  constexpr int most = 1000;
  const auto small = [&](const char* name, const std::optional<int>& value) {
    require(value.value_or(0) <= most, name, " is ", value.value_or(0), "; at most ", most, " is possible");
  };
  small("step", o.step), small("depth", o.depth), small("block", o.block);
  check_uses(o);
  require(!o.lambda_min || *o.lambda_min > 0, "lambda_min is ", o.lambda_min.value_or(0), "; a number > 0 is needed");
  require(!o.lambda_max || *o.lambda_max > o.lambda_min.value_or(0), "lambda_max is ", o.lambda_max.value_or(0),
          "; a number above lambda_min is needed");
}

}  // namespace tacit::krylov
