// ca-gmres: s vectors of the Krylov space are generated, then orthogonalised together. Hoemmen (2010),
// UCB/EECS-2010-37; Yamazaki, Hoemmen, Luszczek, Dongarra (2017), doi 10.1109/IPDPSW.2017.65 (Fig. 3); the shifts of
// the Newton basis are those of Bai, Hu, Reichel (1994).
#pragma once

#include "../block_orthogonalisation_impl.hpp"
#include "../cycle.hpp"
#include "../powers.hpp"

#include "krylov/change_of_basis.hpp"
#include "krylov/iteration.hpp"

#include <array>
#include <limits>
#include <string>
#include <utility>

namespace tacit::krylov {

/// A block of s vectors: s products, 1 reduction (2 with bcgs_pip2), 2 (3) passes over the basis. Vectors as in gmres.
///
///   V = [q_j, v_{j+1} .. v_{j+s}],  A V_{1:s} = V B,  V = Q R,  H = R B R^-1
///
/// Shifts of the Newton basis are Ritz values: in the first cycle (whose first block is short and monomial) those of
/// the columns so far, later those of the whole first cycle.
template <Scalar T, Memory M>
class CaGmres final : public Iteration<T, M> {
 public:
  explicit CaGmres(const Options& options)
      : restart_(options.restart.value_or(default_restart)),
        left_(options.side == Side::left),
        wanted_(options.step.value_or(10)),
        basis_(options.basis.value_or(Basis::automatic)),
        how_(options.orthogonalisation.value_or(Orthogonalisation::automatic)),
        qr_(options.block_qr.value_or(BlockQr::cholqr)),
        storage_(options.storage.value_or(Storage::full)),
        heals_(options.fallbacks),
        powers_(options.powers.value_or(op::Powers::products)) {
    if (basis_ == Basis::automatic) basis_ = Basis::newton;
    // The kernels of the device take blocks of up to 32.
    if constexpr (std::same_as<M, Device>) wanted_ = std::min(wanted_, 32);
    step_ = wanted_;
  }

  void run(const Run<T, M>& run, Monitor& monitor) override {
    switch (storage_) {
      case Storage::full:
        return cycle<T>(run, monitor, nullptr);
      case Storage::float32:
        return cycle<exec::Single<T>>(run, monitor, &single_);
      case Storage::bfloat16:
        return cycle<exec::Short<T>>(run, monitor, &short_);
    }
  }

  std::string step_down() override {
    if (storage_ != Storage::full) {
      storage_ = Storage::full;
      started_ = 0;  // the residual of a cycle with rounded storage says nothing about its blocks
      return "its basis is stored in full from here on";
    }
    if (std::exchange(lost_, false)) {
      strict_ = true;
      return "from here on its blocks are well-conditioned, however short";
    }
    if (wanted_ > 4 || how_ != Orthogonalisation::bcgs_pip2) {
      wanted_ = step_ = std::min(wanted_, 4);
      how_ = Orthogonalisation::bcgs_pip2;
      return message("from here on its step is ", wanted_, ", each block orthogonalised twice");
    }
    return {};
  }

  bool lengthen(int restart) override {
    restart_ = restart;
    return true;
  }

 private:
  template <class S>
  using Stored = std::deque<exec::Array<S, M>>;

  template <class S>
  void cycle(const Run<T, M>& run, Monitor& monitor, Stored<S>* store) {
    size_ = run.r.size();
    if (std::same_as<S, T> && believed_too_much(monitor)) return;
    Cycle<S>(*this, run, monitor, store).run();
  }

  /// One cycle, the basis stored as S: in the workspace where S is T, else in `store`, with s + 1 vectors of T to work
  /// on.
  template <class S>
  class Cycle {
   public:
    Cycle(CaGmres& method, const Run<T, M>& run, Monitor& monitor, Stored<S>* store)
        : m_(method),
          run_(run),
          monitor_(monitor),
          store_(store),
          left_(run.P && method.left_),
          n_(run.r.size()),
          ld_(method.restart_ + 1),
          process_(run.r.space(), n_) {}

