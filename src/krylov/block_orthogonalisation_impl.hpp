#pragma once

#include <tacit/base/lapack.hpp>
#include <tacit/exec/basis.hpp>
#include "base/double_double.hpp"
#include "krylov/block_orthogonalisation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tacit::krylov {

/// Below this u_kk^2 / (v_k, v_k) is rounding.
template <Scalar T>
constexpr double dependent = 50 * double(std::numeric_limits<real_t<T>>::epsilon());

/// R = [C; U] from G = [Q V]^H V with U^H U = V^H V - C^H C; leading dimensions j + s. Columns that fail end it.
template <Scalar T>
Orthogonalised factor_gram(const T* G, int j, int s, T* R, double least_allowed = dependent<T>) {
  const int height = j + s;
  Orthogonalised done;
  for (int c = 0; c < s; ++c) {
    const T* const g = G + c * height;
    T* const r = R + c * height;
    std::fill_n(r, height, T(0));
    for (int i = 0; i < j; ++i) r[i] = g[i];
    for (int i = j; i < j + c; ++i) {
      const T* const earlier = R + (i - j) * height;
      T sum = g[i];
      for (int l = 0; l < i; ++l) sum -= conj(earlier[l]) * r[l];
      r[i] = sum / real(earlier[i]);
    }
    const double whole = double(real(g[j + c]));
    double left = whole;
    for (int i = 0; i < j + c; ++i) left -= double(abs2(r[i]));
    const double ratio = whole == 0 ? 0 : left / whole;
    if (!(ratio > least_allowed) || !std::isfinite(whole)) {
      done.failed = std::isfinite(whole) ? ratio : whole;
      return done;
    }
    r[j + c] = T(real_t<T>(std::sqrt(left)));
    done.least = std::min(done.least, ratio);
    ++done.columns;
  }
  return done;
}

/// W = U^-1 for the leading `columns` of U = R(j.., ..), leading dimensions j + s of R and `columns` of W.
template <Scalar T>
void invert_factor(const T* R, int j, int s, int columns, std::vector<T>& W) {
  W.assign(std::size_t(columns) * columns, T(0));
  const auto u = [&](int i, int c) { return R[std::size_t(c) * (j + s) + j + i]; };
  for (int c = 0; c < columns; ++c) {
    T* const w = W.data() + std::size_t(c) * columns;
    w[c] = T(1) / real(u(c, c));
    for (int i = c - 1; i >= 0; --i) {
      T sum(0);
      for (int l = i + 1; l <= c; ++l) sum += u(i, l) * w[l];
      w[i] = -sum / real(u(i, i));
    }
  }
}

/// [C; U] := [C2; U2] after [C; U]: V = Q (C + C2 U) + Q' U2 U. The first `columns`; leading dimension j + s.
template <Scalar T>
void compose_factors(const T* second, int j, int s, int columns, T* R) {
  const int height = j + s;
  for (int c = 0; c < columns; ++c) {
    T* const r = R + c * height;
    for (int i = 0; i < j; ++i)
      for (int l = 0; l <= c; ++l) r[i] += second[l * height + i] * r[j + l];
    for (int i = 0; i <= c; ++i) {
      T sum(0);
      for (int l = i; l <= c; ++l) sum += second[l * height + j + i] * r[j + l];
      r[j + i] = sum;
    }
  }
}

/// `least` from a complete R.
template <Scalar T>
Orthogonalised with_least(Orthogonalised done, const std::vector<T>& R, int s) {
  done.least = 1;
  for (int c = 0; c < done.columns; ++c) {
    double all = 0;
    for (int i = 0; i <= c; ++i) all += double(abs2(R[std::size_t(c) * s + i]));
    done.least = std::min(done.least, double(abs2(R[std::size_t(c) * s + c])) / all);
  }
  return done;
}

/// The methods of the header on vectors as pointers, with the basis stored as S. Keeps its scratch from block to block.
template <Scalar T, Memory M, class S = T>
class BlockProcess {
 public:
  BlockProcess(const layout::Space& space, std::size_t n) : space_(&space), n_(n) {}

  struct Choice {
    Orthogonalisation how = Orthogonalisation::bcgs_pip2;
    BlockQr qr = BlockQr::cholqr;
    double once = 0;             ///< bcgs_pip: a second round where `least` falls below this
    double keep = dependent<T>;  ///< bcgs_pip: a block ends (not before its second column) at a ratio below this
  };

