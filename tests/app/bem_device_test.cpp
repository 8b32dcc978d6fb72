// Assembly on a virtual device: entries and low-rank approximations equal to the host's.
#include <gtest/gtest.h>
#include <tacit/app/bem/on_device.hpp>
#include <tacit/app/bem/system.hpp>
#include <tacit/base/error.hpp>
#include <tacit/op/hmatrix/device_blocks.hpp>

#include "app/slim_mesh.hpp"
#include "support/communicators.hpp"

#include <cmath>
#include <cstdlib>
#include <numeric>

using namespace tacit;
using namespace tacit::app::bem;
using test::slim;

namespace {

using Maker = op::DeviceBlocks<double, SingleLayerEntry, Host>;

std::shared_ptr<exec::Devices<Host>> device() {
  return std::make_shared<exec::Devices<Host>>(std::vector<int>{0});
}
std::vector<Global> numbers(Global n) {
  std::vector<Global> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), Global(0));
  return all;
}
// A mesh without symmetries: no two candidates for a pivot have the same size, so rounding does not decide the choice.
Mesh pair() {
  Mesh mesh = joined(geodesic_sphere(5), moved(ellipsoid(4, {0.3, 0.5, 0.2}), {1.7, 0.2, 0.1}));
  double k = 0;
  for (auto& p : mesh.vertices)
    for (double& x : p) k += 1, x += 2e-3 * std::sin(k * k);
  return mesh;
}

// All quadrature rules, for distances from neighbouring triangles to far ones, and triangles of almost no height.
TEST(DeviceEntries, AreTheHosts) {
  for (const Mesh& mesh : {pair(), slim(1e-3), slim(1e-9), Mesh{slim(0.3).vertices, {{0, 1, 2}}}})
    for (const bool with_plane : {false, true})
      for (const double accuracy : {1e-3, 1e-7}) {
        std::optional<GroundedPlane> plane;
        if (with_plane) plane = GroundedPlane{2, -1.5};
        const SingleLayer layer(mesh, accuracy, 0.7, plane);
        const SingleLayer free(mesh, accuracy, 0.7);
        const SingleLayerEntry entry{layer.numbers()};
        const auto all = numbers(layer.size());
        std::vector<double> host(all.size() * all.size()), size(host.size());
        layer(all, all, host.data()), free(all, all, size.data());  // images may cancel most of an entry
        double worst = 0;
        for (Local j = 0; j < layer.size(); ++j)
          for (Local i = 0; i < layer.size(); ++i) {
            const std::size_t at = std::size_t(i) + std::size_t(j) * all.size();
            worst = std::max(worst, std::abs(entry(i, j) - host[at]) / size[at]);
          }
        EXPECT_LE(worst, 1e-12);
      }
}

struct Case {
  Mesh mesh;
  op::ClusterTree tree;
  SingleLayer layer;
  std::vector<op::Block> blocks;
  Case(Mesh given, Local leaf, double accuracy = 1e-7)
      : mesh(std::move(given)),
        tree(mesh.geometry(), {op::Bisection::median, leaf, 1}),
        layer(mesh, accuracy),
        blocks(op::block_tree(tree, tree, {})) {}
  std::vector<Global> rows(const op::Block& b) const {
    const auto part = tree.order().subspan(std::size_t(b.row_begin), std::size_t(b.rows()));
    return {part.begin(), part.end()};
  }
  std::vector<Global> columns(const op::Block& b) const {
    const auto part = tree.order().subspan(std::size_t(b.column_begin), std::size_t(b.columns()));
    return {part.begin(), part.end()};
  }
  std::vector<op::WantedBlock> wanted(op::Tolerance tolerance) const {
    std::vector<op::WantedBlock> all;
    for (const auto& b : blocks) all.push_back({b, tolerance});
    return all;
  }
};

