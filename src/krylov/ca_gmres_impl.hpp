// ca-gmres: s vectors of the Krylov space are made at once and orthogonalised at once. Hoemmen (2010),
// UCB/EECS-2010-37; Yamazaki, Hoemmen, Luszczek, Dongarra (2017), doi 10.1109/IPDPSW.2017.65 (Fig. 3); the shifts of
// the Newton basis are those of Bai, Hu, Reichel (1994).
#pragma once

#include "block_orthogonalisation_impl.hpp"
#include "powers.hpp"

#include <tacit/krylov/change_of_basis.hpp>
#include <tacit/krylov/gmres.hpp>
#include <tacit/krylov/iteration.hpp>
#include <tacit/krylov/projected.hpp>

#include <array>
#include <limits>
#include <string>
#include <utility>

namespace tacit::krylov {

/// A block of s vectors: s products, one sum (two with bcgs_pip2) and 2 (3) passes over the basis. Vectors as gmres.
///
///   V = [q_j, v_{j+1} .. v_{j+s}],  A V_{1:s} = V B,  V = Q R,  H = R B R^-1
///
/// Shifts of the Newton basis are Ritz values: of what there is in the first cycle (whose first block is short and
/// monomial), of the whole first cycle from then on.
template <Scalar T, Memory M>
class CaGmres final : public Iteration<T, M> {
 public:
  explicit CaGmres(const Options& options)
      : restart_(options.restart.value_or(default_restart)),
        left_(options.side == Side::left),
        wanted_(options.step.value_or(10)),
        basis_(options.basis.value_or(Basis::automatic)),
        how_(options.orthogonalisation),
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
      started_ = 0;  // what a rounded basis believed in says nothing about blocks
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