  /// v orthogonal to q and orthonormal; `stored`: the basis vectors that v becomes, in S, where that is not T (v[s - 1]
  /// alone is then kept in T).
  Orthogonalised operator()(const Choice& choice, const S* const* q, int j, T* const* v, int s, S* const* stored,
                            std::vector<T>& R) {
    using enum Orthogonalisation;
    R.assign(std::size_t(j + s) * s, T(0));
    if (s == 0) return {};
    switch (choice.how) {
      case bcgs:
        return classical(choice.qr, 1, q, j, v, s, stored, R);
      case bcgs2:
        return classical(choice.qr, 2, q, j, v, s, stored, R);
      case bcgs_pip:
        return pythagoras(choice.once, q, j, v, s, stored, R, choice.keep);
      default:
        return pythagoras(2, q, j, v, s, stored, R);
    }
  }

  /// G = [Q V]^H V summed over the space; the Hermitian part travels once. One reduction.
  void sum_gram(T* G, int j, int s) {
    packed_.clear();
    const int height = j + s;
    for (int c = 0; c < s; ++c) packed_.insert(packed_.end(), G + c * height, G + c * height + j + c + 1);
    space_->start_sum(packed_.data(), packed_.size()).wait(packed_.data());
    const T* from = packed_.data();
    for (int c = 0; c < s; ++c)
      for (int i = 0; i <= j + c; ++i) {
        G[c * height + i] = *from++;
        if (i >= j) G[(i - j) * height + j + c] = conj(G[c * height + i]);
      }
  }

  /// V = Q R among themselves.
  Orthogonalised qr(BlockQr how, T* const* v, int s, std::vector<T>& R) {
    const S* const* const none = nullptr;
    R.assign(std::size_t(s) * s, T(0));
    switch (how) {
      case BlockQr::cholqr:
        return pythagoras(0, none, 0, v, s, nullptr, R);
      case BlockQr::cholqr2:
        return pythagoras(2, none, 0, v, s, nullptr, R);
      case BlockQr::shifted_cholqr3:
        return shifted(v, s, R);
      case BlockQr::mixed_cholqr:
        return mixed(v, s, R);
      default:
        return tree(v, s, R);
    }
  }

 private:
  /// bcgs_pip; once more where the least diagonal falls below `once` (2: always).
  Orthogonalised pythagoras(double once, const S* const* q, int j, T* const* v, int s, S* const* stored,
                            std::vector<T>& R, double keep = dependent<T>) {
    G_.resize(std::size_t(j + s) * s);
    exec::block_gram<T, M, S>(q, j, v, s, n_, G_.data());
    sum_gram(G_.data(), j, s);
    return finish(once, q, j, v, s, stored, R, keep);
  }
  /// What follows the first sums, in G_.
  Orthogonalised finish(double once, const S* const* q, int j, T* const* v, int s, S* const* stored, std::vector<T>& R,
                        double keep = dependent<T>) {
    Orthogonalised done = factor_gram(G_.data(), j, s, R.data(), keep);
    if (done.columns == 0 && done.failed > dependent<T>) {  // the first column alone
      done = factor_gram(G_.data(), j, s, R.data());
      const double u = std::abs(R[std::size_t(j)]);
      done.columns = 1, done.least = u * u / double(real(G_[std::size_t(j)]));
    }
    int columns = done.columns;
    if (columns == 0) return done;
    invert_factor(R.data(), j, s, columns, W_);
    if (done.least >= once) {
      update(q, j, R.data(), j + s, v, columns, stored);
      return done;
    }
    take_coefficients(R.data(), j, j + s, columns);
    G_.resize(std::size_t(j + columns) * columns);
    exec::block_update_gram<T, M, S>(q, j, C_.data(), v, columns, W_.data(), n_, G_.data());
    sum_gram(G_.data(), j, columns);
    second_.resize(std::size_t(j + columns) * columns);
    const Orthogonalised again = factor_gram(G_.data(), j, columns, second_.data(), 0.01);
    // A column that the second round shortens to less than a tenth was rounding error.
    if (again.columns < columns) done.columns = again.columns, done.failed = again.failed * done.least;
    if (again.columns == 0) return done;
    invert_factor(second_.data(), j, columns, again.columns, W_);
    update(q, j, second_.data(), j + columns, v, again.columns, stored);
    // To the leading dimension of R.
    widened_.assign(std::size_t(j + s) * s, T(0));
    for (int c = 0; c < again.columns; ++c)
      std::copy_n(second_.data() + std::size_t(c) * (j + columns), j + columns,
                  widened_.data() + std::size_t(c) * (j + s));
    compose_factors(widened_.data(), j, s, again.columns, R.data());
    return done;
  }

