// Orthogonality, V = Q R and reported failures of the block methods, on blocks of known condition number.
#include "support/communicators.hpp"
#include "support/methods.hpp"
#include "support/scalars.hpp"

#include "krylov/block_orthogonalisation.hpp"

#include <gtest/gtest.h>

namespace tacit::test {
namespace {

using krylov::BlockQr;
using krylov::Orthogonalisation;
using layout::Space;
using layout::Vector;

template <class T>
constexpr double epsilon = double(std::numeric_limits<real_t<T>>::epsilon());

template <Scalar T>
using Columns = std::vector<std::vector<T>>;

/// s columns of n elements, singular values from 1 down to 1 / cond in a geometric sequence.
template <Scalar T>
Columns<T> conditioned(Global n, int s, double cond, std::uint64_t seed = 5) {
  const auto orthonormal = [&](Global rows, std::uint64_t from) {
    std::vector<std::vector<wide_t<T>>> q;
    for (int c = 0; c < s; ++c) {
      std::vector<wide_t<T>> v;
      for (Global i = 0; i < rows; ++i)
        v.push_back(widen(noise_of<T>(from + std::uint64_t(c), std::uint64_t(i) * 7 + 3 * c)));
      for (int round = 0; round < 2; ++round)
        for (const auto& u : q) {
          wide_t<T> dot(0);
          for (Global i = 0; i < rows; ++i) dot += wide_conj(u[i]) * v[i];
          for (Global i = 0; i < rows; ++i) v[i] -= dot * u[i];
        }
      const long double length = norm2(v);
      for (auto& a : v) a /= length;
      q.push_back(v);
    }
    return q;
  };
  const auto left = orthonormal(n, seed), right = orthonormal(s, seed + 100);
  Columns<T> columns(s, std::vector<T>(n));
  for (int c = 0; c < s; ++c)
    for (Global i = 0; i < n; ++i) {
      wide_t<T> sum(0);
      for (int l = 0; l < s; ++l)
        sum += left[l][i] * (long double)(std::pow(cond, s > 1 ? -double(l) / (s - 1) : 0.0)) * wide_conj(right[l][c]);
      columns[c][i] = T(sum);
    }
  return columns;
}
/// The Laeuchli matrix [1 1 ..; e I]: columns that differ by e only.
template <Scalar T>
Columns<T> laeuchli(Global n, int s, double e) {
  Columns<T> columns(s, std::vector<T>(n, T(0)));
  for (int c = 0; c < s; ++c) columns[c][0] = T(1), columns[c][1 + c] = T(real_t<T>(e));
  return columns;
}
/// The vectors x, A x, A^2 x .., normalised.
template <Scalar T>
Columns<T> monomial(int s) {
  const auto a = grid<T>(20, 20);
  auto v = random_vector<T>(a.n, 9);
  Columns<T> columns;
  for (int c = 0; c < s; ++c) {
    const long double length = norm2(v);
    for (auto& x : v) x /= real_t<T>(length);
    columns.push_back(v);
    const auto image = a.times(v);
    for (Global i = 0; i < a.n; ++i) v[i] = T(image[i]);
  }
  return columns;
}

template <Scalar T>
struct Outcome {
  krylov::Orthogonalised done;
  double orthogonality = 0;  // largest entry of I - [Q Q']^H [Q Q']
  double backward = 0;       // largest ||v_c - Q R e_c|| / ||v_c||
  double by_inverse = 0;     // largest || |V| |R^-1| |R| e_c || / ||v_c||, if q is empty
};

/// How much a multiplication by the explicit inverse R^-1 amplifies rounding errors: a product V W has an error of up
/// to s u |V| |W|, W itself one as large, and Q R |R| times that (Higham 2002, sections 3.5 and 14.2). The
/// amplification grows with the condition number of columns that are not graded.
template <Scalar T>
double amplified_by_inverse(const Columns<T>& v, const std::vector<T>& R, int columns) {
  const std::size_t s = v.size(), k = std::size_t(columns);
  std::vector<wide_t<T>> W(k * k, wide_t<T>(0));
  for (std::size_t c = 0; c < k; ++c)
    for (std::size_t i = c + 1; i-- > 0;) {
      wide_t<T> sum(i == c);
      for (std::size_t l = i + 1; l <= c; ++l) sum -= widen(R[l * s + i]) * W[c * k + l];
      W[c * k + i] = sum / widen(R[i * s + i]);
    }
  std::vector<double> both(k * k, 0);  // |W| |R|
  for (std::size_t c = 0; c < k; ++c)
    for (std::size_t l = 0; l <= c; ++l)
      for (std::size_t i = 0; i <= l; ++i) both[c * k + i] += double(std::abs(W[l * k + i])) * std::abs(R[c * s + l]);
  std::vector<double> sizes(k);
  std::vector<double> squares(k, 0), of_v(k, 0);
  for (std::size_t e = 0; e < v[0].size(); ++e)
    for (std::size_t c = 0; c < k; ++c) {
      sizes[c] = std::abs(v[c][e]);
      double sum = 0;
      for (std::size_t i = 0; i <= c; ++i) sum += sizes[i] * both[c * k + i];
      squares[c] += sum * sum;
      of_v[c] += sizes[c] * sizes[c];
    }
  double most = 0;
  for (std::size_t c = 0; c < k; ++c) most = std::max(most, std::sqrt(squares[c] / of_v[c]));
  return most;
}

/// Runs f on the distributed columns of v with the basis q, and measures the result in extended precision.
template <Scalar T, class F>
Outcome<T> measure(const Space& space, const Columns<T>& q, const Columns<T>& v, F&& f) {
  std::vector<Vector<T>> basis, block;
  for (const auto& x : q) basis.push_back(spread(space, x));
  for (const auto& x : v) block.push_back(spread(space, x));
  std::vector<const Vector<T>*> qs;
  std::vector<Vector<T>*> vs;
  for (auto& x : basis) qs.push_back(&x);
  for (auto& x : block) vs.push_back(&x);
  std::vector<T> R;
  Outcome<T> outcome;
  outcome.done = f(std::span<const Vector<T>* const>(qs), std::span<Vector<T>* const>(vs), R);
  const int j = int(q.size()), s = int(v.size());
  EXPECT_EQ(R.size(), std::size_t(j + s) * s);
  Columns<T> all = q;
  for (int c = 0; c < outcome.done.columns; ++c) all.push_back(whole(block[c]));
  const Global n = space.size();
  for (int c = j; c < int(all.size()); ++c) {
    for (int i = 0; i <= c; ++i) {
      wide_t<T> dot(0);
      for (Global e = 0; e < n; ++e) dot += wide_conj(widen(all[i][e])) * widen(all[c][e]);
      outcome.orthogonality = std::max(outcome.orthogonality, double(std::abs(dot - (long double)(i == c))));
    }
    std::vector<wide_t<T>> rest;
    for (Global e = 0; e < n; ++e) {
      wide_t<T> sum = widen(v[c - j][e]);
      for (int i = 0; i <= c; ++i) sum -= widen(all[i][e]) * widen(R[std::size_t(c - j) * (j + s) + i]);
      rest.push_back(sum);
    }
    outcome.backward = std::max(outcome.backward, double(norm2(rest) / norm2(v[c - j])));
    EXPECT_GT(real(R[std::size_t(c - j) * (j + s) + c]), 0) << "the diagonal is positive";
    if constexpr (is_complex<T>) {
      EXPECT_EQ(R[std::size_t(c - j) * (j + s) + c].imag(), 0);
    }
  }
  if (q.empty()) outcome.by_inverse = amplified_by_inverse(v, R, outcome.done.columns);
  return outcome;
}

template <class T>
class BlockOrthogonalisation : public testing::Test {};
TYPED_TEST_SUITE(BlockOrthogonalisation, test::Scalars);

struct Claim {
  BlockQr how;
  double reach;       // largest condition number that it accepts: epsilon^-reach
  double loss_power;  // loss of orthogonality: epsilon cond^loss_power
  int reductions;
};
const std::vector<Claim> claims{{BlockQr::cholqr, 0.5, 2, 1},
                                {BlockQr::cholqr2, 0.5, 0, 2},
                                {BlockQr::shifted_cholqr3, 1, 0, 3},
                                {BlockQr::mixed_cholqr, 1, 1, 1},
                                {BlockQr::tsqr, 10, 0, 1}};

/// V = Q R holds to rounding, except for mixed-cholqr: one product with the inverse of an ill-conditioned R amplifies
/// rounding errors. Worst-case bounds are s times higher; observed errors are about a tenth of this bound.
template <class T>
double backward_bound(BlockQr how, const Outcome<T>& o) {
  return epsilon<T> * (how == BlockQr::mixed_cholqr ? std::max(300.0, o.by_inverse) : 300.0);
}

TYPED_TEST(BlockOrthogonalisation, BlockQrReachesTheDocumentedOrthogonality) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const Global n = 400;
        const auto space = Space::distributed(comm, n);
        const int s = 8;
        for (const double power : {0.1, 0.3, 0.45, 0.6, 0.8, 0.92}) {
          const double cond = std::pow(epsilon<T>, -power);
          const auto v = conditioned<T>(n, s, cond);
          for (const auto& claim : claims) {
            const auto before = comm.counters();
            const auto o = measure<T>(space, {}, v, [&](auto, auto block, auto& R) {
              return krylov::block_qr<T, Host>(claim.how, block, R);
            });
            const std::string what = std::string(to_string(claim.how)) + " at condition " + std::to_string(cond) +
                                     " on " + std::to_string(comm.size());
            if (power < claim.reach - 0.06) {
              EXPECT_EQ(o.done.columns, s) << what;
              // A second shifted round where the first one did not suffice.
              const bool more = claim.how == BlockQr::shifted_cholqr3 && power > 0.6;
              EXPECT_GE((comm.counters() - before).reductions, claim.reductions) << what;
              EXPECT_LE((comm.counters() - before).reductions, claim.reductions + int(more)) << what;
              EXPECT_LE(o.orthogonality, 200 * epsilon<T> * std::pow(cond, claim.loss_power)) << what;
            }
            // The columns that are returned as complete are correct.
            EXPECT_LE(o.backward, backward_bound(claim.how, o)) << what;
            if (o.done.columns < s) {
              EXPECT_LE(o.done.failed, 100 * epsilon<T>) << what;
            }
            if (claim.reach < 1 && power > 0.75) {
              EXPECT_LT(o.done.columns, s) << what << ": no false success";
            }
          }
        }
      },
      {3});
}