    void run() {
      const double r_norm = monitor_.norm();
      beta_ = residual_ = begin_cycle(run_, monitor_, left_, basis(0));  // v_0 = r / beta
      if (beta_ == 0) return;
      begin();
      const auto combine = [&](const std::vector<T>& y, Vector& into) { add(y, into); };
      show_cycle(run_, monitor_, *projected_, combine);
      const double floor = storage_floor<S>() * beta_;
      while (!stop_ && monitor_.go_on(residual_)) {
        if (projected_->columns() == m_.restart_ || residual_ <= floor) {
          monitor_.end(Outcome::cycle_end);
          break;
        }
        block();
      }
      monitor_.solution_by(nullptr);
      m_.started_ = r_norm, m_.believed_ = left_ ? r_norm : residual_ * (r_norm / beta_);
      const int k = projected_->columns();
      if (k == 0) return;
      m_.learn(k, ld_);
      if constexpr (full) {
        const bool whole = m_.how_ == Orthogonalisation::two_stage && m_.R_[std::size_t(k) * ld_ + k] != T(0);
        if (whole && std::isfinite(residual_))
          return take_best(run_, m_.second_stage(process_, q_, k, ld_, beta_), combine);
      }
      take_best(run_, *projected_, combine);  // x += P Q y
    }

   private:
    using Vector = layout::Vector<T, M>;
    static constexpr bool full = std::same_as<S, T>;
    static constexpr double epsilon = std::numeric_limits<real_t<T>>::epsilon();

    /// Vector j of the basis as T, where it is one: all of them when S is T, else those of the current block (from
    /// `at_`).
    Vector& basis(int j) { return run_.w[2 + std::size_t(full ? j : j - at_)]; }
    void keep(int j) {  // vector j joins the basis
      if constexpr (full) q_.push_back(basis(j).data());
      else q_.push_back((*store_)[j].data());
    }
    /// Vectors j+1 .. j+s from vector j.
    void make(std::span<const op::RecurrenceStep<T>> steps, int j) {
      m_.vectors_.clear();
      for (std::size_t c = 0; c <= steps.size(); ++c) m_.vectors_.push_back(&basis(j + int(c)));
      Vector* const scratch = run_.P ? &run_.w[0] : nullptr;
      make_powers<T, M>(run_, left_, m_.powers_, m_.vectors_, steps, std::span(&scratch, run_.P ? 1 : 0));
    }
    /// into += P sum_j y_j q_j
    void add(const std::vector<T>& y, Vector& into) {
      add_through(left_ ? nullptr : run_.P, run_.w, 0, 1, into, [&](Vector& x) {
        T* const to = x.data();
        exec::block_combine_stored<T, M, S>(q_.data(), int(y.size()), y.data(), &to, 1, n_);
      });
    }

    void begin() {
      m_.H_.assign(std::size_t(ld_) * m_.restart_, T(0));
      m_.R_.assign(std::size_t(ld_) * ld_, T(0));
      m_.B_.assign(std::size_t(ld_) * m_.restart_, T(0));
      m_.column_.resize(ld_);
      if constexpr (!full) {
        if (store_->empty()) store_->emplace_back(n_);
        exec::store<T, M, S>(basis(0).data(), (*store_)[0].data(), n_);
      }
      keep(0);
      projected_.emplace(beta_);
    }

