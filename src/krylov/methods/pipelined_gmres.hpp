// Pipelined GMRES(l) and pipelined CA-GMRES(l, t), one cycle a run. Ghysels, Ashby, Meerbergen, Vanroose (2013), doi
// 10.1137/12086563X; with blocks: Yamazaki, Hoemmen, Luszczek, Dongarra (2017), doi 10.1109/IPDPSW.2017.65.
//
//   V generated vectors, Q orthonormal, v_0 = q_0, V = Q R;   op V_{0:j} = V_{0:j+1} B,   op Q_{0:j} = Q_{0:j+1} H
//
// op is A P (or P A). The first L columns of B are a Newton (or Chebyshev) basis, column c >= L repeats column c - L of
// H, so that v_c = p_L(op) q_{c-L}: the next vector can be made while the sums that orthogonalise the last ones travel.
#pragma once

#include "../cycle.hpp"
#include "../dots_in_flight.hpp"
#include "../powers.hpp"

#include "krylov/change_of_basis.hpp"
#include "krylov/iteration.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>

namespace tacit::krylov {

namespace formula {
template <class T>
struct Without {  // t = v - a q
  T a;
  TACIT_HD void operator()(T v, T q, T& t) const { t = v - a * q; }
};
}  // namespace formula

/// Blocks of t vectors; the sums of a block are waited for `ahead` blocks of products after they were started. GMRES(l)
/// is t = 1, ahead = l; CA-GMRES(l, t) is ahead = l - 1. L = (ahead + 1) t - 1.
///
/// A vector: 1 product, 1 apply of P, 1 / t reductions, each in flight during ahead t products; 3 j + 8 vectors of
/// traffic for vector j (dots j, update j + 4, recurrence j + 4 and fewer where tau drops; one more where
/// presubtracts()). Vectors: Q restart + 1, V restart + 1 - L - ahead t (the others are made orthonormal in place), r,
/// d; with P 1 more (from the right 2). The first cycle, which has no Ritz values yet, takes t = ahead = 1 and v_1 = op
/// q_0.
template <Scalar T, Memory M>
class PipelinedGmres final : public Iteration<T, M> {
  using Vector = layout::Vector<T, M>;
  using R_ = real_t<T>;

 public:
  explicit PipelinedGmres(const Options& o)
      : blocks_(o.method == Method::pipelined_ca_gmres),
        restart_(o.restart.value_or(default_restart)),
        t_(blocks_ ? o.block.value_or(5) : 1),
        ahead_(blocks_ ? o.depth.value_or(2) - 1 : o.depth.value_or(2)),
        side_(o.side.value_or(Side::right)),
        tau_(o.tau.value_or(0)),
        basis_(o.basis.value_or(Basis::automatic)),
        fallbacks_(o.fallbacks) {
    require(ahead_ >= 1, "pipelined-ca-gmres with depth ", o.depth.value_or(2),
            " would wait for sums before it has started them; at least depth 2 is needed");
  }