TYPED_TEST(BlockOrthogonalisation, LaeuchliAndKrylovBlocks) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto space = Space::distributed(comm, 400);
        // Where e^2 is below rounding, the Gram matrix in T does not contain the differences between the columns.
        for (const double e : {std::pow(epsilon<T>, 0.3), std::pow(epsilon<T>, 0.6), std::pow(epsilon<T>, 0.85)}) {
          const auto v = laeuchli<T>(400, 6, e);
          for (const auto& claim : claims) {
            const auto o = measure<T>(space, {}, v, [&](auto, auto block, auto& R) {
              return krylov::block_qr<T, Host>(claim.how, block, R);
            });
            EXPECT_LE(o.backward, backward_bound(claim.how, o)) << to_string(claim.how) << " " << e;
            if (claim.reach >= 1) {
              EXPECT_EQ(o.done.columns, 6) << to_string(claim.how) << " " << e;
            }
            if (claim.reach < 1 && e * e < epsilon<T>) {
              EXPECT_EQ(o.done.columns, 1) << to_string(claim.how) << " " << e;
            }
            if (claim.loss_power == 0) {
              EXPECT_LE(o.orthogonality, 200 * epsilon<T>) << to_string(claim.how) << " " << e;
            }
          }
        }
        const auto v = monomial<T>(12);
        for (const auto& claim : claims) {
          const auto o = measure<T>(
              space, {}, v, [&](auto, auto block, auto& R) { return krylov::block_qr<T, Host>(claim.how, block, R); });
          EXPECT_LE(o.backward, backward_bound(claim.how, o)) << to_string(claim.how);
          EXPECT_GE(o.done.columns, 4) << to_string(claim.how);
          if (claim.loss_power == 0) {
            EXPECT_LE(o.orthogonality, 200 * epsilon<T>) << to_string(claim.how);
          }
        }
      },
      {2, 4});
}