  Orthogonalised classical(BlockQr how, int rounds, const S* const* q, int j, T* const* v, int s, S* const* stored,
                           std::vector<T>& R) {
    std::vector<T> U, whole(R.size());
    Orthogonalised done;
    int columns = s;
    for (int round = 0; round < rounds; ++round) {
      std::fill(whole.begin(), whole.end(), T(0));
      if (j > 0) {
        G_.resize(std::size_t(j + columns) * columns);
        exec::block_gram<T, M, S>(q, j, v, columns, n_, G_.data());
        take_coefficients(G_.data(), j, j + columns, columns);
        space_->start_sum(C_.data(), C_.size()).wait(C_.data());
        exec::block_update_stored<T, M, S>(q, j, C_.data(), v, columns, nullptr, nullptr, n_);
        for (int c = 0; c < columns; ++c) std::copy_n(C_.data() + c * j, j, whole.data() + std::size_t(c) * (j + s));
      }
      const Orthogonalised now = qr(how, v, columns, U);
      for (int c = 0; c < now.columns; ++c)
        std::copy_n(U.data() + std::size_t(c) * columns, c + 1, whole.data() + std::size_t(c) * (j + s) + j);
      // The share of a column's squared norm that is left.
      if (round == 0) {
        done = now;
        done.least = 1;
        for (int c = 0; c < now.columns; ++c) {
          double all = 0;
          for (int i = 0; i <= j + c; ++i) all += double(abs2(whole[std::size_t(c) * (j + s) + i]));
          // A column of zeros has nothing left.
          const double ratio = all > 0 ? double(abs2(whole[std::size_t(c) * (j + s) + j + c])) / all : 0;
          if (!(ratio > dependent<T>)) {
            done.columns = c, done.failed = ratio;
            break;
          }
          done.least = std::min(done.least, ratio);
        }
        R = whole;
      } else {
        done.columns = std::min(done.columns, now.columns);
        compose_factors(whole.data(), j, s, done.columns, R.data());
      }
      columns = done.columns;
      if (columns == 0) return done;
    }
    if (stored)
      for (int c = 0; c < columns; ++c) exec::store<T, M, S>(v[c], stored[c], n_);
    return done;
  }

  /// V := (V - Q C) W_ with the C of R.
  void update(const S* const* q, int j, const T* R, int ld, T* const* v, int columns, S* const* stored) {
    take_coefficients(R, j, ld, columns);
    exec::block_update_stored<T, M, S>(q, j, C_.data(), v, columns, W_.data(), stored, n_);
  }
  /// C_ := the first j rows of R.
  void take_coefficients(const T* R, int j, int ld, int columns) {
    C_.resize(std::size_t(j) * columns);
    for (int c = 0; c < columns; ++c) std::copy_n(R + std::size_t(c) * ld, j, C_.data() + std::size_t(c) * j);
  }

