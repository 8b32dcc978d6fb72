// Block conjugate gradients: the columns of A X = B share one search space. O'Leary (1980), doi
// 10.1016/0024-3795(80)90247-5, in the form of Dubrulle (2001), ETNA 12, 216-233, algorithm BCGrQ, whose residuals are
// kept orthonormal, here in the inner product of P; dependent residuals leave the block (after Ji and Li 2017, doi
// 10.1007/s10543-016-0631-z).
//
//   R = W Sigma,  W^H P W = I                        m orthonormal vectors for the residuals of k columns, m <= k
//   alpha = (S^H A S)^-1 (S^H W)                     S^H W = I but for rounding
//   D += S alpha Sigma;  U = W - A S alpha           U^H S = 0
//   U^H P U = C^H C;  W = U C^-1;  Sigma = C Sigma   Cholesky with pivots; C has fewer rows where U has lost its rank
//   S = P W + S (S^H W)^-H C^H                       S^H A S_before = 0
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
/// reductions of m^2 and 2 m^2 numbers (m^2 without P), and 12 n m^2 multiplications and additions (16 with P) where
/// k = m. Vectors for each column: W, S, A S, D, with P also P U.
///
/// The Gram matrix of U is known to eps, relative to its diagonal, so that W is orthonormal to eps / (the smallest
/// pivot). Where that exceeds sqrt(eps), S^H W is computed, in the reduction of S^H A S, and the step is exact for this
/// W as for any other. Sums are in double precision. Breakdowns: (r, P r) and (p, A p) for some r or p of the block,
/// not positive.
template <Scalar T>
class BlockCgSearch final : public BlockSearch<T> {
  using Vector = layout::Vector<T, Host>;
  using W = exec::wide_t<T>;
  using Small = SmallMatrix<W>;
  using typename BlockSearch<T>::Member, typename BlockSearch<T>::Breakdown;
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
    gamma_ = {}, overlap_ = {};
    measure();
  }

  Breakdown advance() override {
    const auto f = factor(gram_, tiny());
    if (f.negative < 0) return {"(r, P r)", f.negative, "the preconditioner is not positive definite"};
    if (f.rank() == 0) return {"(r, P r)", 0, "the preconditioner maps the residuals to zero"};
    turn_to(f);
    apply(this->leader().A, *s_, q_, 1, false);  // Q = A S
    const bool close = f.least < std::sqrt(unit);
    const auto energy = products(close);  // H = S^H A S, and S^H W
    const auto h = factor(energy, 4 * unit);
    if (!energy.finite() || h.negative < 0 || h.rank() < energy.rows)
      return {"(p, A p)", energy.finite() ? h.negative : std::numeric_limits<double>::quiet_NaN(),
              "the matrix is not positive definite"};
    const auto alpha = close ? solve(h, overlap_) : solve(h, Small::identity(energy.rows));
    gamma_ = alpha * sigma_;
    // U = W - A S alpha, in the place of W
    add_product(*q_, minus(alpha), *u_, this->leader().P ? nullptr : &sums_);
    for (Member* m : this->members()) m->gain = gain_of(m->place, energy);
    measure(!this->leader().P);
    return {};
  }

  /// W and S of this iteration, from U and C; Sigma in the coordinates of W.
  void turn_to(const GramFactor<W>& f) {
    const Vector& pu = v_ ? *v_ : *u_;
    const auto beta = !s_ ? Small() : overlap_.empty() ? adjoint(f.C) : solve_adjoint(overlap_, adjoint(f.C));
    const auto gamma = std::exchange(gamma_, {});
    if (s_ && f.rank() == u_->columns()) {
      turn(f, beta, gamma, *u_, pu, &*s_, *d_, *s_, *u_);
    } else {  // the first, or one that reduces the block
      Vector s(space_, f.rank()), w(space_, f.rank());
      turn(f, beta, gamma, *u_, pu, s_ ? &*s_ : nullptr, *d_, s, w);
      s_.emplace(std::move(s)), u_.emplace(std::move(w)), q_.reset(), v_.reset();
    }
    sigma_ = f.C * sigma_;
  }
  /// S^H A S, and where W is not orthonormal to half of the digits, S^H W. One reduction.
  Small products(bool with_overlap) {
    std::vector<std::pair<const Vector*, const Vector*>> pairs{{&*s_, &*q_}};
    if (with_overlap) pairs.emplace_back(&*s_, &*u_);
    gram<T>(pairs, sums_);
    space_.sum(sums_.data(), sums_.size());
    const int m = s_->columns();
    overlap_ = with_overlap ? part(m, 1) : Small();
    return part(m, 0);
  }
  /// P U, U^H P U, and the norms of the residuals from U^H U, of which sums_ may hold the local sums. One reduction.
  void measure(bool squares_are_there = false) {
    const auto* const P = this->leader().P;
    std::vector<std::pair<const Vector*, const Vector*>> pairs{{&*u_, &*u_}};
    if (P) {
      apply(*P, *u_, v_, -1, true);
      pairs.emplace_back(&*u_, &*v_);
    }
    if (!squares_are_there) gram<T>(pairs, sums_);
    space_.sum(sums_.data(), sums_.size());
    const int m = u_->columns();
    const auto squares = part(m, 0);
    gram_ = part(m, P ? 1 : 0);
    const auto image = squares * sigma_;
    for (Member* one : this->members()) {
      W square(0);
      for (int a = 0; a < m; ++a) square += conj(sigma_(a, one->place)) * image(a, one->place);
      one->norm = std::isfinite(real(square)) ? std::sqrt(std::max(real(square), 0.0)) : real(square);
    }
  }
  /// The Gram matrix number `which` of those in sums_.
  Small part(int m, int which) const {
    Small g(m, m);
    const auto length = std::ptrdiff_t(g.values.size());
    std::copy_n(sums_.begin() + which * length, length, g.values.begin());
    return g;
  }
  /// y = B x for the leader's B, brought to the scale that the search began with.
  void apply(const op::Operator<T, Host>& B, const Vector& x, std::optional<Vector>& y, int sign, bool is_P) {
    if (!y) y.emplace(space_, x.columns());
    B.apply(x, *y);
    this->count(is_P);
    if (const int e = sign * (this->leader().exponent - exponent_)) layout::scale(T(std::ldexp(real_t<T>(1), e)), *y);
  }
  /// gamma^H S^H A S gamma of one column: what its step takes from ||x - x_k||_A^2.
  double gain_of(int c, const Small& energy) const {
    double sum = 0;
    for (int a = 0; a < energy.rows; ++a)
      for (int b = 0; b < energy.rows; ++b) sum += real(conj(gamma_(a, c)) * energy(a, b) * gamma_(b, c));
    return sum;
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
  std::vector<W> sums_;
};

}  // namespace

template <Scalar T>
std::unique_ptr<BlockSearch<T>> make_block_cg_search(const layout::Space& space, Lockstep& lockstep) {
  return std::make_unique<BlockCgSearch<T>>(space, lockstep);
}

template std::unique_ptr<BlockSearch<float>> make_block_cg_search(const layout::Space&, Lockstep&);
template std::unique_ptr<BlockSearch<double>> make_block_cg_search(const layout::Space&, Lockstep&);
template std::unique_ptr<BlockSearch<std::complex<float>>> make_block_cg_search(const layout::Space&, Lockstep&);
template std::unique_ptr<BlockSearch<std::complex<double>>> make_block_cg_search(const layout::Space&, Lockstep&);

}  // namespace tacit::krylov