TYPED_TEST(BlockOrthogonalisation, BlocksAgainstABasis) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const Global n = 300;
        const auto space = Space::distributed(comm, n);
        auto q = conditioned<T>(n, 9, 1, 31);
        struct Way {
          Orthogonalisation how;
          BlockQr qr;
          double loss_power;
          int reductions;
        };
        for (const auto& way :
             {Way{Orthogonalisation::bcgs, BlockQr::cholqr, 2, 2}, Way{Orthogonalisation::bcgs, BlockQr::tsqr, 2, 2},
              Way{Orthogonalisation::bcgs2, BlockQr::cholqr, 0, 4},
              Way{Orthogonalisation::bcgs2, BlockQr::shifted_cholqr3, 0, 8},
              Way{Orthogonalisation::bcgs2, BlockQr::mixed_cholqr, 0, 4},
              Way{Orthogonalisation::bcgs_pip, BlockQr::cholqr, 2, 1},
              Way{Orthogonalisation::bcgs_pip2, BlockQr::cholqr, 0, 2},
              Way{Orthogonalisation::automatic, BlockQr::cholqr, 0, 2},
              Way{Orthogonalisation::two_stage, BlockQr::cholqr, 0, 3}})
          for (const double power : {0.05, 0.2, 0.35}) {
            const double cond = std::pow(epsilon<T>, -power);
            // Close to the span of q.
            auto v = conditioned<T>(n, 6, cond, 50);
            for (int c = 0; c < 6; ++c)
              for (Global i = 0; i < n; ++i)
                for (int l = 0; l < 9; ++l) v[c][i] += q[l][i] * real_t<T>(noise(7, std::uint64_t(c * 9 + l)));
            const auto before = comm.counters();
            const auto o = measure<T>(space, q, v, [&](auto basis, auto block, auto& R) {
              return krylov::block_orthogonalise<T, Host>(way.how, way.qr, basis, block, R, 3);
            });
            const std::string what =
                std::string(to_string(way.how)) + " " + to_string(way.qr) + " " + std::to_string(cond);
            EXPECT_EQ(o.done.columns, 6) << what;
            EXPECT_EQ((comm.counters() - before).reductions, way.reductions) << what;
            EXPECT_LE(o.orthogonality, 2000 * epsilon<T> * std::pow(cond, way.loss_power)) << what;
            EXPECT_LE(o.backward, 300 * epsilon<T>) << what;
            EXPECT_LE(o.done.least, 1.01) << what;
          }
      },
      {3});
}