  /// CholQR with a shift, at least once and again while V^H V has no Cholesky factor, then CholQR twice without a
  /// shift.
  Orthogonalised shifted(T* const* v, int s, std::vector<T>& R) {
    const S* const* const none = nullptr;
    const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
    Orthogonalised done;
    int columns = s;
    std::vector<T> part(R.size()), length(s);
    for (int c = 0; c < s; ++c) R[std::size_t(c) * s + c] = T(1);
    for (int round = 0; round < 3; ++round) {
      G_.resize(std::size_t(columns) * columns);
      exec::block_gram<T, M, S>(none, 0, v, columns, n_, G_.data());
      sum_gram(G_.data(), 0, columns);
      // Columns may have very different lengths: the shift is relative to columns of length 1.
      for (int c = 0; c < columns; ++c) {
        const double size = double(real(G_[std::size_t(c) * columns + c]));
        if (!(size > 0) || !std::isfinite(size)) {
          done.failed = size;
          columns = c;
          break;
        }
        length[c] = T(real_t<T>(std::sqrt(size)));
      }
      if (columns == 0) return done;
      const int ld = int(std::lround(std::sqrt(double(G_.size()))));
      std::vector<T> unit(std::size_t(columns) * columns);
      double shift = 5 * double(columns) * (columns + 1) * epsilon;
      part.assign(unit.size(), T(0));
      const auto attempt = [&](double by) {
        for (int c = 0; c < columns; ++c)
          for (int i = 0; i < columns; ++i)
            unit[std::size_t(c) * columns + i] =
                i == c ? T(real_t<T>(1 + by)) : G_[std::size_t(c) * ld + i] / (length[c] * length[i]);
        return factor_gram(unit.data(), 0, columns, part.data(), by > 0 ? 0 : 1e3 * epsilon).columns == columns;
      };
      if (round > 0 && attempt(0)) break;
      while (!attempt(shift) && shift < 1) shift *= 10;
      for (int c = 0; c < columns; ++c)
        for (int i = 0; i <= c; ++i) part[std::size_t(c) * columns + i] *= length[c];
      invert_factor(part.data(), 0, columns, columns, W_);
      exec::block_update_stored<T, M, S>(none, 0, nullptr, v, columns, W_.data(), nullptr, n_);
      widen(part, columns, s);
      compose_factors(widened_.data(), 0, s, columns, R.data());
    }
    // G_ holds the sums of the first of the two rounds without a shift.
    part.assign(std::size_t(columns) * columns, T(0));
    const Orthogonalised last = finish(2, none, 0, v, columns, nullptr, part);
    widen(part, columns, s);
    compose_factors(widened_.data(), 0, s, last.columns, R.data());
    done.columns = last.columns;
    if (last.columns < columns) done.failed = last.failed;
    return with_least(done, R, s);
  }
  /// widened_ := the upper triangle of `part` (leading dimension `columns`) with leading dimension s.
  void widen(const std::vector<T>& part, int columns, int s) {
    widened_.assign(std::size_t(s) * s, T(0));
    for (int c = 0; c < columns; ++c)
      std::copy_n(part.data() + std::size_t(c) * columns, c + 1, widened_.data() + std::size_t(c) * s);
  }

  /// `mine` of all ranks, in their order, on every rank; on one rank or replicated vectors: mine. One reduction.
  std::vector<real_t<T>> gather(const std::vector<real_t<T>>& mine) const {
    if (space_->is_replicated()) return mine;
    const auto& comm = space_->comm();
    std::vector<real_t<T>> all(mine.size() * std::size_t(comm.size()), real_t<T>(0));
    std::copy(mine.begin(), mine.end(), all.begin() + std::ptrdiff_t(mine.size()) * comm.rank());
    space_->start_sum(all.data(), all.size()).wait(all.data());
    return all;
  }

