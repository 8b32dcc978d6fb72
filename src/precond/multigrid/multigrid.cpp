#include "cycles.hpp"
#include "hierarchy.hpp"

#include <tacit/base/names.hpp>
#include <tacit/base/trace.hpp>
#include <tacit/op/residual.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace tacit::precond {
namespace {

template <class T>
double remove_mean(Vector<T>& v) {
  double sum = 0;
  for (std::size_t i = 0; i < v.size(); ++i) sum += double(v.data()[i]);
  v.space().start_sum(&sum, 1).wait(&sum);
  const T mean = T(sum / double(v.space().size()));
  for (std::size_t i = 0; i < v.size(); ++i) v.data()[i] -= mean;
  return double(mean);
}

// Times 2^exponent.
template <class T>
void scale(Vector<T>& v, int exponent) {
  for (std::size_t i = 0; i < v.size(); ++i) v.data()[i] = T(std::ldexp(double(v.data()[i]), exponent));
}

}  // namespace

template <class T>
void mg::check(const op::FiniteVolume<T>& A, const MultigridOptions& o) {
  require(o.pre >= 0 && o.post >= 0, "pre = ", o.pre, " and post = ", o.post, " sweeps; 0 or more are needed");
  require(o.pre + o.post >= 1, "pre = 0 and post = 0 sweeps; at least one of them is needed");
  require(o.pre <= 1000 && o.post <= 1000, "pre = ", o.pre, ", post = ", o.post, "; at most 1000 sweeps are done");
  require(o.omega() > 0 && o.omega() < 2, "relaxation is ", o.omega(), "; a number between 0 and 2 is needed");
  require(o.range() > 1, "chebyshev_range is ", o.range(), "; a number above 1 is needed");
  require(!o.relaxation || o.smoother == Smoother::jacobi, "relaxation ", o.omega(),
          " is an option of the smoother jacobi; the smoother is ", to_string(o.smoother));
  require(!o.chebyshev_range || o.smoother == Smoother::chebyshev, "chebyshev_range ", o.range(),
          " is an option of the smoother chebyshev; the smoother is ", to_string(o.smoother));
  require(o.smallest_box.value_or(1) >= 1, "smallest_box is ", o.smallest_box.value_or(1),
          "; at least 1 cell is needed");
  require(o.agglomerate_below.value_or(0) >= 0, "agglomerate_below is ", o.agglomerate_below.value_or(0),
          "; 0 or more cells");
  require(o.cycle != Cycle::u || o.agglomerate_below.value_or(0) == 0,
          "the U-cycle moves no box to another rank: agglomerate_below is ", o.agglomerate_below.value_or(0));
  require(!o.full_interpolation || (o.cycle == Cycle::f && *o.full_interpolation != Interpolation::constant),
          "full_interpolation is that of solutions by the F-cycle, linear or more: it is ",
          to_string(o.full_interpolation.value_or(Interpolation::constant)), ", and the cycle is ", to_string(o.cycle));
  require(o.cycle != Cycle::mult_additive, "multigrid has the cycles V, W, F, K and U; this one is ",
          to_string(o.cycle));
  require(o.levels >= 0, "levels is ", o.levels, "; 0 (as many as go) or more");
  if (!A.fault().empty()) throw Error(ErrorKind::input, "multigrid: " + A.fault());
  if (A.smallest() > 0) return;
  const auto d = A.diagonal();
  for (std::size_t i = 0; i < d.size(); ++i)
    require(d[i] > T(0), "multigrid needs a positive diagonal; that of cell ", A.range().begin() + Global(i), " is ",
            d[i]);
}
template void mg::check(const op::FiniteVolume<float>&, const MultigridOptions&);
template void mg::check(const op::FiniteVolume<double>&, const MultigridOptions&);

void detail::one_pass(bool together) noexcept {
  mg::one_pass = together;
}

