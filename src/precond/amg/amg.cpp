#include "../scalar.hpp"
#include "matrix_levels.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/precond/amg.hpp>
#include <tacit/precond/direct.hpp>
#include "base/release.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace tacit::precond {

using layout::Vector;

namespace {

template <Scalar T>
struct Single {
  using type = float;
};
template <Scalar T>
requires is_complex<T>
struct Single<T> {
  using type = std::complex<float>;
};
template <Scalar T>
using single_t = typename Single<T>::type;

/// v 2^e for many v. Two products: 2^e itself may be out of the range.
template <Scalar T>
class Shifted {
 public:
  explicit Shifted(int e) : half_(std::ldexp(real_t<T>(1), e / 2)), rest_(std::ldexp(real_t<T>(1), e - e / 2)) {}
  T operator()(T v) const { return v * half_ * rest_; }

 private:
  real_t<T> half_, rest_;
};

/// The shift e for which the largest part of n numbers times 2^e is in [1, 2), over all ranks; 0 where there is none.
template <Scalar T>
int shift_of(const T* v, std::size_t n, const comm::Communicator& comm) {
  double most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, double(size_of(v[i])));
  most = comm.all_max(most);
  return most > 0 && std::isfinite(most) ? -std::ilogb(most) : 0;
}

/// Error(usage): options of one coarsening given with another one.
template <Scalar T>
void require_coarsening(const AmgOptions<T>& o) {
  const bool classical = o.coarsening != AmgCoarsening::aggregation;
  const char* const instead = ", not aggregation; set coarsening to pmis or hmis";
  require(o.aggressive >= 0, "aggressive is ", o.aggressive, "; at least 0 levels are coarsened aggressively");
  require(classical || o.aggressive == 0, "aggressive is of classical coarsening", instead);
  require(classical || !o.interpolation, "interpolation is of classical coarsening", instead);
  require(classical || !o.p_max, "p_max is of classical coarsening", instead);
  require(o.p_max.value_or(0) >= 0, "p_max is ", o.p_max.value_or(0),
          "; at least 1 entry in a row of P is needed, or 0 for all");
  require(!classical || o.near_null.empty(), "near_null is of aggregation; coarsening is ", to_string(o.coarsening),
          ", which interpolates constants, of each unknown of a node with `block`");
}

}  // namespace

/// The levels, in T or in single precision. Then A there is 2^shift times that of the user.
template <Scalar T>
struct Amg<T>::Parts {
  using S = single_t<T>;
  std::unique_ptr<MatrixLevels<T>> own;
  std::unique_ptr<op::Csr<S>> narrow;
  std::unique_ptr<MatrixLevels<S>> single;
  int shift = 0;

  template <class F>
  auto with(F&& f) const {
    const std::size_t count = single ? single->count() : own->count();
    require(count > 0,
            "amg has no levels, since its last update failed; give the matrix other values and update again");
    return single ? f(*single) : f(*own);
  }

  /// The values of 2^shift A, with the shift that A needs. Error(usage), on all ranks: a diagonal leaves the range.
  std::vector<S> cast(const op::Csr<T>& A, std::span<const T> values) {
    const layout::Space& space = A.range();
    const int by = shift_of(values.data(), values.size(), space.comm());
    std::vector<S> scaled(values.size());
    for (std::size_t k = 0; k < scaled.size(); ++k) scaled[k] = S(times_power(values[k], by));
    comm::collective(space.comm(), [&] {
      const auto diagonal = A.diagonal();
      for (std::size_t i = 0; i < diagonal.size(); ++i)
        require(diagonal[i] == T(0) || std::isnormal(size_of(S(times_power(diagonal[i], by)))),
                "levels in single precision (single_levels) for row ", space.begin() + Global(i), " with the diagonal ",
                diagonal[i], ", and entries of up to ", std::ldexp(1.0, -by),
                ": too far apart; scale the rows and columns of the matrix, or leave single_levels out");
    });
    shift = by;
    return scaled;
  }