TYPED_TEST(BlockOrthogonalisation, OneReductionSendsTheSymmetricPartOnce) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const auto space = Space::distributed(comm, 60);
        const auto q = conditioned<T>(60, 4, 1, 31), v = conditioned<T>(60, 5, 2, 50);
        const auto before = comm.counters();
        measure<T>(space, q, v, [&](auto basis, auto block, auto& R) {
          return krylov::block_orthogonalise<T, Host>(Orthogonalisation::bcgs_pip, BlockQr::cholqr, basis, block, R);
        });
        EXPECT_EQ((comm.counters() - before).reduction_values, (4 * 5 + 15) * (is_complex<T> ? 2 : 1));
      },
      {2});
}

TYPED_TEST(BlockOrthogonalisation, FailureReturnsTheCompleteColumns) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        const Global n = 100;
        const auto space = Space::distributed(comm, n);
        const auto q = conditioned<T>(n, 3, 1, 31);
        for (const auto how : {Orthogonalisation::bcgs, Orthogonalisation::bcgs2, Orthogonalisation::bcgs_pip,
                               Orthogonalisation::bcgs_pip2, Orthogonalisation::two_stage})
          for (int bad = 0; bad < 5; ++bad) {
            auto v = conditioned<T>(n, 5, 3, 50);
            for (Global i = 0; i < n; ++i) v[bad][i] = q[1][i] + (bad > 0 ? v[0][i] : T(0));
            const auto o = measure<T>(space, q, v, [&](auto basis, auto block, auto& R) {
              return krylov::block_orthogonalise<T, Host>(how, BlockQr::cholqr, basis, block, R, 2);
            });
            EXPECT_EQ(o.done.columns, bad) << to_string(how);
            EXPECT_LE(o.done.failed, 100 * epsilon<T>) << to_string(how);
            EXPECT_LE(o.backward, 300 * epsilon<T>) << to_string(how);
            v[bad][3] = T(std::numeric_limits<real_t<T>>::quiet_NaN());
            const auto nan = measure<T>(space, q, v, [&](auto basis, auto block, auto& R) {
              return krylov::block_orthogonalise<T, Host>(how, BlockQr::cholqr, basis, block, R, 2);
            });
            EXPECT_LE(nan.done.columns, bad) << to_string(how);
          }
        Vector<T> other(Space::distributed(comm, n + 1)), mine(space);
        std::vector<T> R;
        std::vector<const Vector<T>*> wrong{&other};
        std::vector<Vector<T>*> block{&mine};
        EXPECT_THROW((krylov::block_orthogonalise<T, Host>(Orthogonalisation::bcgs, BlockQr::cholqr, wrong, block, R)),
                     Error);
        EXPECT_THROW((krylov::block_orthogonalise<T, Host>(Orthogonalisation::mgs, BlockQr::cholqr, {}, block, R)),
                     Error);
      },
      {2});
}