  /// One cycle, the basis stored as S: in the workspace where S is T, else in `store`, with s + 1 vectors of T to work
  /// on.
  template <class S>
  void cycle(const Run<T, M>& run, Monitor& monitor, Stored<S>* store) {
    constexpr bool full = std::same_as<S, T>;
    auto& A = run.A;
    auto& P = run.P;
    auto& r = run.r;
    auto& d = run.d;
    auto& w = run.w;
    const bool left = P && left_;
    const auto& space = r.space();
    const std::size_t n = size_ = r.size();
    auto& z = w[0];
    // Vector j of the basis as T, where it is one: all of them when S is T, else those of the current block (from
    // `at`).
    int at = 0;
    const auto basis = [&](int j) -> layout::Vector<T, M>& { return w[3 + std::size_t(full ? j : j - at)]; };

    const double r_norm = monitor.norm();
    if (full && believed_too_much(monitor)) return;
    if (left) P->apply(r, basis(0));
    else layout::copy(r, basis(0));
    const double beta = left ? layout::norm(basis(0)) : r_norm;
    if (left) {
      if (!(beta > 0) && r_norm > 0) {
        monitor.breakdown("||P r||", beta, "the preconditioner maps the residual to zero");
        return;
      }
      monitor.scale_norms(beta > 0 ? r_norm / beta : 1);
    }
    if (!(beta > 0) || !std::isfinite(beta)) {
      monitor.go_on(beta);
      return;
    }
    layout::scale(T(real_t<T>(1 / beta)), basis(0));

    const int ld = restart_ + 1;
    H_.assign(std::size_t(ld) * restart_, T(0));
    R_.assign(std::size_t(ld) * ld, T(0));
    B_.assign(std::size_t(ld) * restart_, T(0));
    column_.resize(ld);
    std::vector<const S*> q;
    std::vector<T*> v;
    std::vector<S*> to;
    const auto keep = [&](int j) {  // vector j joins the basis
      if constexpr (full) q.push_back(basis(j).data());
      else q.push_back((*store)[j].data());
    };
    if constexpr (!full) {
      if (store->empty()) store->emplace_back(n);
      exec::store<T, M, S>(basis(0).data(), (*store)[0].data(), n);
    }
    keep(0);

    Projected<T> projected(beta);
    const auto add = [&](const std::vector<T>& y, layout::Vector<T, M>& into) {  // into += sum_j y_j (direction j)
      const auto combine = [&](layout::Vector<T, M>& x) {
        T* const to = x.data();
        exec::block_combine_stored<T, M, S>(q.data(), int(y.size()), y.data(), &to, 1, n);
      };
      if (y.empty()) return;
      if (P && !left) {
        auto &u = w[1], &Pu = w[2];
        layout::fill(u, T(0));
        combine(u);
        P->apply(u, Pu);
        layout::axpy(T(1), Pu, into);
      } else {
        combine(into);
      }
    };
    monitor.solution_by([&](void* x) {
      auto whole = d;
      add(projected.coefficients(), whole);
      solution(whole, T(0), whole, x);
    });

    BlockProcess<T, M, S> process(space, n);
    // Where the basis has lost more orthogonality than this, blocks are orthogonalised twice.
    const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
    double lost = 10 * epsilon;
    const double floor = storage_floor<S>() * beta;
    double residual = beta;
    bool stop = false;
    while (!stop && monitor.go_on(residual)) {
      const int j = projected.columns();
      if (j == restart_ || residual <= floor) {
        monitor.end(Outcome::cycle_end);
        break;
      }
      const int s =
          std::min({next_step(j), restart_ - j, std::max(1, monitor.max_iterations() - monitor.iterations())});
      const auto steps = recurrence(space, A, s, j, ld);
      if constexpr (!full) {
        if (j > at) std::swap(w[3], w[3 + std::size_t(j - at)]);
        at = j;
      }
      make(A, P, left, steps, basis, j, s, z);

      v.clear(), to.clear();
      for (int c = 0; c < s; ++c) {
        v.push_back(basis(j + 1 + c).data());
        if constexpr (!full) {
          if (store->size() == std::size_t(j + 1 + c)) store->emplace_back(n);  // as the basis grows
          to.push_back((*store)[std::size_t(j + 1 + c)].data());
        }
      }
      typename BlockProcess<T, M, S>::Choice choice{how_, qr_, 0};
      const bool careful = residual * residual < std::sqrt(epsilon) * beta * beta;
      if (how_ == Orthogonalisation::automatic || how_ == Orthogonalisation::two_stage) {
        choice.how = Orthogonalisation::bcgs_pip;
        // How much a block loses is seen when it is factored; what was lost before it grows by the same factor.
        choice.once = careful || strict_ ? 2 : std::min(lost / most_lost, 1.0);
        if (strict_) choice.keep = well_conditioned;
      }
      const Orthogonalised done = process(choice, q.data(), j + 1, v.data(), s, full ? nullptr : to.data(), block_);
      int columns = done.columns;
      bool invariant = false;
      if (columns == 0 && !std::isfinite(done.failed)) {
        monitor.go_on(std::numeric_limits<double>::quiet_NaN());
        break;
      }
      place(block_, j, s, columns, ld);
      if (columns == 0) {
        // v_1 in the span of the basis, or nearly so: by itself, with as many rounds as it takes.
        columns = 1;
        make(A, P, left, steps.first(1), basis, j, 1, z);
        invariant = !alone<S>(space, q, j, basis(j + 1), ld);
        if constexpr (!full) exec::store<T, M, S>(v[0], to[0], n);
      }
      if (choice.once > 1 || done.least < choice.once) lost = 10 * epsilon;
      else lost = lost / done.least;
      const double before = residual;
      for (int c = j; c < j + columns; ++c) {
        hessenberg_column(H_, R_, B_, ld, c);
        std::copy_n(H_.data() + std::size_t(c) * ld, ld, column_.begin());
        if (c > j && !monitor.go_on(residual)) {
          stop = true;
          break;
        }
        keep(c + 1);
        if (!projected.append(column_.data())) {
          residual = projected.pivot();
          q.pop_back();
          if (std::isfinite(residual))
            monitor.breakdown("R_jj", residual,
                              "the Krylov space is exhausted without a solution: the matrix is singular");
          else monitor.go_on(residual);
          stop = true;
          break;
        }
        residual = projected.residual();
      }
      if (!stop && !invariant) adapt(monitor, s, done, residual / before);
      if (!stop && invariant) {  // the solution is in the space
        monitor.go_on(residual);
        if (monitor.outcome() != Outcome::claims) monitor.end(Outcome::cycle_end);
        stop = true;
      }
    }
    monitor.solution_by(nullptr);
    started_ = r_norm, believed_ = left ? r_norm : residual;
    const int k = projected.columns();
    if (k == 0) return;
    learn(space, k, ld);
    if constexpr (full) {
      if (how_ == Orthogonalisation::two_stage && R_[std::size_t(k) * ld + k] != T(0) && std::isfinite(residual))
        return take_best(run, second_stage(process, q, k, ld, beta), add);
    }
    take_best(run, projected, add);
  }

