// Block GMRES: the columns of A X = B share one search space. Vital (1990), thesis, Rennes; Gutknecht (2007), Block
// Krylov space methods for linear systems with multiple right-hand sides. A step multiplies A only by what the
// residuals that are not at their goals need of the last block; the rest is kept, orthogonal to the basis, and may be
// needed later: the inexact breakdowns of Robbe and Sadkane (2006), Linear Algebra Appl. 419, 265-285.
//
//   R_0 = U Lambda                         [V U] orthonormal: V the basis, U the front; first V = [], U of rank R_0
//   U := U W                               singular vectors of the residuals Lambda - F Y that exceed the goals, first
//   A P U_1 = [V U] C + U' S               block Gram-Schmidt; U' has fewer columns than U_1 where they depend on
//   others V := [V U_1], U := [U_2 U']            A P V = [V U] F min || Lambda - F Y ||, D = P V Y      a small
//   problem, by columns (block_projected.hpp)
#include "block_orthogonalisation_impl.hpp"
#include "block_projected.hpp"
#include "block_search.hpp"
#include "block_vectors.hpp"
#include "cycle.hpp"

#include <tacit/exec/basis.hpp>
#include <tacit/exec/parallel.hpp>

#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace tacit::krylov {

namespace {

/// Any square A, one cycle a search; P from the right or flexible. A step with s directions (s is at most the number of
/// columns in the search): 1 product and 1 apply of P for a block of s, 1 reduction, 2 where the block is
/// ill-conditioned or the cycle has reduced a residual by epsilon^(1/4), and 2 or 3 passes over the basis. Each time
/// that vectors turn out to depend on others, 2 reductions more. Vectors: those of the basis and of the front, 2 s (3 s
/// with P) for a block; flexible: P V as well. Breakdown: R_jj, where the space is exhausted for singular A.
template <Scalar T>
class BlockGmresSearch final : public BlockSearch<T> {
  using Vector = layout::Vector<T, Host>;
  using W = exec::wide_t<T>;
  using Column = typename BlockProjected<W>::Column;
  using typename BlockSearch<T>::Member, typename BlockSearch<T>::Breakdown;
  static constexpr double epsilon = std::numeric_limits<real_t<T>>::epsilon();
  /// A direction is multiplied while it takes part in some residual by more than this share of the column's goal. A
  /// whole would do, with more iterations.
  static constexpr double share = 0.5;

 public:
  BlockGmresSearch(layout::Space space, Lockstep& lockstep, Orthogonalisation how)
      : BlockSearch<T>(lockstep), space_(std::move(space)), how_(how), process_(space_, size()) {}

  void column(const Member& of, T* x) override {
    if (formed_[std::size_t(of.place)] != steps_) form(of);
    const T* const from = of.run.d.data();
    if (x != from) std::copy_n(from, of.run.d.size(), x);
  }
  double largest_of(const Member& of) override {
    SmallMatrix<W> y(1, int(vectors_.size()));
    y.values = small_->coordinates(of.place);
    layout::fill(of.run.r, T(0));
    combine(vectors_, y, {of.run.r.data()});
    return layout::max_norm(of.run.r);
  }

 private:
  void begin() override {
    const auto& members = this->members();
    clear();
    if (members.empty()) return;
    exponent_ = this->leader().exponent;
    flexible_ = members.front()->flexible;
    int longest = 0;  // columns whose cycles have become longer share them with the rest
    for (const Member* m : members) longest = std::max(longest, m->cycle);
    for (Member* m : members) m->cycle = longest;
    steps_ = 0;
    formed_.assign(members.size(), -1);
    std::vector<Vector*> residuals;
    for (std::size_t c = 0; c < members.size(); ++c) residuals.push_back(take());
    const auto renew = [&](int c) { layout::copy(members[std::size_t(c)]->run.r, *residuals[std::size_t(c)]); };
    for (int c = 0; c < int(members.size()); ++c) renew(c);
    std::vector<Column> lambda;
    const int front = orthogonalise(residuals, true, renew, lambda);  // R = U Lambda
    small_.emplace(std::move(lambda), std::max(front, 0), epsilon);
    measure(front >= 0);
  }