  void run(const Run<T, M>& run, Monitor& monitor) override {
    const auto& space = run.r.space();
    const bool left = run.P && side_ == Side::left, right = run.P && !left;
    if (!look_back(monitor)) return;
    const bool first = !learn();
    t = first ? 1 : t_, ahead = first ? 1 : ahead_, L = (ahead + 1) * t - 1;
    const double r_norm = monitor.norm();
    const double beta = begin_cycle(run, monitor, left, run.w[0]);  // v_0 = q_0 = r / beta
    if (beta == 0 || !monitor.go_on(beta)) return;
    begin(space, std::min(restart_, monitor.max_iterations() - monitor.iterations()));
    Projected<T> projected(beta);
    const auto combine = [&](std::vector<T> y, Vector& into) {  // into += P Q y
      for (T& c : y) c = -c;
      add_through(right ? run.P : nullptr, *scratch_, 1, 0, into, [&](Vector& to) {
        exec::basis_subtract<T, M>(q.data(), int(y.size()), y.data(), T(1), to.data(), to.size(), false);
      });
    };
    show_cycle(run, monitor, projected, combine);

    const int steps = (m + t - 1) / t;
    bool stop = false;
    for (int b = 0; b < steps + ahead && !stop; ++b) {  // the last `ahead` only wait for sums
      const int end = std::min((b + 1) * t, m);         // block b: v_{b t + 1} .. v_end
      for (int c = b * t; c < end; ++c) {
        product(run, c);  // v_{c+1} = op v_c
        space.comm().poll();
        if (c + 1 < (b + 1) * t) extend(c);  // v_{c+1} = (v_{c+1} - sum_i b_ic v_i) / b_{c+1,c}
      }
      int p = 1;  // number of q known
      if (b >= ahead) {
        p = std::min((b - ahead + 1) * t, m) + 1;
        // Columns of R and of H, vectors of Q, and min_y || beta e_1 - H y ||.
        stop = !arrive(space, (b - ahead) * t + 1, p - 1, beta, projected, monitor);
      }
      if (b < steps && !stop) {
        if (end == (b + 1) * t) extend(end - 1);  // with the column of H that has just come
        post(space, b * t + 1, end, p);           // [Q V]^H of the block
      }
    }
    pending_.clear();
    monitor.solution_by(nullptr);
    take_best(run, projected, combine);  // x += P Q y
    if (first || weak_) columns_ = projected.columns();
    // A residual near zero means that the space is exhausted, which is no fault; the first cycle has another depth than
    // the others.
    weak_ = weak_ && !first && projected.residual() > rounding(beta);
    believed_ = left || first ? 0 : projected.residual() * (r_norm / beta);
    started_ = r_norm;
  }

  std::string step_down() override {
    weak_ = false;
    if (ahead_ > 1) {
      ahead_ /= 2;
      return message("its depth is now ", ahead_ + int(blocks_));
    }
    if (t_ > 1) {
      t_ /= 2;
      return message("its block is now ", t_);
    }
    return {};
  }

  bool lengthen(int restart) override {
    restart_ = restart;
    return true;
  }

 private:
  /// What is above the diagonal of the inner products with v_first .. v_last, column after column.
  struct Columns {
    int first = 0, last = 0;
    void operator()(const std::vector<T>& all, T* to) const {
      const int rows = last + 1;
      for (int c = 0; c < rows - first; ++c)
        for (int i = 0; i <= first + c; ++i) *to++ = all[std::size_t(c) * rows + i];
    }
  };
  struct Posted {
    DotsInFlight<T, M, T, Columns> dots;
    int p = 0;
  };

  /// Takes Ritz values of the first cycle, or of a later one whose basis lost its digits. False while there are none.
  bool learn() {
    if (columns_ > 0)
      if (auto values = ritz_values<T>(H, ld, columns_); !values.empty()) ritz_ = std::move(values);
    columns_ = 0;
    return !ritz_.empty();
  }
  /// Takes a weaker form, with a note to the user, where the last run has lost the orthogonality of its basis. False
  /// when there is none left.
  bool look_back(Monitor& monitor) {
    // A loss of orthogonality shows as a recomputed residual above that of the projected problem. (Any method loses the
    // last digits.)
    const bool lost = believed_ > rounding(started_) && monitor.norm() > 2 * believed_;
    if (!fallbacks_ || !(lost || weak_)) return true;
    const auto taken = step_down();
    if (taken.empty())
      return monitor.breakdown("||b - A x||", monitor.norm(), "the basis is not orthogonal at any depth");
    monitor.note(message(blocks_ ? "pipelined-ca-gmres" : "pipelined-gmres",
                         " lost the orthogonality of its basis by iteration ", monitor.iterations(), "; ", taken));
    return true;
  }
  /// The smallest residual that one round of Gram-Schmidt allows from this initial one, with a margin.
  static double rounding(double size) { return 100 * std::sqrt(double(std::numeric_limits<R_>::epsilon())) * size; }