  void make_single(const op::Csr<T>& A, const AmgOptions<T>& options) {
    const layout::Space& space = A.range();
    AmgOptions<S> o;
    static_cast<AmgShape&>(o) = options;
    o.near_null.resize(options.near_null.size());
    const int size = shift_of(options.near_null.data(), options.near_null.size(), space.comm());
    std::transform(options.near_null.begin(), options.near_null.end(), o.near_null.begin(),
                   [&](T v) { return S(times_power(v, size)); });
    op::Rows<T> rows = A.rows();
    auto values = cast(A, rows.value);
    release(rows.value);
    narrow = std::make_unique<op::Csr<S>>(
        space, space, op::Rows<S>{std::move(rows.start), std::move(rows.column), {values.begin(), values.end()}});
    single = std::make_unique<MatrixLevels<S>>(*narrow, std::move(o));
  }

  /// y := one cycle for x, with levels in single precision: for 2^e x, whose largest element is about 1.
  void cycle_in_single(const Vector<T>& x, Vector<T>& y, Cycle kind) const {
    const int e = shift_of(x.data(), x.size(), x.space().comm());
    auto& f = *single->level(0).f;
    const Shifted<T> there(e), back(shift - e);
    each(x.size(), [&](std::size_t i) { f.data()[i] = S(there(x.data()[i])); });
    single->cycle(kind, true);
    const auto& u = *single->level(0).u;
    each(y.size(), [&](std::size_t i) { y.data()[i] = back(T(u.data()[i])); });
  }
};

template <Scalar T>
Amg<T>::Amg(const op::Csr<T>& A, const AmgOptions<T>& options)
    : op::Operator<T, Host>(A.domain(), A.range()), A_(&A), options_(options), parts_(std::make_unique<Parts>()) {
  const Span span("set up amg", "precond");
  const auto& comm = A.range().comm();
  comm::collective(comm, [&] {
    const auto& o = options_;
    require(A.range() == A.domain(), "amg needs a square matrix with rows and columns spread alike; this one is ",
            A.range().size(), " by ", A.domain().size());
    require(o.cycle != Cycle::u, "amg has the cycles V, W, F, K and mult-additive; this one is U");
    const bool diagonal = o.smoother != AmgSmoother::gauss_seidel && o.smoother != AmgSmoother::chebyshev;
    require(o.cycle != Cycle::mult_additive || (diagonal && o.sweeps == 1),
            "mult-additive cycles have one sweep of a diagonal smoother (spai0, jacobi, l1-jacobi); these have ",
            o.sweeps, " of ", to_string(o.smoother));
    require(o.sweeps >= 1, "sweeps is ", o.sweeps, "; at least 1 is needed");
    if (o.strength)
      require(*o.strength >= 0 && *o.strength < 1, "strength is ", *o.strength,
              "; a number from 0 to below 1 is needed");
    require_coarsening(o);
    const bool inverted = o.bottom.is_automatic() || (o.bottom.name == "direct" && !direct_built());
    require(o.coarsest >= 1 && (!inverted || o.coarsest <= largest_direct), "coarsest is ", o.coarsest, "; 1 to ",
            largest_direct, " unknowns are solved directly, more by bottom \"direct\" in a build with Eigen");
    require(o.agglomerate_below.value_or(0) >= 0, "agglomerate_below is ", o.agglomerate_below.value_or(0),
            "; 0 or more unknowns");
    auto bottom = o.bottom;
    if (bottom.is_automatic()) bottom.name = "direct";  // which does not iterate either
    (void)make_bottom<T>(bottom);                       // refuses what does not fit
    require(o.max_levels >= 1, "max_levels is ", o.max_levels, "; at least 1 is needed");
    if (o.max_complexity)
      require(*o.max_complexity >= 1, "max_complexity is ", *o.max_complexity, "; at least 1 is needed");
    require(o.block >= 1, "block is ", o.block, "; at least 1 unknown is in a node");
    const Local n = A.range().local_size();
    require(n % o.block == 0, "block is ", o.block, ", and the ", n, " rows of rank ", comm.rank(),
            " are no multiple of it; give each rank whole nodes");
    require(n == 0 || o.near_null.size() % std::size_t(n) == 0, "near_null has ", o.near_null.size(), " numbers for ",
            n, " rows of rank ", comm.rank());
    const auto finite = [](T v) { return std::isfinite(std::real(v)) && std::isfinite(std::imag(v)); };
    const auto wrong = std::find_if_not(o.near_null.begin(), o.near_null.end(), finite);
    if (wrong != o.near_null.end() && n > 0) {
      const Global at = wrong - o.near_null.begin(), vectors = Global(o.near_null.size()) / n;
      throw Error(ErrorKind::usage, message("near_null has ", *wrong, " in row ", A.range().begin() + at / vectors,
                                            " of vector ", at % vectors, " (counted from 0), a row of rank ",
                                            comm.rank(), "; finite numbers are needed"));
    }
  });
  require_values();
  comm::collective(comm, [&] {
    if (options_.single_levels && !std::same_as<T, single_t<T>>) parts_->make_single(A, options_);
    else {
      auto near_null = std::exchange(options_.near_null, {});  // which has as many numbers as several vectors
      AmgOptions<T> given = options_;
      given.near_null = std::move(near_null);
      parts_->own = std::make_unique<MatrixLevels<T>>(A, std::move(given));
    }
  });
  release(options_.near_null);
  describe();
}