// Compares block by block with the host's compress(), and both with the entries. `same`: pivots are unique, so ranks
// and the rows and columns evaluated are those of the host.
void same_blocks(const Case& c, const op::EntryFunction<double>& entry, op::BlockMaker<double>& maker,
                 op::Tolerance tolerance, op::CompressOptions options, bool same = true) {
  const auto wanted = c.wanted(tolerance);
  std::size_t crosses = 0, first = 0;
  while (first < wanted.size()) {
    const std::size_t made = maker.make(std::span(wanted).subspan(first), options);
    ASSERT_GE(made, 1u);
    for (std::size_t k = 0; k < made; ++k) {
      const auto& b = wanted[first + k].block;
      const auto rows = c.rows(b), columns = c.columns(b);
      const auto truth = op::evaluate(entry, rows, columns);
      auto raw = maker.take(k);
      ASSERT_EQ(raw.dense, !b.admissible);
      const std::size_t m = rows.size(), n = columns.size();
      const Local rank = raw.rank;
      std::vector<double> left = truth.u;
      if (raw.dense) {
        for (std::size_t e = 0; e < left.size(); ++e) ASSERT_NEAR(raw.u[e], left[e], 1e-12 * left[e]);
      } else if (!raw.given_up) {
        ++crosses;
        ASSERT_EQ(raw.u.size(), std::size_t(rank) * m);
        if (same) {
          EXPECT_EQ(raw.sigma.size(), options.recompress ? std::size_t(rank) : 0u);
        }
      }
      const auto done = op::finish(std::move(raw), entry, rows, columns, tolerance, options);
      const auto host = b.admissible ? op::compress(entry, rows, columns, tolerance, options) : truth;
      EXPECT_EQ(done.dense, host.dense);
      if (done.dense || host.dense) continue;
      EXPECT_NEAR(done.rank, host.rank, same ? 0 : 1);
      EXPECT_EQ(done.orthonormal, options.recompress);
      EXPECT_NEAR(done.norm, host.norm, (same ? 1e-9 : 1e-5) * host.norm);
      if (same) {
        EXPECT_NEAR(done.error, host.error, 1e-3 * host.error + 1e-14 * host.norm);
      }
      for (std::size_t l = 0; l < host.sigma.size() && done.rank == host.rank; ++l)
        EXPECT_NEAR(done.sigma[l], host.sigma[l], (same ? 1e-7 : 1e-5) * host.sigma[0]);
      if (same) {
        EXPECT_EQ(done.entries, host.entries);
      }
      for (std::size_t j = 0; j < n; ++j)
        for (Local l = 0; l < done.rank; ++l)
          for (std::size_t i = 0; i < m; ++i)
            left[i + j * m] -=
                done.u[i + std::size_t(l) * m] * done.sigma[std::size_t(l)] * done.v[j + std::size_t(l) * n];
      double error = 0;
      for (const double e : left) error += e * e;
      if (options.cut_rank == 0 && options.verify && options.truncation == op::Norm::frobenius) {
        EXPECT_LE(std::sqrt(error), tolerance.of(truth.norm));
      }
    }
    first += made;
  }
  EXPECT_GT(crosses, 100u);
}

TEST(DeviceBlocks, AreTheHosts) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Case c(pair(), 16);
  for (const auto method : {op::Compression::aca, op::Compression::aca_plus})
    for (const bool recompress : {true, false})
      for (const auto tolerance : {op::Tolerance{1e-4, 0}, op::Tolerance{0, 1e-6}}) {
        op::CompressOptions options;
        options.method = method, options.recompress = recompress;
        Maker maker(device(), c.tree.order(), c.tree.order(), {c.layer.numbers()});
        same_blocks(c, entries(c.layer), maker, tolerance, options);
        EXPECT_EQ(maker.counts().batches, 1);
      }
}

TEST(DeviceBlocks, TakeTheHostsOptions) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Case c(pair(), 16);
  for (int which = 0; which < 5; ++which) {
    op::CompressOptions options;
    options.method = which % 2 == 0 ? op::Compression::aca : op::Compression::aca_plus;
    if (which == 0) options.cut_rank = 2;
    if (which == 1) options.max_rank = 6;
    if (which == 2) options.truncation = op::Norm::spectral;
    if (which == 3) options.verify = false;
    if (which == 4) options.samples = 7;
    Maker maker(device(), c.tree.order(), c.tree.order(), {c.layer.numbers()});
    same_blocks(c, entries(c.layer), maker, {1e-4, 0}, options);
  }
}

// Blocks that do not fit into the memory of a round are continued in a later one, without a change of the result.
TEST(DeviceBlocks, ContinueInLaterRounds) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Case c(pair(), 16);
  for (const auto method : {op::Compression::aca, op::Compression::aca_plus}) {
    op::CompressOptions options;
    options.method = method;
    const auto wanted = c.wanted({1e-6, 0});
    Maker one(device(), c.tree.order(), c.tree.order(), {c.layer.numbers()}, {1e9, 400});
    Maker many(device(), c.tree.order(), c.tree.order(), {c.layer.numbers()}, {1e9, 1});
    Maker parts(device(), c.tree.order(), c.tree.order(), {c.layer.numbers()}, {1e5, 3});
    ASSERT_EQ(one.make(wanted, options), wanted.size());
    ASSERT_EQ(many.make(wanted, options), wanted.size());
    EXPECT_EQ(one.counts().rounds, 1);
    EXPECT_GT(many.counts().rounds, 2);
    EXPECT_GT(many.counts().waited, 0);
    std::size_t made = 0;
    for (std::size_t k = 0, last = 0; k < wanted.size(); ++k) {
      if (k == made) last = made, made += parts.make(std::span(wanted).subspan(made), options);
      const auto a = one.take(k), b = many.take(k), d = parts.take(k - last);
      EXPECT_EQ(a.rank, b.rank);
      EXPECT_EQ(a.entries, b.entries);
      EXPECT_EQ(a.error, b.error);
      ASSERT_EQ(a.u, b.u);
      ASSERT_EQ(a.v, b.v);
      ASSERT_EQ(a.u, d.u);
      ASSERT_EQ(a.v, d.v);
    }
    EXPECT_GT(parts.counts().batches, 3);
    EXPECT_EQ(parts.counts().entries, one.counts().entries);
  }
}