  Breakdown advance() override {
    std::vector<double> weights(formed_.size());
    for (const Member* m : this->members())
      weights[std::size_t(m->place)] = 1 / std::max(share * m->goal, 10 * epsilon * small_->start(m->place));
    // The basis is as orthogonal as for a single residual that has fallen as far as the best combination of all.
    const bool careful = past_half_the_digits<T>(small_->least(), 1);
    ++steps_;
    SmallMatrix<W> turn;
    const int s = small_->select(weights, turn);
    if (!turn.empty()) turn_front(turn);  // U := U W
    multiply(s);                          // A P U_1
    std::vector<Vector*> images;
    for (int c = 0; c < s; ++c) images.push_back(take());
    spread(*y_, images, 0);
    const auto renew = [&](int c) {
      T* const to = images[std::size_t(c)]->data();
      for (std::size_t i = 0; i < size(); ++i) to[i] = y_->data()[i * std::size_t(s) + std::size_t(c)];
    };
    std::vector<Column> columns;
    const int fresh = orthogonalise(images, careful, renew, columns);  // = [V U] C + U' S
    measure(fresh >= 0 && small_->append(std::move(columns), fresh));
    // Where a product depends on others and no residual has become zero by it, the front lacks what residuals need.
    const bool singular = small_->is_singular();
    if (small_->front() > 0 && !singular) return {};
    bool reached = true;
    for (Member* m : this->members()) m->ended = true, reached = reached && m->norm <= m->goal;
    if (reached || !singular) return {};
    return {"R_jj", small_->pivot(), "the Krylov space is exhausted, and has no solution to rounding"};
  }

  void left() override {
    if (this->members().empty()) clear();
  }

  /// The norms of the residuals; NaN unless all is finite.
  void measure(bool finite) {
    for (Member* m : this->members())
      m->norm = finite ? small_->norm(m->place) : std::numeric_limits<double>::quiet_NaN();
  }

  /// y_ := A P U_1 for the first s vectors of the front.
  void multiply(int s) {
    const auto* const P = this->leader().P;
    if (!x_ || x_->columns() != s) x_.emplace(space_, s), u_.reset(), y_.reset();
    gather(vectors_, std::size_t(small_->basis()), *x_);
    if (P) apply(*P, *x_, u_, -1, true);
    apply(this->leader().A, P ? *u_ : *x_, y_, 1, false);
    if (!flexible_) return;
    for (int c = 0; c < s; ++c) images_.push_back(take());
    spread(*u_, images_, images_.size() - std::size_t(s));
  }
  /// y = B x for the leader's B, brought to the scale that the search began with.
  void apply(const op::Operator<T, Host>& B, const Vector& x, std::optional<Vector>& y, int sign, bool is_P) {
    if (!y) y.emplace(space_, x.columns());
    B.apply(x, *y);
    this->count(is_P, x.columns());
    if (const int e = sign * (this->leader().exponent - exponent_)) layout::scale(T(std::ldexp(real_t<T>(1), e)), *y);
  }