template <Scalar T>
struct Multigrid<T>::Parts {
  std::unique_ptr<mg::Hierarchy<T>> own;
  std::unique_ptr<mg::Hierarchy<float>> single;  // T = double only
  std::vector<float> narrow;

  template <class F>
  auto with(F&& f) {
    if (single) return f(*single);
    return f(*own);
  }
  /// y := one cycle for f = x from u = 0.
  void cycle(std::span<const T> x, std::span<T> y, Cycle kind) {
    if constexpr (std::same_as<T, double>)
      if (single) {
        narrow.resize(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) narrow[i] = float(x[i]);
        single->finest().load_f(narrow);
        single->cycle(kind, true);
        single->finest().store_u(narrow);
        for (std::size_t i = 0; i < y.size(); ++i) y[i] = double(narrow[i]);
        return;
      }
    own->finest().load_f(x);
    own->cycle(kind, true);
    own->finest().store_u(y);
  }
};

template <Scalar T>
Multigrid<T>::~Multigrid() = default;

template <Scalar T>
Multigrid<T>::Multigrid(std::shared_ptr<const op::FiniteVolume<T>> A, const MultigridOptions& options,
                        MakeBottom<T> bottom, MakeBottom<float> bottom_single)
    : op::Operator<T, Host>(A->range(), A->domain()),
      a_(std::move(A)),
      options_(options),
      parts_(std::make_unique<Parts>()) {
  comm::collective(a_->range().comm(), [&] {
    mg::check(*a_, options_);
    if constexpr (std::same_as<T, double>)
      if (options_.single_levels) {
        const std::shared_ptr<const op::FiniteVolume<float>> narrow = a_->template cast<float>();
        for (const float v : narrow->diagonal())
          require(v >= std::numeric_limits<float>::min() && v <= std::numeric_limits<float>::max(),
                  "levels in float32 for a diagonal of up to ", a_->largest(),
                  ": divide the equation by a number of that size");
        parts_->single = std::make_unique<mg::Hierarchy<float>>(narrow, options_, bottom_single);
        return;
      }
    parts_->own = std::make_unique<mg::Hierarchy<T>>(a_, options_, bottom);
  });
}

template <Scalar T>
op::Cost Multigrid<T>::cost() const {
  const auto one = a_->cost();
  const double sweeps = options_.pre + options_.post, levels = 8.0 / 7;
  return {one.flops * sweeps * levels, one.bytes * 3 * levels, one.messages * (2 * sweeps + 1) * double(this->levels()),
          one.message_bytes * (sweeps + 1) * levels};
}

template <Scalar T>
bool Multigrid<T>::varies() const {
  return options_.cycle == Cycle::k && levels() > 2;
}

template <Scalar T>
int Multigrid<T>::levels() const {
  return parts_->with([](auto& h) { return int(h.count()); });
}

template <Scalar T>
std::vector<LevelReport> Multigrid<T>::take_levels() const {
  return parts_->with([](auto& h) { return h.take(); });
}

template <Scalar T>
BottomReport Multigrid<T>::take_bottom() const {
  return parts_->with([](auto& h) {
    BottomReport r = std::exchange(h.bottom, {});
    r.name = h.bottom_name(), r.choice = h.choice();
    return r;
  });
}

template <Scalar T>
void Multigrid<T>::finish(const Vector<T, Host>& x, Vector<T, Host>& y, bool, int) const {
  const Span span("multigrid cycle", "precond");
  const auto n = std::size_t(this->range().local_size());
  const auto k = std::size_t(x.columns());
  Vector<T> f(this->range()), u(this->range());
  for (std::size_t c = 0; c < k; ++c) {
    for (std::size_t i = 0; i < n; ++i) f.data()[i] = x.data()[i * k + c];
    if (a_->singular()) remove_mean(f);
    parts_->cycle({f.data(), n}, {u.data(), n}, options_.cycle);
    if (a_->singular()) remove_mean(u);
    for (std::size_t i = 0; i < n; ++i) y.data()[i * k + c] = u.data()[i];
  }
}

