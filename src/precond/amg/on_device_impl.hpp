// AmgOnDevice; instantiated by on_device.cpp (host) and, in builds with CUDA, for the device.
#pragma once

#include "../levels_impl.hpp"
#include "matrix_levels.hpp"

#include <tacit/base/trace.hpp>
#include <tacit/precond/amg_on_device.hpp>
#include "exec/repeat.hpp"

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace tacit::precond {

namespace formula {
/// x = m b
template <class T>
struct SweepFromZero {
  TACIT_HD void operator()(T m, T b, T& x) const { x = m * b; }
};
/// x += m (b - y)
template <class T>
struct Sweep {
  TACIT_HD void operator()(T m, T b, T y, T& x) const { x = x + m * (b - y); }
};
/// z = step m b;  x = z
template <class T>
struct ChebyshevFromZero {
  T step;
  TACIT_HD void operator()(T m, T b, T& z, T& x) const {
    z = step * (m * b);
    x = z;
  }
};
/// z = keep z + step m (b - y);  x += z
template <class T>
struct Chebyshev {
  T keep, step;
  TACIT_HD void operator()(T m, T b, T y, T& z, T& x) const {
    z = keep * z + step * (m * (b - y));
    x = x + z;
  }
};
}  // namespace formula

/// Copies of a host hierarchy's levels.
template <Scalar T, Memory M>
class CycleLevels final : public Levels<T, M> {
 public:
  using typename Levels<T, M>::Vector;
  CycleLevels(const op::Csr<T, M>& A, const MatrixLevels<T>& host, const AmgOptions<T>& options)
      : hermitian_(host.is_hermitian()),
        smoother_(options.smoother),
        sweeps_(options.sweeps),
        last_sweeps_(host.last_sweeps()),
        levels_(host.count()) {
    for (std::size_t i = 0; i < host.count(); ++i) {
      const auto& from = host.level(i);
      Level& to = levels_[i];
      const layout::Space& space = from.A().range();
      const auto copy = [](const op::Csr<T>& a) {
        return std::make_unique<op::Csr<T, M>>(a.range(), a.domain(), a.rows());
      };
      if (i > 0) to.own = copy(from.A());
      to.A = i > 0 ? to.own.get() : &A;
      if (from.P) to.P = copy(*from.P), to.R = copy(*from.R);
      to.scaling = from.scaling(), to.rho = from.rho();
      if (from.mover) to.mover = copy(*from.mover);
      if (i + 1 == host.count() && host.bottom())
        inverse_ = std::make_unique<op::Csr<T, M>>(space, space, host.bottom()->inverse().value());
    }
    make_vectors(1);
  }
  std::size_t count() const override { return levels_.size(); }
  Vector& f() { return *levels_[0].f; }
  Vector& u() { return *levels_[0].u; }
  /// u := the cycle for f from zero. Its vectors are always the same, so on a device a cycle is one launch, where it
  /// has neither messages nor sums, and where no trace lists its kernels.
  void run(Cycle kind) {
    if constexpr (std::same_as<M, Device>) {
      const auto& A = *levels_[0].A;
      if (kind != Cycle::k && A.range().comm().size() == 1 && !Trace::on()) {
        // The finest matrix is the user's, who may give it new numbers, in other arrays.
        if (A.times_replaced() != replaced_) repeat_.forget(), replaced_ = A.times_replaced();
        const auto before = A.applies();
        repeat_([&] { this->cycle(kind, true); });
        // Products are counted where they are queued, and not when the recorded cycle is launched.
        if (A.applies() > before) products_ = A.applies() - before;
        else
          for (auto k = products_; k > 0; --k) A.count_apply();
        return;
      }
    }
    this->cycle(kind, true);
  }
  void make_vectors(int columns) {
    if (columns_ == columns) return;
    if constexpr (std::same_as<M, Device>) repeat_.forget();
    columns_ = 0;  // until all are made: memory may run out
    for (Level& level : levels_) {
      const layout::Space& space = level.A->range();
      for (auto* v : {&level.u, &level.f, &level.r, &level.m}) *v = std::make_unique<Vector>(space, columns);
      if (smoother_ == AmgSmoother::chebyshev) level.d = std::make_unique<Vector>(space, columns);
      if (level.mover) level.moving = std::make_unique<Vector>(level.R->range(), columns);
      std::vector<T> each;
      for (const T s : level.scaling) each.insert(each.end(), std::size_t(columns), s);
      level.m->assign(each);
    }
    columns_ = columns;
  }

 private:
  struct Level {
    const op::Csr<T, M>* A = nullptr;
    std::unique_ptr<op::Csr<T, M>> own, P, R, mover;
    std::unique_ptr<Vector> moving;  // R r, where it moves
    std::vector<T> scaling;
    double rho = 0;
    std::unique_ptr<Vector> u, f, r, m, d;  // m: the scaling, for each column
    std::optional<op::Product<T, M>> product;
  };

  void sweep(Level& level, bool zero) {
    using namespace exec;
    if (zero) exec::sweep(reads(*level.m, *level.f), updates(), writes(*level.u), formula::SweepFromZero<T>{});
    else exec::sweep(reads(*level.m, *level.f, *level.r), updates(*level.u), writes(), formula::Sweep<T>{});
  }
  void smooth(Level& level, int sweeps, bool from_zero) {
    if (smoother_ == AmgSmoother::chebyshev) return chebyshev(level, sweeps, from_zero);
    for (int s = 0; s < sweeps; ++s) {
      const bool zero = from_zero && s == 0;
      if (!zero) level.A->apply(*level.u, *level.r);
      sweep(level, zero);
    }
  }
  /// As MatrixLevel's.
  void chebyshev(Level& level, int steps, bool from_zero) {
    using namespace exec;
    ChebyshevSteps coefficients(level.rho);
    for (int s = 0; s < steps; ++s) {
      const auto [keep, step] = coefficients.next();
      if (from_zero && s == 0) {
        exec::sweep(reads(*level.m, *level.f), updates(), writes(*level.d, *level.u),
                    formula::ChebyshevFromZero<T>{T(real_t<T>(step))});
        continue;
      }
      if (s == 0) layout::fill(*level.d, T(0));
      level.A->apply(*level.u, *level.r);
      exec::sweep(reads(*level.m, *level.f, *level.r), updates(*level.d, *level.u), writes(),
                  formula::Chebyshev<T>{T(real_t<T>(keep)), T(real_t<T>(step))});
    }
  }

  void down(std::size_t i, bool from_zero) override {
    Level& level = levels_[i];
    smooth(level, sweeps_, from_zero);
    level.A->apply(*level.u, *level.r);
    layout::subtract(*level.f, *level.r, *level.r);
    restrict_to(i, *level.r);
  }
  void correct(std::size_t i) override {
    Level& level = levels_[i];
    level.P->apply(*levels_[i + 1].u, *level.r);
    layout::axpy(T(1), *level.r, *level.u);
  }
  void up(std::size_t i, bool) override {
    correct(i);
    smooth(levels_[i], sweeps_, false);
  }
  void solve_last(bool from_zero, bool) override {
    Level& last = levels_.back();
    if (inverse_) inverse_->apply(*last.f, *last.u);
    else if (smoother_ == AmgSmoother::chebyshev) smooth(last, last_sweeps_, from_zero);
    else
      for (int s = 0; s < last_sweeps_; ++s) smooth(last, 1, from_zero && s == 0);
  }
  void restrict_f(std::size_t i) override { restrict_to(i, *levels_[i].f); }
  /// f_{i+1} := R r
  void restrict_to(std::size_t i, const Vector& r) {
    Level& level = levels_[i];
    if (!level.mover) return level.R->apply(r, *levels_[i + 1].f);
    level.R->apply(r, *level.moving);
    level.mover->apply(*level.moving, *levels_[i + 1].f);
  }
  void interpolate_u(std::size_t i) override { levels_[i].P->apply(*levels_[i + 1].u, *levels_[i].u); }
  void start_alone(std::size_t i) override {
    Level& level = levels_[i];
    sweep(level, true);
    static_cast<void>(level.product.emplace(level.A->start(*level.u, *level.r)));
  }
  void finish_alone(std::size_t i) override {
    Level& level = levels_[i];
    level.product->wait();
    level.product.reset();
    sweep(level, false);
  }
  const op::Operator<T, M>& matrix(std::size_t i) const override { return *levels_[i].A; }
  bool is_hermitian() const override { return hermitian_; }
  int columns() const override { return columns_; }
  void store_f(std::size_t i, Vector& f) const override { layout::copy(*levels_[i].f, f); }
  void load_f(std::size_t i, const Vector& f) override { layout::copy(f, *levels_[i].f); }
  void store_u(std::size_t i, Vector& u) const override { layout::copy(*levels_[i].u, u); }
  void load_u(std::size_t i, const Vector& u) override { layout::copy(u, *levels_[i].u); }

  bool hermitian_;
  AmgSmoother smoother_;
  int sweeps_, last_sweeps_, columns_ = 0;
  std::vector<Level> levels_;
  std::unique_ptr<op::Csr<T, M>> inverse_;
  struct Nothing {};
  [[no_unique_address]] std::conditional_t<std::same_as<M, Device>, exec::Repeat, Nothing> repeat_;
  std::int64_t products_ = 0;  // with A in a cycle
  std::int64_t replaced_ = 0;  // how often A had other arrays when the cycle was recorded
};

template <Scalar T, Memory M>
AmgOnDevice<T, M>::AmgOnDevice(const op::Csr<T, M>& A, const AmgOptions<T>& options)
    : op::Operator<T, M>(A.domain(), A.range()), cycle_(options.cycle) {
  comm::collective(A.range().comm(), [&] {
    require(options.smoother != AmgSmoother::gauss_seidel,
            "amg on a device has the smoothers spai0, jacobi, l1-jacobi and chebyshev, whose rows do not wait for each "
            "other; this one is gauss-seidel");
    require(!options.bottom.iterates(), "the bottom of amg on a device is direct or the smoother; this one is ",
            options.bottom.name);
    require(!options.single_levels, "single_levels is of amg in host memory; take a matrix in single precision");
  });
  const op::Csr<T> on_host(A.range(), A.domain(), A.rows());
  const Amg<T> host(on_host, options);
  note_ = host.note(), doubtful_ = host.is_doubtful();
  has_adjoint_ = host.has_adjoint(), varies_ = host.varies();
  cost_ = host.cost(), report_ = host.levels();
  levels_ = std::make_unique<CycleLevels<T, M>>(A, host.in_own_precision(), options);
}

template <Scalar T, Memory M>
AmgOnDevice<T, M>::~AmgOnDevice() = default;

template <Scalar T, Memory M>
void AmgOnDevice<T, M>::finish(const layout::Vector<T, M>& x, layout::Vector<T, M>& y, bool, int) const {
  const Span span("amg", "precond");
  levels_->make_vectors(x.columns());
  layout::copy(x, levels_->f());
  levels_->run(cycle_);
  layout::copy(levels_->u(), y);
}

}  // namespace tacit::precond
