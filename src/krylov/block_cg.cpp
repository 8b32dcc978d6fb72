// Block conjugate gradients: the columns of A X = B share one search space. O'Leary (1980), doi
// 10.1016/0024-3795(80)90247-5, in the form of Dubrulle (2001), ETNA 12, 216-233, algorithm BCGrQ, whose residuals are
// kept orthonormal, here in the inner product of P; dependent residuals leave the block (after Ji and Li 2017, doi
// 10.1007/s10543-016-0631-z).
//
//   R = W Sigma,  W^H P W = I                        m orthonormal vectors for the residuals of k columns, m <= k
//   alpha = (S^H A S)^-1 (S^H W)                     S^H W = W^H P W
//   D += S alpha Sigma;  U = W - A S alpha           U^H S = 0
//   U^H P U = C^H C;  W = U C^-1;  Sigma = C Sigma   Cholesky with pivots; C has fewer rows where U has lost its rank
//   S = P W + S (S^H W)^-H C^H                       S^H A S_before = 0
//
// While U^H P U, scaled to a unit diagonal, is well conditioned, C = I does as well and saves two of seven products: W
// = U, W^H P W = U^H P U is known, and U^H P W takes the place of C^H.
#include "block_search.hpp"
#include "block_vectors.hpp"

#include <cmath>
#include <complex>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tacit::krylov {

namespace {

/// Hermitian positive definite A and P. An iteration: 1 product and 1 apply of P for a block of m columns, 2
/// reductions of m^2 and 2 m^2 numbers (m^2 without P), and where k = m 5 n m^2 multiplications with additions (6 with
/// P), 2 n m^2 more (3) where W is made orthonormal, less where Gram matrices are Hermitian. Vectors for each column:
/// W, S, A S, D, with P also P U.
///
/// The Gram matrix of U is known to eps, relative to its diagonal, so that W is orthonormal to eps / (the least pivot).
/// Where that exceeds sqrt(eps), S^H W is computed, in the reduction of S^H A S, and the step is exact for this W as
/// for any other. Sums are in double precision. Breakdowns: (r, P r) and (p, A p) for some r or p of the block, not
/// positive.
template <Scalar T>
class BlockCgSearch final : public BlockSearch<T> {
  using Vector = layout::Vector<T, Host>;
  using W = exec::wide_t<T>;
  using Small = SmallMatrix<W>;
  using typename BlockSearch<T>::Member, typename BlockSearch<T>::Breakdown;
  /// W is made orthonormal again where the least pivot is below.
  static constexpr double well_conditioned = 0.1;
  static constexpr double unit = std::numeric_limits<real_t<T>>::epsilon();

 public:
  BlockCgSearch(layout::Space space, Lockstep& lockstep) : BlockSearch<T>(lockstep), space_(std::move(space)) {}

  void column(const Member& of, T* x) override {
    settle();
    const std::size_t k = std::size_t(d_->columns()), n = d_->size() / k;
    const auto scale = T(std::ldexp(real_t<T>(1), of.run.exponent - exponent_));
    for (std::size_t i = 0; i < n; ++i) x[i] = scale * d_->data()[i * k + std::size_t(of.place)];
  }
  double largest_of(const Member& of) override {
    Small sigma(sigma_.rows, 1);
    for (int a = 0; a < sigma.rows; ++a) sigma(a, 0) = sigma_(a, of.place);
    layout::fill(of.run.r, T(0));
    add_product(*u_, sigma, of.run.r);  // r = U sigma
    return layout::max_norm(of.run.r);
  }

 private:
  void begin() override {
    const auto& members = this->members();
    const int k = int(members.size());
    exponent_ = this->leader().exponent;
    u_.emplace(space_, k), d_.emplace(space_, k), s_.reset(), q_.reset(), v_.reset();
    for (const Member* m : members)
      for (std::size_t i = 0; i < m->run.r.size(); ++i)
        u_->data()[i * std::size_t(k) + std::size_t(m->place)] = m->run.r.data()[i];
    sigma_ = Small::identity(k);  // R = U Sigma
    gamma_ = {}, overlap_ = {}, of_w_.reset();
    measure();
  }