  /// Makes v orthogonal to vectors_ and orthonormal, and adds it to these but for columns that depend on others to
  /// rounding. columns[c]: the coordinates of what v[c] was. renew(c) restores v[c]. Returns how many were added; -1
  /// where a number is not finite. Collective.
  template <class Renew>
  int orthogonalise(const std::vector<Vector*>& v, bool careful, const Renew& renew, std::vector<Column>& columns) {
    const std::size_t before = vectors_.size();
    columns.assign(v.size(), Column(before + v.size()));
    std::vector<int> pending(v.size());
    std::iota(pending.begin(), pending.end(), 0);
    const auto add = [&](int done) {  // the first `done` of those pending
      for (int i = 0; i < done; ++i) vectors_.push_back(v[std::size_t(pending[std::size_t(i)])]);
      pending.erase(pending.begin(), pending.begin() + done);
    };
    for (bool first = true; !pending.empty(); first = false) {
      int done = pending.size() == 1 ? 0 : add_block(v, pending, careful, columns);
      if (done == 0 && (pending.size() == 1 || !first)) {
        const int one = pending.front();
        if (!first) renew(one), columns[std::size_t(one)].assign(before + v.size(), W(0));
        done = add_one(*v[std::size_t(one)], careful, columns[std::size_t(one)]);
        if (done == 0) free_.push_back(v[std::size_t(one)]), pending.erase(pending.begin());
      }
      if (done < 0) return -1;
      add(done);
      for (const int c : pending) renew(c);
      if (!pending.empty() && !project(v, pending, columns)) return -1;
    }
    for (Column& one : columns) one.resize(vectors_.size());
    return int(vectors_.size() - before);
  }
  std::vector<const T*> pointers() const {
    std::vector<const T*> q;
    for (const Vector* one : vectors_) q.push_back(one->data());
    return q;
  }
  /// As in gmres. Returns how many were added: 0 where v is in the span of the others.
  int add_one(Vector& v, bool careful, Column& column) {
    const int j = int(vectors_.size());
    std::vector<T> h;
    krylov::orthogonalise(Orthogonalisation::one_reduction, pointers(), j, v, h, careful);
    if (!std::all_of(h.begin(), h.end(), [](const T& x) { return is_finite(x); })) return -1;
    for (int i = 0; i <= j; ++i) column[std::size_t(i)] += W(h[std::size_t(i)]);
    return h[std::size_t(j)] != T(0);
  }
  /// Adds the leading columns of v[pending], up to one that depends on others nearly or to rounding.
  int add_block(const std::vector<Vector*>& v, const std::vector<int>& pending, bool careful,
                std::vector<Column>& columns) {
    typename BlockProcess<T, Host>::Choice choice{how_, BlockQr::cholqr, 0};
    if (how_ == Orthogonalisation::automatic) {
      choice.how = Orthogonalisation::bcgs_pip;
      choice.once = careful ? 2 : 100 * std::sqrt(epsilon);  // as in gmres
    }
    std::vector<T*> to;
    for (const int c : pending) to.push_back(v[std::size_t(c)]->data());
    const int j = int(vectors_.size()), s = int(to.size());
    std::vector<T> R;
    const Orthogonalised done = process_(choice, pointers().data(), j, to.data(), s, nullptr, R);
    if (done.columns < s && !std::isfinite(done.failed)) return -1;
    for (int c = 0; c < done.columns; ++c)
      for (int i = 0; i <= j + c; ++i)
        columns[std::size_t(pending[std::size_t(c)])][std::size_t(i)] +=
            W(R[std::size_t(c) * std::size_t(j + s) + std::size_t(i)]);
    return done.columns;
  }
  /// Makes v[pending], as they were, orthogonal to vectors_ in two rounds, and takes out of `pending` those of which
  /// only rounding errors are left. False where a number is not finite. 2 reductions.
  bool project(const std::vector<Vector*>& v, std::vector<int>& pending, std::vector<Column>& columns) {
    const int j = int(vectors_.size()), s = int(pending.size());
    const auto q = pointers();
    std::vector<T*> to;
    for (const int c : pending) {
      to.push_back(v[std::size_t(c)]->data());
      std::fill(columns[std::size_t(c)].begin(), columns[std::size_t(c)].end(), W(0));
    }
    std::vector<double> whole(static_cast<std::size_t>(s)), rest(whole);
    for (int round = 0; round < 2; ++round) {
      std::vector<T> G(std::size_t(j + s) * std::size_t(s)), C;
      exec::block_gram<T, Host, T>(q.data(), j, to.data(), s, size(), G.data());
      process_.sum_gram(G.data(), j, s);
      for (int c = 0; c < s; ++c) {
        const T* const g = G.data() + std::size_t(c) * std::size_t(j + s);
        C.insert(C.end(), g, g + j);
        double square = real(g[j + c]);
        if (!std::isfinite(square)) return false;
        if (round == 0) whole[std::size_t(c)] = square;
        for (int i = 0; i < j; ++i) {
          columns[std::size_t(pending[std::size_t(c)])][std::size_t(i)] += W(g[i]);
          square -= double(abs2(g[i]));
        }
        rest[std::size_t(c)] = square;
      }
      exec::block_update<T, Host>(q.data(), j, C.data(), to.data(), s, nullptr, size());
    }
    std::vector<int> left;
    for (int c = 0; c < s; ++c) {
      const int one = pending[std::size_t(c)];
      // The first round leaves rounding errors of the whole.
      if (rest[std::size_t(c)] > square_of(10 * epsilon) * whole[std::size_t(c)]) left.push_back(one);
      else free_.push_back(v[std::size_t(one)]);
    }
    pending = std::move(left);
    return true;
  }
  static double square_of(double x) { return x * x; }

  /// U := U W
  void turn_front(const SmallMatrix<W>& turn) {
    const int m = turn.rows, first = small_->basis();
    const std::vector<Vector*> front(vectors_.begin() + first, vectors_.end());
    std::vector<Vector*> turned;
    std::vector<T*> to;
    for (int c = 0; c < m; ++c) {
      turned.push_back(take());
      layout::fill(*turned.back(), T(0));
      to.push_back(turned.back()->data());
    }
    combine(front, transposed(turn), to);
    std::copy(turned.begin(), turned.end(), vectors_.begin() + first);
    free_.insert(free_.end(), front.begin(), front.end());
  }
  static SmallMatrix<W> transposed(const SmallMatrix<W>& a) {
    SmallMatrix<W> b(a.columns, a.rows);
    for (int i = 0; i < a.rows; ++i)
      for (int j = 0; j < a.columns; ++j) b(j, i) = a(i, j);
    return b;
  }