TYPED_TEST(BlockOrthogonalisation, EmptyRanksAndReplicatedSpaces) {
  using T = TypeParam;
  on_ranks(
      [](const comm::Communicator& comm) {
        std::vector<Global> counts(std::size_t(comm.size()), 0);
        counts.back() = 40;
        for (const auto& space :
             {Space::distributed(comm, layout::Partition::of_counts(counts)), Space::distributed(comm, 40)})
          for (const auto& claim : claims) {
            const auto v = conditioned<T>(40, 6, 10);
            const auto o = measure<T>(space, {}, v, [&](auto, auto block, auto& R) {
              return krylov::block_qr<T, Host>(claim.how, block, R);
            });
            EXPECT_EQ(o.done.columns, 6) << to_string(claim.how);
            EXPECT_LE(o.orthogonality, 1e4 * epsilon<T>) << to_string(claim.how);
            EXPECT_LE(o.backward, 300 * epsilon<T>) << to_string(claim.how);
          }
        const auto space = Space::replicated(comm, 40);
        const auto v = conditioned<T>(40, 3, 10);
        for (const auto& claim : claims) {
          std::vector<Vector<T>> block(3, Vector<T>(space));
          std::vector<Vector<T>*> vs;
          for (int c = 0; c < 3; ++c) block[c].assign(v[c]), vs.push_back(&block[c]);
          std::vector<T> R;
          const auto before = comm.counters();
          EXPECT_EQ((krylov::block_qr<T, Host>(claim.how, vs, R).columns), 3);
          EXPECT_EQ((comm.counters() - before).reductions, 0);
          EXPECT_LE(std::abs(layout::dot(block[0], block[2])), 1e3 * epsilon<T>);
        }
      },
      {2, 5});
}

}  // namespace
}  // namespace tacit::test