  Orthogonalised mixed(T* const* v, int s, std::vector<T>& R) {
    constexpr int per = is_complex<T> ? 2 : 1;
    const std::size_t pairs = std::size_t(s) * (s + 1) / 2;
    std::vector<real_t<T>> high(pairs * per), low(pairs * per);
    exec::precise_gram<T, M>(v, s, n_, high.data(), low.data());
    high.insert(high.end(), low.begin(), low.end());
    const auto all = gather(high);
    std::vector<DoubleDouble> sums(pairs * per);
    for (std::size_t rank = 0; rank < all.size() / high.size(); ++rank)
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const real_t<T>* const at = all.data() + rank * high.size() + i;
        sums[i] = sums[i] + DoubleDouble(double(at[0])) + DoubleDouble(double(at[pairs * per]));
      }
    // U^H U = G in the wide numbers, columns in the order of the upper triangle.
    const auto place = [](int i, int c) { return std::size_t(c) * (c + 1) / 2 + i; };
    std::vector<DoubleDouble> U(pairs * per);
    Orthogonalised done;
    for (int c = 0; c < s; ++c) {
      for (int i = 0; i < c; ++i)
        for (int part = 0; part < per; ++part) {
          DoubleDouble sum = sums[place(i, c) * per + part];
          for (int l = 0; l < i; ++l) {
            const DoubleDouble *a = &U[place(l, i) * per], *b = &U[place(l, c) * per];
            if constexpr (per == 1) {
              sum = sum - a[0] * b[0];
            } else {  // conj(a) b
              if (part == 0) sum = sum - a[0] * b[0] - a[1] * b[1];
              else sum = sum - a[0] * b[1] + a[1] * b[0];
            }
          }
          U[place(i, c) * per + part] = sum / U[place(i, i) * per];
        }
      DoubleDouble left = sums[place(c, c) * per];
      const double whole = left.high;
      if (whole == 0) break;
      for (int i = 0; i < c; ++i)
        for (int part = 0; part < per; ++part) left = left - U[place(i, c) * per + part] * U[place(i, c) * per + part];
      const double ratio = left.high / whole;
      // The sums carry twice the digits of T.
      const double epsilon = std::numeric_limits<real_t<T>>::epsilon();
      if (!(ratio > 50 * epsilon * epsilon) || !std::isfinite(whole)) {
        done.failed = std::isfinite(whole) ? ratio : whole;
        break;
      }
      U[place(c, c) * per] = sqrt(left);
      done.least = std::min(done.least, ratio);
      ++done.columns;
    }
    for (int c = 0; c < done.columns; ++c)
      for (int i = 0; i <= c; ++i) {
        const DoubleDouble* const u = &U[place(i, c) * per];
        if constexpr (per == 1) R[std::size_t(c) * s + i] = T(u[0].high);
        else R[std::size_t(c) * s + i] = T(real_t<T>(u[0].high), real_t<T>(u[1].high));
      }
    if (done.columns == 0) return done;
    invert_factor(R.data(), 0, s, done.columns, W_);
    exec::block_update_stored<T, M, S>(static_cast<const S* const*>(nullptr), 0, nullptr, v, done.columns, W_.data(),
                                       nullptr, n_);
    return done;
  }

  /// Householder QR of this rank's rows, then of all ranks' triangles on top of each other (on every rank).
  Orthogonalised tree(T* const* v, int s, std::vector<T>& R) {
    constexpr int per = is_complex<T> ? 2 : 1;
    const int rows = std::max(int(n_), s);  // ranks with fewer than s rows are padded with rows of zeros
    std::vector<T> own(std::size_t(rows) * s, T(0));
    for (int c = 0; c < s; ++c)
      if (n_ > 0) copy_out(v[c], own.data() + std::size_t(c) * rows);
    std::vector<T> triangle;
    lapack::householder_qr<T>(own, rows, s, triangle);
    std::vector<real_t<T>> mine;
    for (int c = 0; c < s; ++c)
      for (int i = 0; i <= c; ++i) {
        mine.push_back(real(triangle[std::size_t(c) * s + i]));
        if constexpr (per == 2) mine.push_back(triangle[std::size_t(c) * s + i].imag());
      }
    const auto all = gather(mine);
    const int ranks = int(all.size() / mine.size());
    const int me = ranks > 1 ? space_->comm().rank() : 0;
    std::vector<T> stack(std::size_t(ranks) * s * s, T(0));
    const int height = ranks * s;
    for (int rank = 0; rank < ranks; ++rank) {
      const real_t<T>* at = all.data() + std::size_t(rank) * mine.size();
      for (int c = 0; c < s; ++c)
        for (int i = 0; i <= c; ++i, at += per) {
          if constexpr (per == 1) stack[std::size_t(c) * height + rank * s + i] = at[0];
          else stack[std::size_t(c) * height + rank * s + i] = T(at[0], at[1]);
        }
    }
    lapack::householder_qr<T>(stack, height, s, R);
    // Rows of the stacked Q that are this rank's, with the phases that make R's diagonal positive.
    std::vector<T> X(std::size_t(s) * s);
    for (int c = 0; c < s; ++c) {
      const T diagonal = R[std::size_t(c) * s + c];
      const real_t<T> size = std::abs(diagonal);
      const T phase = size > 0 ? diagonal / size : T(1);
      for (int i = 0; i < s; ++i) X[std::size_t(c) * s + i] = stack[std::size_t(c) * height + me * s + i] * phase;
      for (int l = c; l < s; ++l) R[std::size_t(l) * s + c] *= conj(phase);
      R[std::size_t(c) * s + c] = T(size);
    }
    std::vector<T> out(n_);
    for (int c = 0; c < s && n_ > 0; ++c) {
      std::fill(out.begin(), out.end(), T(0));
      for (int l = 0; l < s; ++l) {
        const T x = X[std::size_t(c) * s + l];
        const T* const from = own.data() + std::size_t(l) * rows;
        for (std::size_t i = 0; i < n_; ++i) out[i] += x * from[i];
      }
      copy_in(out.data(), v[c]);
    }
    Orthogonalised done;
    done.columns = s;
    for (const T& r : R)
      if (!is_finite(r)) return {0, 1, std::numeric_limits<double>::quiet_NaN()};
    return with_least(done, R, s);
  }
  void copy_out(const T* from, T* to) const {
    if constexpr (std::same_as<M, Host>) exec::settle(), std::copy_n(from, n_, to);
    else exec::copy_to_host(to, from, n_ * sizeof(T));
  }
  void copy_in(const T* from, T* to) const {
    if constexpr (std::same_as<M, Host>) exec::settle(), std::copy_n(from, n_, to);
    else exec::copy_to_device(to, from, n_ * sizeof(T));
  }

  const layout::Space* space_;
  std::size_t n_;
  std::vector<T> G_, C_, W_, second_, widened_, packed_;
};