// With a thread for every member of a team: the same crosses except for the order of sums.
TEST(DeviceBlocks, HaveNoRaces) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Case c(joined(geodesic_sphere(1), moved(geodesic_sphere(1), {4, 0, 0})), 20);
  for (const auto method : {op::Compression::aca, op::Compression::aca_plus}) {
    op::CompressOptions options;
    options.method = method;
    const auto wanted = c.wanted({1e-2, 0});
    Maker one(device(), c.tree.order(), c.tree.order(), {c.layer.numbers()});
    Maker teams(device(), c.tree.order(), c.tree.order(), {c.layer.numbers()}, {1e9, 2});
    teams.race_check(true);
    ASSERT_EQ(one.make(wanted, options), wanted.size());
    ASSERT_EQ(teams.make(wanted, options), wanted.size());
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const auto a = one.take(k), b = teams.take(k);
      ASSERT_EQ(a.dense, b.dense);
      ASSERT_EQ(a.rank, b.rank);
      for (std::size_t e = 0; e < a.u.size(); ++e) ASSERT_NEAR(a.u[e], b.u[e], 1e-9);
    }
  }
}

// Unusual entries: repeated rows and columns, rows of zeros, a NaN.
struct Odd {
  SingleLayerEntry of;
  enum { repeats, zeros, no_number } what;
  Local row = 0, column = 0;
  TACIT_HD double operator()(Local i, Local j) const {
    if (what == repeats) return of(i / 4 * 4, j / 4 * 4);
    if (what == zeros) return i % 3 != 0 || j % 5 == 0 ? 0 : of(i, j);
    return i == row && j == column ? NAN : of(i, j);
  }
  op::EntryFunction<double> on_host() const {
    return [*this](std::span<const Global> r, std::span<const Global> c, double* out) {
      for (const Global j : c)
        for (const Global i : r) *out++ = (*this)(Local(i), Local(j));
    };
  }
};
using OddMaker = op::DeviceBlocks<double, Odd, Host>;

TEST(DeviceBlocks, TakeOddEntries) {
  if (test::under_mpi()) GTEST_SKIP() << "the same as alone";
  const Case c(pair(), 16);
  for (const auto what : {Odd::repeats, Odd::zeros})
    for (const auto method : {op::Compression::aca, op::Compression::aca_plus}) {
      const Odd entry{{c.layer.numbers()}, what};
      op::CompressOptions options;
      options.method = method;
      OddMaker maker(device(), c.tree.order(), c.tree.order(), entry);
      same_blocks(c, entry.on_host(), maker, {1e-5, 0}, options, false);
    }
}

TEST(DeviceBlocks, RefuseWhatTheyCannotDo) {
  const Case c(pair(), 16);
  Maker maker(device(), c.tree.order(), c.tree.order(), {c.layer.numbers()});
  op::CompressOptions options;
  options.method = op::Compression::svd;
  EXPECT_THROW(maker.make(c.wanted({1e-4, 0}), options), Error);
  EXPECT_THROW(Maker(nullptr, c.tree.order(), c.tree.order(), {c.layer.numbers()}), Error);
}

TEST(DeviceBlocks, NameAnEntryThatIsNoNumber) {
  const Mesh mesh = geodesic_sphere(6);
  const auto tree =
      std::make_shared<const op::ClusterTree>(mesh.geometry(), op::TreeOptions{op::Bisection::median, 16, 1});
  const SingleLayer layer(mesh);
  const auto space = layout::Space::distributed(comm::Communicator::self(), mesh.size());
  for (const auto& b : op::block_tree(*tree, *tree, {})) {
    if (!b.admissible) continue;
    // A NaN in the first row that ACA evaluates in this block, which is not one of the sampled rows.
    op::HMatrixOptions options;
    options.sampled_rows = 1, options.compress.method = op::Compression::aca;
    const auto row = Local(tree->order()[std::size_t(b.row_begin + b.rows() / 2)]),
               column = Local(tree->order()[std::size_t(b.column_begin)]);
    const Odd entry{{layer.numbers()}, Odd::no_number, row, column};
    OddMaker maker(device(), tree->order(), tree->order(), entry);
    try {
      const op::HMatrix<double> A(space, tree, entry.on_host(), options, &maker);
      FAIL() << "nothing was thrown";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::input);
      EXPECT_NE(std::string(e.what()).find(message("row ", row, ", column ", column)), std::string::npos) << e.what();
    }
    break;
  }
}

}  // namespace