  Breakdown advance() override {
    const auto f = factor(gram_, tiny());
    if (f.negative < 0) return {"(r, P r)", f.negative, "the preconditioner is not positive definite"};
    if (f.rank() == 0) return {"(r, P r)", 0, "the preconditioner maps the residuals to zero"};
    const bool renews = f.least < well_conditioned || f.rank() < u_->columns();
    turn_to(f, renews);
    apply(this->leader().A, *s_, q_, 1, false);                         // Q = A S
    const auto energy = products(renews && f.least < std::sqrt(unit));  // S^H A S, and S^H W
    const auto h = factor(energy, 4 * unit);
    if (!energy.finite() || h.negative < 0 || h.rank() < energy.rows)
      return {"(p, A p)", energy.finite() ? h.negative : std::numeric_limits<double>::quiet_NaN(),
              "the matrix is not positive definite"};
    const auto alpha = solve(h, overlap_.empty() ? Small::identity(energy.rows) : overlap_);
    gamma_ = alpha * sigma_;
    // U = W - A S alpha, in the place of W
    add_product(*q_, minus(alpha), *u_, this->leader().P ? nullptr : &sums_);
    const auto image = energy * gamma_;
    for (Member* m : this->members()) m->gain = product_of(m->place, gamma_, image);
    measure(!this->leader().P);
    return {};
  }