template <Scalar T, Memory M>
Orthogonalised block_orthogonalise(Orthogonalisation how, BlockQr qr, std::span<const layout::Vector<T, M>* const> q,
                                   std::span<layout::Vector<T, M>* const> v, std::vector<T>& R, int small) {
  using enum Orthogonalisation;
  const int j = int(q.size()), s = int(v.size());
  R.assign(std::size_t(j + s) * s, T(0));
  if (s == 0) return {};
  require(how != one_reduction && how != cgs && how != cgs2 && how != mgs, "orthogonalisation ", to_string(how),
          " takes one vector at a time; a block takes bcgs, bcgs2, bcgs-pip, bcgs-pip2 or two-stage");
  require(small >= 1, "blocks of ", small, " vectors in the first stage; at least 1 is needed");
  const auto& space = v[0]->space();
  std::vector<const T*> basis;
  std::vector<T*> block;
  for (const auto* x : q) {
    require(x->space() == space && x->columns() == 1,
            "vectors of a block and its basis are of one space, one column each");
    basis.push_back(x->data());
  }
  for (auto* x : v) {
    require(x->space() == space && x->columns() == 1,
            "vectors of a block and its basis are of one space, one column each");
    block.push_back(x->data());
  }
  BlockProcess<T, M> process(space, v[0]->size());
  typename BlockProcess<T, M>::Choice choice{how == automatic ? bcgs_pip2 : how, qr, 0};
  if (how != two_stage) return process(choice, basis.data(), j, block.data(), s, nullptr, R);
  choice.how = bcgs_pip;
  // First stage: small blocks against all before them. Second stage: all of them at once.
  Orthogonalised done;
  std::vector<T> part;
  int made = 0;
  const int height = j + s;
  while (made < s) {
    const int count = std::min(small, s - made);
    const auto now = process(choice, basis.data(), j + made, block.data() + made, count, nullptr, part);
    for (int c = 0; c < now.columns; ++c)
      std::copy_n(part.data() + std::size_t(c) * (j + made + count), j + made + c + 1,
                  R.data() + std::size_t(made + c) * height);
    done.least = std::min(done.least, now.least);
    for (int c = 0; c < now.columns; ++c) basis.push_back(block[made + c]);
    made += now.columns;
    if (now.columns < count) {
      done.failed = now.failed;
      break;
    }
  }
  done.columns = made;
  if (made == 0) return done;
  const auto last = process(choice, basis.data(), j, block.data(), made, nullptr, part);
  std::vector<T> second(std::size_t(height) * s, T(0));
  for (int c = 0; c < last.columns; ++c)
    std::copy_n(part.data() + std::size_t(c) * (j + made), j + c + 1, second.data() + std::size_t(c) * height);
  compose_factors(second.data(), j, s, last.columns, R.data());
  if (last.columns < made) done.columns = last.columns, done.failed = last.failed;
  return done;
}

template <Scalar T, Memory M>
Orthogonalised block_qr(BlockQr how, std::span<layout::Vector<T, M>* const> v, std::vector<T>& R) {
  const int s = int(v.size());
  R.assign(std::size_t(s) * s, T(0));
  if (s == 0) return {};
  std::vector<T*> block;
  for (auto* x : v) {
    require(x->space() == v[0]->space() && x->columns() == 1, "vectors of a block are of one space, one column each");
    block.push_back(x->data());
  }
  return BlockProcess<T, M>(v[0]->space(), v[0]->size()).qr(how, block.data(), s, R);
}

}  // namespace tacit::krylov