/// Cycles of levels in host memory, on any number of ranks.
template <Scalar T>
class Multigrid<T>::Solve final : public mg::Cycles {
 public:
  Solve(const Multigrid& M, const Vector<T>& b, Vector<T>& x, const MultigridSolve& options, MultigridReport& report)
      : Cycles(b.space().comm(), options, report, T()),
        A_(*M.a_),
        parts_(*M.parts_),
        kind_(M.options_.cycle),
        report_(report),
        b_(b),
        x_(x),
        r_(b.space()),
        own_(parts_.own && parts_.own->count() > 1 ? parts_.own.get() : nullptr),
        singular_(A_.singular()) {}

  void compute() {
    const double b_most = layout::max_norm(b_);
    double most = b_most;
    from_zero_ = layout::max_norm(x_) == 0;  // its residual takes no product
    if (!from_zero_) {
      A_.apply(x_, r_);
      layout::subtract(b_, r_, r_);
      most = std::max(most, layout::max_norm(r_));
    }
    // Cycles add up squares, perhaps in single precision: b is brought near 1 by a power of two, which is exact.
    const int exponent = most > 0 && std::isfinite(most) ? std::ilogb(most) : 0;
    const int shift = std::abs(exponent) > 24 ? std::clamp(-exponent, -1000, 1000) : 0;
    if (shift != 0 || singular_) own_f_ = std::make_unique<Vector<T>>(b_);
    if (shift != 0) {
      own_u_ = std::make_unique<Vector<T>>(x_);
      scale(*own_f_, shift), scale(*own_u_, shift);
      u_ = own_u_.get();
    }
    if (own_f_) f_ = own_f_.get();
    if (singular_) {
      const double removed = std::abs(remove_mean(*own_f_)), unit = double(std::numeric_limits<T>::epsilon());
      if (removed > std::sqrt(unit) * std::ldexp(most, shift))
        report_.warnings.push_back(message("A maps constants to zero, but the mean of f is ",
                                           std::ldexp(removed, -shift), " (its largest element is ", b_most,
                                           "): no u solves A u = f; A u = f - mean is what was solved"));
      if (!from_zero_) remove_mean(*u_);
    }
    const double f_norm = (options().norm == krylov::Norm::max) && !own_f_ ? b_most : norm(*f_);
    double start = f_norm;
    if (from_zero_) layout::copy(*f_, r_);
    else start = own_f_ ? residual() : norm(r_);
    r_norm_ = start;
    solve(f_norm, start, shift, from_zero_);
    if (own_u_) scale(*own_u_, -shift), layout::copy(*own_u_, x_);
  }