  /// d := V y (P V y where P V is kept) for this column and for those that are about to leave, too.
  void form(const Member& of) {
    SmallMatrix<W> y(0, small_->basis());
    std::vector<T*> to;
    for (const Member* m : this->members()) {
      if (m != &of && m->norm > m->goal && !m->ended && steps_ < m->cycle) continue;
      const bool keeps_scale = m->run.P && !flexible_;
      const W scale = W(keeps_scale ? 1.0 : std::ldexp(1.0, m->run.exponent - exponent_));
      for (const W& one : small_->minimiser(m->place)) y.values.push_back(scale * one);
      ++y.rows;
      layout::fill(m->run.d, T(0));
      to.push_back(m->run.d.data());
      formed_[std::size_t(m->place)] = steps_;
    }
    combine(flexible_ ? images_ : vectors_, y, to);
  }
  /// to[c] += sum_i y(c, i) x[i]. Local; one pass over the x's.
  void combine(const std::vector<Vector*>& x, const SmallMatrix<W>& y, const std::vector<T*>& to) const {
    std::vector<const T*> from;
    for (int i = 0; i < y.columns; ++i) from.push_back(x[std::size_t(i)]->data());
    if (from.empty()) return;
    exec::block_combine<T, Host>(from.data(), y.columns, detail::narrowed<T>(y).data(), to.data(), y.rows, size());
  }

  std::size_t size() const { return std::size_t(space_.local_size()); }
  Vector* take() {
    if (free_.empty()) return &all_.emplace_back(space_);
    Vector* const one = free_.back();
    free_.pop_back();
    return one;
  }
  /// All vectors are free again; memory is kept for the next cycle.
  void clear() {
    free_.clear();
    for (Vector& one : all_) free_.push_back(&one);
    vectors_.clear(), images_.clear(), small_.reset();
  }
  /// f(column, first row, last row + 1) for all rows in short runs, so that the strided side stays in the nearest
  /// cache.
  template <class F>
  void each(int columns, const F& f) const {
    constexpr std::size_t run = 64, chunk = 32 * run;
    const std::size_t n = size();
    exec::parallel_for((n + chunk - 1) / chunk, n > 8 * chunk, [&](std::size_t part) {
      for (std::size_t i = part * chunk; i < std::min(n, (part + 1) * chunk); i += run)
        for (int c = 0; c < columns; ++c) f(std::size_t(c), i, std::min(n, i + run));
    });
  }
  /// The columns of `all` := x[first], x[first + 1] ..
  void gather(const std::vector<Vector*>& x, std::size_t first, Vector& all) const {
    each(all.columns(), [&, k = std::size_t(all.columns())](std::size_t c, std::size_t begin, std::size_t end) {
      const T* const from = x[first + c]->data();
      T* const to = all.data() + c;
      for (std::size_t i = begin; i < end; ++i) to[i * k] = from[i];
    });
  }
  /// And back.
  void spread(const Vector& all, const std::vector<Vector*>& x, std::size_t first) const {
    each(all.columns(), [&, k = std::size_t(all.columns())](std::size_t c, std::size_t begin, std::size_t end) {
      const T* const from = all.data() + c;
      T* const to = x[first + c]->data();
      for (std::size_t i = begin; i < end; ++i) to[i] = from[i * k];
    });
  }

  layout::Space space_;
  Orthogonalisation how_;
  BlockProcess<T, Host> process_;
  int exponent_ = 0, steps_ = 0;
  bool flexible_ = false;
  std::deque<Vector> all_;
  std::vector<Vector*> free_, vectors_, images_;  // [V U]; P V, where it is kept
  std::vector<int> formed_;                       // by place: the step whose solution is in d
  std::optional<BlockProjected<W>> small_;
  std::optional<Vector> x_, u_, y_;
};

}  // namespace

template <Scalar T>
std::unique_ptr<BlockSearch<T>> make_block_gmres_search(const layout::Space& space, Lockstep& lockstep,
                                                        Orthogonalisation how) {
  return std::make_unique<BlockGmresSearch<T>>(space, lockstep, how);
}

#define TACIT_INSTANTIATE(T) \
  template std::unique_ptr<BlockSearch<T>> make_block_gmres_search(const layout::Space&, Lockstep&, Orthogonalisation);
TACIT_EACH_SCALAR(Host, TACIT_INSTANTIATE)

}  // namespace tacit::krylov
