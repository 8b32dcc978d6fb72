// Products of packed low-rank and dense blocks as team kernels, run by one thread and by teams of threads.
#include "exec/team_fixtures.hpp"

#include <tacit/op/kernels/hmatrix_product.hpp>

#include <tuple>

namespace tacit::op {
namespace {

using exec::Dice;
using exec::launch_here;
using exec::Way;
using exec::ways;

// Random numbers stored in the three formats; add() also returns them in double.
template <class R>
struct Numbers {
  std::vector<R> native;
  std::vector<float> single;
  std::vector<std::int16_t> fixed;
  Dice dice{7};

  std::size_t size(int format) const {
    return format == 0 ? native.size() : format == 1 ? single.size() : fixed.size();
  }
  double add(int format) {
    if (format == 0) return double(native.emplace_back(dice.value<R>()));
    if (format == 1) return double(single.emplace_back(dice.value<float>()));
    return double(fixed.emplace_back(std::int16_t(dice.below(65535) - 32767)));
  }
  PackedNumbers<R> view() const { return {native.data(), single.data(), fixed.data()}; }
};

template <class R, int K>
void check_factors() {
  Numbers<R> numbers;
  constexpr std::int64_t columns = 1400, ld = 1504;
  std::vector<FactorTask> tasks;
  std::vector<double> scale;
  std::vector<std::vector<double>> wide;  // the columns of V, in the order of the results
  std::vector<std::uint32_t> begins;
  const auto add = [&](int format, std::uint32_t begin, std::uint32_t rows, std::uint32_t count) {
    const std::size_t at = numbers.size(format);
    tasks.push_back({std::int64_t(at), begin, rows, std::uint32_t(columns) + std::uint32_t(scale.size()), count, format,
                     at % 4 == 0 && begin % 4 == 0 && rows % 4 == 0});
    for (std::uint32_t j = 0; j < count; ++j) {
      wide.emplace_back();
      for (std::uint32_t i = 0; i < rows; ++i) wide.back().push_back(numbers.add(format));
      scale.push_back((format == 2 ? 1e-4 : 1.0) / (1 + j));
      begins.push_back(begin);
    }
  };
  for (const int format : {0, 1, 2}) {
    add(format, 64, 96, 5);
    add(format, 8, 1232, 3);  // all threads of the team work on one column
    add(format, 3, 41, 17);   // not aligned
  }
  add(2, 100, 1, 1);
  Dice dice(3);
  std::vector<R> z(std::size_t(ld) * K);
  for (int k = 0; k < K; ++k)
    for (std::int64_t i = 0; i < ld; ++i)
      z[std::size_t(k * ld + i)] = i < columns ? dice.value<R>() : exec::poison<R>();
  std::vector<std::vector<R>> results;
  for (const Way way : ways) {
    auto own = z;
    launch_here(way, Global(tasks.size()),
                FactorProducts<R, K>{tasks.data(), numbers.view(), scale.data(), columns, ld, own.data()});
    for (int k = 0; k < K; ++k)
      for (std::size_t t = 0; t < wide.size(); ++t) {
        double sum = 0, size = 0;
        for (std::size_t i = 0; i < wide[t].size(); ++i) {
          const double term = wide[t][i] * double(z[std::size_t(k) * ld + begins[t] + i]) * scale[t];
          sum += term, size += std::abs(term);
        }
        ASSERT_NEAR(double(own[std::size_t(k * ld + columns) + t]), sum,
                    50 * double(std::numeric_limits<R>::epsilon()) * size)
            << t;
      }
    results.push_back(std::move(own));
  }
}

template <class R, int K>
void check_panels() {
  Numbers<R> numbers;
  constexpr std::int64_t ld = 700, rows = 144;
  std::vector<PanelTask> tasks;
  std::vector<ColumnRun> runs;
  std::vector<std::uint16_t> run_of;
  Dice dice(5);
  const auto z = dice.values<R>(std::size_t(ld) * K);
  std::vector<double> expected(std::size_t(rows) * K), size(expected.size());
  const auto add = [&](std::int32_t begin, std::int32_t height, const int(&counts)[3]) {
    PanelTask t{{}, {}, begin, height, height % 4 == 0, std::int32_t(runs.size())};
    for (int f = 0; f < 3; ++f) {
      t.data[f] = std::int64_t(numbers.size(f)), t.column[f] = std::int64_t(run_of.size());
      if (t.data[f] % 4 != 0) t.aligned = 0;
      for (int c = 0; c < counts[f];) {
        const int length = std::min(counts[f] - c, 1 + dice.below(60));
        const ColumnRun run{f == 2 ? 1e-4 : 1.0, std::int64_t(run_of.size()), std::uint32_t(dice.below(640)), 0};
        for (int j = 0; j < length; ++j, ++c) {
          run_of.push_back(std::uint16_t(std::int32_t(runs.size()) - t.run));
          for (int i = 0; i < height; ++i) {
            const double value = numbers.add(f) * run.scale;
            for (int k = 0; k < K; ++k) {
              const double term = value * double(z[std::size_t(k * ld) + run.offset + std::size_t(j)]);
              expected[std::size_t(k * rows + begin + i)] += term;
              size[std::size_t(k * rows + begin + i)] += std::abs(term);
            }
          }
        }
        runs.push_back(run);
      }
    }
    t.column[3] = std::int64_t(run_of.size());
    tasks.push_back(t);
  };
  add(0, 64, {3, 40, 530});
  add(64, 48, {20, 0, 7});
  add(112, 29, {5, 2, 70});  // not aligned, also in all later blocks
  add(141, 3, {0, 0, 0});
  std::vector<std::vector<R>> results;
  for (const Way way : ways) {
    std::vector<R> y(std::size_t(rows) * K, exec::poison<R>());
    launch_here(
        way, Global(tasks.size()),
        PanelProducts<R, K>{tasks.data(), runs.data(), run_of.data(), numbers.view(), ld, rows, z.data(), y.data()});
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_NEAR(double(y[i]), expected[i], 50 * double(std::numeric_limits<R>::epsilon()) * size[i]) << i;
    results.push_back(std::move(y));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(TeamHMatrix, MultipliesFactors) {
  check_factors<double, 1>();
  check_factors<float, 2>();
}

TEST(TeamHMatrix, MultipliesPanels) {
  check_panels<double, 1>();
  check_panels<float, 2>();
}

}  // namespace
}  // namespace tacit::op