    /// s vectors v_{j+1} .. v_{j+s}, orthogonalised against the basis and among themselves, and their columns of H.
    void block() {
      const int j = projected_->columns();
      const int s =
          std::min({m_.next_step(j), m_.restart_ - j, std::max(1, monitor_.max_iterations() - monitor_.iterations())});
      const auto steps = m_.recurrence(run_.A, s, j, ld_);  // B
      if constexpr (!full) {
        if (j > at_) std::swap(run_.w[2], run_.w[2 + std::size_t(j - at_)]);
        at_ = j;
      }
      make(steps, j);  // A V = V B
      v_.clear(), to_.clear();
      for (int c = j + 1; c <= j + s; ++c) {
        v_.push_back(basis(c).data());
        if constexpr (!full) {
          if (store_->size() == std::size_t(c)) store_->emplace_back(n_);  // as the basis grows
          to_.push_back((*store_)[std::size_t(c)].data());
        }
      }
      const auto choice = choose();
      const Orthogonalised done =  // V = Q R
          process_(choice, q_.data(), j + 1, v_.data(), s, full ? nullptr : to_.data(), m_.block_);
      if (done.columns == 0 && !std::isfinite(done.failed)) {
        stop_ = !monitor_.go_on(std::numeric_limits<double>::quiet_NaN());
        return;
      }
      m_.place(m_.block_, j, s, done.columns, ld_);
      bool invariant = false;
      if (done.columns == 0) {
        // v_1 is in the span of the basis, or nearly so: it is orthogonalised alone, in up to three rounds.
        make(steps.first(1), j);
        invariant = !m_.template alone<S>(run_.r.space(), q_, j, basis(j + 1), ld_);
        if constexpr (!full) exec::store<T, M, S>(v_[0], to_[0], n_);
      }
      if (choice.once > 1 || done.least < choice.once) lost_ = 10 * epsilon;
      else lost_ = lost_ / done.least;
      const double before = residual_;
      project(j, std::max(done.columns, 1));  // H = R B R^-1,  min_y || beta e_1 - H y ||
      if (stop_) return;
      if (!invariant) return m_.adapt(monitor_, s, done, residual_ / before);
      monitor_.go_on(residual_);  // the solution is in the space
      if (monitor_.outcome() != Outcome::at_goal) monitor_.end(Outcome::cycle_end);
      stop_ = true;
    }

    auto choose() const {
      typename BlockProcess<T, M, S>::Choice choice{m_.how_, m_.qr_, 0};
      const bool careful = past_half_the_digits<T>(residual_, beta_);
      if (m_.how_ == Orthogonalisation::automatic || m_.how_ == Orthogonalisation::two_stage) {
        choice.how = Orthogonalisation::bcgs_pip;
        // What a block loses is known when it is factored; earlier losses grow by the same factor.
        choice.once = careful || m_.strict_ ? 2 : std::min(lost_ / most_lost, 1.0);
        if (m_.strict_) choice.keep = well_conditioned;
      }
      return choice;
    }

    /// Columns j .. j + columns - 1 of H into the projected problem, an iteration each.
    void project(int j, int columns) {
      for (int c = j; c < j + columns; ++c) {
        hessenberg_column(m_.H_, m_.R_, m_.B_, ld_, c);
        std::copy_n(m_.H_.data() + std::size_t(c) * ld_, ld_, m_.column_.begin());
        stop_ = c > j && !monitor_.go_on(residual_);
        if (stop_) return;
        keep(c + 1);
        stop_ = !append(*projected_, m_.column_.data(), monitor_);
        residual_ = stop_ ? projected_->pivot() : projected_->residual();
        if (stop_) return q_.pop_back();
      }
    }

    CaGmres& m_;
    const Run<T, M>& run_;
    Monitor& monitor_;
    Stored<S>* store_;
    bool left_, stop_ = false;
    std::size_t n_;
    int ld_, at_ = 0;
    double beta_ = 0, residual_ = 0;
    double lost_ = 10 * epsilon;  // estimated loss of orthogonality; above most_lost blocks are orthogonalised twice
    std::vector<const S*> q_;
    std::vector<T*> v_;
    std::vector<S*> to_;
    std::optional<Projected<T>> projected_;
    BlockProcess<T, M, S> process_;
  };