template <Scalar T>
void Amg<T>::require_values() const {
  if (!A_->fault().empty()) throw Error(ErrorKind::input, "amg: " + A_->fault());
}

template <Scalar T>
void Amg<T>::describe() {
  parts_->with([&](const auto& levels) {
    hermitian_ = levels.is_hermitian();
    note_ = levels.note();
    doubtful_ = !levels.is_last_solved() && options_.bottom.name != "smoother";
  });
}

template <Scalar T>
bool Amg<T>::update() {
  const Span span("update amg", "precond");
  require_values();
  const bool kept = comm::collective(A_->range().comm(), [&] {
    if (parts_->single) {
      auto values = exec::Array<T, Host>::uninitialised(std::size_t(A_->own_entries()));
      A_->copy_values(values.data());
      parts_->narrow->update_values(parts_->cast(*A_, {values.data(), values.size()}));
    }
    return parts_->single ? parts_->single->update() : parts_->own->update();
  });
  describe();
  return kept;
}

template <Scalar T>
Amg<T>::~Amg() = default;

template <Scalar T>
bool Amg<T>::varies() const {
  return parts_->with([&](const auto& levels) {
    return (options_.cycle == Cycle::k && levels.count() > 2) || (levels.bottom() && levels.bottom()->varies());
  });
}

template <Scalar T>
void Amg<T>::finish(const Vector<T>& x, Vector<T>& y, bool, int) const {
  const Span span("amg", "precond");
  exec::settle();
  ++cycles_;
  parts_->with([&](auto& levels) { levels.make_vectors(x.columns()); });
  if (parts_->single) return parts_->cycle_in_single(x, y, options_.cycle);
  auto& levels = *parts_->own;
  auto& finest = levels.level(0);
  const bool once = options_.cycle == Cycle::v || options_.cycle == Cycle::w || options_.cycle == Cycle::k;
  if (once && levels.count() > 1 && finest.has_waves() && x.data() != y.data()) {
    finest.borrow(x.data(), y.data());
    levels.cycle(options_.cycle, true);
    return finest.borrow(nullptr, nullptr);
  }
  finest.borrow(nullptr, nullptr);
  layout::copy(x, *finest.f);
  exec::settle();
  levels.cycle(options_.cycle, true);
  layout::copy(*finest.u, y);
}