  /// W and S of this iteration; Sigma in the coordinates of W. Unless W `renews`, it is U, with C = I, and W^H P W =
  /// U^H P U stands for I.
  void turn_to(const GramFactor<W>& f, bool renews) {
    const Vector& pu = v_ ? *v_ : *u_;
    const auto right = renews ? adjoint(f.C) : gram_;  // U^H P W
    const auto beta = !s_                ? Small()
                      : of_w_            ? solve(*of_w_, right)
                      : overlap_.empty() ? right
                                         : solve_adjoint(overlap_, right);
    const auto gamma = std::exchange(gamma_, {});
    if (f.rank() == u_->columns()) {
      Vector* const before = s_ ? &*s_ : nullptr;
      if (!before) s_.emplace(space_, f.rank());
      turn<T>(f, beta, gamma, *u_, pu, before, *d_, *s_, renews ? &*u_ : nullptr);
    } else {
      Vector s(space_, f.rank()), w(space_, f.rank());
      turn<T>(f, beta, gamma, *u_, pu, s_ ? &*s_ : nullptr, *d_, s, &w);
      s_.emplace(std::move(s)), u_.emplace(std::move(w)), q_.reset(), v_.reset();
    }
    of_w_.reset(), overlap_ = {};
    if (renews) sigma_ = f.C * sigma_;
    else of_w_ = f, overlap_ = gram_;
  }
  /// S^H A S, and where W is not orthonormal to half of the digits, S^H W. One reduction.
  Small products(bool with_overlap) {
    std::vector<Pair<T>> pairs{{*s_, *q_, true}};
    if (with_overlap) pairs.push_back({*s_, *u_, false});
    gram<T>(pairs, sums_);
    space_.sum(sums_.data(), sums_.size());
    const int m = s_->columns();
    if (with_overlap) overlap_ = part(m, 1, false);
    return part(m, 0, true);
  }
  /// P U, U^H P U, and the norms of the residuals from U^H U, of which sums_ may hold the local sums. One reduction.
  void measure(bool squares_are_there = false) {
    const auto* const P = this->leader().P;
    std::vector<Pair<T>> pairs{{*u_, *u_, true}};
    if (P) {
      apply(*P, *u_, v_, -1, true);
      pairs.push_back({*u_, *v_, true});
    }
    if (!squares_are_there) gram<T>(pairs, sums_);
    space_.sum(sums_.data(), sums_.size());
    const int m = u_->columns();
    const auto squares = part(m, 0, true);
    gram_ = part(m, P ? 1 : 0, true);
    const auto image = squares * sigma_;
    for (Member* one : this->members()) {
      const double square = product_of(one->place, sigma_, image);
      one->norm = std::isfinite(square) ? std::sqrt(std::max(square, 0.0)) : square;
    }
  }
  /// (a, b) of column c of each.
  static double product_of(int c, const Small& a, const Small& b) {
    W sum(0);
    for (int i = 0; i < a.rows; ++i) sum += conj(a(i, c)) * b(i, c);
    return real(sum);
  }
  /// The Gram matrix number `which` of those in sums_.
  Small part(int m, int which, bool hermitian) const {
    Small g(m, m);
    const auto length = std::ptrdiff_t(g.values.size());
    std::copy_n(sums_.begin() + which * length, length, g.values.begin());
    for (int i = 0; hermitian && i < m; ++i) {
      g(i, i) = W(real(g(i, i)));
      for (int j = 0; j < i; ++j) g(i, j) = conj(g(j, i));
    }
    return g;
  }
  /// y = B x for the leader's B, brought to the scale that the search began with.
  void apply(const op::Operator<T, Host>& B, const Vector& x, std::optional<Vector>& y, int sign, bool is_P) {
    if (!y) y.emplace(space_, x.columns());
    B.apply(x, *y);
    this->count(is_P, int(this->members().size()));
    if (const int e = sign * (this->leader().exponent - exponent_)) layout::scale(T(std::ldexp(real_t<T>(1), e)), *y);
  }
  /// D += S gamma, which is delayed until S changes or D is asked for.
  void settle() {
    if (!gamma_.empty()) add_product(*s_, gamma_, *d_);
    gamma_ = {};
  }
  /// Of the Gram matrix: its rounding, relative to its diagonal. Sums of products of floats are exact in double, but
  /// not U itself.
  double tiny() const {
    const double m = u_->columns();
    return v_ || std::same_as<real_t<T>, double> ? 16 * m * unit : 64 * m * unit * unit;
  }
  /// Once half of the columns have left, D and Sigma are made narrower.
  void left() override {
    const auto& members = this->members();
    if (members.empty()) return u_.reset(), d_.reset(), s_.reset(), q_.reset(), v_.reset();
    if (2 * int(members.size()) > d_->columns()) return;
    settle();
    std::vector<int> places;
    for (Member* m : members) places.push_back(std::exchange(m->place, int(places.size())));
    const std::size_t k = std::size_t(d_->columns());
    Vector d(space_, int(places.size()));
    for (std::size_t i = 0; i < d.size(); ++i)
      d.data()[i] = d_->data()[i / places.size() * k + std::size_t(places[i % places.size()])];
    d_.emplace(std::move(d));
    sigma_ = columns_of(sigma_, places);
  }

  layout::Space space_;
  int exponent_ = 0;
  std::optional<Vector> u_, s_, q_, v_, d_;  // U or W, S, A S, P U, D
  Small sigma_, gamma_, gram_, overlap_;     // gamma = alpha Sigma, not yet in D; S^H W where it is not I
  std::optional<GramFactor<W>> of_w_;        // of W^H P W = S^H W where W has not been renewed
  std::vector<W> sums_;
};

}  // namespace

template <Scalar T>
std::unique_ptr<BlockSearch<T>> make_block_cg_search(const layout::Space& space, Lockstep& lockstep) {
  return std::make_unique<BlockCgSearch<T>>(space, lockstep);
}

#define TACIT_INSTANTIATE(T) \
  template std::unique_ptr<BlockSearch<T>> make_block_cg_search(const layout::Space&, Lockstep&);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::krylov