 private:
  double norm(const Vector<T>& v) const {
    return (options().norm == krylov::Norm::max) ? layout::max_norm(v) : layout::norm(v);
  }
  double residual() {
    A_.apply(*u_, r_);
    layout::subtract(*f_, r_, r_);
    return *(r_norm_ = norm(r_));
  }
  /// u as a vector, with mean 0 where A is singular.
  void store() {
    if (!loaded_) return;
    own_->finest().store_u({u_->data(), u_->size()});
    if (singular_) remove_mean(*u_);
    loaded_ = false, r_norm_.reset();
  }
  /// ||f - A u||, where the plain product gave `norm`: computed in double precision where the rounding error of that
  /// product may be what misses the goal, or what meets it.
  double without_rounding(double norm) {
    const double rounding = 200 * double(std::numeric_limits<T>::epsilon()) * A_.largest() * this->norm(*u_);
    if (!(rounding > goal() && norm <= std::max(rounding, goal())) ||
        !op::precise_residual<T, Host>(A_, 1, *f_, *u_, r_))
      return norm;
    if (singular_) remove_mean(r_);
    return *(r_norm_ = this->norm(r_));
  }
  double recompute() override {
    store();
    double norm = r_norm_ ? *r_norm_ : residual();
    if (std::same_as<T, float>) norm = without_rounding(norm);
    known_intact_ = krylov::reached(norm, goal()) && b_.space().comm().all(A_.intact());
    return known_intact_ || !krylov::reached(norm, goal()) ? norm : std::numeric_limits<double>::infinity();
  }
  std::optional<krylov::Verdict> damage() override {
    if (known_intact_) return {};
    return krylov::damage_on(b_.space().comm(), A_.intact());
  }
  double cycle() override {
    const Cycle kind = kind_ == Cycle::f && cycles() > 0 ? Cycle::v : kind_;
    known_intact_ = false;
    // With levels of the solution's own precision the cycles go on from u itself, else for corrections.
    if (own_ && !(kind == Cycle::f && !from_zero_)) {
      auto& finest = own_->finest();
      if (!loaded_) {
        finest.load_f({f_->data(), f_->size()}), finest.load_u({u_->data(), u_->size()});
        loaded_ = true;
      }
      r_norm_.reset();
      own_->cycle(kind, false, true);
      double value = (options().norm == krylov::Norm::max) ? finest.largest : finest.squares;
      const auto operation = (options().norm == krylov::Norm::max) ? comm::Operation::max : comm::Operation::sum;
      f_->space().start_sum(&value, 1, operation).wait(&value);
      return (options().norm == krylov::Norm::max) ? value : std::sqrt(value);
    }
    if (loaded_ || !r_norm_) recompute();
    if (!e_) e_ = std::make_unique<Vector<T>>(x_.space());
    parts_.cycle({r_.data(), r_.size()}, {e_->data(), e_->size()}, kind);
    layout::axpy(T(1), *e_, *u_);
    if (singular_) remove_mean(*u_);
    return residual();
  }
  void save(Copy copy) override {
    store();
    copies_[std::size_t(copy)] = std::make_unique<Vector<T>>(*u_);
  }
  void restore(Copy copy) override {
    layout::copy(*copies_[std::size_t(copy)], *u_);
    loaded_ = false, r_norm_.reset();
  }
  void clear() override {
    layout::fill(*u_, T(0));
    loaded_ = false, r_norm_.reset();
  }

  const op::FiniteVolume<T>& A_;
  Parts& parts_;
  Cycle kind_;
  MultigridReport& report_;
  const Vector<T>& b_;
  Vector<T>& x_;
  Vector<T> r_;
  mg::Hierarchy<T>* own_;
  bool singular_, from_zero_ = false;
  bool known_intact_ = false;     // A, at the last recompute(), on all ranks
  bool loaded_ = false;           // u is in the finest level, which has gone on from it
  std::optional<double> r_norm_;  // of f - A u, where r is that
  const Vector<T>* f_ = &b_;
  Vector<T>* u_ = &x_;
  std::unique_ptr<Vector<T>> own_f_, own_u_, e_, copies_[2];
};

template <Scalar T>
MultigridReport Multigrid<T>::solve(const Vector<T>& b, Vector<T>& x, const MultigridSolve& options) const {
  return mg::reported(this->range(), b, x, options, [&](MultigridReport& report) {
    take_bottom(), take_levels();
    report.bottom = parts_->with([](auto& h) { return h.bottom_name(); });
    report.bottom_choice = parts_->with([](auto& h) { return h.choice(); });
    Solve(*this, b, x, options, report).compute();
    const auto bottom = take_bottom();
    report.bottom_solves = bottom.solves, report.bottom_iterations = bottom.iterations;
    report.bottom_failures = bottom.failures;
    report.warnings.insert(report.warnings.end(), bottom.warnings.begin(), bottom.warnings.end());
    report.levels = take_levels();
  });
}

template class Multigrid<float>;
template class Multigrid<double>;

}  // namespace tacit::precond