  /// V = Q R of the whole cycle's vectors from one Gram matrix; Q itself is not needed: d = Q y = V R^-1 y. One
  /// reduction, one pass over the vectors.
  Projected<T> second_stage(BlockProcess<T, M>& process, const std::vector<const T*>& v, int k, int ld, double beta) {
    const int height = k + 1;
    std::vector<T> G(std::size_t(height) * height), R(G.size()), h(height + 1);
    exec::block_gram<T, M, T>(static_cast<const T* const*>(nullptr), 0, v.data(), height, size_, G.data());
    process.sum_gram(G.data(), 0, height);
    const int columns = factor_gram(G.data(), 0, height, R.data()).columns;
    const auto r = [&](int i, int c) { return R[std::size_t(c) * height + i]; };
    // beta v_0 = Q (R e_1) beta;  A V_k = V_{k+1} H = Q (R H). The unknowns stay the coefficients of V.
    Projected<T> projected(beta * double(real(r(0, 0))));
    for (int c = 0; c + 1 < columns; ++c) {
      for (int i = 0; i <= c + 1; ++i) {
        T sum(0);
        for (int l = i; l <= c + 1; ++l) sum += r(i, l) * H_[std::size_t(c) * ld + l];
        h[i] = sum;
      }
      if (!projected.append(h.data())) break;
    }
    return projected;
  }

  /// How many vectors the block after vector j has.
  int next_step(int j) const {
    // Without Ritz values the basis is monomial, which keeps its digits for a few steps only.
    const int first = basis_ == Basis::monomial || !ritz_.empty() || j > 0 ? step_ : std::min(step_, first_step);
    return std::max(1, first);
  }

  /// The steps from vector j on; B and R of this block.
  std::span<const op::RecurrenceStep<T>> recurrence(const op::Operator<T, M>& A, int s, int j, int ld) {
    // In the first cycle: Ritz values of the columns so far, until there are two for each step.
    if (basis_ != Basis::monomial && learned_ < 2 * wanted_ && j > learned_) learn(j, ld);
    if (int(steps_.size()) < s) {
      // A power of two: rounding does not depend on whether the operator knows its largest entry.
      const double largest = A.largest(),
                   scale = largest > 0 && std::isfinite(largest) ? std::exp2(std::ilogb(largest)) : 1;
      steps_ = make_recurrence<T>(basis_, ritz_, std::max(s, wanted_), scale);
    }
    const auto steps = std::span<const op::RecurrenceStep<T>>(steps_).first(std::size_t(s));
    for (int c = j; c < j + s; ++c) {
      T* const b = B_.data() + std::size_t(c) * ld;
      std::fill_n(b, ld, T(0));
      const auto& step = steps[std::size_t(c - j)];
      if (c > j) b[c - 1] = step.beta;
      b[c] = step.alpha;
      b[c + 1] = T(step.gamma);
    }
    std::fill_n(R_.data() + std::size_t(j) * ld, ld, T(0));
    R_[std::size_t(j) * ld + j] = T(1);
    return steps;
  }

  /// The block's R into that of the cycle.
  void place(const std::vector<T>& block, int j, int s, int columns, int ld) {
    for (int c = 0; c < columns; ++c) {
      T* const to = R_.data() + std::size_t(j + 1 + c) * ld;
      std::fill_n(to, ld, T(0));
      std::copy_n(block.data() + std::size_t(c) * (j + 1 + s), j + 2 + c, to);
    }
  }

  /// Vector j + 1 against those before it, by itself. False: nothing but rounding was left of it.
  template <class S>
  bool alone(const layout::Space& space, const std::vector<const S*>& q, int j, layout::Vector<T, M>& v, int ld) {
    std::vector<T> h;
    if constexpr (std::same_as<S, T>) {
      orthogonalise(Orthogonalisation::one_reduction, q, j + 1, v, h, true);
    } else {  // with rounded storage nothing is left of v
      const T* const x = v.data();
      h.resize(std::size_t(j) + 2);
      exec::block_gram<T, M, S>(q.data(), j + 1, &x, 1, v.size(), h.data());
      space.sum(h.data(), h.size());
      h[std::size_t(j) + 1] = T(0);
    }
    T* const to = R_.data() + std::size_t(j + 1) * ld;
    std::fill_n(to, ld, T(0));
    std::copy_n(h.data(), j + 2, to);
    return h[std::size_t(j) + 1] != T(0);
  }