  T& at(std::vector<T>& matrix, int i, int j) { return matrix[std::size_t(j) * ld + i]; }

  /// Makes room for a cycle of `vectors`, and the columns of B that are known.
  void begin(const layout::Space& space, int vectors) {
    m = vectors, ld = m + 1;
    for (auto* matrix : {&R, &B, &H}) matrix->assign(std::size_t(ld) * ld, T(0));
    R[0] = T(1);
    along_.assign(std::size_t(ld), T(0));
    summed_.assign(std::size_t(ld), T(0));
    const auto steps = make_recurrence<T>(basis_ == Basis::automatic ? Basis::newton : basis_, ritz_, std::min(L, m));
    for (int c = 0; c < int(steps.size()); ++c) {
      at(B, c, c) = steps[c].alpha;
      if (c > 0) at(B, c - 1, c) = steps[c].beta;
      at(B, c + 1, c) = T(steps[c].gamma);
    }
    if (!separate_) separate_.emplace(space), scratch_.emplace(space);
    q.clear(), v.clear(), Q.clear(), V.clear();
    weak_ = false;
    lowest_ = 1;
    lost_ = 10 * double(std::numeric_limits<R_>::epsilon());
    residuals_.clear();
  }

  /// One round of Gram-Schmidt loses the more orthogonality the longer v_k = p_1(op) q_{k-1} is compared with its new
  /// part: with the spectrum of op near 1 (a good preconditioner) and no shift, v_k is mostly q_{k-1}. Therefore t_k =
  /// v_k - a q_{k-1} is made orthonormal, with the coefficient a of the vector before. Not with more sums in flight:
  /// q_{k-1} is not known then, and older ones make it worse.
  bool presubtracts() const { return t == 1 && ahead == 1; }

  /// Whether v_c and q_c are two vectors: v_c is needed beside q_c only while the columns of H are used as recurrence.
  bool apart(int c) const { return c >= L && (c - 1) / t + ahead < (m + t - 1) / t; }
  void place(Workspace<T, M>& w, int c) {
    for (int i = int(Q.size()); i <= c; ++i) {
      Q.push_back(&w[std::size_t(i)]);
      V.push_back(apart(i) ? &(*separate_)[std::size_t(i - L)] : Q[i]);
      q.push_back(Q[i]->data());
      v.push_back(V[i]->data());
    }
  }

  /// v_{c+1} := op v_c
  void product(const Run<T, M>& run, int c) {
    place(run.w, c + 1);
    multiply(run, side_ == Side::left, *V[c], run.P ? (*scratch_)[0] : *V[c + 1], *V[c + 1]);
  }

  /// v_{c+1} := (v_{c+1} - sum_i b_{i,c} v_i) / b_{c+1,c}
  void extend(int c) {
    if (c >= L) {
      // Column c - L of H. Entries below tau times the last are left out, and the last grows by their norm.
      const T* const h = H.data() + std::size_t(c - L) * ld;
      const int last = c - L + 1;
      const double least = tau_ * std::abs(h[last]);
      double dropped = 0;
      for (int i = 0; i < last; ++i)
        if (std::abs(h[i]) < least) dropped += abs2(h[i]);
        else at(B, L + i, c) = h[i];
      at(B, c + 1, c) = T(R_(std::sqrt(abs2(h[last]) + dropped)));
    }
    terms_.clear(), factors_.clear();
    for (int i = 0; i <= c; ++i)
      if (at(B, i, c) != T(0)) terms_.push_back(v[i]), factors_.push_back(at(B, i, c));
    exec::basis_subtract<T, M>(terms_.data(), int(terms_.size()), factors_.data(), T(1) / at(B, c + 1, c),
                               V[c + 1]->data(), V[c + 1]->size(), false);
  }