  /// V = Q R of the whole cycle's vectors from one Gram matrix; Q itself is not needed: d = Q y = V R^-1 y. One
  /// reduction, one pass over the vectors.
  Projected<T> second_stage(BlockProcess<T, M>& process, const std::vector<const T*>& v, int k, int ld, double beta) {
    const int height = k + 1;
    std::vector<T> G(std::size_t(height) * height), R(G.size()), h(height + 1);
    exec::block_gram<T, M, T>(static_cast<const T* const*>(nullptr), 0, v.data(), height, size_, G.data());
    process.sum_gram(G.data(), 0, height);
    const int columns = BlockProcess<T, M>::factor(G.data(), 0, height, R.data()).columns;
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
    // Without Ritz values the basis is monomial, and good for a few steps only.
    const int first = basis_ == Basis::monomial || !ritz_.empty() || j > 0 ? step_ : std::min(step_, first_step);
    return std::max(1, first);
  }

  /// The steps from vector j on; B and R of this block.
  std::span<const op::RecurrenceStep<T>> recurrence(const layout::Space& space, const op::Operator<T, M>& A, int s,
                                                    int j, int ld) {
    // In the first cycle: Ritz values of what there is, until there are two for every step.
    if (basis_ != Basis::monomial && learned_ < 2 * wanted_ && j > learned_) learn(space, j, ld);
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

  /// Vectors j+1 .. j+s from vector j.
  template <class Basis>
  void make(const op::Operator<T, M>& A, const op::Operator<T, M>* P, bool left,
            std::span<const op::RecurrenceStep<T>> steps, Basis& basis, int j, int s, layout::Vector<T, M>& z) {
    vectors_.clear();
    for (int c = 0; c <= s; ++c) vectors_.push_back(&basis(j + c));
    layout::Vector<T, M>* const scratch = &z;
    make_powers<T, M>(A, P, left, powers_, vectors_, steps, std::span(&scratch, 1));
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
    } else {  // nothing is left on the scale of the storage
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

  /// Was the residual that the last cycle believed in not that of its x? H = R B R^-1 holds up to rounding times the
  /// condition of a block, and what that does to the residual grows with ||y||: with the condition of A.
  bool believed_too_much(Monitor& monitor) {
    const double rounding = 100 * std::sqrt(double(std::numeric_limits<real_t<T>>::epsilon())) * started_;
    lost_ = heals_ && !strict_ && started_ > 0 && monitor.norm() > 2 * believed_ && monitor.norm() > rounding;
    started_ = 0;
    if (lost_) monitor.end(Outcome::too_bold);
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
    if (step_ < told_) {
      told_ = step_;
      monitor.tell(message("ca-gmres made its basis ", step_, " vectors at a time from iteration ",
                           monitor.iterations(), " on: ", s, " were too ill-conditioned"));
    }
  }

  /// Ritz values of the first `columns` columns, if there were never more.
  void learn(const layout::Space& space, int columns, int ld) {
    if (columns <= learned_ || basis_ == Basis::monomial) return;
    auto values = ritz_values<T>(space, H_, ld, columns);
    if (values.empty()) return;
    ritz_ = std::move(values);
    learned_ = columns;
    step_ = wanted_;
    steps_.clear();
  }

  /// Below this part of its start the residual of a cycle is that of the storage.
  template <class S>
  static constexpr double storage_floor() {
    if constexpr (std::same_as<S, T>) return 0;
    else if constexpr (std::same_as<S, exec::Single<T>>) return 1e-6;
    else return 0.03;
  }

  static constexpr int first_step = 5;
  static constexpr double most_lost = 1e-8;
  /// u_kk^2 / (v_k, v_k) of blocks that round hardly more than vectors one by one.
  static constexpr double well_conditioned = 1e-2;

  int restart_;
  bool left_;
  int wanted_, step_ = 0, told_ = std::numeric_limits<int>::max(), learned_ = 0;
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