  /// Was the recomputed residual larger than the last cycle's projected problem predicted? H = R B R^-1 holds up to
  /// rounding times the condition number of a block, and the effect on the residual grows with ||y||, so with the
  /// condition of A.
  bool believed_too_much(Monitor& monitor) {
    const double rounding = 100 * std::sqrt(double(std::numeric_limits<real_t<T>>::epsilon())) * started_;
    lost_ = heals_ && !strict_ && started_ > 0 && monitor.norm() > 2 * believed_ && monitor.norm() > rounding;
    started_ = 0;
    if (lost_) monitor.end(Outcome::too_costly);
    return lost_;
  }

  /// A step that has proved too long is shortened, and grows again where there is room. A block that reduces the
  /// residual by `drop` is ill-conditioned to 1 / drop by nature: that says nothing about the step.
  void adapt(Monitor& monitor, int s, const Orthogonalised& done, double drop) {
    if (!heals_) return;
    if (strict_) {
      if (done.columns < s) step_ = std::max(1, done.columns);
      else if (done.least > std::sqrt(well_conditioned) && s >= step_ && step_ < wanted_) ++step_;
      return;
    }
    const double epsilon = std::numeric_limits<real_t<T>>::epsilon(), natural = 1e-3 * drop * drop;
    int next = step_;
    if (done.columns < s && natural > epsilon) next = std::max(1, done.columns);
    else if (done.columns == s && done.least < std::min(std::pow(epsilon, 0.75), natural))
      next = std::max(1, s - (s + 3) / 4);
    else if (done.least > std::pow(epsilon, 0.4) && s >= step_ && step_ < wanted_) ++step_;
    if (next >= step_) return;
    step_ = next;
    if (step_ < notes_) {
      notes_ = step_;
      monitor.note(message("ca-gmres made its basis ", step_, " vectors at a time from iteration ",
                           monitor.iterations(), " on: ", s, " were too ill-conditioned"));
    }
  }

  /// Ritz values of the first `columns` columns of H, unless those of more columns are known.
  void learn(int columns, int ld) {
    if (columns <= learned_ || basis_ == Basis::monomial) return;
    auto values = ritz_values<T>(H_, ld, columns);
    if (values.empty()) return;
    ritz_ = std::move(values);
    learned_ = columns;
    step_ = wanted_;
    steps_.clear();
  }

  /// A cycle ends below this fraction of its initial residual: the rest is the rounding of the stored basis.
  template <class S>
  static constexpr double storage_floor() {
    if constexpr (std::same_as<S, T>) return 0;
    else if constexpr (std::same_as<S, exec::Single<T>>) return 1e-6;
    else return 0.03;
  }

  static constexpr int first_step = 5;
  static constexpr double most_lost = 1e-8;
  /// u_kk^2 / (v_k, v_k) in blocks whose rounding errors are hardly larger than those of single vectors.
  static constexpr double well_conditioned = 1e-2;

  int restart_;
  bool left_;
  int wanted_, step_ = 0, notes_ = std::numeric_limits<int>::max(), learned_ = 0;
  Basis basis_;
  Orthogonalisation how_;
  BlockQr qr_;
  Storage storage_;
  bool heals_, strict_ = false, lost_ = false;
  double started_ = 0, believed_ = 0;  // of the last cycle: ||r||, and what it ended with
  op::Powers powers_;
  std::size_t size_ = 0;
  std::vector<std::complex<double>> ritz_;
  op::Recurrence<T> steps_;
  std::vector<T> H_, R_, B_, block_, column_;
  std::vector<layout::Vector<T, M>*> vectors_;
  Stored<exec::Single<T>> single_;
  Stored<exec::Short<T>> short_;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_ca_gmres(const Options& options) {
  return std::make_unique<CaGmres<T, M>>(options);
}

}  // namespace tacit::krylov