  /// Starts the sums [Q_{0:p}, V_{p:last+1}]^H V_{first:last+1}; of each column what is above the diagonal. Where
  /// presubtracts(), first = last = p, and t_p stands for v_p, where q_p will be.
  void post(const layout::Space& space, int first, int last, int p) {
    const int rows = last + 1, columns = last - first + 1;
    const bool before = presubtracts();
    if (before && V[first] != Q[first]) {
      const T a = first > 1 ? at(R, first - 2, first - 1) : T(0);
      along_[std::size_t(first)] = a;
      exec::sweep(exec::reads(*V[first], *Q[first - 1]), exec::updates(), exec::writes(*Q[first]),
                  formula::Without<T>{a});
    }
    terms_.assign(q.begin(), q.begin() + (before ? rows : p));
    if (!before) terms_.insert(terms_.end(), v.begin() + p, v.begin() + rows);
    outputs_.clear();
    for (int c = first; c <= last; ++c) outputs_.push_back((before ? Q : V)[c]->data());
    const std::size_t n = std::size_t(columns) * std::size_t(first + rows + 1) / 2;
    Posted& posted = pending_.emplace_back();
    posted.p = p;
    posted.dots.start(space, terms_.data(), rows, outputs_.data(), columns, V[0]->size(), n, {first, last});
  }

  /// Waits for the sums of v_first .. v_last: columns of R, of H (one less), vectors of Q. False: the cycle is over.
  bool arrive(const layout::Space& space, int first, int last, double beta, Projected<T>& projected, Monitor& monitor) {
    auto posted = std::move(pending_.front());
    pending_.pop_front();
    posted.dots.wait(gram_);
    const double epsilon = std::numeric_limits<R_>::epsilon();
    const T* g = gram_.data();
    int good = last;  // vectors up to here can be made orthonormal
    double ratio = 1;
    for (int k = first; k <= last && good == last; g += ++k) {
      ratio = finish_column(R, ld, k, g, posted.p);
      if (!std::isfinite(ratio)) {  // not a number on the way, or v_k = 0
        if (real(g[k]) != 0) {
          monitor.go_on(std::numeric_limits<double>::quiet_NaN());
          return false;
        }
        ratio = 0;
      }
      lost_ /= std::max(ratio, epsilon);
      double whole = real(g[k]);  // (v_k, v_k)
      if (presubtracts()) std::copy_n(&at(R, 0, k), k + 1, summed_.data());
      if (const T a = along_[std::size_t(k)]; a != T(0)) {
        at(R, k - 1, k) += a;
        const double part = whole;
        whole += 2 * double(real(conj(a) * g[k - 1])) + abs2(a);
        ratio *= part / whole;
      }
      // Norms by Pythagoras: that of q_i has the relative error epsilon / (the ratio of column i).
      const double least = 10 * epsilon * (k + 1 + 1 / lowest_);
      if (ratio > least) lowest_ = std::min(lowest_, ratio);
      if (ratio <= least) {
        // Only rounding error is left of v_k. H's column gets the most that may have been left of it, so that the
        // predicted residual is not too small.
        at(R, k, k) = T(R_(std::sqrt(least * whole)));
        good = k - 1;
      }
      hessenberg_column(H, R, B, ld, k - 1);
    }
    orthonormalise(first, std::min(good, m - 1));  // q_m is not needed
    space.comm().poll();
    for (int c = first - 1; c < std::min(good + 1, last); ++c) {
      column_.assign(H.begin() + std::ptrdiff_t(c) * ld, H.begin() + std::ptrdiff_t(c) * ld + c + 2);
      if (!append(projected, column_.data(), monitor) || !monitor.go_on(projected.residual())) return false;
      const bool holds = presubtracts() && lost_ <= most_lost;
      if (c + 1 == m || (!holds && has_stalled(projected.residual(), beta))) return monitor.end(Outcome::cycle_end);
    }
    if (good == last) return true;
    weak_ = true;
    return monitor.breakdown("r_kk^2 / (v_k, v_k)", ratio, "the vectors of the pipeline depend on each other");
  }