template <Scalar T>
op::Cost Amg<T>::cost() const {
  return parts_->with([&](const auto& levels) {
    op::Cost all;
    const auto add = [&](const op::Cost& c, double times) {
      all.flops += times * c.flops;
      all.bytes += times * c.bytes;
      all.messages += times * c.messages;
      all.message_bytes += times * c.message_bytes;
    };
    double visits = 1;
    for (std::size_t k = 0; k + 1 < levels.count(); ++k) {
      const auto& level = levels.level(k);
      const op::Cost of_A = level.A().cost();
      const double sweeps = visits * 2 * options_.sweeps;
      add(of_A, sweeps + (options_.cycle == Cycle::k && k > 0 ? visits : 0));
      // A wavefront reads the matrix once for all sweeps before the coarser level, and once for those after it.
      if (options_.cycle != Cycle::mult_additive && level.waves_for_a_column())
        all.bytes -= (sweeps - 2 * visits) * of_A.bytes;
      // Each sweep passes over all rows once more, and multiplies with half of the entries.
      if (level.smoother() == AmgSmoother::gauss_seidel)
        all.flops += sweeps / 2 * of_A.flops, all.bytes += sweeps * of_A.bytes;
      add(level.P->cost(), visits);
      add(level.R->cost(), visits);
      if (options_.cycle == Cycle::w || options_.cycle == Cycle::k) visits *= 2;
      if (options_.cycle == Cycle::f) visits += 1;
    }
    return all;
  });
}

template <Scalar T>
std::vector<AmgLevel> Amg<T>::levels() const {
  return parts_->with([](const auto& levels) {
    std::vector<AmgLevel> all;
    for (std::size_t i = 0; i < levels.count(); ++i) {
      const auto& level = levels.level(i);
      all.push_back({level.A().range().size(), level.A().entries(), level.P ? level.P->entries() : 0,
                     ranks_in_use(level.A().range()), level.setup_seconds});
    }
    return all;
  });
}

template <Scalar T>
BottomReport Amg<T>::bottom() const {
  return parts_->with([](const auto& levels) { return levels.report(); });
}

template <Scalar T>
BottomReport Amg<T>::take_bottom() const {
  return parts_->with([](auto& levels) { return levels.take_bottom(); });
}

AmgWork AmgWork::operator-(const AmgWork& before) const {
  return {visits - before.visits,       seconds - before.seconds,   reductions - before.reductions,
          exchanges - before.exchanges, messages - before.messages, bytes - before.bytes};
}

template <Scalar T>
std::vector<AmgWork> Amg<T>::work() const {
  return parts_->with([](const auto& levels) { return levels.work(); });
}

template <Scalar T>
double Amg<T>::operator_complexity() const {
  const auto all = levels();
  double sum = 0;
  for (const auto& level : all) sum += double(level.entries);
  return sum / double(std::max<Global>(all[0].entries, 1));
}
template <Scalar T>
double Amg<T>::grid_complexity() const {
  const auto all = levels();
  double sum = 0;
  for (const auto& level : all) sum += double(level.rows);
  return sum / double(std::max<Global>(all[0].rows, 1));
}
template <Scalar T>
double Amg<T>::update_bytes() const {
  return parts_->with([](const auto& levels) { return levels.plan_bytes(); });
}
template <Scalar T>
double Amg<T>::matrix_bytes() const {
  return parts_->with([](const auto& levels) { return levels.matrix_bytes(); });
}
template <Scalar T>
const MatrixLevels<T>& Amg<T>::in_own_precision() const {
  require(bool(parts_->own), "these levels are in single precision");
  return *parts_->own;
}
template <Scalar T>
const op::Csr<T>& Amg<T>::prolongation(int level) const {
  const auto& levels = in_own_precision();
  require(level >= 0 && level + 1 < int(levels.count()), "prolongation ", level, " of ", levels.count(), " levels");
  return *levels.level(std::size_t(level)).P;
}
template <Scalar T>
const op::Csr<T>& Amg<T>::matrix(int level) const {
  const auto& levels = in_own_precision();
  require(level >= 0 && level < int(levels.count()), "level ", level, " of ", levels.count());
  return levels.level(std::size_t(level)).A();
}

#define TACIT_INSTANTIATE(T) template class Amg<T>;
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::precond