  /// Has the residual of the projected problem reached the level, or stalled near it, below which a basis that has lost
  /// its orthogonality cannot reduce it? A new cycle from the true residual goes further.
  bool has_stalled(double residual, double beta) {
    // After one round the basis is only orthogonal to epsilon (beta / residual)^2 (Giraud, Langou, Rozloznik, van den
    // Eshof 2005, doi 10.1007/s00211-005-0615-4).
    if (residual <= 2 * std::sqrt(double(std::numeric_limits<R_>::epsilon())) * beta) return true;
    // It may stop falling earlier, by an unknown factor.
    if (residual > rounding(beta)) return false;
    residuals_.push_back(residual);
    const std::size_t n = residuals_.size();
    return n > stalled_vectors && residual > 0.9 * residuals_[n - 1 - stalled_vectors];
  }

  /// Q := (V - Q_{0:first} R) R^-1 for columns first .. last; t for v, and its part of R, where presubtracts().
  void orthonormalise(int first, int last) {
    const int s = last - first + 1;
    if (s < 1) return;
    for (int k = first; k <= last; ++k)
      if (V[k] != Q[k] && !presubtracts()) layout::copy(*V[k], *Q[k]);
    const std::size_t n = Q[0]->size();
    if (s == 1) {
      const T* const r = presubtracts() ? summed_.data() : &at(R, 0, first);
      exec::basis_subtract<T, M>(q.data(), first, r, T(1) / r[first], Q[first]->data(), n, false);
      return;
    }
    outputs_.clear();
    gram_.resize(std::size_t(first) * s);
    for (int c = 0; c < s; ++c) {
      outputs_.push_back(Q[first + c]->data());
      std::copy_n(&at(R, 0, first + c), first, gram_.data() + std::size_t(c) * first);
    }
    // W = R^-1 of the block, column after column.
    inverse_.assign(std::size_t(s) * s, T(0));
    for (int c = 0; c < s; ++c) {
      T* const x = inverse_.data() + std::size_t(c) * s;
      for (int i = c; i >= 0; --i) {
        T sum = i == c ? T(1) : T(0);
        for (int l = i + 1; l <= c; ++l) sum -= at(R, first + i, first + l) * x[l];
        x[i] = sum / at(R, first + i, first + i);
      }
    }
    exec::block_update<T, M>(q.data(), first, gram_.data(), outputs_.data(), s, inverse_.data(), n);
  }

  static constexpr double most_lost = 1e-3;
  static constexpr std::size_t stalled_vectors = 5;

  // As given in the options, and reduced by step_down().
  const bool blocks_;
  int restart_, t_, ahead_;
  const Side side_;
  const double tau_;
  const Basis basis_;
  const bool fallbacks_;
  // Kept from run to run.
  std::vector<std::complex<double>> ritz_;
  int columns_ = 0;  // of H, whose Ritz values the next run takes
  bool weak_ = false;
  double believed_ = 0, started_ = 0;
  // This cycle: t, ahead and L of it, at most m vectors, leading dimension ld.
  int t = 1, ahead = 1, L = 1, m = 0, ld = 1;
  double lowest_ = 1;  // the least r_kk^2 / (v_k, v_k) so far
  std::vector<T> R, B, H;
  std::vector<T> along_, summed_;  // a of t_k = v_k - a q_{k-1}; the last column of R, for t_k
  double lost_ = 0;                // upper bound of the loss of orthogonality so far
  std::vector<double> residuals_;  // for has_stalled()
  std::vector<Vector*> Q, V;
  std::vector<const T*> q, v;
  std::optional<Workspace<T, M>> separate_;  // those V that are apart from Q
  std::optional<Workspace<T, M>> scratch_;   // with P: its result; a combination of Q
  std::deque<Posted> pending_;
  std::vector<const T*> terms_;
  std::vector<T*> outputs_;
  std::vector<T> factors_, gram_, column_, inverse_;
};

template <Scalar T, Memory M>
std::unique_ptr<Iteration<T, M>> make_pipelined_gmres(const Options& options) {
  return std::make_unique<PipelinedGmres<T, M>>(options);
}

}  // namespace tacit::krylov
